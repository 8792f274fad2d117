/* plain_graph FILE OUT - graph.bin with its contents uncompressed, which only readers built for fuzzing take: a fuzzer cannot
 * change what is inside a zstd frame. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/file.h"
#include "graph/format.h"

/* Version 1: the header says how long the one frame's contents are. */
static void plain_v1(const struct bytes *in, struct bytes *out)
{
    struct bytes_reader r = bytes_reader_init(in->data, in->len);
    bytes_get(&r, GRAPH_V1_HEADER - 8);
    uint64_t raw = bytes_get_u64(&r);
    bytes_put(out, in->data, GRAPH_V1_HEADER);
    size_t n = ZSTD_decompress(bytes_reserve(out, raw), raw, in->data + GRAPH_V1_HEADER, in->len - GRAPH_V1_HEADER - 8);
    out->len += ZSTD_isError(n) ? 0 : n;
    bytes_put_u64(out, XXH64(out->data, out->len, 0));
}

static void put_chunk(struct bytes *out, struct chunk *c, const struct bytes *raw)
{
    c->stored = c->raw;
    chunk_put(out, c, raw->data);
}

static void plain_v2(const struct bytes *in, struct bytes *out)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    struct bytes raw = {0};
    struct chunk c;
    bytes_put(out, in->data, FILE_HEADER);
    uint64_t at = FILE_HEADER;
    for (; chunk_at(in->data, in->len, at, &c) && !chunk_contents(zstd, in->data, &c, &raw);
         at += CHUNK_HEAD + (uint64_t)c.stored) {
        struct chunk plain = c;
        if (c.type == CHUNK_INDEX)
            break;
        put_chunk(out, &plain, &raw);
    }
    /* The index again, with the new places. */
    uint64_t place = FILE_HEADER, index = out->len;
    for (size_t entry = 16; entry + CHUNK_ENTRY <= raw.len; entry += CHUNK_ENTRY) {
        uint32_t bytes;
        memcpy(&bytes, raw.data + entry + 16, 4);
        memcpy(raw.data + entry + 12, &bytes, 4);
        memcpy(raw.data + entry + 24, &place, 8);
        place += CHUNK_HEAD + (uint64_t)bytes;
    }
    c.key = chunk_key_of(raw.data, raw.len);
    put_chunk(out, &c, &raw);
    size_t trailer = out->len;
    bytes_put(out, FILE_END, 8);
    bytes_put_u64(out, index);
    bytes_put_u64(out, trailer + FILE_TRAILER);
    bytes_put_u64(out, XXH64(out->data + trailer, 24, 0));
    bytes_free(&raw);
    ZSTD_freeDCtx(zstd);
}

int main(int argc, char **argv)
{
    struct prism_error err = {0};
    struct bytes in = {0}, out = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: plain_graph FILE OUT\n");
        return 64;
    }
    if (file_read(argv[1], 64u << 20, &in, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 65;
    }
    if (in.len < GRAPH_V1_HEADER + 8 || memcmp(in.data, GRAPH_MAGIC, 8)) {
        fprintf(stderr, "%s is no graph\n", argv[1]);
        return 65;
    }
    if (in.data[8] == 1)
        plain_v1(&in, &out);
    else
        plain_v2(&in, &out);
    int rc = file_write_atomic(argv[2], out.data, out.len, 0644, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    bytes_free(&in);
    bytes_free(&out);
    return rc ? 71 : 0;
}
