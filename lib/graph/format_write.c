#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "graph/format.h"
#include "graph/graph.h"

struct output {
    struct bytes *out;
    ZSTD_CCtx *zstd;
    struct bytes block;
    uint64_t raw;
};

static void compress(struct output *o, const void *data, size_t len, ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {data, len, 0};
    size_t left;
    do {
        size_t room = ZSTD_CStreamOutSize();
        ZSTD_outBuffer to = {bytes_reserve(o->out, room), room, 0};
        left = ZSTD_compressStream2(o->zstd, &to, &in, end);
        if (ZSTD_isError(left)) /* only for want of memory */
            abort();
        o->out->len += to.pos;
    } while (end == ZSTD_e_end ? left > 0 : in.pos < in.size);
    o->raw += len;
}

/* Length and bytes of the block; it is empty again afterwards. */
static void put_block(struct output *o)
{
    struct bytes length = {0};
    bytes_put_u64(&length, o->block.len);
    compress(o, length.data, length.len, ZSTD_e_continue);
    compress(o, o->block.data, o->block.len, ZSTD_e_continue);
    bytes_free(&length);
    bytes_clear(&o->block);
}

static void put_comms(struct bytes *b, const struct graph *g)
{
    for (uint32_t i = 0; i < g->ncomms; i++) {
        bytes_put_u32(b, g->comms[i].size);
        for (uint32_t m = 0; m < g->comms[i].size; m++)
            bytes_put_u32(b, (uint32_t)g->comms[i].ranks[m]);
    }
}

#define COLUMN(bits, list, n, value)                                                                         \
    for (uint32_t i = 0; i < (n); i++)                                                                       \
    bytes_put_u##bits(b, (list)[i].value)

/* Ordinals count on, so what is kept is how far they are off: zeroes. */
static void put_ordinals(struct bytes *b, const struct graph_rank *r)
{
    uint32_t *next = calloc(r->ncomms ? r->ncomms : 1, sizeof *next);
    if (!next)
        abort();
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        bool counted = n->kind == GRAPH_COMM && n->comm < r->ncomms;
        bytes_put_u32(b, n->ordinal - (counted ? next[n->comm]++ : 0));
    }
    free(next);
}

static void put_works(struct bytes *b, const float *works, uint32_t n)
{
    for (uint32_t i = 0; works && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &works[i], sizeof bits);
        bytes_put_u32(b, bits);
    }
}

static void put_rank(struct bytes *b, const struct graph_rank *r)
{
    bytes_put_u32(b, r->nnodes);
    bytes_put_u32(b, r->nparts);
    bytes_put_u32(b, r->ncomms);
    bytes_put_u32(b, r->nstreams);
    bytes_put_u32(b, r->nhosts);
    bytes_put_u32(b, r->klass);
    bytes_put_u32(b, r->niterations);
    bytes_put_u8(b, (uint8_t)((r->device_work ? GRAPH_HAS_DEVICE_WORK : 0) |
                              (r->host_work ? GRAPH_HAS_HOST_WORK : 0)));
    for (uint32_t i = 0; i < r->ncomms; i++) {
        bytes_put_u32(b, (uint32_t)r->comms[i].global);
        bytes_put_u32(b, (uint32_t)r->comms[i].rank);
    }
    COLUMN(8, r->nodes, r->nnodes, kind);
    COLUMN(16, r->nodes, r->nnodes, host);
    COLUMN(32, r->nodes, r->nnodes, stream);
    COLUMN(32, r->nodes, r->nnodes, dep);
    COLUMN(32, r->nodes, r->nnodes, comm);
    put_ordinals(b, r);
    COLUMN(32, r->nodes, r->nnodes, nparts);
    COLUMN(8, r->parts, r->nparts, op);
    COLUMN(8, r->parts, r->nparts, datatype);
    COLUMN(8, r->parts, r->nparts, redop);
    for (uint32_t i = 0; i < r->nparts; i++)
        bytes_put_u32(b, (uint32_t)r->parts[i].peer);
    COLUMN(64, r->parts, r->nparts, count);
    for (uint32_t i = 0; r->niterations && i <= r->niterations; i++)
        bytes_put_u32(b, r->iterations[i]);
    put_works(b, r->device_work, r->nnodes);
    put_works(b, r->host_work, r->nnodes);
}

void graph_write(const struct graph *g, struct bytes *out)
{
    struct output o = {.out = out, .zstd = ZSTD_createCCtx()};
    if (!o.zstd)
        abort();
    ZSTD_CCtx_setParameter(o.zstd, ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(o.zstd, ZSTD_c_windowLog, GRAPH_WINDOW_LOG);
    ZSTD_CCtx_setParameter(o.zstd, ZSTD_c_enableLongDistanceMatching, 1);
    bytes_clear(out);
    bytes_put(out, GRAPH_MAGIC, 8);
    bytes_put_u32(out, GRAPH_VERSION);
    bytes_put_u32(out, g->world);
    bytes_put_u32(out, g->gpus_per_node);
    bytes_put_u32(out, g->ncomms);
    bytes_put_u32(out, g->nclasses);
    bytes_put_u32(out, 0);
    bytes_put_u64(out, 0); /* raw bytes, below */
    put_comms(&o.block, g);
    put_block(&o);
    for (uint32_t i = 0; i < g->world; i++) {
        put_rank(&o.block, &g->ranks[i]);
        put_block(&o);
    }
    compress(&o, NULL, 0, ZSTD_e_end);
    struct bytes raw = {0};
    bytes_put_u64(&raw, o.raw);
    memcpy(out->data + GRAPH_HEADER - 8, raw.data, 8);
    bytes_free(&raw);
    bytes_put_u64(out, XXH64(out->data, out->len, 0));
    bytes_free(&o.block);
    ZSTD_freeCCtx(o.zstd);
}
