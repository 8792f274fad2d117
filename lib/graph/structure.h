/* structure.h - numbers that stand for the structure of COMM nodes. Inside lib/graph only. */
#ifndef PRISM_GRAPH_STRUCTURE_H
#define PRISM_GRAPH_STRUCTURE_H

#include "graph/graph.h"

enum structure_detail {
    STRUCTURE_ROOTS = 1,  /* which rank is the root; else only whether it is this rank */
    STRUCTURE_COUNTS = 2, /* counts as well */
};

/* Hash of a COMM node: communicator number, operations, datatypes, reductions, relative peers. Sends and
 * receives of a group may stand in any order. */
uint64_t structure_of_group(const struct graph *g, const struct graph_rank *r, const struct graph_node *node,
                            unsigned detail);

#endif
