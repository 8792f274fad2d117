/* origins.h - emulation: on which operation's end the arrival at an operation hangs, so that lateness is made up for.
 *
 * An operation that is over sooner than its gate can be seen and opened (some tens of microseconds) ends late, and what
 * follows on it comes as much later. Left alone, an iteration takes longer by the sum of it. So the replay is told when the rank
 * would have arrived had that operation ended in time:
 *
 *     arrival told = arrival seen - lateness of the operation that it hangs on (origin)
 *
 * and the next end that can be met is met in real time. An end's lateness counts from the end that follows from the told
 * arrivals, so it is carried on until then. The origin is that of the prediction: of what a start is the largest of (graph.h
 * section 1), the largest there, and so on back to an operation. Where the prediction is wrong about that, the arrival is off by
 * that one lateness at most. Where the real origin is later than what would have come next by less than its lateness, less is made
 * up for than could be.
 */
#ifndef PRISM_PRISMD_ORIGINS_H
#define PRISM_PRISMD_ORIGINS_H

#include "graph/eval.h"

/* For each node of the rank (an array that the caller owns): if it is a COMM node, how many of the rank's COMM nodes it is
 * behind its origin; 0: it hangs on no operation, but on the program's beginning. times: predicted, of the rank's nodes. */
uint32_t *origins_from_times(const struct graph *g, uint32_t rank, const struct graph_times *times);

/* The same for n ranks, into back[0..n), each NULL where the graph has no prediction. Evaluates the graph once, all ranks virtual.
 * ops: duration_ns, send_is_eager and ctx are used; as: struct graph_run_options. */
void origins_find(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *as, const uint32_t *ranks, uint32_t n,
                  uint32_t **back);

#endif
