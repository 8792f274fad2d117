/* build.h - short ways to write graphs in tests. */
#ifndef PRISM_GRAPH_TEST_BUILD_H
#define PRISM_GRAPH_TEST_BUILD_H

#include "graph/feeds.h"
#include "graph/graph.h"

/* A communicator of the ranks, under that number at each. */
void build_comm(struct graph *g, uint32_t number, const int32_t *ranks, uint32_t size);
/* The same of all ranks. */
void build_world(struct graph *g, uint32_t number);
/* A group of one operation on stream 0, float32; returns the node. */
uint32_t build_op(struct graph *g, uint32_t rank, uint32_t comm, uint8_t op, int32_t peer, uint64_t count);
/* A group of several. */
uint32_t build_group(struct graph *g, uint32_t rank, uint32_t comm, const struct graph_part *parts,
                     uint32_t n);
/* Any other kind; waits for that node unless dep_node is negative. */
uint32_t build_node(struct graph *g, uint32_t rank, uint8_t kind, uint32_t stream, int64_t dep_node);

#endif
