/* fold_twins.c - which replicas do the same at the same times. */
#include "graph/fold.h"

#include <stdlib.h>
#include <string.h>

#include "graph/feeds.h"

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return a == b || (a && b && !memcmp(a, b, bytes));
}

static bool same_work(const struct graph_rank *a, const struct graph_rank *b)
{
    return a->klass == b->klass && same_bytes(a->device_work, b->device_work, a->nnodes * sizeof *a->device_work) &&
           same_bytes(a->host_work, b->host_work, a->nnodes * sizeof *a->host_work);
}

static bool same_nodes(const struct graph_rank *a, const struct graph_rank *b)
{
    return a->nnodes == b->nnodes && a->nparts == b->nparts && a->ncomms == b->ncomms && a->nstreams == b->nstreams &&
           a->nhosts == b->nhosts && a->niterations == b->niterations &&
           (!a->niterations || same_bytes(a->iterations, b->iterations, (a->niterations + 1) * sizeof *a->iterations)) &&
           same_bytes(a->nodes, b->nodes, a->nnodes * sizeof *a->nodes) &&
           same_bytes(a->parts, b->parts, a->nparts * sizeof *a->parts);
}

/* Members that are played alike at the same places, shared between nodes in the same way. */
static bool same_group(const struct graph *g, const struct graph_comm *a, const struct graph_comm *b, const uint32_t *as)
{
    if (a->size != b->size)
        return false;
    for (uint32_t i = 0; i < a->size; i++) {
        uint32_t before = i ? i - 1 : 0;
        if (as[a->ranks[i]] != as[b->ranks[i]])
            return false;
        if (((uint32_t)a->ranks[i] / g->gpus_per_node == (uint32_t)a->ranks[before] / g->gpus_per_node) !=
            ((uint32_t)b->ranks[i] / g->gpus_per_node == (uint32_t)b->ranks[before] / g->gpus_per_node))
            return false;
    }
    return true;
}

/* Some members are not played. */
static bool is_shared(const struct graph_comm *c, const uint32_t *as)
{
    for (uint32_t i = 0; i < c->size; i++)
        if (as[c->ranks[i]] != (uint32_t)c->ranks[i])
            return true;
    return false;
}

/* On communicators with members that are not played: collectives that all wait for, or whose root is played. */
static bool may_stand(const struct graph *g, const struct graph_rank *r, const uint32_t *as, const uint8_t *shared)
{
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM || !shared[n->comm])
            continue;
        const struct graph_comm *c = &g->comms[r->comms[n->comm].global];
        for (uint32_t p = n->first_part; p < n->first_part + n->nparts; p++) {
            enum graph_feeds feeds = graph_feeds(r->parts[p].op);
            int32_t root = r->parts[p].peer;
            if (feeds >= GRAPH_FEEDS_SEND)
                return false;
            if (feeds != GRAPH_FEEDS_ALL && root >= 0 && (uint32_t)root < c->size &&
                as[c->ranks[root]] != (uint32_t)c->ranks[root])
                return false;
        }
    }
    return true;
}

/* shared: by communicator of the rank, filled in. The same ranks, as they are played, meet in the communicators of both; where all
 * members are played, at the same places. */
static bool is_twin(const struct graph *g, uint32_t rank, const uint32_t *as, uint8_t *shared)
{
    const struct graph_rank *a = &g->ranks[rank], *b = &g->ranks[as[rank]];
    if (!same_nodes(a, b) || !same_work(a, b))
        return false;
    for (uint32_t k = 0; k < a->ncomms; k++) {
        int32_t x = a->comms[k].global, y = b->comms[k].global;
        if (x < 0 && y < 0)
            continue;
        if (x < 0 || y < 0 || (x != y && !same_group(g, &g->comms[x], &g->comms[y], as)))
            return false;
        shared[k] = is_shared(&g->comms[y], as);
        if (!shared[k] && a->comms[k].rank != b->comms[k].rank)
            return false;
    }
    return true;
}

static bool all_are_twins(const struct graph *g, const uint32_t *as)
{
    uint32_t most = 1;
    bool can = true;
    for (uint32_t r = 0; r < g->world; r++)
        most = g->ranks[r].ncomms > most ? g->ranks[r].ncomms : most;
    uint8_t *shared = malloc(most);
    if (!shared)
        abort();
    for (uint32_t r = 0; r < g->world && can; r++) {
        memset(shared, 0, most);
        can = is_twin(g, r, as, shared) && may_stand(g, &g->ranks[r], as, shared);
    }
    free(shared);
    return can;
}

/* In one folded dimension: places that have a rank of their own keep it, the first of the others is played for them. */
static void set_dimension(const struct fold_dimension *d, const struct graph *g, const uint8_t *external, uint32_t *as)
{
    uint8_t *kept = calloc(d->size, 1);
    uint32_t first = UINT32_MAX;
    if (!kept)
        abort();
    for (uint32_t r = 0; r < g->world; r++)
        kept[r / d->stride % d->size] |= (external && external[r]) || g->ranks[r].device_work;
    for (uint32_t i = d->size; i-- > 0;)
        first = kept[i] ? first : i;
    for (uint32_t r = 0; r < g->world; r++) {
        uint32_t at = r / d->stride % d->size;
        if (!kept[at])
            as[r] = as[r] - at * d->stride + first * d->stride;
    }
    free(kept);
}

uint32_t fold_twins(const struct fold *f, const struct graph *g, const uint8_t *external, uint32_t *as)
{
    uint32_t played = 0;
    for (uint32_t r = 0; r < g->world; r++)
        as[r] = r;
    if (f->world != g->world || !g->gpus_per_node)
        return g->world;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        if (f->dimensions[i].folded)
            set_dimension(&f->dimensions[i], g, external, as);
    for (uint32_t r = 0; r < g->world; r++)
        played += as[r] == r;
    if (played == g->world || all_are_twins(g, as))
        return played;
    for (uint32_t r = 0; r < g->world; r++)
        as[r] = r;
    return g->world;
}
