/* chunk.c - the frame of the file: header, chunks with their checksums, index, trailer. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "graph/format.h"

struct chunk_key chunk_key_of(const void *data, size_t len)
{
    XXH128_canonical_t canonical;
    struct chunk_key key;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, len));
    memcpy(key.bytes, canonical.digest, sizeof key.bytes);
    return key;
}

static void put_sum(struct bytes *out, size_t from)
{
    bytes_put_u64(out, XXH64(out->data + from, out->len - from, 0));
}

static bool sum_holds(const uint8_t *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data + len, 8);
    return FORMAT_HOLDS(bytes_get_u64(&r) == XXH64(data, len, 0));
}

void chunk_put_file_header(struct bytes *out, const struct file_facts *facts)
{
    bytes_put(out, GRAPH_MAGIC, 8);
    bytes_put_u32(out, GRAPH_VERSION);
    bytes_put_u32(out, facts->world);
    bytes_put_u32(out, facts->gpus_per_node);
    bytes_put_u32(out, 0);
    put_sum(out, 0);
}

void chunks_add(struct chunks *list, const struct chunk *c)
{
    if (!(list->n & (list->n - 1))) {
        list->list = realloc(list->list, (list->n ? 2u * list->n : 1u) * sizeof *list->list);
        if (!list->list)
            abort();
    }
    list->list[list->n++] = *c;
}

void chunk_put(struct bytes *out, struct chunk *c, const void *frame)
{
    size_t head = out->len;
    c->offset = head;
    bytes_put_u32(out, CHUNK_MAGIC);
    bytes_put_u32(out, c->type);
    bytes_put_u32(out, c->stored);
    bytes_put_u32(out, c->raw);
    bytes_put(out, c->key.bytes, sizeof c->key.bytes);
    bytes_put_u64(out, XXH64(frame, c->stored, 0));
    put_sum(out, head);
    bytes_put(out, frame, c->stored);
}

static void put_entry(struct bytes *b, const struct chunk *c)
{
    bytes_put_u32(b, c->type);
    bytes_put_u32(b, c->first);
    bytes_put_u32(b, c->n);
    bytes_put_u32(b, c->stored);
    bytes_put_u32(b, c->raw);
    bytes_put_u32(b, 0);
    bytes_put_u64(b, c->offset);
    bytes_put(b, c->key.bytes, sizeof c->key.bytes);
}

void chunk_put_end(struct bytes *out, const struct chunks *chunks, const struct file_facts *facts)
{
    struct bytes raw = {0}, frame = {0};
    bytes_put_u32(&raw, facts->ncomms);
    bytes_put_u32(&raw, facts->nclasses);
    bytes_put_u32(&raw, chunks->n);
    bytes_put_u32(&raw, 0);
    for (uint32_t i = 0; i < chunks->n; i++)
        put_entry(&raw, &chunks->list[i]);
    size_t bound = ZSTD_compressBound(raw.len);
    size_t stored = ZSTD_compress(bytes_reserve(&frame, bound), bound, raw.data, raw.len, 3);
    if (ZSTD_isError(stored)) /* only for want of memory */
        abort();
    struct chunk c = {.type = CHUNK_INDEX, .stored = (uint32_t)stored, .raw = (uint32_t)raw.len, .key = chunk_key_of(raw.data, raw.len)};
    chunk_put(out, &c, frame.data);
    size_t trailer = out->len;
    bytes_put(out, FILE_END, 8);
    bytes_put_u64(out, c.offset);
    bytes_put_u64(out, trailer + FILE_TRAILER);
    put_sum(out, trailer);
    bytes_free(&raw);
    bytes_free(&frame);
}

bool chunk_at(const void *data, size_t len, uint64_t offset, struct chunk *c)
{
    if (offset > len || len - offset < CHUNK_HEAD)
        return false;
    const uint8_t *head = (const uint8_t *)data + offset;
    struct bytes_reader r = bytes_reader_init(head, CHUNK_HEAD);
    if (bytes_get_u32(&r) != CHUNK_MAGIC || !sum_holds(head, CHUNK_HEAD - 8))
        return false;
    *c = (struct chunk){.offset = offset};
    c->type = bytes_get_u32(&r);
    c->stored = bytes_get_u32(&r);
    c->raw = bytes_get_u32(&r);
    memcpy(c->key.bytes, bytes_get(&r, sizeof c->key.bytes), sizeof c->key.bytes);
    uint64_t sum = bytes_get_u64(&r);
    return c->stored <= len - offset - CHUNK_HEAD && c->raw <= CHUNK_RAW_MAX && FORMAT_HOLDS(XXH64(head + CHUNK_HEAD, c->stored, 0) == sum);
}

/* Memory grows with what really comes. */
int chunk_contents(struct ZSTD_DCtx_s *zstd, const void *data, const struct chunk *c, struct bytes *raw)
{
    ZSTD_inBuffer in = {(const char *)data + c->offset + CHUNK_HEAD, c->stored, 0};
    bytes_clear(raw);
    if (FORMAT_MAY_BE_RAW && c->stored == c->raw && ZSTD_getFrameContentSize(in.src, in.size) == ZSTD_CONTENTSIZE_ERROR) {
        bytes_put(raw, in.src, c->raw);
        return 0;
    }
    ZSTD_DCtx_reset(zstd, ZSTD_reset_session_only);
    while (raw->len < c->raw) {
        size_t room = c->raw - raw->len < (1u << 20) ? c->raw - raw->len : 1u << 20;
        ZSTD_outBuffer out = {bytes_reserve(raw, room), room, 0};
        size_t rc = ZSTD_decompressStream(zstd, &out, &in);
        raw->len += out.pos;
        if (ZSTD_isError(rc) || (!out.pos && in.pos == in.size))
            return -1;
    }
    struct chunk_key key = chunk_key_of(raw->data, raw->len);
    return FORMAT_HOLDS(!memcmp(key.bytes, c->key.bytes, sizeof key.bytes)) ? 0 : -1;
}
