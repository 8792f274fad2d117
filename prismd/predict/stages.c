#include "prismd/predict/stages.h"

#include <stdlib.h>

#include "graph/feeds.h"

#define FIRST    UINT32_MAX /* no stage before it */
#define UNKNOWN  (UINT32_MAX - 1)
#define ON_CHAIN (UINT32_MAX - 2)

/* The rank that this one's first messages come from, or FIRST. */
static uint32_t rank_before(const struct graph *g, const struct graph_rank *r)
{
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        uint32_t sends = 0, receives = 0, other = 0;
        int32_t peer = -1;
        if (n->kind != GRAPH_COMM)
            continue;
        for (uint32_t p = 0; p < n->nparts; p++) {
            const struct graph_part *part = &r->parts[n->first_part + p];
            enum graph_feeds feeds = graph_feeds(part->op);
            sends += feeds == GRAPH_FEEDS_SEND;
            receives += feeds == GRAPH_FEEDS_RECV;
            other += feeds < GRAPH_FEEDS_SEND;
            if (feeds == GRAPH_FEEDS_RECV && peer < 0)
                peer = part->peer;
        }
        if (other || (sends && receives))
            continue;
        return receives ? (uint32_t)g->comms[r->comms[n->comm].global].ranks[peer] : FIRST;
    }
    return FIRST;
}

/* A ring has no first stage but its lowest rank. */
static void open_ring(uint32_t rank, uint32_t *before)
{
    uint32_t lowest = rank;
    for (uint32_t at = before[rank]; at != rank; at = before[at])
        lowest = at < lowest ? at : lowest;
    before[lowest] = FIRST;
}

/* Follow the ranks before until one whose stage is known, or the first. */
static void number_chain(uint32_t rank, uint32_t *before, uint32_t *stages, uint32_t *chain)
{
    uint32_t n = 0, at = rank;
    for (; at != FIRST && stages[at] == UNKNOWN; at = before[at]) {
        stages[at] = ON_CHAIN;
        chain[n++] = at;
    }
    if (at != FIRST && stages[at] == ON_CHAIN) {
        open_ring(at, before);
        while (n > 0)
            stages[chain[--n]] = UNKNOWN;
        number_chain(rank, before, stages, chain);
        return;
    }
    for (uint32_t next = at == FIRST ? 0 : stages[at] + 1; n > 0; next++)
        stages[chain[--n]] = next;
}

uint32_t stages_find(const struct graph *g, uint32_t *stages)
{
    uint32_t *before = malloc((g->world + 1u) * sizeof *before), *chain = malloc((g->world + 1u) * sizeof *chain);
    uint32_t most = 0;
    if (!before || !chain)
        abort();
    for (uint32_t r = 0; r < g->world; r++) {
        before[r] = rank_before(g, &g->ranks[r]);
        stages[r] = UNKNOWN;
    }
    for (uint32_t r = 0; r < g->world; r++)
        number_chain(r, before, stages, chain);
    for (uint32_t r = 0; r < g->world; r++)
        most = stages[r] > most ? stages[r] : most;
    free(before);
    free(chain);
    return most + 1;
}
