/* slices.h - which ranks calibration runs, and which of them together. */
#ifndef PRISM_PRISMD_SLICES_H
#define PRISM_PRISMD_SLICES_H

#include "graph/fold.h"

/* In worlds up to this size every rank is calibrated (a slow rank is found only by running it). */
#define SLICES_SMALL_WORLD 64

struct slices {
    uint32_t *ranks; /* owned; slice after slice */
    uint32_t *first; /* owned; n + 1 indices into ranks */
    uint32_t n;
};

/* per_slice: devices to run on at once. per_class: 0 = auto (all in small worlds, else one a class and the ranks in
 * always[]), UINT32_MAX = all, else so many a class, spread evenly over the class. fold (NULL: none): only ranks that ran in
 * capture are taken, and counted. */
void slices_plan(struct slices *s, const struct graph *g, const struct fold *fold, uint32_t per_slice, uint32_t per_class,
                 const uint32_t *always, uint32_t nalways);
void slices_clear(struct slices *s);

#endif
