/* run.h - max-plus evaluation of the graph: one pass, linear in nodes, no event queue.
 *
 * The same code runs in virtual time (predict, calibrate) and in real time (emulate): a rank marked external is not
 * evaluated; its COMM nodes start when graph_run_arrive says so (its gate's arrive flag), and on_release tells when they end.
 * Everything that follows from an arrival is computed at once (times may lie in the future); what needs other arrivals
 * stays open. A timeline blocks on one thing at a time and is put on the waiting list of that thing.
 *
 * Not thread safe; callbacks are called from inside graph_run_* and must not call back in.
 */
#ifndef PRISM_GRAPH_RUN_H
#define PRISM_GRAPH_RUN_H

#include "graph/graph.h"

struct graph_run;

struct graph_run_ops {
    /* Nanoseconds from the last start in feeds(op, p) to the end at communicator rank p of the group `parts`
     * (p's parts). Required. comm is the full communicator. */
    double (*duration_ns)(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                          uint32_t nparts);
    /* Whether a send of that many bytes ends without its receiver. Required. */
    bool (*send_is_eager)(void *ctx, uint64_t bytes);
    /* An external rank's group may end at end_ns; started_ns = the last arrival it waited for. NULL if no externals. */
    void (*on_release)(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns);
    /* A virtual rank's node (position v) is known. May be NULL. */
    void (*on_node)(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns);
    void *ctx;
    /* A virtual rank gets to its COMM node `n` (in the loop'th repetition of the last iteration, from 0) at start_ns, which
     * may lie ahead: known before the group's end is. May be NULL. */
    void (*on_comm_start)(void *ctx, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns);
};

struct graph_run_options {
    const uint8_t *external; /* world flags, borrowed for the run's life; NULL = none */
    uint32_t iterations;     /* how many iterations virtual ranks go (looping the last recorded one); 0 = as recorded.
                                At least the recorded number: set-up, iterations, teardown (the teardown follows the
                                last loop). Fewer: no teardown. UINT32_MAX with a lookahead: as long as it takes. */
    uint32_t lookahead;      /* with externals: virtual ranks run at most this many iterations ahead of the slowest
                                external one, that is of the iteration of its next group (2 is a good value, since
                                ranks' iterations may be shifted against each other by one); 0 = no bound */
    const uint32_t *as;      /* by rank, borrowed: the rank whose times are this one's too, itself where there is no such
                                (fold_twins, graph/fold.h). A rank that is another is not evaluated: an operation is
                                complete when the evaluated members are there, and sends and receives on a
                                communicator with others are taken for exchanges of all its members with all. No
                                external rank. NULL: each is itself */
};

/* options may be NULL (everything virtual, as recorded). The graph must outlive the run and not change. NULL: the graph is
 * not consistent (an index out of range); graph_check tells which. */
struct graph_run *graph_run_create(const struct graph *g, const struct graph_run_ops *ops,
                                   const struct graph_run_options *options);
void graph_run_destroy(struct graph_run *run);

/* Let every virtual rank begin at t0_ns and go as far as it can. */
void graph_run_begin(struct graph_run *run, int64_t t0_ns);

/* Group `ordinal` of the rank's communicator number `comm` has arrived; once each, in any order. live_parts (may be NULL,
 * copied) replaces the recorded parts where sizes are data-dependent: they go to duration_ns and decide on eager sends;
 * who is matched with whom is always as recorded. Ordinals within the iterations played beyond the recorded ones stand
 * for groups of the last recorded iteration. -1 with err (PRISM_EXIT_DIVERGED): beyond what the graph knows (no such
 * communicator, or more groups than recorded and looped); nothing has changed then. */
int graph_run_arrive(struct graph_run *run, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t start_ns,
                     const struct graph_part *live_parts, uint32_t nlive, struct prism_error *err);

/* Number of timelines still blocked, each at one node (0 = all came to their end); with no externals anything else than 0
 * at the end is a deadlock: why (may be NULL) names one blocked rank, node and what it waits for. */
uint64_t graph_run_blocked(const struct graph_run *run, char *why, size_t why_len);

/* Result: when the rank's iteration ended (max over its timelines' nodes of that iteration; of an external rank, over its
 * groups). It began when the one before ended (the first one: graph_run_setup_end, or t0 when that is INT64_MIN: no
 * set-up). INT64_MIN when nothing of it is known; final when every timeline has gone past it. */
int64_t graph_run_iteration_end(const struct graph_run *run, uint32_t rank, uint32_t iteration);
int64_t graph_run_setup_end(const struct graph_run *run, uint32_t rank);

#endif
