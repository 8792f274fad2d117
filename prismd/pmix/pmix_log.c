#include "prismd/pmix/pmix_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC          "PRSMPMIX"
#define VERSION        1
#define VERSION_BYTES  16 /* of libpmix, NUL-padded */
#define HEADER_BYTES   40 /* magic, version, world, libpmix's version, count */
#define RECORD_BYTES   12 /* rank, fence, length */
#define CHECKSUM_BYTES 8
#define WORLD_MAX      (1u << 24)
#define NONE           UINT32_MAX

struct pmix_log {
    uint32_t world;
    char version[VERSION_BYTES];
    struct pmix_record *records; /* owned */
    uint32_t count, cap;
    uint32_t *first, *last; /* owned; by rank */
};

struct pmix_log *pmix_log_create(uint32_t world)
{
    struct pmix_log *log = calloc(1, sizeof *log);
    if (!log || !(log->first = malloc((world + 1u) * sizeof *log->first)) ||
        !(log->last = malloc((world + 1u) * sizeof *log->last)))
        abort();
    log->world = world;
    memset(log->first, 0xff, (world + 1u) * sizeof *log->first);
    memset(log->last, 0xff, (world + 1u) * sizeof *log->last);
    return log;
}

void pmix_log_destroy(struct pmix_log *log)
{
    if (!log)
        return;
    for (uint32_t i = 0; i < log->count; i++)
        free(log->records[i].data);
    free(log->records);
    free(log->first);
    free(log->last);
    free(log);
}

void pmix_log_set_version(struct pmix_log *log, const char *version)
{
    if (!log->version[0])
        snprintf(log->version, sizeof log->version, "%s", version);
}

const char *pmix_log_version(const struct pmix_log *log)
{
    return log->version;
}

size_t pmix_log_count(const struct pmix_log *log)
{
    return log->count;
}

void pmix_log_add(struct pmix_log *log, uint32_t rank, uint32_t fence, const void *data, size_t len)
{
    if (rank >= log->world || len > UINT32_MAX)
        return;
    uint32_t before = log->last[rank];
    if (before != NONE && log->records[before].len == len && !memcmp(log->records[before].data, data, len))
        return;
    if (log->count == log->cap) {
        log->cap = log->cap ? log->cap * 2 : 64;
        log->records = realloc(log->records, log->cap * sizeof *log->records);
        if (!log->records)
            abort();
    }
    struct pmix_record *r = &log->records[log->count];
    *r = (struct pmix_record){rank, fence, malloc(len + 1), (uint32_t)len, NONE};
    if (!r->data)
        abort();
    if (len)
        memcpy(r->data, data, len);
    if (before == NONE)
        log->first[rank] = log->count;
    else
        log->records[before].next = log->count;
    log->last[rank] = log->count++;
}

/* Packed keys are strings with their NUL. */
static bool has_key(const struct pmix_record *r, const char *key)
{
    return !*key || memmem(r->data, r->len, key, strlen(key) + 1);
}

const struct pmix_record *pmix_log_find(const struct pmix_log *log, uint32_t rank, uint32_t fences, const char *key)
{
    const struct pmix_record *best = NULL;
    for (uint32_t i = rank < log->world ? log->first[rank] : NONE; i != NONE; i = log->records[i].next) {
        const struct pmix_record *r = &log->records[i];
        if (!best || r->fence <= fences || !has_key(best, key))
            best = r;
    }
    return best;
}

bool pmix_log_mentions(const struct pmix_log *log, const char *text)
{
    for (uint32_t i = 0; i < log->count; i++)
        if (memmem(log->records[i].data, log->records[i].len, text, strlen(text)))
            return true;
    return false;
}

void pmix_log_encode(const struct pmix_log *log, struct bytes *out)
{
    size_t start = out->len;
    bytes_put(out, MAGIC, 8);
    bytes_put_u32(out, VERSION);
    bytes_put_u32(out, log->world);
    bytes_put(out, log->version, VERSION_BYTES);
    bytes_put_u64(out, log->count);
    for (uint32_t i = 0; i < log->count; i++) {
        const struct pmix_record *r = &log->records[i];
        bytes_put_u32(out, r->rank);
        bytes_put_u32(out, r->fence);
        bytes_put_u32(out, r->len);
        bytes_put(out, r->data, r->len);
    }
    bytes_put_u64(out, XXH64(out->data + start, out->len - start, 0));
}

static const char *check_frame(const uint8_t *data, size_t len, uint32_t *version)
{
    if (len < HEADER_BYTES + CHECKSUM_BYTES || memcmp(data, MAGIC, 8))
        return "it does not start as a PMIx log does";
    struct bytes_reader tail = bytes_reader_init(data + len - CHECKSUM_BYTES, CHECKSUM_BYTES);
    struct bytes_reader head = bytes_reader_init(data + 8, HEADER_BYTES - 8);
    *version = bytes_get_u32(&head);
    if (*version != VERSION)
        return "another version";
    if (bytes_get_u64(&tail) != XXH64(data, len - CHECKSUM_BYTES, 0))
        return "its checksum is wrong: the file was damaged or cut";
    if (bytes_get_u32(&head) > WORLD_MAX || data[16 + VERSION_BYTES - 1])
        return "its header is malformed";
    return NULL;
}

/* Records are added one by one, so a count that lies costs nothing. */
static const char *read_records(struct pmix_log *log, struct bytes_reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t rank = bytes_get_u32(r), fence = bytes_get_u32(r), len = bytes_get_u32(r);
        const void *data = bytes_get(r, len);
        if (r->bad || !data)
            return "it ends within a record";
        if (rank >= log->world)
            return "a record is of a rank outside its world";
        pmix_log_add(log, rank, fence, data, len);
    }
    return r->pos == r->len ? NULL : "there is something behind its last record";
}

struct pmix_log *pmix_log_decode(const void *data, size_t len, struct prism_error *err)
{
    uint32_t version = VERSION;
    const char *why = check_frame(data, len, &version);
    struct pmix_log *log = NULL;
    if (!why) {
        struct bytes_reader r = bytes_reader_init((const uint8_t *)data + 12, len - 12 - CHECKSUM_BYTES);
        log = pmix_log_create(bytes_get_u32(&r));
        memcpy(log->version, bytes_get(&r, VERSION_BYTES), VERSION_BYTES);
        uint64_t count = bytes_get_u64(&r);
        why = read_records(log, &r, count);
    }
    if (!why)
        return log;
    if (version != VERSION)
        prism_error_set(err, PRISM_EXIT_TRACE, "PMIx log: it is of version %u, this Prism reads version %u; capture again, or use the "
                        "Prism that wrote it", version, VERSION);
    else
        prism_error_set(err, PRISM_EXIT_TRACE, "PMIx log: %s", why);
    pmix_log_destroy(log);
    return NULL;
}
