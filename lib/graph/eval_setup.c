/* eval_setup.c - tables that ranks share, made once: shapes, columns, works. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <xxhash.h>

#include "common/array.h"
#include "graph/block_peer.h"
#include "graph/eval_private.h"
#include "graph/share.h"

/* ---- Shapes ---- */

struct counter_key {
    uint32_t comm, feeds;
    int32_t distance;
};

struct counter_entry {
    struct counter_key key;
    uint32_t number;
    UT_hash_handle hh;
};

/* What parts are counted among: collectives of a communicator; sends to, receives from one distance in it. */
static struct counter_key counter_key(const struct graph *g, const struct graph_rank *r, uint32_t comm, const struct graph_part *p)
{
    uint32_t feeds = graph_feeds(p->op);
    struct graph_member m = r->comms[comm];
    if (feeds < GRAPH_FEEDS_SEND)
        return (struct counter_key){comm, GRAPH_FEEDS_ALL, 0};
    return (struct counter_key){comm, feeds, block_relative(p->op, p->peer, m.rank, g->comms[m.global].size)};
}

static void set_counters(const struct graph *g, const struct graph_rank *r, struct eval_shape *s)
{
    struct counter_entry *table = NULL, *c, *next;
    uint32_t cap = 0;
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t k = r->nodes[i].first_part; k < r->nodes[i].first_part + r->nodes[i].nparts; k++) {
            const struct graph_part *p = &r->parts[k];
            struct counter_key key = counter_key(g, r, r->nodes[i].comm, p);
            HASH_FIND(hh, table, &key, sizeof key, c);
            if (!c) {
                c = array_zeros(1, sizeof *c);
                c->key = key;
                c->number = s->ncounters++;
                HASH_ADD(hh, table, key, sizeof c->key, c);
                if (c->number == cap) {
                    cap = cap ? 2 * cap : 16;
                    if (!(s->counters = realloc(s->counters, cap * sizeof *s->counters)))
                        abort();
                }
                s->counters[c->number] = (struct eval_counter){key.comm, key.distance, key.feeds, 0};
            }
            s->parts[k] = (struct eval_part){c->number, s->counters[c->number].n++, p->peer, graph_feeds(p->op)};
        }
    HASH_ITER(hh, table, c, next) {
        HASH_DEL(table, c);
        free(c);
    }
}

static void set_nodes(const struct graph_rank *r, struct eval_shape *s)
{
    for (uint32_t i = 0; i < s->nstreams + s->nhosts; i++)
        s->first[i] = NONE;
    for (uint32_t i = s->nnodes; i-- > 0;) {
        const struct graph_node *n = &r->nodes[i];
        struct eval_node *to = &s->nodes[i];
        uint32_t *host = &s->first[s->nstreams + n->host], *stream = &s->first[n->stream];
        *to = (struct eval_node){NONE, n->dep, n->kind == GRAPH_SYNC ? IS_SYNC : NOT_COMM, 0, n->host, NONE, 0, 0, 0};
        if (s->host_next)
            s->host_next[i] = *host;
        *host = i;
        if (n->dep > s->max_dep)
            s->max_dep = n->dep;
        if (n->kind == GRAPH_SYNC)
            continue;
        to->stream = (uint16_t)n->stream;
        to->next = *stream;
        *stream = i;
        if (n->kind == GRAPH_COMM && n->nparts > s->most_parts[n->stream])
            s->most_parts[n->stream] = n->nparts;
    }
    for (uint32_t i = 0; i < s->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM) {
            s->nodes[i].op = s->nops;
            s->ops[s->nops++] = (struct eval_op){r->nodes[i].first_part, r->nodes[i].nparts, r->nodes[i].comm};
        }
}

static void set_single(const struct eval_shape *s, struct eval_node *n)
{
    if (n->op >= s->nops || s->ops[n->op].nparts != 1)
        return;
    const struct eval_part *p = &s->parts[s->ops[n->op].first_part];
    if (p->feeds == GRAPH_FEEDS_FROM_ROOT || p->feeds == GRAPH_FEEDS_TO_ROOT)
        return;
    n->counter = p->counter;
    n->sequence = p->sequence;
    n->feeds = p->feeds;
    n->part = s->ops[n->op].first_part;
}

static struct eval_shape *make_shape(const struct graph *g, const struct graph_rank *r)
{
    struct eval_shape *s = array_zeros(1, sizeof *s);
    uint32_t nops = 0;
    for (uint32_t i = 0; i < r->nnodes; i++)
        nops += r->nodes[i].kind == GRAPH_COMM;
    s->nnodes = r->nnodes;
    s->nparts = r->nparts;
    s->nstreams = r->nstreams;
    s->nhosts = r->nhosts;
    s->nodes = array_zeros(s->nnodes, sizeof *s->nodes);
    s->host_next = s->nhosts > 1 ? array_zeros(s->nnodes, sizeof *s->host_next) : NULL;
    s->ops = array_zeros(nops, sizeof *s->ops);
    s->parts = array_zeros(s->nparts, sizeof *s->parts);
    s->first = array_zeros(s->nstreams + s->nhosts, sizeof *s->first);
    s->most_parts = array_zeros(s->nstreams, sizeof *s->most_parts);
    set_nodes(r, s);
    set_counters(g, r, s);
    for (uint32_t i = 0; i < s->nnodes; i++)
        set_single(s, &s->nodes[i]);
    return s;
}

static void free_shape(struct eval_shape *s)
{
    free(s->nodes);
    free(s->host_next);
    free(s->ops);
    free(s->parts);
    free(s->counters);
    free(s->first);
    free(s->most_parts);
    free(s);
}

/* ---- Who shares what ---- */

struct kind_id { /* ranks with these have one shape and, if parts are shared, one column */
    const struct graph_node *nodes;
    const struct graph_part *parts;
    uint64_t places; /* hash of sizes of communicators, and of numbers where peers depend on them */
    uint32_t ncomms, nnodes, nparts;
};

struct arrays { /* what of a rank's places its parts depend on */
    struct kind_id id;
    bool *by_place;
    UT_hash_handle hh;
};

struct kind {
    struct kind_id id;
    struct eval_shape *shape;
    uint32_t column;
    UT_hash_handle hh;
};

struct shape_id {
    const struct graph_node *nodes;
    XXH128_hash_t parts; /* operations, roots, distances */
    uint32_t nnodes, nlines;
};

struct shape_entry {
    struct shape_id id;
    struct eval_shape *shape;
    UT_hash_handle hh;
};

struct sharing {
    struct kind *kinds;
    struct arrays *arrays;
    struct shape_entry *shapes;
    uint32_t *words;
    size_t cap;
};

static struct shape_id shape_id(struct sharing *x, const struct graph *g, const struct graph_rank *r)
{
    struct shape_id id;
    memset(&id, 0, sizeof id);
    size_t n = 0;
    if (x->cap < r->nparts) {
        free(x->words);
        x->words = array_zeros(x->cap = r->nparts, 2 * sizeof *x->words);
    }
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t k = r->nodes[i].first_part; k < r->nodes[i].first_part + r->nodes[i].nparts; k++) {
            const struct graph_part *p = &r->parts[k];
            struct graph_member m = r->comms[r->nodes[i].comm];
            x->words[n++] = p->op;
            x->words[n++] = (uint32_t)block_relative(p->op, p->peer, m.rank, g->comms[m.global].size);
        }
    id.nodes = r->nodes;
    id.parts = XXH3_128bits(x->words, n * sizeof *x->words);
    id.nnodes = r->nnodes;
    id.nlines = r->nstreams + r->nhosts * 65537u;
    return id;
}

static struct eval_shape *shape_of(struct graph_eval *e, struct sharing *x, const struct graph_rank *r)
{
    struct shape_id id = shape_id(x, e->graph, r);
    struct shape_entry *s;
    HASH_FIND(hh, x->shapes, &id, sizeof id, s);
    if (s)
        return s->shape;
    s = array_zeros(1, sizeof *s);
    s->id = id;
    s->shape = make_shape(e->graph, r);
    HASH_ADD(hh, x->shapes, id, sizeof s->id, s);
    if (!(e->nshapes & (e->nshapes - 1)) && !(e->shapes = realloc(e->shapes, (2 * e->nshapes + 1) * sizeof *e->shapes)))
        abort();
    e->shapes[e->nshapes++] = s->shape;
    return s->shape;
}

/* ---- Columns ---- */

struct signature {
    XXH128_hash_t hash;
    uint32_t number;
    UT_hash_handle hh;
};

/* Equal groups of a rank have one number: their durations are equal. Too many different ones are not worth it. */
static struct eval_column make_column(const struct eval_shape *s, const struct graph_rank *r)
{
    struct eval_column c = {array_zeros(s->nops, sizeof *c.signature), 0};
    struct signature *table = NULL, *entry, *next;
    struct bytes content = {0};
    for (uint32_t i = 0; i < s->nops; i++) {
        const struct eval_op *op = &s->ops[i];
        bytes_clear(&content);
        bytes_put_u32(&content, op->comm);
        bytes_put(&content, &r->parts[op->first_part], op->nparts * sizeof *r->parts);
        XXH128_hash_t hash = XXH3_128bits(content.data, content.len);
        HASH_FIND(hh, table, &hash, sizeof hash, entry);
        if (!entry) {
            entry = array_zeros(1, sizeof *entry);
            entry->hash = hash;
            entry->number = c.nsignatures++;
            HASH_ADD(hh, table, hash, sizeof entry->hash, entry);
        }
        c.signature[i] = entry->number;
    }
    HASH_ITER(hh, table, entry, next) {
        HASH_DEL(table, entry);
        free(entry);
    }
    bytes_free(&content);
    if (c.nsignatures > s->nops / 2 + 8) {
        free(c.signature);
        c = (struct eval_column){NULL, 0};
    }
    return c;
}

static uint32_t add_column(struct graph_eval *e, const struct eval_shape *s, const struct graph_rank *r)
{
    if (!(e->ncolumns & (e->ncolumns - 1)) &&
        !(e->columns = realloc(e->columns, (2 * e->ncolumns + 1) * sizeof *e->columns)))
        abort();
    e->columns[e->ncolumns] = make_column(s, r);
    return e->ncolumns++;
}

/* id: of the rank, without places. */
static const bool *by_place_of(struct sharing *x, const struct graph_rank *r, const struct kind_id *id)
{
    struct arrays *a;
    HASH_FIND(hh, x->arrays, id, sizeof *id, a);
    if (a)
        return a->by_place;
    a = array_zeros(1, sizeof *a);
    a->id = *id;
    a->by_place = shared_by_place(r);
    HASH_ADD(hh, x->arrays, id, sizeof a->id, a);
    return a->by_place;
}

static const struct kind *kind_of(struct graph_eval *e, struct sharing *x, const struct graph_rank *r)
{
    struct kind *k;
    struct kind_id id;
    memset(&id, 0, sizeof id);
    id.nodes = r->nodes;
    id.parts = r->parts;
    id.ncomms = r->ncomms;
    id.nnodes = r->nnodes;
    id.nparts = r->nparts;
    id.places = shared_hash_places(e->graph, r, by_place_of(x, r, &id));
    HASH_FIND(hh, x->kinds, &id, sizeof id, k);
    if (k)
        return k;
    k = array_zeros(1, sizeof *k);
    k->id = id;
    k->shape = shape_of(e, x, r);
    k->column = add_column(e, k->shape, r);
    HASH_ADD(hh, x->kinds, id, sizeof k->id, k);
    return k;
}

static void free_sharing(struct sharing *x)
{
    struct kind *k, *next_kind;
    struct shape_entry *s, *next_shape;
    struct arrays *a, *next_arrays;
    HASH_ITER(hh, x->arrays, a, next_arrays) {
        HASH_DEL(x->arrays, a);
        free(a->by_place);
        free(a);
    }
    HASH_ITER(hh, x->kinds, k, next_kind) {
        HASH_DEL(x->kinds, k);
        free(k);
    }
    HASH_ITER(hh, x->shapes, s, next_shape) {
        HASH_DEL(x->shapes, s);
        free(s);
    }
    free(x->words);
}

static void set_shapes(struct graph_eval *e)
{
    struct sharing x = {0};
    uint32_t *columns = array_zeros(e->graph->world, sizeof *columns);
    size_t durations = 0, channels = 0;
    for (uint32_t i = 0; i < e->graph->world; i++) {
        struct eval_rank *r = &e->ranks[i];
        r->recorded = &e->graph->ranks[i];
        const struct kind *k = kind_of(e, &x, r->recorded);
        r->shape = k->shape;
        r->nodes = k->shape->nodes;
        columns[i] = k->column;
        durations += e->columns[k->column].nsignatures;
        channels += k->shape->ncounters;
    }
    int64_t *d = e->memory[0] = array_zeros(durations, sizeof *d);
    uint32_t *c = e->memory[1] = array_zeros(channels, sizeof *c);
    for (size_t i = 0; i < durations; i++)
        d[i] = INT64_MIN;
    for (uint32_t i = 0; i < e->graph->world; i++) {
        struct eval_rank *r = &e->ranks[i];
        r->signature = e->columns[columns[i]].signature;
        r->durations = d;
        r->channels = c;
        d += e->columns[columns[i]].nsignatures;
        c += r->shape->ncounters;
    }
    free(columns);
    free_sharing(&x);
}

/* ---- Works ---- */

static void set_works(struct graph_eval *e)
{
    const struct graph *g = e->graph;
    int32_t *representatives = array_zeros(g->nclasses, sizeof *representatives);
    memset(representatives, -1, g->nclasses * sizeof *representatives);
    for (uint32_t i = g->world; i-- > 0;)
        if (g->ranks[i].device_work && g->ranks[i].klass < g->nclasses)
            representatives[g->ranks[i].klass] = (int32_t)i;
    for (uint32_t i = 0; i < g->world; i++) {
        const struct graph_rank *r = &g->ranks[i];
        if (!r->device_work && !r->host_work && r->klass < g->nclasses && representatives[r->klass] >= 0 &&
            g->ranks[representatives[r->klass]].nnodes == r->nnodes)
            r = &g->ranks[representatives[r->klass]];
        e->ranks[i].device_work = r->device_work;
        e->ranks[i].host_work = r->host_work;
    }
    free(representatives);
}

void eval_setup(struct graph_eval *e)
{
    e->ranks = eval_allocate(e->graph->world, sizeof *e->ranks);
    set_shapes(e);
    set_works(e);
}

void eval_teardown(struct graph_eval *e)
{
    for (uint32_t i = 0; e->ranks && i < e->graph->world; i++)
        free(e->ranks[i].grown);
    for (uint32_t i = 0; i < e->nshapes; i++)
        free_shape(e->shapes[i]);
    for (uint32_t i = 0; i < e->ncolumns; i++)
        free(e->columns[i].signature);
    for (uint32_t i = 0; i < e->nchannels; i++)
        if (e->channels[i].ring != e->channels[i].own)
            free(e->channels[i].ring);
    for (size_t i = 0; i < sizeof e->memory / sizeof *e->memory; i++)
        free(e->memory[i]);
    free(e->ranks);
    free(e->lines);
    free(e->waiters);
    free(e->channels);
    free(e->channel_ops);
    free(e->shapes);
    free(e->columns);
    free(e->order);
}
