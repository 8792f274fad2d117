/* iterations.h - what tells an iteration from the layers in it, of nodes [begin, end) of a rank. Inside lib/graph only. */
#ifndef PRISM_GRAPH_ITERATIONS_H
#define PRISM_GRAPH_ITERATIONS_H

#include "graph/graph.h"

/* The host waits for the device. */
bool iterations_have_sync(const struct graph_rank *r, uint32_t begin, uint32_t end);
/* A communicator is used that is as large as the largest the rank has made. */
bool iterations_use_largest_comm(const struct graph *g, const struct graph_rank *r, uint32_t begin, uint32_t end);

#endif
