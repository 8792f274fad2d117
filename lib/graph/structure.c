#include "graph/structure.h"

#include <xxhash.h>

#include "graph/feeds.h"

/* Peers of sends and receives by distance around the communicator, so that neighbours in a pipeline look
 * alike. */
static uint32_t relative_peer(const struct graph_part *p, int32_t self, uint32_t size, unsigned detail)
{
    switch (graph_feeds(p->op)) {
    case GRAPH_FEEDS_SEND:
    case GRAPH_FEEDS_RECV:
        return ((uint32_t)p->peer + size - (uint32_t)self) % size;
    case GRAPH_FEEDS_FROM_ROOT:
    case GRAPH_FEEDS_TO_ROOT:
        return detail & STRUCTURE_ROOTS ? 1 + (uint32_t)p->peer : p->peer == self;
    default:
        return 0;
    }
}

uint64_t structure_of_group(const struct graph *g, const struct graph_rank *r, const struct graph_node *node,
                            unsigned detail)
{
    struct graph_member member = r->comms[node->comm];
    uint64_t ordered = node->comm, any_order = 0;
    for (uint32_t i = 0; i < node->nparts; i++) {
        const struct graph_part *p = &r->parts[node->first_part + i];
        struct {
            uint32_t op, datatype, redop, peer;
            uint64_t count;
        } words = {p->op, p->datatype, p->redop,
                   relative_peer(p, member.rank, g->comms[member.global].size, detail),
                   detail & STRUCTURE_COUNTS ? p->count : 0};
        bool p2p = graph_feeds(p->op) >= GRAPH_FEEDS_SEND;
        uint64_t hash = XXH3_64bits_withSeed(&words, sizeof words, p2p ? 0 : ordered);
        if (p2p)
            any_order += hash;
        else
            ordered = hash;
    }
    uint64_t both[] = {ordered, any_order, node->nparts};
    return XXH3_64bits(both, sizeof both);
}
