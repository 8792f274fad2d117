/* timeline.h - the predicted times of chosen ranks' nodes. */
#ifndef PRISM_CLI_TIMELINE_H
#define PRISM_CLI_TIMELINE_H

#include <stdint.h>

#include "common/error.h"
#include "prismd/predict/predict.h"

/* The times of chosen ranks' nodes, kept: 16 bytes a node of those ranks. */
struct timeline {
    const struct graph *g; /* borrowed, as network and measured are */
    struct duration_model model;
    struct graph_run *run;
    uint32_t *ranks; /* in the order asked for */
    uint32_t nranks;
    int32_t *slot;   /* world of them: index into ranks, -1 = not chosen */
    int64_t **start, **end; /* by slot and node; nanoseconds */
};

/* Evaluates everyone (predict_run). -1 with err; timeline_clear is fine then too. No rank may be named twice. */
int timeline_create(struct timeline *t, const struct graph *g, const struct coll_network *network,
                    const struct durations *measured, const uint32_t *ranks, uint32_t nranks, struct prism_error *err);
void timeline_clear(struct timeline *t);

/* From where the iteration before `first` ends last, of all ranks, to where `last` does (as in predict.h). Iterations count
 * from 0; the first one includes set-up. */
void timeline_window(const struct timeline *t, uint32_t first, uint32_t last, int64_t *begin_ns, int64_t *end_ns);

#endif
