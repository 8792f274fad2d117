#include "prismd/capture/standing.h"

#include <stdlib.h>

static const struct group *group_of(const struct rank *r, uint32_t node)
{
    for (const struct group *g = r->groups; g; g = g->next_of_rank)
        if (g->node == node && !g->opened)
            return g;
    return NULL;
}

static uint32_t first_under_way(const struct rank *r)
{
    uint32_t first = UINT32_MAX;
    for (const struct group *g = r->groups; g; g = g->next_of_rank)
        if (!g->opened && g->node < first)
            first = g->node;
    return first;
}

/* In issue order from the first operation that is under way: what stands behind a closed gate stands, and what waits for an
 * event that was recorded there. What was issued before that operation is behind no gate. */
bool standing_everywhere(const struct graph *graph, const struct rank *r, bool *any)
{
    const struct graph_rank *recorded = &graph->ranks[r->number];
    uint32_t first = first_under_way(r), n = recorded->nnodes;
    *any = first != UINT32_MAX;
    if (r->assembling || first == UINT32_MAX || first >= n)
        return !r->assembling;
    uint8_t *streams = calloc(recorded->nstreams + 1u, 1), *nodes = calloc(n - first, 1);
    bool stands = true;
    if (!streams || !nodes)
        abort();
    for (uint32_t i = first; i < n && stands; i++) {
        const struct graph_node *node = &recorded->nodes[i];
        const struct group *g = node->kind == GRAPH_COMM ? group_of(r, i) : NULL;
        if (node->kind == GRAPH_SYNC)
            continue;
        if (node->kind == GRAPH_WAIT && node->dep && i - node->dep >= first)
            streams[node->stream] |= nodes[i - node->dep - first];
        if (g && g->arrived)
            stands = g->pending > 0;
        else if (g)
            stands = streams[node->stream];
        streams[node->stream] |= g != NULL;
        nodes[i - first] = streams[node->stream];
    }
    free(streams);
    free(nodes);
    return stands;
}
