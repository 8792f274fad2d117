/* predict_text.h - a prediction as text and as JSON. */
#ifndef PRISM_CLI_PREDICT_TEXT_H
#define PRISM_CLI_PREDICT_TEXT_H

#include <jansson.h>

#include "prismd/predict/breakdown.h"
#include "prismd/predict/critical.h"

/* What prism predict says of a trace. */
struct predict_answer {
    const char *trace, *network; /* borrowed */
    struct predicted *p;         /* owned, as all below */
    struct prediction all;
    uint32_t nstages;
    struct breakdown *stages; /* means of the stage's ranks */
    uint32_t *stage_ranks;
    struct breakdown mean; /* of all ranks */
    struct critical_path path;
};

/* Median of the iterations after the first, which has the set-up. */
double predict_steady(const struct prediction *p);
/* Takes p over; everything else is worked out. */
void predict_answer_make(struct predict_answer *a, struct predicted *p);
void predict_answer_clear(struct predict_answer *a);

json_t *predict_answer_json(const struct predict_answer *a);
json_t *breakdown_json(const struct breakdown *b);
void predict_answer_print(const struct predict_answer *a);
void breakdown_print_head(const char *what);
void breakdown_print(const char *name, uint32_t ranks, const struct breakdown *b);
/* Line by line a, b and how b differs. */
void predict_compare_print(const struct predict_answer *a, const struct predict_answer *b);

#endif
