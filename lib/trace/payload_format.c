#include "trace/payload_format.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BLOB_BYTES  41u
#define ENTRY_BYTES 20u

void payload_data_header(struct bytes *out, uint32_t node, uint64_t store_id)
{
    bytes_put(out, PAYLOAD_DATA_MAGIC, 8);
    bytes_put_u32(out, PAYLOAD_VERSION);
    bytes_put_u32(out, node);
    bytes_put_u64(out, store_id);
}

int payload_data_header_check(const void *header, uint32_t node, uint64_t store_id)
{
    struct bytes want = {0};
    payload_data_header(&want, node, store_id);
    int differs = memcmp(want.data, header, PAYLOAD_DATA_HEADER);
    bytes_free(&want);
    return differs ? -1 : 0;
}

uint64_t payload_index_checksum(const void *data, size_t len)
{
    return XXH64(data, len, 0);
}

void payload_index_write(const struct payload_index *index, struct bytes *out)
{
    bytes_put(out, PAYLOAD_INDEX_MAGIC, 8);
    bytes_put_u32(out, PAYLOAD_VERSION);
    bytes_put_u32(out, index->node);
    bytes_put_u64(out, index->store_id);
    bytes_put_u64(out, index->data_size);
    bytes_put_u32(out, index->nblobs);
    bytes_put_u32(out, index->nentries);
    for (uint32_t i = 0; i < index->nblobs; i++) {
        const struct payload_blob *b = &index->blobs[i];
        bytes_put_u64(out, b->hash_low);
        bytes_put_u64(out, b->hash_high);
        bytes_put_u64(out, b->raw);
        bytes_put_u64(out, b->offset);
        bytes_put_u64(out, b->stored);
        bytes_put_u8(out, b->compressed);
    }
    for (uint32_t i = 0; i < index->nentries; i++) {
        const struct payload_entry *e = &index->entries[i];
        bytes_put_u32(out, e->key.rank);
        bytes_put_u32(out, e->key.comm);
        bytes_put_u32(out, e->key.ordinal);
        bytes_put_u32(out, e->key.role);
        bytes_put_u32(out, e->blob);
    }
    bytes_put_u64(out, payload_index_checksum(out->data, out->len));
}

void payload_index_clear(struct payload_index *index)
{
    free(index->blobs);
    free(index->entries);
    *index = (struct payload_index){0};
}

static int damaged(const char *path, const char *what, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "%s is damaged (%s); capture again, or name another trace",
                           path, what);
}

static void *array(uint32_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

static bool get_blob(struct bytes_reader *r, struct payload_blob *b, uint64_t data_size)
{
    b->hash_low = bytes_get_u64(r);
    b->hash_high = bytes_get_u64(r);
    b->raw = bytes_get_u64(r);
    b->offset = bytes_get_u64(r);
    b->stored = bytes_get_u64(r);
    b->compressed = bytes_get_u8(r);
    return b->raw <= PAYLOAD_RAW_MAX && b->offset >= PAYLOAD_DATA_HEADER && b->offset <= data_size &&
           b->stored <= data_size - b->offset && b->compressed <= 1 && (b->compressed || b->stored == b->raw);
}

static const char *get_lists(struct bytes_reader *r, struct payload_index *index)
{
    uint32_t nblobs = bytes_get_u32(r), nentries = bytes_get_u32(r);
    if (r->bad || (uint64_t)nblobs * BLOB_BYTES + (uint64_t)nentries * ENTRY_BYTES != r->len - r->pos)
        return "wrong length";
    index->blobs = array(nblobs, sizeof *index->blobs);
    index->entries = array(nentries, sizeof *index->entries);
    for (; index->nblobs < nblobs; index->nblobs++)
        if (!get_blob(r, &index->blobs[index->nblobs], index->data_size))
            return "a payload lies outside the data file";
    for (; index->nentries < nentries; index->nentries++) {
        struct payload_entry *e = &index->entries[index->nentries];
        e->key.rank = bytes_get_u32(r);
        e->key.comm = bytes_get_u32(r);
        e->key.ordinal = bytes_get_u32(r);
        e->key.role = bytes_get_u32(r);
        e->blob = bytes_get_u32(r);
        if (e->blob >= nblobs)
            return "a key names no payload";
    }
    return r->bad ? "too short" : NULL;
}

int payload_index_parse(const char *path, const void *data, size_t len, struct payload_index *index,
                        struct prism_error *err)
{
    *index = (struct payload_index){0};
    if (len < 48 || memcmp(data, PAYLOAD_INDEX_MAGIC, 8))
        return damaged(path, len < 48 ? "too short" : "not an index of payloads", err);
    struct bytes_reader r = bytes_reader_init(data, len - 8),
                        tail = bytes_reader_init((const char *)data + len - 8, 8);
    bytes_get(&r, 8);
    uint32_t version = bytes_get_u32(&r);
    if (version != PAYLOAD_VERSION)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "%s is of payload version %u, this Prism reads version %u; capture again, or use the "
            "Prism that made it",
            path, version, PAYLOAD_VERSION);
    if (bytes_get_u64(&tail) != payload_index_checksum(data, len - 8))
        return damaged(path, "checksum", err);
    index->node = bytes_get_u32(&r);
    index->store_id = bytes_get_u64(&r);
    index->data_size = bytes_get_u64(&r);
    const char *fault = get_lists(&r, index);
    if (!fault)
        return 0;
    payload_index_clear(index);
    return damaged(path, fault, err);
}
