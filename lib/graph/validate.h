/* validate.h - what every other file of lib/graph takes for granted about a graph. Inside lib/graph only. */
#ifndef PRISM_GRAPH_VALIDATE_H
#define PRISM_GRAPH_VALIDATE_H

#include "graph/graph.h"

/* Every index lies within its array: streams, hosts, deps, parts, communicators, members, peers, iterations;
 * operations and datatypes are known. Members' tables and the communicators' lists agree. -1 with err
 * (PRISM_EXIT_TRACE). */
int graph_validate(const struct graph *g, struct prism_error *err);

#endif
