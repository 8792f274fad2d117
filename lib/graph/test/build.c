#include "build.h"

#include <stdlib.h>

void build_comm(struct graph *g, uint32_t number, const int32_t *ranks, uint32_t size)
{
    int global = graph_add_comm(g, ranks, size);
    for (uint32_t i = 0; i < size; i++)
        if (graph_set_member(g, (uint32_t)ranks[i], number, global, (int32_t)i))
            abort();
}

void build_world(struct graph *g, uint32_t number)
{
    int32_t *ranks = calloc(g->world, sizeof *ranks);
    for (uint32_t i = 0; i < g->world; i++)
        ranks[i] = (int32_t)i;
    build_comm(g, number, ranks, g->world);
    free(ranks);
}

uint32_t build_group(struct graph *g, uint32_t rank, uint32_t comm, const struct graph_part *parts,
                     uint32_t n)
{
    struct graph_node node = {.kind = GRAPH_COMM, .comm = comm};
    for (uint32_t i = 0; i < g->ranks[rank].nnodes; i++)
        node.ordinal += g->ranks[rank].nodes[i].kind == GRAPH_COMM && g->ranks[rank].nodes[i].comm == comm;
    if (graph_add_node(g, rank, &node, parts, n))
        abort();
    return g->ranks[rank].nnodes - 1;
}

uint32_t build_op(struct graph *g, uint32_t rank, uint32_t comm, uint8_t op, int32_t peer, uint64_t count)
{
    struct graph_part p = {.op = op, .datatype = 7, .peer = peer, .count = count};
    return build_group(g, rank, comm, &p, 1);
}

uint32_t build_node(struct graph *g, uint32_t rank, uint8_t kind, uint32_t stream, int64_t dep_node)
{
    uint32_t at = g->ranks[rank].nnodes;
    struct graph_node node = {
        .kind = kind, .stream = stream, .dep = dep_node < 0 ? 0 : at - (uint32_t)dep_node};
    if (graph_add_node(g, rank, &node, NULL, 0))
        abort();
    return at;
}
