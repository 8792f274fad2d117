/* format_read_v1.c - graph.bin of version 1 (docs/formats/graph.md). */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "graph/format.h"
#include "graph/graph.h"
#include "graph/validate.h"

struct input {
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer in;
    uint64_t left; /* raw bytes that may still come */
    bool plain;    /* not compressed: for fuzzers */
    struct bytes block;
};

/* Arrays of a graph have room for the next power of two, as graph_add_* expect. */
static void *array(uint32_t n, size_t size)
{
    uint64_t cap = 1;
    while (cap < n)
        cap *= 2;
    void *p = calloc(cap, size);
    if (!p)
        abort();
    return p;
}

/* The next n raw bytes into the block. Memory grows with what really comes. */
static int pull(struct input *in, uint64_t n)
{
    bytes_clear(&in->block);
    if (n > in->left)
        return -1;
    in->left -= n;
    if (in->plain) {
        if (n > in->in.size - in->in.pos)
            return -1;
        bytes_put(&in->block, (const char *)in->in.src + in->in.pos, n);
        in->in.pos += n;
        return 0;
    }
    while (in->block.len < n) {
        uint64_t room = n - in->block.len < (1u << 20) ? n - in->block.len : 1u << 20;
        ZSTD_outBuffer out = {bytes_reserve(&in->block, room), room, 0};
        size_t rc = ZSTD_decompressStream(in->zstd, &out, &in->in);
        in->block.len += out.pos;
        if (ZSTD_isError(rc) || (!out.pos && in->in.pos == in->in.size))
            return -1;
    }
    return 0;
}

static int next_block(struct input *in, struct bytes_reader *r)
{
    if (pull(in, 8))
        return -1;
    struct bytes_reader length = bytes_reader_init(in->block.data, 8);
    if (pull(in, bytes_get_u64(&length)))
        return -1;
    *r = bytes_reader_init(in->block.data, in->block.len);
    return 0;
}

static bool has(const struct bytes_reader *r, uint64_t n)
{
    return !r->bad && n <= r->len - r->pos;
}

static int get_comms(struct bytes_reader *r, struct graph *g, uint32_t ncomms)
{
    if (!has(r, 4 * (uint64_t)ncomms))
        return -1;
    g->comms = array(ncomms, sizeof *g->comms);
    for (; g->ncomms < ncomms; g->ncomms++) {
        struct graph_comm *c = &g->comms[g->ncomms];
        uint32_t size = bytes_get_u32(r);
        if (!has(r, 4 * (uint64_t)size))
            return -1;
        c->ranks = array(size, sizeof *c->ranks);
        c->size = size;
        for (uint32_t i = 0; i < size; i++)
            c->ranks[i] = (int32_t)bytes_get_u32(r);
    }
    return r->bad || r->pos != r->len ? -1 : 0;
}

#define COLUMN(bits, list, n, value)                                                                         \
    for (uint32_t i = 0; i < (n); i++)                                                                       \
    (list)[i].value = bytes_get_u##bits(b)

static void get_nodes(struct bytes_reader *b, struct graph_rank *r)
{
    COLUMN(8, r->nodes, r->nnodes, kind);
    COLUMN(16, r->nodes, r->nnodes, host);
    COLUMN(32, r->nodes, r->nnodes, stream);
    COLUMN(32, r->nodes, r->nnodes, dep);
    COLUMN(32, r->nodes, r->nnodes, comm);
    COLUMN(32, r->nodes, r->nnodes, ordinal);
    COLUMN(32, r->nodes, r->nnodes, nparts);
    uint32_t *next = array(r->ncomms, sizeof *next), first = 0;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        struct graph_node *n = &r->nodes[i];
        n->first_part = first;
        first += n->nparts; /* may wrap in a damaged file; graph_validate finds parts outside */
        if (n->kind == GRAPH_COMM && n->comm < r->ncomms)
            n->ordinal += next[n->comm]++;
    }
    free(next);
}

static void get_parts(struct bytes_reader *b, struct graph_rank *r)
{
    COLUMN(8, r->parts, r->nparts, op);
    COLUMN(8, r->parts, r->nparts, datatype);
    COLUMN(8, r->parts, r->nparts, redop);
    for (uint32_t i = 0; i < r->nparts; i++)
        r->parts[i].peer = (int32_t)bytes_get_u32(b);
    COLUMN(64, r->parts, r->nparts, count);
}

static float *get_works(struct bytes_reader *b, uint32_t n)
{
    float *works = array(n, sizeof *works);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = bytes_get_u32(b);
        memcpy(&works[i], &bits, sizeof bits);
    }
    return works;
}

static int get_rank(struct bytes_reader *b, struct graph_rank *r)
{
    uint32_t nnodes = bytes_get_u32(b), nparts = bytes_get_u32(b), ncomms = bytes_get_u32(b);
    uint32_t nstreams = bytes_get_u32(b), nhosts = bytes_get_u32(b), klass = bytes_get_u32(b);
    uint32_t niterations = bytes_get_u32(b);
    uint8_t works = bytes_get_u8(b);
    uint64_t need =
        8 * (uint64_t)ncomms + GRAPH_NODE_BYTES * (uint64_t)nnodes + GRAPH_PART_BYTES * (uint64_t)nparts +
        (niterations ? 4 * ((uint64_t)niterations + 1) : 0) +
        4 * (uint64_t)nnodes * ((works & GRAPH_HAS_DEVICE_WORK) + (works & GRAPH_HAS_HOST_WORK) / 2);
    if (b->bad || need != b->len - b->pos || nstreams > GRAPH_STREAMS_MAX || nhosts > UINT16_MAX + 1u ||
        works > 3 || ncomms > GRAPH_COMMS_MAX)
        return -1;
    *r = (struct graph_rank){.nnodes = nnodes,
                             .nparts = nparts,
                             .ncomms = ncomms,
                             .nstreams = nstreams,
                             .nhosts = nhosts,
                             .klass = klass};
    r->comms = array(ncomms, sizeof *r->comms);
    r->nodes = array(nnodes, sizeof *r->nodes);
    r->parts = array(nparts, sizeof *r->parts);
    for (uint32_t i = 0; i < ncomms; i++) {
        r->comms[i].global = (int32_t)bytes_get_u32(b);
        r->comms[i].rank = (int32_t)bytes_get_u32(b);
    }
    get_nodes(b, r);
    get_parts(b, r);
    if (niterations) {
        r->iterations = array(niterations + 1, sizeof *r->iterations);
        r->niterations = niterations;
        for (uint32_t i = 0; i <= niterations; i++)
            r->iterations[i] = bytes_get_u32(b);
    }
    if (works & GRAPH_HAS_DEVICE_WORK)
        r->device_work = get_works(b, nnodes);
    if (works & GRAPH_HAS_HOST_WORK)
        r->host_work = get_works(b, nnodes);
    return b->bad ? -1 : 0;
}

static int get_body(struct input *in, struct graph *g, uint32_t ncomms)
{
    struct bytes_reader block;
    if (next_block(in, &block) || get_comms(&block, g, ncomms))
        return -1;
    for (uint32_t i = 0; i < g->world; i++)
        if (next_block(in, &block) || get_rank(&block, &g->ranks[i]))
            return -1;
    return in->left ? -1 : 0;
}

static struct graph *refuse(struct prism_error *err, const char *what)
{
    prism_error_set(err, PRISM_EXIT_TRACE, "graph.bin is damaged (%s); capture again, or name another trace",
                    what);
    return NULL;
}

struct graph *graph_read_v1(const void *data, size_t len, struct prism_error *err)
{
    if (len < GRAPH_V1_HEADER + 8)
        return refuse(err, "too short");
    struct bytes_reader r = bytes_reader_init(data, len),
                        tail = bytes_reader_init((const char *)data + len - 8, 8);
    bytes_get(&r, 12); /* magic, version */
    if (!FORMAT_HOLDS(bytes_get_u64(&tail) == XXH64(data, len - 8, 0)))
        return refuse(err, "checksum");
    uint32_t world = bytes_get_u32(&r), gpus_per_node = bytes_get_u32(&r), ncomms = bytes_get_u32(&r);
    uint32_t nclasses = bytes_get_u32(&r);
    bytes_get_u32(&r);
    uint64_t raw = bytes_get_u64(&r);
    if (world > GRAPH_WORLD_MAX || nclasses > world || raw < (uint64_t)world * (8 + GRAPH_V1_RANK_FIXED))
        return refuse(err, "sizes");
    struct graph *g = graph_create(world, gpus_per_node);
    g->nclasses = nclasses;
    struct input in = {.zstd = ZSTD_createDCtx(),
                       .in = {(const char *)data + GRAPH_V1_HEADER, len - GRAPH_V1_HEADER - 8, 0},
                       .left = raw};
    if (!in.zstd)
        abort();
    in.plain = FORMAT_MAY_BE_RAW && raw == in.in.size;
    int rc = get_body(&in, g, ncomms);
    ZSTD_freeDCtx(in.zstd);
    bytes_free(&in.block);
    struct prism_error cause = {0};
    if (!rc && !graph_validate(g, &cause))
        return g;
    graph_destroy(g);
    return refuse(err, rc ? "contents" : cause.text);
}
