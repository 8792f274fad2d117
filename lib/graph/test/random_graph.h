/* random_graph.h - random programs that cannot deadlock: operations are put into every rank in one global
 * order. */
#ifndef PRISM_GRAPH_TEST_RANDOM_GRAPH_H
#define PRISM_GRAPH_TEST_RANDOM_GRAPH_H

#include "graph/graph.h"

uint32_t random_below(uint64_t *state, uint32_t n);

struct random_shape {
    uint32_t world, streams, hosts, comms;
    uint32_t setup, steps, iterations, teardown; /* global steps */
    bool works;                                  /* random works on every node */
    uint32_t rotate; /* 1: ranks' iterations begin anywhere in the period (sets iterations one less) */
    bool alike;      /* members of a group use the same stream and host: ranks of equal structure */
    bool meets;      /* at the end of an iteration: all ranks' all-reduce, and every host thread waits for it */
    uint32_t drop;   /* one in so many sends or receives is left out (deadlocks); 0 = none */
};

/* With iterations marked when there are any. Caller frees. */
struct graph *random_graph(uint64_t *state, const struct random_shape *shape);
struct random_shape random_shape(uint64_t *state);

#endif
