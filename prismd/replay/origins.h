/* origins.h - emulation: on which operations' ends the arrival at an operation hangs, so that lateness is made up for.
 *
 * An operation that is over sooner than its gate can be seen and opened (some tens of microseconds) ends late, and what
 * follows on it comes as much later. Left alone, an iteration takes longer by the sum of it. So the replay is told when the rank
 * would have arrived had nothing ended late:
 *
 *     arrival told = arrival seen - max over origins of (lateness of the origin - slack), at least 0
 *
 * and the next end that can be met is met in real time. An end's lateness counts from the end that follows from the told
 * arrivals, so it is carried on until then.
 *
 * A start is the largest of several terms (graph.h section 1), each the end of a node before plus some work. Followed back, each
 * leads to the ends of operations: the arrival's origins. The slack of an origin is by how much it may be later before the
 * arrival is, in the prediction. What is further off than ORIGINS_SLACK_NS is left out: nothing is as late.
 */
#ifndef PRISM_PRISMD_ORIGINS_H
#define PRISM_PRISMD_ORIGINS_H

#include "graph/eval.h"

#define ORIGINS_MAX      4u
#define ORIGINS_SLACK_NS 10000000

struct origin {
    uint32_t back; /* so many of the rank's COMM nodes before; 0: none, and none behind it in the list */
    int32_t slack_ns;
};

struct origins {
    struct origin of[ORIGINS_MAX]; /* least slack first */
};

/* For each node of the rank (an array that the caller owns) that is a COMM node: its origins; none: it hangs on the program's
 * beginning only. times: predicted, of the rank's nodes. */
struct origins *origins_from_times(const struct graph *g, uint32_t rank, const struct graph_times *times);

/* The same for n ranks, into found[0..n), each NULL where the graph has no prediction. Evaluates the graph once, all ranks virtual: without
 * `as` (struct graph_run_options) on all cores, so that thousands of ranks take little longer than to predict them. None of the ranks is
 * another. ops: duration_ns, send_is_eager and ctx are used, as struct graph_eval_ops has them. */
void origins_find(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *as, const uint32_t *ranks, uint32_t n,
                  struct origins **found);

#endif
