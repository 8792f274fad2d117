#include "graph/share.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <xxhash.h>

#include "common/check.h"
#include "graph/feeds.h"

struct graph_shared { /* the array lies behind it */
    uint64_t references;
    uint64_t unused; /* keeps the array aligned to 16 bytes */
};

/* graph_add_node expects room for the next power of two. */
static uint64_t room(uint32_t n)
{
    uint64_t cap = 1;
    while (cap < n)
        cap *= 2;
    return cap;
}

struct graph_shared *shared_create(uint32_t n, size_t size, void **data)
{
    struct graph_shared *s = check(calloc(1, sizeof *s + (n ? n : 1) * size));
    s->references = 1;
    *data = s + 1;
    return s;
}

void shared_release(struct graph_shared *s)
{
    if (--s->references == 0)
        free(s);
}

static void release(struct graph_shared *s, void *own)
{
    if (s)
        shared_release(s);
    else
        free(own);
}

static void *own(struct graph_shared **s, void *data, uint32_t n, size_t size)
{
    if (!*s)
        return data;
    void *copy = check(calloc(room(n), size));
    memcpy(copy, data, n * size);
    release(*s, NULL);
    *s = NULL;
    return copy;
}

void graph_rank_own(struct graph_rank *r)
{
    r->nodes = own(&r->nodes_shared, r->nodes, r->nnodes, sizeof *r->nodes);
    r->parts = own(&r->parts_shared, r->parts, r->nparts, sizeof *r->parts);
}

void graph_rank_clear(struct graph_rank *r)
{
    release(r->nodes_shared, r->nodes);
    release(r->parts_shared, r->parts);
    free(r->comms);
    free(r->iterations);
    free(r->device_work);
    free(r->host_work);
    *r = (struct graph_rank){0};
}

static struct graph_shared *make(void **data, uint32_t n, size_t size)
{
    void *old = *data;
    struct graph_shared *s = shared_create(n, size, data);
    if (n)
        memcpy(*data, old, n * size);
    free(old);
    return s;
}

void shared_make_nodes(struct graph_rank *r)
{
    void *data = r->nodes;
    if (!r->nodes_shared)
        r->nodes_shared = make(&data, r->nnodes, sizeof *r->nodes);
    r->nodes = data;
}

void shared_make_parts(struct graph_rank *r)
{
    void *data = r->parts;
    if (!r->parts_shared)
        r->parts_shared = make(&data, r->nparts, sizeof *r->parts);
    r->parts = data;
}

void shared_use_nodes(struct graph_rank *to, const struct graph_rank *from)
{
    from->nodes_shared->references++;
    release(to->nodes_shared, to->nodes);
    to->nodes_shared = from->nodes_shared;
    to->nodes = from->nodes;
    to->nnodes = from->nnodes;
}

void shared_use_parts(struct graph_rank *to, const struct graph_rank *from)
{
    from->parts_shared->references++;
    release(to->parts_shared, to->parts);
    to->parts_shared = from->parts_shared;
    to->parts = from->parts;
    to->nparts = from->nparts;
}

bool *shared_by_place(const struct graph_rank *r)
{
    bool *by_place = check(calloc(r->ncomms + 1u, sizeof *by_place));
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        for (uint32_t k = 0; n->kind == GRAPH_COMM && n->comm < r->ncomms && k < n->nparts; k++)
            by_place[n->comm] |= graph_feeds(r->parts[n->first_part + k].op) >= GRAPH_FEEDS_SEND;
    }
    return by_place;
}

uint64_t shared_hash_places(const struct graph *g, const struct graph_rank *r, const bool *by_place)
{
    uint32_t few[64] = {0}, *words = r->ncomms <= 32 ? few : check(malloc(2 * (size_t)r->ncomms * sizeof *words));
    for (uint32_t i = 0; i < r->ncomms; i++) {
        words[2 * i] = r->comms[i].global < 0 ? 0 : g->comms[r->comms[i].global].size;
        words[2 * i + 1] = by_place && by_place[i] ? (uint32_t)r->comms[i].rank : 0;
    }
    uint64_t hash = XXH3_64bits(words, 2 * (size_t)r->ncomms * sizeof *words);
    if (words != few)
        free(words);
    return hash;
}

/* ---- Finding equal arrays ---- */

struct known { /* first rank that has an array */
    XXH128_hash_t hash;
    struct graph_rank *rank;
    UT_hash_handle hh;
};

/* The rank that had this array before, else r is remembered and NULL comes back. */
static struct graph_rank *meet(struct known **table, const void *data, size_t len, struct graph_rank *r)
{
    struct known *k, key = {.hash = XXH3_128bits(data, len)};
    HASH_FIND(hh, *table, &key.hash, sizeof key.hash, k);
    if (k)
        return k->rank;
    k = check(calloc(1, sizeof *k));
    k->hash = key.hash;
    k->rank = r;
    HASH_ADD(hh, *table, hash, sizeof k->hash, k);
    return NULL;
}

static void forget(struct known *table)
{
    struct known *k, *next;
    HASH_ITER(hh, table, k, next) {
        HASH_DEL(table, k);
        free(k);
    }
}

void graph_share(struct graph *g)
{
    struct known *nodes = NULL, *parts = NULL;
    for (uint32_t i = 0; i < g->world; i++) {
        struct graph_rank *r = &g->ranks[i], *other;
        if (r->nnodes && (other = meet(&nodes, r->nodes, r->nnodes * sizeof *r->nodes, r)) && other->nodes != r->nodes) {
            shared_make_nodes(other);
            shared_use_nodes(r, other);
        }
        if (r->nparts && (other = meet(&parts, r->parts, r->nparts * sizeof *r->parts, r)) && other->parts != r->parts) {
            shared_make_parts(other);
            shared_use_parts(r, other);
        }
    }
    forget(nodes);
    forget(parts);
}
