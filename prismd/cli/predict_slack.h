/* predict_slack.h - what `prism predict --slack` says: how much later each rank may come without anything ending later. */
#ifndef PRISM_CLI_PREDICT_SLACK_H
#define PRISM_CLI_PREDICT_SLACK_H

#include <jansson.h>

#include "prismd/predict/predict.h"

/* slack_ns: by rank, as predict_slack gives it. A line a pipeline stage: ranks without slack, least, median, most. */
void slack_print(const struct predicted *p, const int64_t *slack_ns);
/* {"ranks": [seconds by rank], "stages": [{"stage", "ranks", "critical_ranks", "least", "median", "most"}]} */
json_t *slack_json(const struct predicted *p, const int64_t *slack_ns);

#endif
