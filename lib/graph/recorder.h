/* recorder.h - nodes of many ranks recorded as they come: what several do alike is kept once.
 *
 * Ranks that have done the same so far have one array of nodes, and one of parts, between them; it grows with the rank that is
 * ahead, the others follow in it. Where a rank does something else it gets an array of its own, unless another one left at the
 * same place with the same. So memory grows with what is different, not with the number of ranks, and the graph is at any
 * moment one that everything can read: ranks share arrays (graph.h), of which each has the first nnodes.
 */
#ifndef PRISM_GRAPH_RECORDER_H
#define PRISM_GRAPH_RECORDER_H

#include "graph/graph.h"

struct graph_recorder;

/* Of a graph whose ranks have no nodes yet, and get none but by graph_record. It must outlive the recorder. */
struct graph_recorder *graph_recorder_create(struct graph *g);
/* As graph_add_node; arrays may move: pointers to a rank's nodes are good until the next call. */
int graph_record(struct graph_recorder *recorder, uint32_t rank, const struct graph_node *node, const struct graph_part *parts,
                 uint32_t nparts);
/* The graph keeps what was recorded. NULL is fine. */
void graph_recorder_destroy(struct graph_recorder *recorder);

#endif
