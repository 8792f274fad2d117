/* duration.h - how long an operation takes in the full job: the network profile (coll/duration.h) applied to the graph. */
#ifndef PRISM_PRISMD_DURATION_H
#define PRISM_PRISMD_DURATION_H

#include "coll/duration.h"
#include "graph/run.h"
#include "prismd/predict/durations.h"

struct duration_model {
    const struct coll_network *network; /* borrowed */
    struct coll_shape *shapes;          /* owned; by communicator: which logical nodes its members sit on */
    int32_t *node_of;                   /* owned; behind the shapes */
    const struct durations *measured;   /* borrowed; they come before the profile. NULL after init: none */
};

/* Logical nodes are gpus_per_node consecutive ranks. */
void duration_model_init(struct duration_model *m, const struct graph *g, const struct coll_network *network);
void duration_model_clear(struct duration_model *m);

/* Callbacks for struct graph_run_ops; ctx is a struct duration_model. */
double duration_ns(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                   uint32_t nparts);
bool duration_send_is_eager(void *ctx, uint64_t bytes);

#endif
