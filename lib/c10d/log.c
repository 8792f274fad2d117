/* log.c - records in memory and as bytes; docs/formats/store-log.md. */
#include "c10d/log.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC          "PRSMSTOR"
#define VERSION        1
#define HEADER_BYTES   20 /* magic, version, count */
#define RECORD_BYTES   29 /* the least a record takes */
#define CHECKSUM_BYTES 8

struct c10d_log {
    struct c10d_record *records;
    size_t count, cap;
};

struct c10d_log *c10d_log_create(void)
{
    struct c10d_log *log = calloc(1, sizeof *log);
    if (!log)
        abort();
    return log;
}

void c10d_log_destroy(struct c10d_log *log)
{
    if (!log)
        return;
    for (size_t i = 0; i < log->count; i++)
        free((void *)log->records[i].mutation.key); /* the value lies behind the key */
    free(log->records);
    free(log);
}

static struct c10d_record *log_grow(struct c10d_log *log)
{
    if (log->count == log->cap) {
        log->cap = log->cap ? log->cap * 2 : 64;
        log->records = realloc(log->records, log->cap * sizeof *log->records);
        if (!log->records)
            abort();
    }
    return &log->records[log->count++];
}

static const char *invalid(const struct c10d_mutation *m)
{
    if (m->kind < C10D_SET || m->kind > C10D_BARRIER)
        return "unknown kind of mutation";
    if (m->key_len > C10D_KEY_MAX)
        return "key too long";
    if (m->value_len > C10D_VALUE_MAX)
        return "value too long";
    return NULL;
}

static void log_put(struct c10d_log *log, uint64_t sequence, uint32_t author, const struct c10d_mutation *m)
{
    uint8_t *copy = malloc(m->key_len + m->value_len + 1);
    if (!copy)
        abort();
    if (m->key_len)
        memcpy(copy, m->key, m->key_len);
    if (m->value_len)
        memcpy(copy + m->key_len, m->value, m->value_len);
    struct c10d_record *r = log_grow(log);
    *r = (struct c10d_record){sequence, author, *m};
    r->mutation.key = copy;
    r->mutation.value = m->value_len ? copy + m->key_len : NULL;
}

int c10d_log_append(struct c10d_log *log, uint32_t author, const struct c10d_mutation *m,
                    struct prism_error *err)
{
    const char *why = invalid(m);
    if (why)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "store log: record %zu: %s", log->count, why);
    log_put(log, log->count ? log->records[log->count - 1].sequence + 1 : 1, author, m);
    return 0;
}

size_t c10d_log_count(const struct c10d_log *log)
{
    return log->count;
}

const struct c10d_record *c10d_log_at(const struct c10d_log *log, size_t i)
{
    return i < log->count ? &log->records[i] : NULL;
}

void c10d_log_encode(const struct c10d_log *log, struct bytes *out)
{
    size_t start = out->len;
    bytes_put(out, MAGIC, 8);
    bytes_put_u32(out, VERSION);
    bytes_put_u64(out, log->count);
    for (size_t i = 0; i < log->count; i++) {
        const struct c10d_record *r = &log->records[i];
        const struct c10d_mutation *m = &r->mutation;
        bytes_put_u64(out, r->sequence);
        bytes_put_u32(out, r->author);
        bytes_put_u8(out, (uint8_t)m->kind);
        bytes_put_u64(out, (uint64_t)m->delta);
        bytes_put_u32(out, (uint32_t)m->key_len);
        bytes_put_u32(out, (uint32_t)m->value_len);
        bytes_put(out, m->key, m->key_len);
        bytes_put(out, m->value, m->value_len);
    }
    bytes_put_u64(out, XXH64(out->data + start, out->len - start, 0));
}

static const char *decode_record(struct bytes_reader *r, uint64_t after, struct c10d_log *log)
{
    uint64_t sequence = bytes_get_u64(r);
    uint32_t author = bytes_get_u32(r);
    struct c10d_mutation m = {.kind = bytes_get_u8(r), .delta = (int64_t)bytes_get_u64(r)};
    m.key_len = bytes_get_u32(r);
    m.value_len = bytes_get_u32(r);
    if (r->bad)
        return "it ends within a record";
    const char *why = invalid(&m);
    if (why)
        return why;
    if (sequence <= after)
        return "sequence numbers do not ascend";
    m.key = bytes_get(r, m.key_len);
    m.value = bytes_get(r, m.value_len);
    if (r->bad)
        return "it ends within a key or value";
    log_put(log, sequence, author, &m);
    return NULL;
}

/* The frame around the records: length, magic, checksum, version, count. */
static const char *check_frame(const uint8_t *data, size_t len, uint32_t *version, uint64_t *count)
{
    if (len < HEADER_BYTES + CHECKSUM_BYTES || memcmp(data, MAGIC, 8))
        return "it does not start as a store log does";
    struct bytes_reader tail = bytes_reader_init(data + len - CHECKSUM_BYTES, CHECKSUM_BYTES);
    struct bytes_reader head = bytes_reader_init(data + 8, HEADER_BYTES - 8);
    *version = bytes_get_u32(&head);
    *count = bytes_get_u64(&head);
    if (*version != VERSION)
        return "another version";
    if (bytes_get_u64(&tail) != XXH64(data, len - CHECKSUM_BYTES, 0))
        return "its checksum is wrong: the file was damaged or cut";
    if (*count > (len - HEADER_BYTES - CHECKSUM_BYTES) / RECORD_BYTES)
        return "it has fewer records than it says";
    return NULL;
}

struct c10d_log *c10d_log_decode(const void *data, size_t len, struct prism_error *err)
{
    uint64_t count = 0, i = 0;
    uint32_t version = VERSION;
    const char *why = check_frame(data, len, &version, &count);
    struct c10d_log *log = c10d_log_create();
    if (!why) {
        struct bytes_reader r =
            bytes_reader_init((const uint8_t *)data + HEADER_BYTES, len - HEADER_BYTES - CHECKSUM_BYTES);
        for (; i < count && !why; i++)
            why = decode_record(&r, i ? log->records[i - 1].sequence : 0, log);
        if (!why && r.pos != r.len)
            why = "there is something behind its last record";
    }
    if (!why)
        return log;
    if (version != VERSION)
        prism_error_set(err, PRISM_EXIT_TRACE, "store log: it is of version %u, this Prism reads version %u; record again, or use the "
                        "Prism that wrote it", version, VERSION);
    else
        prism_error_set(err, PRISM_EXIT_TRACE, "store log: %s (record %llu of %llu)", why, (unsigned long long)i,
                        (unsigned long long)count);
    c10d_log_destroy(log);
    return NULL;
}
