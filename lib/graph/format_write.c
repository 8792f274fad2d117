/* format_write.c - a graph as chunks, each content once. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <zstd.h>

#include "common/check.h"
#include "graph/file_private.h"
#include "graph/share.h"

#define LEVEL 3

struct written { /* contents that are in the file */
    struct {
        uint32_t type;
        struct chunk_key key;
    } id;
    UT_hash_handle hh;
};

struct arrays { /* what of a rank's places its parts depend on */
    struct {
        const struct graph_node *nodes;
        const struct graph_part *parts;
        uint32_t ncomms, nnodes;
    } id;
    bool *by_place;
    UT_hash_handle hh;
};

struct program { /* ranks with these arrays, and these places in their communicators, have this program */
    struct {
        const struct graph_node *nodes;
        const struct graph_part *parts;
        uint64_t places; /* hash */
        uint32_t ncomms, nnodes, niterations;
    } id;
    struct chunk_key program, counts;
    UT_hash_handle hh;
};

struct output {
    const struct graph *g;
    struct bytes *out;
    bool at_sends;    /* blocks end where passes do, too */
    uint32_t nblocks; /* distinct */
    ZSTD_CCtx *zstd;
    struct bytes raw, list, frame;
    struct chunks chunks;
    struct written *written;
    struct program *programs;
    struct arrays *arrays;
    uint32_t *next; /* ordinals, by communicator of the rank at hand */
    uint32_t nnext;
};

static bool is_new(struct output *o, uint32_t type, const struct chunk_key *key)
{
    struct written *w, id;
    memset(&id, 0, sizeof id);
    id.id.type = type;
    id.id.key = *key;
    HASH_FIND(hh, o->written, &id.id, sizeof id.id, w);
    if (w)
        return false;
    w = check(calloc(1, sizeof *w));
    w->id = id.id;
    HASH_ADD(hh, o->written, id, sizeof w->id, w);
    return true;
}

/* raw becomes a chunk, unless its contents are there already; it is empty again afterwards. */
static struct chunk_key put(struct output *o, struct bytes *raw, uint32_t type, uint32_t first, uint32_t n)
{
    struct chunk c = {.type = type, .first = first, .n = n, .raw = (uint32_t)raw->len, .key = chunk_key_of(raw->data, raw->len)};
    if (raw->len > CHUNK_RAW_MAX) /* 100 million operations of one rank */
        abort();
    if (n || is_new(o, type, &c.key)) {
        size_t bound = ZSTD_compressBound(raw->len);
        bytes_clear(&o->frame);
        size_t stored = ZSTD_compressCCtx(o->zstd, bytes_reserve(&o->frame, bound), bound, raw->data, raw->len, LEVEL);
        if (ZSTD_isError(stored)) /* only for want of memory */
            abort();
        c.stored = (uint32_t)stored;
        chunk_put(o->out, &c, o->frame.data);
        o->nblocks += type == CHUNK_BLOCK;
        chunks_add(&o->chunks, &c);
    }
    bytes_clear(raw);
    return c.key;
}

/* ---- Structure and counts ---- */

static void clear_next(struct output *o, uint32_t ncomms)
{
    if (ncomms > o->nnext) {
        o->next = check(realloc(o->next, ncomms * sizeof *o->next));
        o->nnext = ncomms;
    }
    if (ncomms)
        memset(o->next, 0, ncomms * sizeof *o->next);
}

static struct chunk_key put_program(struct output *o, const struct graph_rank *r)
{
    uint32_t nblocks = 0, nparts = 0;
    bytes_clear(&o->list);
    clear_next(o, r->ncomms);
    for (uint32_t from = 0, to; from < r->nnodes; from = to, nblocks++) {
        to = block_end(r, from, o->at_sends);
        block_put(&o->raw, o->g, r, from, to, o->next);
        struct chunk_key key = put(o, &o->raw, CHUNK_BLOCK, 0, 0);
        bytes_put(&o->list, key.bytes, sizeof key.bytes);
    }
    for (uint32_t i = 0; i < r->nnodes; i++)
        nparts += r->nodes[i].nparts;
    bytes_put_u32(&o->raw, r->nnodes);
    bytes_put_u32(&o->raw, nparts);
    bytes_put_u32(&o->raw, nblocks);
    bytes_put(&o->raw, o->list.data, o->list.len);
    return put(o, &o->raw, CHUNK_PROGRAM, 0, 0);
}

/* Numbers of the smallest width that holds them all. */
static struct chunk_key put_counts(struct output *o, const struct graph_rank *r)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t p = 0; p < r->nodes[i].nparts; p++)
            all |= r->parts[r->nodes[i].first_part + p].count;
    uint8_t width = all >> 32 ? 8 : all >> 16 ? 4 : 2;
    bytes_put_u8(&o->raw, width);
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t p = 0; p < r->nodes[i].nparts; p++) {
            uint64_t count = r->parts[r->nodes[i].first_part + p].count;
            if (width == 8)
                bytes_put_u64(&o->raw, count);
            else if (width == 4)
                bytes_put_u32(&o->raw, (uint32_t)count);
            else
                bytes_put_u16(&o->raw, (uint16_t)count);
        }
    return put(o, &o->raw, CHUNK_COUNTS, 0, 0);
}

static const bool *by_place_of(struct output *o, const struct graph_rank *r)
{
    struct arrays *a, key;
    memset(&key, 0, sizeof key);
    key.id.nodes = r->nodes;
    key.id.parts = r->parts;
    key.id.ncomms = r->ncomms;
    key.id.nnodes = r->nnodes;
    HASH_FIND(hh, o->arrays, &key.id, sizeof key.id, a);
    if (a)
        return a->by_place;
    a = check(calloc(1, sizeof *a));
    a->id = key.id;
    a->by_place = shared_by_place(r);
    HASH_ADD(hh, o->arrays, id, sizeof a->id, a);
    return a->by_place;
}

/* Ranks that share their arrays are looked at once. */
static const struct program *program_of(struct output *o, const struct graph_rank *r)
{
    struct program *p, key;
    memset(&key, 0, sizeof key);
    key.id.nodes = r->nodes;
    key.id.parts = r->parts;
    key.id.places = shared_hash_places(o->g, r, by_place_of(o, r));
    key.id.ncomms = r->ncomms;
    key.id.nnodes = r->nnodes;
    key.id.niterations = r->niterations;
    HASH_FIND(hh, o->programs, &key.id, sizeof key.id, p);
    if (p)
        return p;
    p = check(calloc(1, sizeof *p));
    p->id = key.id;
    p->program = put_program(o, r);
    p->counts = put_counts(o, r);
    HASH_ADD(hh, o->programs, id, sizeof p->id, p);
    return p;
}

/* ---- Tables ---- */

static void put_comms(struct output *o)
{
    const struct graph *g = o->g;
    for (uint32_t first = 0; first < g->ncomms; first += CHUNK_COMMS_N) {
        uint32_t n = g->ncomms - first < CHUNK_COMMS_N ? g->ncomms - first : CHUNK_COMMS_N;
        bytes_put_u32(&o->raw, first);
        bytes_put_u32(&o->raw, n);
        for (uint32_t i = first; i < first + n; i++)
            bytes_put_u32(&o->raw, g->comms[i].size);
        for (uint32_t i = first; i < first + n; i++)
            for (uint32_t m = 0; m < g->comms[i].size; m++)
                bytes_put_u32(&o->raw, (uint32_t)g->comms[i].ranks[m]);
        put(o, &o->raw, CHUNK_COMMS, first, n);
    }
}

/* What a rank is made of; none: it has no nodes. */
struct rank_keys {
    struct chunk_key program, counts;
};

#define EACH(body)                                                                                           \
    for (uint32_t i = first; i < first + n; i++) {                                                           \
        const struct graph_rank *r = &ranks[i];                                                              \
        body;                                                                                                \
    }

/* Ranks [first, first + n) as a chunk of RANKS holds them; keys[0] is that of rank first. */
static void put_records(struct bytes *b, const struct graph_rank *ranks, const struct rank_keys *keys, uint32_t first, uint32_t n)
{
    bytes_put_u32(b, first);
    bytes_put_u32(b, n);
    EACH(bytes_put_u32(b, r->klass))
    EACH(bytes_put_u32(b, r->ncomms))
    EACH(bytes_put_u32(b, r->niterations))
    EACH(bytes_put_u32(b, r->nstreams))
    EACH(bytes_put_u32(b, r->nhosts))
    for (uint32_t i = 0; i < n; i++) {
        bytes_put(b, keys[i].program.bytes, sizeof keys[i].program.bytes);
        bytes_put(b, keys[i].counts.bytes, sizeof keys[i].counts.bytes);
    }
    EACH(for (uint32_t c = 0; c < r->ncomms; c++) bytes_put_u32(b, (uint32_t)r->comms[c].global))
    EACH(for (uint32_t c = 0; c < r->ncomms; c++) bytes_put_u32(b, (uint32_t)r->comms[c].rank))
    EACH(for (uint32_t k = 0; r->niterations && k <= r->niterations; k++) bytes_put_u32(b, r->iterations[k]))
}

static void put_ranks(struct output *o, uint32_t first, uint32_t n)
{
    struct rank_keys keys[CHUNK_RANKS_N];
    memset(keys, 0, sizeof keys);
    for (uint32_t i = 0; i < n; i++) {
        const struct graph_rank *r = &o->g->ranks[first + i];
        const struct program *p = r->nnodes ? program_of(o, r) : NULL;
        if (p)
            keys[i] = (struct rank_keys){p->program, p->counts};
    }
    put_records(&o->raw, o->g->ranks, keys, first, n);
    put(o, &o->raw, CHUNK_RANKS, first, n);
}

static struct chunk_key put_works(struct output *o, const float *works, uint32_t n)
{
    struct chunk_key none = {{0}};
    if (!works)
        return none;
    bytes_put_u32(&o->raw, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &works[i], sizeof bits);
        bytes_put_u32(&o->raw, bits);
    }
    return put(o, &o->raw, CHUNK_WORKS, 0, 0);
}

/* Timing stands apart: a chunk that says which works are whose. */
static void put_times(struct output *o)
{
    uint32_t n = 0;
    struct bytes b = {0};
    for (uint32_t i = 0; i < o->g->world; i++) {
        const struct graph_rank *r = &o->g->ranks[i];
        if (!r->device_work && !r->host_work)
            continue;
        struct chunk_key device = put_works(o, r->device_work, r->nnodes), host = put_works(o, r->host_work, r->nnodes);
        bytes_put_u32(&b, i);
        bytes_put(&b, device.bytes, sizeof device.bytes);
        bytes_put(&b, host.bytes, sizeof host.bytes);
        n++;
    }
    if (n)
        put(o, &b, CHUNK_TIMES, 0, n);
    bytes_free(&b);
}

static void free_tables(struct output *o)
{
    struct written *w, *next_written;
    struct program *p, *next_program;
    struct arrays *a, *next_arrays;
    HASH_ITER(hh, o->arrays, a, next_arrays) {
        HASH_DEL(o->arrays, a);
        free(a->by_place);
        free(a);
    }
    HASH_ITER(hh, o->written, w, next_written) {
        HASH_DEL(o->written, w);
        free(w);
    }
    HASH_ITER(hh, o->programs, p, next_program) {
        HASH_DEL(o->programs, p);
        free(p);
    }
}

/* Returns how many blocks there are. */
static uint32_t write_cut(const struct graph *g, bool at_sends, struct bytes *out)
{
    struct output o = {.g = g, .out = out, .at_sends = at_sends, .zstd = check(ZSTD_createCCtx())};
    struct file_facts facts = {g->world, g->gpus_per_node, g->ncomms, g->nclasses};
    bytes_clear(out);
    chunk_put_file_header(out, &facts);
    put_comms(&o);
    for (uint32_t first = 0; first < g->world; first += CHUNK_RANKS_N)
        put_ranks(&o, first, g->world - first < CHUNK_RANKS_N ? g->world - first : CHUNK_RANKS_N);
    put_times(&o);
    chunk_put_end(out, &o.chunks, &facts);
    free_tables(&o);
    bytes_free(&o.raw);
    bytes_free(&o.list);
    bytes_free(&o.frame);
    free(o.chunks.list);
    free(o.next);
    ZSTD_freeCCtx(o.zstd);
    return o.nblocks;
}

/* Blocks of passes are shared by micro-batches and stages where these do the same, and are many where every one has distances of its own:
 * then blocks of iterations are fewer. */
void graph_write(const struct graph *g, struct bytes *out)
{
    struct bytes whole = {0};
    uint32_t passes = write_cut(g, true, out), iterations = write_cut(g, false, &whole);
    if (iterations < passes && whole.len <= out->len) {
        struct bytes swap = *out;
        *out = whole;
        whole = swap;
    }
    bytes_free(&whole);
}
