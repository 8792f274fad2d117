/* eval_setup.c - tables made once: shapes, columns, channels, lines. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <xxhash.h>

#include "common/array.h"
#include "graph/block_peer.h"
#include "graph/eval_private.h"
#include "graph/share.h"

/* The same on the borders of cache lines, whose multiple size is. */
static void *allocate_lines(size_t n, size_t size)
{
    void *p = aligned_alloc(64, (n ? n : 1) * size);
    if (!p)
        abort();
    return memset(p, 0, (n ? n : 1) * size);
}

/* ---- Slots: set-up, iterations, teardown ---- */

uint32_t eval_slot_of(const struct graph_rank *r, uint32_t n, uint32_t *end)
{
    if (!r->niterations) {
        *end = NONE;
        return 1;
    }
    if (n < r->iterations[0]) {
        *end = r->iterations[0];
        return 0;
    }
    if (n >= r->iterations[r->niterations]) {
        *end = NONE;
        return r->niterations + 1;
    }
    uint32_t low = 0, high = r->niterations; /* iterations[low] <= n < iterations[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (r->iterations[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    *end = r->iterations[high];
    return low + 1;
}

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

/* ---- Lines ---- */

static void set_line(struct graph_eval *e, struct eval_rank *r, uint32_t rank, uint32_t i, uint32_t *waiters)
{
    struct eval_line *l = &e->lines[r->first_line + i];
    l->rank = rank;
    l->is_host = i >= r->shape->nstreams;
    l->next = l->waiters = NONE;
    l->n = r->shape->first[i];
    l->state = l->n == NONE ? EVAL_ENDED : EVAL_IDLE;
    l->waiter = *waiters;
    if (l->is_host)
        return;
    for (uint32_t k = 0; k < r->shape->most_parts[i]; k++)
        e->waiters[(*waiters)++].line = r->first_line + i;
    if (l->n == NONE)
        return;
    l->slot = eval_slot_of(r->recorded, l->n, &l->slot_end);
    r->open_streams++;
}

static void set_lines(struct graph_eval *e)
{
    size_t slots = 0, waiters = 0;
    uint32_t next_waiter = 0;
    for (uint32_t i = 0; i < e->graph->world; i++) {
        struct eval_rank *r = &e->ranks[i];
        r->first_line = e->nlines;
        r->first_host = r->first_line + r->shape->nstreams;
        r->max_dep = r->shape->max_dep;
        r->nnodes = r->shape->nnodes;
        e->nlines += r->shape->nstreams + r->shape->nhosts;
        slots += (r->recorded->niterations ? r->recorded->niterations : 1u) + 2u;
        for (uint32_t s = 0; s < r->shape->nstreams; s++)
            waiters += r->shape->most_parts[s];
    }
    e->lines = allocate_lines(e->nlines, sizeof *e->lines);
    e->waiters = array_zeros(waiters, sizeof *e->waiters);
    int64_t *slot = e->memory[2] = array_zeros(slots, sizeof *slot);
    for (size_t i = 0; i < slots; i++)
        slot[i] = INT64_MIN;
    for (uint32_t i = 0; i < e->graph->world; i++) {
        struct eval_rank *r = &e->ranks[i];
        uint64_t size = 32;
        while (size < 2 * ((uint64_t)r->shape->max_dep + 8))
            size *= 2;
        r->time = array_zeros(size, sizeof *r->time);
        r->mask = (uint32_t)(size - 1);
        r->slots = slot;
        slot += (r->recorded->niterations ? r->recorded->niterations : 1u) + 2u;
        for (uint32_t k = 0; k < r->shape->nstreams + r->shape->nhosts; k++)
            set_line(e, r, i, k, &next_waiter);
    }
}

/* of: struct graph_eval_options, keep_of. */
static void set_times(struct graph_eval *e, const uint8_t *of)
{
    size_t nodes = 0;
    for (uint32_t i = 0; i < e->graph->world; i++)
        nodes += of && !of[i] ? 0 : e->graph->ranks[i].nnodes;
    struct graph_times *times = e->memory[3] = malloc((nodes + 1) * sizeof *times);
    if (!times)
        abort();
    for (size_t i = 0; i < nodes; i++)
        times[i] = (struct graph_times){INT64_MIN, INT64_MIN};
    for (uint32_t i = 0; i < e->graph->world; i++) {
        if (of && !of[i])
            continue;
        e->ranks[i].times = times;
        times += e->graph->ranks[i].nnodes;
    }
}

static void set_log(struct graph_eval *e)
{
    size_t events = 0;
    for (uint32_t i = 0; i < e->graph->world; i++)
        events += e->ranks[i].shape->nnodes + e->ranks[i].shape->nops;
    e->threads[0].log = e->memory[4] = array_zeros(events, sizeof *e->threads[0].log);
}

_Static_assert(sizeof(struct eval_line) == 64 && sizeof(struct eval_rank) == 128, "cache lines");

void eval_setup(struct graph_eval *e, const struct graph_eval_options *options)
{
    e->ranks = allocate_lines(e->graph->world, sizeof *e->ranks);
    set_shapes(e);
    set_works(e);
    set_lines(e);
    if (options->keep_times || options->keep_slack)
        set_times(e, options->keep_slack ? NULL : options->keep_of);
    if (options->keep_slack)
        set_log(e);
}

void eval_teardown(struct graph_eval *e)
{
    for (uint32_t i = 0; e->ranks && i < e->graph->world; i++)
        free(e->ranks[i].time);
    for (uint32_t i = 0; i < e->nshapes; i++)
        free_shape(e->shapes[i]);
    for (uint32_t i = 0; i < e->ncolumns; i++)
        free(e->columns[i].signature);
    for (uint32_t i = 0; i < e->nchannels; i++)
        free(e->channels[i].ring);
    for (size_t i = 0; i < sizeof e->memory / sizeof *e->memory; i++)
        free(e->memory[i]);
    free(e->ranks);
    free(e->lines);
    free(e->waiters);
    free(e->channels);
    free(e->shapes);
    free(e->columns);
    free(e->order);
}
