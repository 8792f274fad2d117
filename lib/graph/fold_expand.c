/* fold_expand.c - the graph of all ranks from the graph of those that ran. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/check.h"
#include "graph/feeds.h"
#include "graph/fold.h"
#include "graph/share.h"

/* A communicator, displaced. */
struct image {
    struct {
        int32_t global;
        uint32_t displacement; /* outside what it covers */
    } key;
    int32_t made;
    UT_hash_handle hh;
};

struct expansion {
    const struct fold *fold;
    struct graph *graph;
    int *covers; /* owned, by global number of a recorded communicator: fold_covers */
    uint32_t recorded; /* communicators */
    struct image *images;
    struct prism_error *err;
};

static int split_dimension(const struct expansion *x, uint32_t global, const char *why)
{
    const struct graph_comm *c = &x->graph->comms[global];
    char dimensions[128];
    fold_describe(x->fold, dimensions, sizeof dimensions);
    return prism_error_set(x->err, PRISM_EXIT_UNSUPPORTED,
                           "the communicator of ranks %d, %d%s (%u in all) %s: it splits a folded dimension (%s); give this as two "
                           "dimensions in --prism-layout, such as dp_shard:8,dp_rep:8, and fold one or both",
                           c->ranks[0], c->ranks[c->size > 1], c->size > 2 ? " …" : "", c->size, why, dimensions);
}

static int32_t place_of(const struct graph_comm *c, uint32_t rank)
{
    for (uint32_t i = 0; i < c->size; i++)
        if ((uint32_t)c->ranks[i] == rank)
            return (int32_t)i;
    return -1;
}

static bool same_members(const struct graph_comm *c, const int32_t *ranks, uint32_t size)
{
    return c->size == size && !memcmp(c->ranks, ranks, size * sizeof *ranks);
}

/* How many of the rank's communicators in front of number k have these members. */
static uint32_t count_before(const struct expansion *x, uint32_t rank, uint32_t k, const int32_t *ranks, uint32_t size)
{
    const struct graph_rank *r = &x->graph->ranks[rank];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        n += r->comms[i].global >= 0 && same_members(&x->graph->comms[r->comms[i].global], ranks, size);
    return n;
}

/* A live rank of the displaced communicator has made it already: as it counts those with equal members. */
static int32_t made_by_live(const struct expansion *x, const int32_t *ranks, uint32_t size, uint32_t skip, bool *any)
{
    *any = false;
    for (uint32_t i = 0; i < size; i++) {
        const struct graph_rank *r = &x->graph->ranks[ranks[i]];
        if (!fold_is_live(x->fold, (uint32_t)ranks[i]))
            continue;
        *any = true;
        for (uint32_t k = 0; k < r->ncomms; k++)
            if (r->comms[k].global >= 0 && same_members(&x->graph->comms[r->comms[k].global], ranks, size) && !skip--)
                return r->comms[k].global;
        return -1;
    }
    return -1;
}

/* The global number of what displacement makes of communicator number k of a live rank; -1 with err. */
static int32_t image_of(struct expansion *x, uint32_t rank, uint32_t k, uint32_t displacement)
{
    int32_t global = x->graph->ranks[rank].comms[k].global;
    struct image *image, key = {0};
    key.key.global = global;
    key.key.displacement = fold_outside(x->fold, displacement, (unsigned)x->covers[global]);
    if (!key.key.displacement)
        return global;
    HASH_FIND(hh, x->images, &key.key, sizeof key.key, image);
    if (image)
        return image->made;
    uint32_t size = x->graph->comms[global].size;
    int32_t *ranks = check(malloc(size * sizeof *ranks));
    for (uint32_t i = 0; i < size; i++)
        ranks[i] = (int32_t)fold_shift(x->fold, (uint32_t)x->graph->comms[global].ranks[i], key.key.displacement);
    bool any;
    uint32_t skip = count_before(x, rank, k, x->graph->comms[global].ranks, size);
    int32_t made = made_by_live(x, ranks, size, skip, &any);
    if (any && made < 0) {
        free(ranks);
        return split_dimension(x, (uint32_t)global, "has no counterpart among those of other replicas that ran");
    }
    if (!any)
        made = graph_add_comm(x->graph, ranks, size);
    free(ranks);
    image = check(calloc(1, sizeof *image));
    image->key = key.key;
    image->made = made;
    HASH_ADD(hh, x->images, key, sizeof image->key, image);
    return made;
}

/* From the replica of rank 0, whoever the representative is: so each is known by one communicator and one displacement. */
static int give_communicators(struct expansion *x, uint32_t to)
{
    uint32_t from = fold_outside(x->fold, to, ~0u), as = x->fold->representative[to];
    if (x->graph->ranks[as].ncomms != x->graph->ranks[from].ncomms)
        return prism_error_set(x->err, PRISM_EXIT_UNSUPPORTED,
                               "ranks %u and %u differ in folded dimensions only, but the one makes %u communicators, the other %u: they are "
                               "no replicas; capture without --prism-fold",
                               from, as, x->graph->ranks[from].ncomms, x->graph->ranks[as].ncomms);
    uint32_t displacement = fold_displacement(x->fold, from, to);
    for (uint32_t k = 0; k < x->graph->ranks[from].ncomms; k++) {
        int32_t global = x->graph->ranks[from].comms[k].global, image = -1, place = -1;
        if (global >= 0) {
            if ((image = image_of(x, from, k, displacement)) < 0)
                return -1;
            place = place_of(&x->graph->comms[image], to);
            if (place < 0)
                return split_dimension(x, (uint32_t)global, "does not have the other replicas' ranks where it would have");
        }
        if (graph_set_member(x->graph, to, k, image, place))
            abort();
    }
    return 0;
}

bool fold_goes_to_all(const struct graph_part *parts, uint32_t nparts, int32_t self)
{
    for (uint32_t i = 0; i < nparts; i++)
        if (graph_feeds(parts[i].op) >= GRAPH_FEEDS_SEND && parts[i].peer == self)
            return true;
    return false;
}

/* Peers of sends and receives between members of a communicator that covers folded dimensions move with the rank. */
static void displace_peers(struct expansion *x, uint32_t to, uint32_t from)
{
    struct graph_rank *r = &x->graph->ranks[to];
    const struct graph_rank *as = &x->graph->ranks[from];
    uint32_t displacement = fold_displacement(x->fold, from, to);
    for (uint32_t i = 0; i < as->nnodes; i++) {
        const struct graph_node *n = &as->nodes[i];
        if (n->kind != GRAPH_COMM || graph_feeds(as->parts[n->first_part].op) < GRAPH_FEEDS_SEND)
            continue;
        int32_t global = as->comms[n->comm].global;
        uint32_t within = fold_displacement(x->fold, fold_outside(x->fold, displacement, (unsigned)x->covers[global]), displacement);
        if (!within || fold_goes_to_all(as->parts + n->first_part, n->nparts, as->comms[n->comm].rank))
            continue;
        graph_rank_own(r);
        for (uint32_t k = n->first_part; k < n->first_part + n->nparts; k++) {
            uint32_t peer = (uint32_t)x->graph->comms[global].ranks[as->parts[k].peer];
            r->parts[k].peer = place_of(&x->graph->comms[r->comms[n->comm].global], fold_shift(x->fold, peer, displacement));
        }
    }
}

static void give_nodes(struct expansion *x, uint32_t to, uint32_t from)
{
    struct graph_rank *r = &x->graph->ranks[to], *as = &x->graph->ranks[from];
    shared_make_nodes(as);
    shared_make_parts(as);
    shared_use_nodes(r, as);
    shared_use_parts(r, as);
    r->nstreams = as->nstreams;
    r->nhosts = as->nhosts;
    displace_peers(x, to, from);
}

/* Every communicator is its members': none claims it as another, none is missing. */
static int check_members(struct expansion *x)
{
    const struct graph *g = x->graph;
    uint32_t *claims = check(calloc(g->ncomms + 1u, sizeof *claims));
    int rc = 0;
    for (uint32_t i = 0; i < g->world; i++)
        for (uint32_t k = 0; k < g->ranks[i].ncomms; k++)
            if (g->ranks[i].comms[k].global >= 0)
                claims[g->ranks[i].comms[k].global]++;
    for (uint32_t i = 0; i < g->ncomms && !rc; i++)
        if (claims[i] != g->comms[i].size)
            rc = split_dimension(x, i, "is not what the layout makes of the replicas that ran");
    free(claims);
    return rc;
}

static void expansion_clear(struct expansion *x)
{
    struct image *image, *next;
    HASH_ITER(hh, x->images, image, next) {
        HASH_DEL(x->images, image);
        free(image);
    }
    free(x->covers);
}

int fold_expand(const struct fold *f, struct graph *g, struct prism_error *err)
{
    struct expansion x = {.fold = f, .graph = g, .recorded = g->ncomms, .err = err};
    x.covers = check(malloc((g->ncomms + 1u) * sizeof *x.covers));
    int rc = 0;
    for (uint32_t i = 0; i < g->ncomms && !rc; i++) {
        x.covers[i] = fold_covers(f, g->comms[i].ranks, g->comms[i].size);
        if (x.covers[i] < 0)
            rc = split_dimension(&x, i, "has some of the replicas");
    }
    for (uint32_t r = 0; r < g->world && !rc; r++) {
        if (fold_is_live(f, r))
            continue;
        rc = give_communicators(&x, r);
        if (!rc)
            give_nodes(&x, r, f->representative[r]);
    }
    if (!rc)
        rc = check_members(&x);
    expansion_clear(&x);
    return rc;
}

void fold_classes(const struct fold *f, struct graph *g)
{
    uint32_t *number = check(malloc((g->nclasses + 1u) * sizeof *number)), n = 0;
    memset(number, 0xff, (g->nclasses + 1u) * sizeof *number);
    for (uint32_t r = 0; r < g->world; r++)
        if (!fold_is_live(f, r))
            g->ranks[r].klass = g->ranks[f->representative[r]].klass;
    for (uint32_t r = 0; r < g->world; r++) {
        uint32_t *to = &number[g->ranks[r].klass];
        if (*to == UINT32_MAX)
            *to = n++;
        g->ranks[r].klass = *to;
    }
    g->nclasses = n;
    free(number);
}
