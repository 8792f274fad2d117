/* predict.h - the iteration time that the calibrated graph says, all ranks virtual. The one evaluation behind prism
 * predict, export, plot and the report. Where the time goes: breakdown.h; what it hangs on: critical.h. */
#ifndef PRISM_PRISMD_PREDICT_H
#define PRISM_PRISMD_PREDICT_H

#include "graph/eval.h"
#include "graph/graph.h"
#include "graph/run.h"
#include "prismd/predict/duration.h"

/* --- 1. One evaluation --- */

typedef void (*predict_node)(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns);

/* From time 0. measured: durations that come before the network's, may be NULL. on_node (may be NULL) is called for every
 * node. Returns the finished run (graph_run_iteration_end; graph_run_destroy); NULL with err (PRISM_EXIT_TRACE): the
 * timelines block each other. */
struct graph_run *predict_run(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                              predict_node on_node, void *ctx, struct prism_error *err);

/* --- 2. Iteration times --- */

#define PREDICT_EVERYONE UINT32_MAX

struct prediction {
    double *seconds; /* owned; per iteration, for the rank asked for */
    uint32_t iterations;
};

/* An iteration lasts from the end of the one before (of time 0, for the first: that has the set-up) to its own end at that
 * rank; of PREDICT_EVERYONE, at the rank where it ends last. */
void predict_iterations(const struct graph *g, const struct graph_eval *e, uint32_t rank, struct prediction *out);
/* Both in one; no iterations where the graph cannot be evaluated. */
void predict(const struct graph *g, const struct coll_network *network, const struct durations *measured,
             uint32_t rank, struct prediction *out);
void prediction_clear(struct prediction *p);

/* --- 3. Every node's times --- */

struct predicted {
    const struct graph *graph;    /* borrowed */
    struct duration_model model;
    struct graph_eval *eval;      /* owned; on all cores */
    const struct graph_times **times; /* owned; by rank, the evaluation's by node */
    const float **device, **host; /* owned; by rank: the works that count for it (graph_representative), NULL = none */
    uint32_t *stages;             /* owned; by rank: its place in the pipeline, 0 without one */
    uint32_t nstages;
    uint32_t iteration;           /* the last one recorded, which breakdowns and paths are of */
    int64_t begin_ns, end_ns;     /* of it: from where the one before ends last, to where it ends last */
    struct duration_memo *memo;   /* owned; of collectives, whose duration is everyone's */
};

/* network and measured are borrowed for the result's life. 16 bytes a node. NULL with err. */
struct predicted *predicted_create(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                                   struct prism_error *err);
void predicted_destroy(struct predicted *p); /* NULL is fine */

/* Nanoseconds of a COMM node from the last start it waits for to its end. */
int64_t predicted_duration(struct predicted *p, uint32_t rank, const struct graph_node *node);

/* --- 4. Slack --- */

/* By rank (world of them, owned by the caller): nanoseconds that the rank may come later to any one of its operations while
 * the end of the recording stays where it is; 0: it is on a critical path (graph_eval_slack). One thread, 32 bytes a node.
 * NULL with err. */
int64_t *predict_slack(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                       struct prism_error *err);

/* --- 5. What if --- */

/* All device works of the rank times factor (at least 0), and nobody else's. -1 with err: no such rank. */
int predict_slow(struct graph *g, uint32_t rank, double factor, struct prism_error *err);

#endif
