/* critical.h - the critical path of a prediction: the chain of work and operations, from the iteration's begin to its end,
 * each of which begins when the one before ends. Whatever is on it, shortened, shortens the iteration (until another chain
 * is the longest). Where several chains are equally long, the one through the own rank's work is followed. */
#ifndef PRISM_PRISMD_CRITICAL_H
#define PRISM_PRISMD_CRITICAL_H

#include "prismd/predict/predict.h"

struct critical_span { /* one rank's piece of the path, in order of time */
    uint32_t rank;
    int64_t from_ns, to_ns;
    double compute_ns, communication_ns, host_ns;
};

struct critical_path {
    struct critical_span *spans; /* owned */
    uint32_t n;
    double compute_ns, communication_ns, host_ns; /* of all; together the iteration's time */
};

void critical_path_find(struct predicted *p, struct critical_path *path);
void critical_path_clear(struct critical_path *path);

#endif
