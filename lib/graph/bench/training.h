/* training.h - a training-shaped graph for benchmarks: ranks are tp 8 x pp 4 x dp; tensor all-reduces on stream 0, pipeline receives on
 * stream 1 and sends on 3 with events, a gradient all-reduce on stream 2 and one host synchronisation an iteration. */
#ifndef PRISM_GRAPH_BENCH_TRAINING_H
#define PRISM_GRAPH_BENCH_TRAINING_H

#include "graph/graph.h"

struct training {
    uint32_t world, dp, microbatches;
    bool meets; /* an all-reduce of the world at the end of an iteration */
};

#define TRAINING_REPLICA 32u /* ranks: world / dp */

struct graph *training_graph(const struct training *s, uint32_t iterations);

#endif
