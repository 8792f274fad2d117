/* predict.h - the iteration time that the calibrated graph says, all ranks virtual. */
#ifndef PRISM_PRISMD_PREDICT_H
#define PRISM_PRISMD_PREDICT_H

#include "graph/graph.h"

struct coll_network;
struct durations;

struct prediction {
    double *seconds; /* owned; per iteration, for the rank asked for */
    uint32_t iterations;
};

/* An iteration lasts from the end of the one before (of set-up, for the first) to its own end at that rank. measured may be
 * NULL. */
void predict(const struct graph *g, const struct coll_network *network, const struct durations *measured,
             uint32_t rank, struct prediction *out);
void prediction_clear(struct prediction *p);

#endif
