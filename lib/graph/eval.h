/* eval.h - the graph as recorded, all ranks virtual, in one go and on several cores: the equations of graph.h section 1.
 *
 * Where run.h serves the replay (ranks that arrive from outside, loops, waiting), this serves prediction. It keeps no table
 * of open operations: who meets whom is known from the graph, so every communicator and every pair that exchanges messages
 * has its own place. Structure is read from the arrays that ranks share (graph_share); a rank has cursors and times only.
 *
 * Threads. Ranks are dealt to the threads so that communicators with the most operations stay whole: the tree of groups
 * is merged from the busiest down (Kruskal) as long as its pieces fit. The equations have one least solution, so the result
 * does not depend on the number of threads, nor on their speed.
 */
#ifndef PRISM_GRAPH_EVAL_H
#define PRISM_GRAPH_EVAL_H

#include "graph/run.h"

struct graph_eval_ops {
    /* As in struct graph_run_ops, and: the result depends on nothing but the arguments (it is asked once for equal ones);
     * several threads ask at once. */
    double (*duration_ns)(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                          uint32_t nparts);
    bool (*send_is_eager)(void *ctx, uint64_t bytes);
    void *ctx;
};

struct graph_eval_options {
    uint32_t threads;  /* 0: as many as there are processors, at most 16; small graphs are given fewer */
    int64_t t0_ns;
    bool keep_times;   /* start and end of every node (16 bytes a node): graph_eval_times */
    const uint8_t *keep_of; /* with keep_times: world flags, borrowed for the call, of the only ranks whose times are kept. NULL: all, as
                               keep_slack needs it */
    bool keep_slack;   /* what graph_eval_slack needs: keep_times, one thread, 16 bytes a node more */
};

struct graph_eval;

/* Evaluates to the end. The graph must outlive the result and not change. options may be NULL. NULL with err: the graph is
 * not consistent. Timelines that block each other are no error here: graph_eval_blocked. */
struct graph_eval *graph_eval(const struct graph *g, const struct graph_eval_ops *ops,
                              const struct graph_eval_options *options, struct prism_error *err);
void graph_eval_destroy(struct graph_eval *e); /* NULL is fine */

/* Timelines that did not come to their end; why names one (as graph_run_blocked does, at the cost of a second pass). */
uint64_t graph_eval_blocked(const struct graph_eval *e, char *why, size_t why_len);
uint64_t graph_eval_nodes(const struct graph_eval *e); /* evaluated */
uint32_t graph_eval_threads(const struct graph_eval *e);

/* For each rank (world of them): how much later it may come to any one of its groups without the end of everything being
 * later. 0: it is on a critical path. A rank without groups: from its own end to that of everything. Needs keep_slack. -1:
 * timelines block each other, or it was not kept. Asks for durations again. */
int graph_eval_slack(struct graph_eval *e, int64_t *slack_ns);

/* As graph_run_iteration_end and graph_run_setup_end. */
int64_t graph_eval_iteration_end(const struct graph_eval *e, uint32_t rank, uint32_t iteration);
int64_t graph_eval_setup_end(const struct graph_eval *e, uint32_t rank);

struct graph_times {
    int64_t start_ns, end_ns; /* SYNC: start is the issue. INT64_MIN: the timeline did not get there */
};
/* Where they were kept: by node (borrowed); else NULL. */
const struct graph_times *graph_eval_times(const struct graph_eval *e, uint32_t rank);

#endif
