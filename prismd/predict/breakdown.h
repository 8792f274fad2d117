/* breakdown.h - where a rank's time goes in a prediction.
 *
 * At every moment of the iteration a rank
 *     computes                 a stream works between two nodes; communication at the same time is hidden
 *     communicates, exposed    no stream computes, and an operation moves data: from the last start it waits for to its end
 *     waits for its host       neither, no operation waits, and a stream would go on but for the host that has not issued
 *     stands in a bubble       all else: it waits for other ranks
 * so that compute + exposed + host + bubble is the iteration's time, which is the same for all ranks (predict.h:
 * begin_ns to end_ns).
 */
#ifndef PRISM_PRISMD_BREAKDOWN_H
#define PRISM_PRISMD_BREAKDOWN_H

#include "prismd/predict/predict.h"

struct breakdown { /* nanoseconds */
    double compute, exposed, hidden, host, bubble;
};

struct breakdown breakdown_of(struct predicted *p, uint32_t rank);
void breakdown_add(struct breakdown *to, const struct breakdown *more);
void breakdown_divide(struct breakdown *b, double by);

#endif
