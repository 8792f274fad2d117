/* oracle.h - the equations of graph.h, solved without any cleverness: the program is rolled out, every
 * equation is tried again and again until nothing changes. Shares no code with graph_run. */
#ifndef PRISM_GRAPH_TEST_ORACLE_H
#define PRISM_GRAPH_TEST_ORACLE_H

#include "graph/run.h"

struct oracle_node {
    const struct graph_node *node;
    uint32_t recorded; /* node index */
    bool started, ended;
    int64_t issue, start, end, fed; /* fed: latest start it waited for */
    bool issued;
    uint32_t arrival; /* external: number of the group on its communicator */
};

struct oracle_rank {
    struct oracle_node *nodes; /* by position */
    uint32_t n;
};

struct oracle {
    struct oracle_rank *ranks;
    uint32_t world;
};

/* arrivals[rank][position]: starts of external ranks' COMM nodes. */
struct oracle *oracle_solve(const struct graph *g, const struct graph_run_ops *ops,
                            const struct graph_run_options *options, int64_t t0, int64_t *const *arrivals);
/* Number of positions of a rank in a run, and the node of a position. */
uint32_t oracle_positions(const struct graph_rank *r, uint32_t iterations);
uint32_t oracle_node_at(const struct graph_rank *r, uint32_t iterations, uint32_t position);
void oracle_free(struct oracle *o);

#endif
