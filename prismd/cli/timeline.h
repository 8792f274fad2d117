/* timeline.h - the whole graph in virtual time, all ranks virtual (graph/run.h with lib/coll's durations). */
#ifndef PRISM_CLI_TIMELINE_H
#define PRISM_CLI_TIMELINE_H

#include <stdint.h>

#include "common/error.h"
#include "graph/run.h"

struct coll_network;
struct durations;

/* Evaluate from time 0. measured: durations that come before the network's (may be NULL). on_node (may be NULL) is called for every node with ctx. Returns the finished run (for
 * graph_run_iteration_end; graph_run_destroy), NULL with err when the timelines block each other. */
struct graph_run *timeline_run(const struct graph *g, const struct coll_network *network,
                               const struct durations *measured,
                               void (*on_node)(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns),
                               void *ctx, struct prism_error *err);

#endif
