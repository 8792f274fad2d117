/* busy.h - how long at least one of several overlapping moves was under way.
 *
 * Moves are told when they end, in the order of their ends: the union of [end - duration, end]. */
#ifndef PRISM_PRISMD_BUSY_H
#define PRISM_PRISMD_BUSY_H

#include <stdint.h>

/* Stretches that a later move may still reach into; older ones are only in `before`. */
#define BUSY_KEPT 64u

struct busy {
    int64_t begin[BUSY_KEPT], end[BUSY_KEPT]; /* disjoint, in order; ns */
    uint32_t n;
    int64_t before;
};

void busy_add(struct busy *b, int64_t end_ns, int64_t duration_ns);
double busy_seconds(const struct busy *b);

#endif
