/* multiples.h - how many periods of one rank make an iteration of the world. Inside lib/graph only.
 *
 * Micro-batches or layers may be all that a rank sees, so its smallest period may be a part of an iteration. Ranks of one
 * communicator do equally many collectives on it: when a period of p has four and one of q has twelve, three periods of p
 * are one of q.
 */
#ifndef PRISM_GRAPH_MULTIPLES_H
#define PRISM_GRAPH_MULTIPLES_H

#include "graph/graph.h"

struct multiples_period { /* nodes of the rank's last period; begin = end: it has none */
    uint32_t begin, end;
};

/* multiples[rank]: periods in an iteration; 0 = not known (no period, no collectives, or counts that do not go together).
 * Ranks that no chain of communicators connects know nothing of each other: sets[rank] is the same rank number for all of
 * such a set, and an iteration is the set's own. */
void multiples_find(const struct graph *g, const struct multiples_period *periods, uint32_t *multiples, uint32_t *sets);

#endif
