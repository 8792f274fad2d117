#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "common/check.h"
#include "common/file.h"
#include "trace/payload_format.h"

#define INDEX_MAX (8ull << 30)

struct store {           /* one node's files */
    char path[PATH_MAX]; /* of the data file */
    int fd;
    struct payload_index index;
};

struct place { /* hash table of keys; empty: store NULL */
    const struct store *store;
    const struct payload_entry *entry;
};

struct decompressor {
    ZSTD_DCtx *zstd;
    void *buffer;
    size_t cap;
    struct decompressor *next;
};

struct payload_reader {
    struct store *stores;
    uint32_t nstores;
    struct place *table;
    uint32_t table_size;
    uint64_t payloads;
    pthread_mutex_t lock;
    struct decompressor *idle; /* under lock */
};

/* ---- Open, close ---- */

void payload_reader_close(struct payload_reader *r)
{
    if (!r)
        return;
    while (r->idle) {
        struct decompressor *d = r->idle;
        r->idle = d->next;
        ZSTD_freeDCtx(d->zstd);
        free(d->buffer);
        free(d);
    }
    for (uint32_t i = 0; i < r->nstores; i++) {
        if (r->stores[i].fd >= 0)
            close(r->stores[i].fd);
        payload_index_clear(&r->stores[i].index);
    }
    free(r->stores);
    free(r->table);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

struct choice { /* of keys; keep NULL: all */
    int (*keep)(void *ctx, struct payload_key key);
    void *ctx;
};

static void drop_others(struct payload_index *index, const struct choice *choice)
{
    uint32_t kept = 0;
    if (!choice->keep)
        return;
    for (uint32_t e = 0; e < index->nentries; e++)
        if (choice->keep(choice->ctx, index->entries[e].key))
            index->entries[kept++] = index->entries[e];
    index->nentries = kept;
    index->entries = check(realloc(index->entries, (kept + 1u) * sizeof *index->entries));
}

static int open_index(struct store *s, const char *dir, uint32_t node, const struct choice *choice, struct prism_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/payload-%u.idx", dir, node) >= (int)sizeof path)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
    if (access(path, F_OK) && errno == ENOENT)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "%s is missing: the payloads of node %u were not captured whole; capture again", path, node);
    struct bytes data = {0};
    struct prism_error cause = {0};
    int rc = file_read(path, INDEX_MAX, &data, &cause);
    if (rc)
        prism_error_set(err, PRISM_EXIT_TRACE, "%s", cause.text);
    else
        rc = payload_index_parse(path, data.data, data.len, &s->index, err);
    bytes_free(&data);
    if (!rc && s->index.node != node)
        rc = prism_error_set(err, PRISM_EXIT_TRACE,
                             "%s is of node %u; the files of the trace have been mixed up", path,
                             s->index.node);
    if (!rc)
        drop_others(&s->index, choice);
    return rc;
}

static int open_data(struct store *s, const char *dir, uint32_t node, struct prism_error *err)
{
    char header[PAYLOAD_DATA_HEADER];
    struct stat st;
    if (snprintf(s->path, sizeof s->path, "%s/payload-%u.dat", dir, node) >= (int)sizeof s->path)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return prism_error_set(err, PRISM_EXIT_TRACE, "cannot read %s: %s; capture again", s->path,
                               strerror(errno));
    if (fstat(s->fd, &st) || (uint64_t)st.st_size < s->index.data_size ||
        pread(s->fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s is cut short (%lld of %llu bytes); capture again",
                               s->path, (long long)st.st_size, (unsigned long long)s->index.data_size);
    if (payload_data_header_check(header, node, s->index.store_id))
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "%s is not of the same capture as its index; the files of the trace have been mixed up: "
            "capture again",
            s->path);
    return 0;
}

static uint32_t key_hash(struct payload_key key)
{
    return (uint32_t)XXH64(&key, sizeof key, 0);
}

static struct place *find_place(const struct payload_reader *r, struct payload_key key)
{
    uint32_t i = key_hash(key) & (r->table_size - 1);
    for (;; i = (i + 1) & (r->table_size - 1)) {
        struct place *p = &r->table[i];
        if (!p->store || !memcmp(&p->entry->key, &key, sizeof key))
            return p;
    }
}

/* A key put twice counts as put last. */
static void build_table(struct payload_reader *r)
{
    uint64_t entries = 0;
    for (uint32_t i = 0; i < r->nstores; i++)
        entries += r->stores[i].index.nentries;
    for (r->table_size = 16; r->table_size < entries * 2;)
        r->table_size *= 2;
    r->table = check(calloc(r->table_size, sizeof *r->table));
    for (uint32_t i = 0; i < r->nstores; i++)
        for (uint32_t e = 0; e < r->stores[i].index.nentries; e++) {
            struct place *p = find_place(r, r->stores[i].index.entries[e].key);
            r->payloads += !p->store;
            *p = (struct place){&r->stores[i], &r->stores[i].index.entries[e]};
        }
}

struct payload_reader *payload_reader_open_some(const char *dir, uint32_t nodes, int (*keep)(void *ctx, struct payload_key key), void *ctx,
                                                struct prism_error *err)
{
    struct choice choice = {keep, ctx};
    struct payload_reader *r = check(calloc(1, sizeof *r));
    pthread_mutex_init(&r->lock, NULL);
    r->stores = check(calloc(nodes ? nodes : 1, sizeof *r->stores));
    for (uint32_t i = 0; i < nodes; i++) {
        r->stores[i].fd = -1;
        r->nstores = i + 1;
        if (open_index(&r->stores[i], dir, i, &choice, err) || open_data(&r->stores[i], dir, i, err)) {
            payload_reader_close(r);
            return NULL;
        }
    }
    build_table(r);
    return r;
}

struct payload_reader *payload_reader_open(const char *dir, uint32_t nodes, struct prism_error *err)
{
    return payload_reader_open_some(dir, nodes, NULL, NULL, err);
}

/* ---- Get ---- */

static const struct place *find(const struct payload_reader *r, struct payload_key key)
{
    const struct place *p = find_place(r, key);
    return p->store ? p : NULL;
}

int64_t payload_reader_size(const struct payload_reader *r, struct payload_key key)
{
    const struct place *p = find(r, key);
    return p ? (int64_t)p->store->index.blobs[p->entry->blob].raw : -1;
}

static int read_all(int fd, void *data, uint64_t len, uint64_t offset)
{
    char *p = data;
    while (len) {
        ssize_t n = pread(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENODATA; /* cut short since it was opened */
        if (n <= 0)
            return -1;
        p += n;
        offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

static struct decompressor *decompressor_take(struct payload_reader *r, size_t need)
{
    pthread_mutex_lock(&r->lock);
    struct decompressor *d = r->idle;
    if (d)
        r->idle = d->next;
    pthread_mutex_unlock(&r->lock);
    if (!d) {
        d = check(calloc(1, sizeof *d));
        d->zstd = check(ZSTD_createDCtx());
    }
    if (need > d->cap) {
        free(d->buffer);
        d->buffer = check(malloc(need));
        d->cap = need;
    }
    return d;
}

static void decompressor_give(struct payload_reader *r, struct decompressor *d)
{
    pthread_mutex_lock(&r->lock);
    d->next = r->idle;
    r->idle = d;
    pthread_mutex_unlock(&r->lock);
}

/* NULL, or what is wrong. out has room for b->raw bytes. */
static const char *load(struct payload_reader *r, const struct store *s, const struct payload_blob *b,
                        void *out)
{
    const char *fault = NULL;
    if (!b->compressed) {
        fault = read_all(s->fd, out, b->stored, b->offset) ? strerror(errno) : NULL;
    } else {
        struct decompressor *d = decompressor_take(r, b->stored);
        if (read_all(s->fd, d->buffer, b->stored, b->offset))
            fault = strerror(errno);
        else if (ZSTD_decompressDCtx(d->zstd, out, b->raw, d->buffer, b->stored) != b->raw)
            fault = "does not decompress";
        decompressor_give(r, d);
    }
    if (fault)
        return fault;
    XXH128_hash_t hash = XXH3_128bits(out, b->raw);
    return hash.low64 == b->hash_low && hash.high64 == b->hash_high ? NULL : "checksum";
}

int64_t payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap,
                           struct prism_error *err)
{
    const struct place *p = find(r, key);
    const char *role = key.role == PAYLOAD_OUTPUT ? "output" : "contribution";
    if (!p)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "the trace has no payload (%s) of rank %u, communicator %u, group %u; was this rank in the "
            "sandbox set of the capture? capture again with it",
            role, key.rank, key.comm, key.ordinal);
    const struct payload_blob *b = &p->store->index.blobs[p->entry->blob];
    if (b->raw > cap)
        return prism_error_set(
            err, PRISM_EXIT_DIVERGED,
            "%s: payload (%s) of rank %u, communicator %u, group %u has %llu bytes, the program asks for "
            "%zu; was it changed since capture? capture again",
            p->store->path, role, key.rank, key.comm, key.ordinal, (unsigned long long)b->raw, cap);
    const char *fault = load(r, p->store, b, out);
    if (!fault)
        return (int64_t)b->raw;
    return prism_error_set(
        err, PRISM_EXIT_TRACE,
        "%s is damaged (%s): payload (%s) of rank %u, communicator %u, group %u; capture again",
        p->store->path, fault, role, key.rank, key.comm, key.ordinal);
}

void payload_reader_totals(const struct payload_reader *r, uint64_t *payloads, uint64_t *raw_bytes,
                           uint64_t *disk_bytes)
{
    *payloads = r->payloads;
    *raw_bytes = *disk_bytes = 0;
    for (uint32_t i = 0; i < r->nstores; i++) {
        const struct payload_index *index = &r->stores[i].index;
        for (uint32_t e = 0; e < index->nentries; e++)
            *raw_bytes += index->blobs[index->entries[e].blob].raw;
        *disk_bytes += index->data_size;
    }
}
