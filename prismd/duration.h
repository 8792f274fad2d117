/* duration.h - how long an operation takes in the full job: the network profile applied to the graph. */
#ifndef PRISM_PRISMD_DURATION_H
#define PRISM_PRISMD_DURATION_H

#include "graph/run.h"

struct coll_network;

struct duration_model {
    const struct coll_network *network; /* borrowed */
    uint32_t gpus_per_node;
};

/* Callbacks for struct graph_run_ops; ctx is a struct duration_model. */
double duration_ns(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                   uint32_t nparts);
bool duration_send_is_eager(void *ctx, uint64_t bytes);

#endif
