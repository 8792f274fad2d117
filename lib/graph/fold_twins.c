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
           same_bytes(a->nodes, b->nodes, a->nnodes * sizeof *a->nodes);
}

/* ---- Exchanges: sends and receives between all members ---- */

/* What a member moves: messages and bytes within its node [0] and to other nodes [1], sent [0] and received [1]. That decides how
 * long it takes (coll_group_duration), and who its peers are does not. */
struct moved {
    uint32_t messages[2];
    uint64_t bytes[2][2];
};

enum { SENT = 1, RECEIVED = 2 };

/* The group is one send to and one receive from every other member (with or without the member itself) and nothing else.
 * seen: room for size. */
static bool is_exchange(const struct graph_part *parts, uint32_t nparts, uint32_t size, int32_t self, uint8_t *seen)
{
    uint32_t others = 0;
    if (nparts != 2 * size && nparts != 2 * (size - 1))
        return false;
    memset(seen, 0, size);
    for (uint32_t i = 0; i < nparts; i++) {
        enum graph_feeds feeds = graph_feeds(parts[i].op);
        uint8_t bit = feeds == GRAPH_FEEDS_SEND ? SENT : RECEIVED;
        if (feeds < GRAPH_FEEDS_SEND || seen[parts[i].peer] & bit)
            return false;
        seen[parts[i].peer] |= bit;
        others += parts[i].peer != self;
    }
    return others == 2 * (size - 1);
}

static struct moved moved_by(const struct graph *g, const struct graph_comm *c, const struct graph_part *parts, uint32_t nparts,
                             int32_t self)
{
    struct moved m = {0};
    for (uint32_t i = 0; i < nparts; i++) {
        bool outside = (uint32_t)c->ranks[parts[i].peer] / g->gpus_per_node != (uint32_t)c->ranks[self] / g->gpus_per_node;
        if (parts[i].peer == self)
            continue;
        m.messages[outside]++;
        m.bytes[outside][graph_feeds(parts[i].op) == GRAPH_FEEDS_RECV] +=
            parts[i].count * graph_datatype_size(parts[i].datatype);
    }
    return m;
}

/* Both ranks' groups are exchanges in which they move the same. */
static bool same_exchange(const struct graph *g, uint32_t rank, uint32_t other, const struct graph_node *n, uint8_t *seen)
{
    struct moved moved[2];
    for (int i = 0; i < 2; i++) {
        const struct graph_rank *r = &g->ranks[i ? other : rank];
        const struct graph_member *m = &r->comms[n->comm];
        const struct graph_comm *c = &g->comms[m->global];
        if (!is_exchange(r->parts + n->first_part, n->nparts, c->size, m->rank, seen))
            return false;
        moved[i] = moved_by(g, c, r->parts + n->first_part, n->nparts, m->rank);
    }
    return !memcmp(&moved[0], &moved[1], sizeof moved[0]);
}

/* ---- Which ranks are twins ---- */

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

/* Where some members are not played: collectives that all wait for, or whose root is played, and exchanges. */
static bool may_stand(const struct graph *g, uint32_t rank, const struct graph_node *n, const uint32_t *as, uint8_t *seen)
{
    const struct graph_rank *r = &g->ranks[rank];
    const struct graph_comm *c = &g->comms[r->comms[n->comm].global];
    const struct graph_part *parts = r->parts + n->first_part;
    for (uint32_t p = 0; p < n->nparts; p++) {
        enum graph_feeds feeds = graph_feeds(parts[p].op);
        int32_t root = parts[p].peer;
        if (feeds >= GRAPH_FEEDS_SEND)
            return same_exchange(g, rank, as[rank], n, seen);
        if (feeds != GRAPH_FEEDS_ALL && root >= 0 && (uint32_t)root < c->size && as[c->ranks[root]] != (uint32_t)c->ranks[root])
            return false;
    }
    return true;
}

/* The rank's groups can be those of the rank that is played for it. */
static bool same_groups(const struct graph *g, uint32_t rank, const uint32_t *as, const uint8_t *shared, uint8_t *seen)
{
    const struct graph_rank *a = &g->ranks[rank], *b = &g->ranks[as[rank]];
    bool same = same_bytes(a->parts, b->parts, a->nparts * sizeof *a->parts);
    for (uint32_t i = 0; i < a->nnodes; i++) {
        const struct graph_node *n = &a->nodes[i];
        if (n->kind != GRAPH_COMM)
            continue;
        if (shared[n->comm] && !may_stand(g, rank, n, as, seen))
            return false;
        bool p2p = shared[n->comm] && graph_feeds(a->parts[n->first_part].op) >= GRAPH_FEEDS_SEND;
        if (!same && !p2p && memcmp(a->parts + n->first_part, b->parts + n->first_part, n->nparts * sizeof *a->parts))
            return false;
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
    uint8_t *shared = malloc(most), *seen = malloc(g->world + 1u);
    if (!shared || !seen)
        abort();
    for (uint32_t r = 0; r < g->world && can; r++) {
        memset(shared, 0, most);
        can = is_twin(g, r, as, shared) && same_groups(g, r, as, shared, seen);
    }
    free(shared);
    free(seen);
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
