/* classes.c - ranks of equal structure. */
#include <stdlib.h>
#include <xxhash.h>

#include "common/check.h"
#include "graph/graph.h"
#include "graph/structure.h"

static void add_number(XXH3_state_t *hash, uint64_t number)
{
    XXH3_128bits_update(hash, &number, sizeof number);
}

static XXH128_hash_t hash_rank(XXH3_state_t *hash, const struct graph *g, const struct graph_rank *r)
{
    XXH3_128bits_reset(hash);
    add_number(hash, r->nnodes);
    add_number(hash, r->ncomms);
    for (uint32_t i = 0; i < r->ncomms; i++)
        add_number(hash, r->comms[i].global < 0 ? 0 : g->comms[r->comms[i].global].size);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        bool comm = n->kind == GRAPH_COMM;
        uint32_t words[] = {n->kind,
                            n->host,
                            n->kind == GRAPH_SYNC ? 0 : n->stream,
                            n->dep,
                            comm ? n->comm : 0,
                            comm ? n->ordinal : 0};
        XXH3_128bits_update(hash, words, sizeof words);
        if (comm)
            add_number(hash, structure_of_group(g, r, n, 0));
    }
    return XXH3_128bits_digest(hash);
}

void graph_find_classes(struct graph *g)
{
    XXH3_state_t *state = check(XXH3_createState());
    XXH128_hash_t *classes = check(calloc(g->world ? g->world : 1, sizeof *classes));
    g->nclasses = 0;
    for (uint32_t i = 0; i < g->world; i++) {
        XXH128_hash_t hash = hash_rank(state, g, &g->ranks[i]);
        uint32_t c = 0;
        while (c < g->nclasses && !XXH128_isEqual(classes[c], hash))
            c++;
        if (c == g->nclasses)
            classes[g->nclasses++] = hash;
        g->ranks[i].klass = c;
    }
    free(classes);
    XXH3_freeState(state);
}
