#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "common/file.h"
#include "trace/payload_format.h"

/* Contents of at least SAMPLED bytes are compressed if SAMPLES parts of SAMPLE bytes lose a third. */
#define SAMPLED ((size_t)1 << 20)
#define SAMPLE  ((size_t)16 << 10)
#define SAMPLES 8u

struct compressor { /* one a thread at work; kept for the next */
    ZSTD_CCtx *zstd;
    void *buffer;
    size_t cap;
    struct compressor *next;
};

struct payload_writer {
    char data_path[PATH_MAX], index_path[PATH_MAX];
    int fd;
    int level;
    pthread_mutex_t lock; /* all below */
    struct payload_index index;
    uint32_t blobs_cap, entries_cap;
    uint32_t *table; /* open addressing by hash: blob + 1, 0 = empty */
    uint32_t table_size;
    struct compressor *idle;
    struct prism_error failed; /* the first failure, for all that follow */
};

static void *check(void *p)
{
    if (!p)
        abort();
    return p;
}

static int write_all(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *p = data;
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int cannot_write(const char *path, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "cannot write %s: %s; make room or name another place with --prism-trace", path,
                           strerror(errno));
}

/* ---- Create, destroy ---- */

static void writer_free(struct payload_writer *w)
{
    while (w->idle) {
        struct compressor *c = w->idle;
        w->idle = c->next;
        ZSTD_freeCCtx(c->zstd);
        free(c->buffer);
        free(c);
    }
    if (w->fd >= 0)
        close(w->fd);
    payload_index_clear(&w->index);
    free(w->table);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

struct payload_writer *payload_writer_create(const char *dir, uint32_t node, struct prism_error *err)
{
    struct payload_writer *w = check(calloc(1, sizeof *w));
    w->fd = -1;
    w->level = 1;
    w->index.node = node;
    pthread_mutex_init(&w->lock, NULL);
    int a = snprintf(w->data_path, sizeof w->data_path, "%s/payload-%u.dat", dir, node);
    int b = snprintf(w->index_path, sizeof w->index_path, "%s/payload-%u.idx", dir, node);
    if (a >= PATH_MAX || b >= PATH_MAX || getrandom(&w->index.store_id, sizeof w->index.store_id, 0) < 0) {
        prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
        writer_free(w);
        return NULL;
    }
    /* The old index goes first: without one, no data file counts. */
    unlink(w->index_path);
    unlink(w->data_path);
    w->fd = open(w->data_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct bytes header = {0};
    payload_data_header(&header, node, w->index.store_id);
    w->index.data_size = header.len;
    if (w->fd < 0 || write_all(w->fd, header.data, header.len, 0)) {
        cannot_write(w->data_path, err);
        if (w->fd >= 0)
            unlink(w->data_path);
        writer_free(w);
        w = NULL;
    }
    bytes_free(&header);
    return w;
}

void payload_writer_set_level(struct payload_writer *w, int level)
{
    w->level = level;
}

void payload_writer_abort(struct payload_writer *w)
{
    if (!w)
        return;
    unlink(w->data_path);
    writer_free(w);
}

/* ---- Put ---- */

static void *grow(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 1024;
    return check(realloc(array, (size_t)*cap * size));
}

static uint32_t *table_place(const struct payload_writer *w, const struct payload_blob *content)
{
    uint32_t i = (uint32_t)content->hash_low & (w->table_size - 1);
    for (;; i = (i + 1) & (w->table_size - 1)) {
        if (!w->table[i])
            return &w->table[i];
        const struct payload_blob *b = &w->index.blobs[w->table[i] - 1];
        if (b->hash_low == content->hash_low && b->hash_high == content->hash_high && b->raw == content->raw)
            return &w->table[i];
    }
}

static void table_grow(struct payload_writer *w)
{
    if (w->table_size && w->index.nblobs < w->table_size / 2)
        return;
    free(w->table);
    w->table_size = w->table_size ? w->table_size * 2 : 4096;
    w->table = check(calloc(w->table_size, sizeof *w->table));
    for (uint32_t i = 0; i < w->index.nblobs; i++)
        *table_place(w, &w->index.blobs[i]) = i + 1;
}

/* Number of the content, which is new when *fresh; whoever finds it first stores it. Locked. */
static uint32_t blob_of(struct payload_writer *w, const struct payload_blob *content, bool *fresh)
{
    table_grow(w);
    uint32_t *place = table_place(w, content);
    *fresh = !*place;
    if (*fresh) {
        w->index.blobs = grow(w->index.blobs, w->index.nblobs, &w->blobs_cap, sizeof *w->index.blobs);
        w->index.blobs[w->index.nblobs++] = *content;
        *place = w->index.nblobs;
    }
    return *place - 1;
}

static struct compressor *compressor_take(struct payload_writer *w)
{
    struct compressor *c = w->idle;
    if (c) {
        w->idle = c->next;
        return c;
    }
    c = check(calloc(1, sizeof *c));
    c->zstd = check(ZSTD_createCCtx());
    return c;
}

static void make_room(struct compressor *c, size_t len)
{
    size_t bound = ZSTD_compressBound(len);
    if (bound <= c->cap)
        return;
    free(c->buffer);
    c->buffer = check(malloc(bound));
    c->cap = bound;
}

/* Gradients are mostly noise: whether a large content is worth the time is seen from some of its parts. */
static bool worth_compressing(struct compressor *c, int level, const char *data, size_t len)
{
    size_t after = 0;
    if (len < SAMPLED)
        return true;
    make_room(c, SAMPLE);
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t n = ZSTD_compressCCtx(c->zstd, c->buffer, c->cap, data + (len - SAMPLE) / (SAMPLES - 1) * i, SAMPLE, level);
        after += ZSTD_isError(n) ? SAMPLE : n;
    }
    return after < SAMPLES * SAMPLE / 3 * 2;
}

/* The bytes to store: the compressed ones where they are fewer. */
static const void *compress(struct compressor *c, int level, const void *data, size_t len, size_t *stored)
{
    if (!worth_compressing(c, level, data, len)) {
        *stored = len;
        return data;
    }
    make_room(c, len);
    size_t n = ZSTD_compressCCtx(c->zstd, c->buffer, c->cap, data, len, level);
    if (ZSTD_isError(n) || n >= len) {
        *stored = len;
        return data;
    }
    *stored = n;
    return c->buffer;
}

/* Compress and write outside the lock; only the place in the file is taken under it. */
static int store(struct payload_writer *w, struct compressor *c, uint32_t blob, const void *data, size_t len)
{
    size_t stored;
    const void *bytes = compress(c, w->level, data, len, &stored);
    pthread_mutex_lock(&w->lock);
    struct payload_blob *b = &w->index.blobs[blob];
    uint64_t offset = w->index.data_size;
    b->offset = offset;
    b->stored = stored;
    b->compressed = bytes != data;
    w->index.data_size += stored;
    pthread_mutex_unlock(&w->lock);

    int rc = write_all(w->fd, bytes, stored, offset);
    pthread_mutex_lock(&w->lock);
    if (rc)
        cannot_write(w->data_path, &w->failed);
    c->next = w->idle;
    w->idle = c;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* To be called with the lock held, if at all. */
static int report_failed(const struct payload_writer *w, struct prism_error *err)
{
    return w->failed.code ? prism_error_set(err, w->failed.code, "%s", w->failed.text) : 0;
}

int payload_writer_put(struct payload_writer *w, struct payload_key key, const void *data, size_t len,
                       struct prism_error *err)
{
    XXH128_hash_t hash = XXH3_128bits(data, len);
    struct payload_blob content = {.hash_low = hash.low64, .hash_high = hash.high64, .raw = len};
    content.offset = PAYLOAD_DATA_HEADER;
    bool fresh = false;
    struct compressor *c = NULL;
    pthread_mutex_lock(&w->lock);
    int rc = report_failed(w, err);
    uint32_t blob = 0;
    if (!rc) {
        blob = blob_of(w, &content, &fresh);
        w->index.entries =
            grow(w->index.entries, w->index.nentries, &w->entries_cap, sizeof *w->index.entries);
        w->index.entries[w->index.nentries++] = (struct payload_entry){key, blob};
        if (fresh && len)
            c = compressor_take(w);
    }
    pthread_mutex_unlock(&w->lock);
    if (!c)
        return rc;
    if (!store(w, c, blob, data, len))
        return 0;
    pthread_mutex_lock(&w->lock);
    rc = report_failed(w, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* ---- Finish ---- */

/* Drop entries and contents that are not kept; returns the bytes of the data file that nothing names any
 * more. */
static uint64_t drop_unwanted(struct payload_index *index, int (*keep)(void *, struct payload_key), void *ctx)
{
    uint32_t *number = check(calloc(index->nblobs ? index->nblobs : 1, sizeof *number)); /* new one + 1 */
    uint32_t entries = 0, blobs = 0;
    uint64_t unused = 0;
    for (uint32_t i = 0; i < index->nentries; i++) {
        if (!keep(ctx, index->entries[i].key))
            continue;
        number[index->entries[i].blob] = 1;
        index->entries[entries++] = index->entries[i];
    }
    for (uint32_t i = 0; i < index->nblobs; i++) {
        if (!number[i]) {
            unused += index->blobs[i].stored;
            continue;
        }
        index->blobs[blobs++] = index->blobs[i];
        number[i] = blobs;
    }
    for (uint32_t i = 0; i < entries; i++)
        index->entries[i].blob = number[index->entries[i].blob] - 1;
    index->nentries = entries;
    index->nblobs = blobs;
    free(number);
    return unused;
}

static int copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t len, void *buffer,
                      size_t cap)
{
    while (len) {
        ssize_t n = pread(from, buffer, len < cap ? len : cap, (off_t)from_offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0 || write_all(to, buffer, (size_t)n, to_offset))
            return -1;
        from_offset += (uint64_t)n;
        to_offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

/* Move what is kept into a new data file that takes the place of the old one. */
static int compact(struct payload_writer *w, struct prism_error *err)
{
    char path[PATH_MAX + 8];
    size_t cap = 4u << 20;
    snprintf(path, sizeof path, "%s.new", w->data_path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return cannot_write(path, err);
    void *buffer = check(malloc(cap));
    struct bytes header = {0};
    payload_data_header(&header, w->index.node, w->index.store_id);
    uint64_t size = header.len;
    int rc = write_all(fd, header.data, header.len, 0);
    for (uint32_t i = 0; i < w->index.nblobs && !rc; i++) {
        struct payload_blob *b = &w->index.blobs[i];
        rc = copy_range(w->fd, b->offset, fd, size, b->stored, buffer, cap);
        b->offset = size;
        size += b->stored;
    }
    if (rc || rename(path, w->data_path)) {
        rc = cannot_write(path, err);
        unlink(path);
        close(fd);
    } else {
        close(w->fd);
        w->fd = fd;
        w->index.data_size = size;
    }
    bytes_free(&header);
    free(buffer);
    return rc;
}

int payload_writer_finish_keep(struct payload_writer *w, int (*keep)(void *ctx, struct payload_key key),
                               void *ctx, struct prism_error *err)
{
    int rc = report_failed(w, err);
    if (!rc && keep && drop_unwanted(&w->index, keep, ctx) > w->index.data_size / 2)
        rc = compact(w, err);
    if (!rc && fdatasync(w->fd))
        rc = cannot_write(w->data_path, err);
    if (!rc) {
        struct bytes out = {0};
        struct prism_error cause = {0};
        payload_index_write(&w->index, &out);
        rc = file_write_atomic(w->index_path, out.data, out.len, 0644, &cause);
        if (rc)
            prism_error_set(err, PRISM_EXIT_TRACE, "%s", cause.text);
        bytes_free(&out);
    }
    if (rc)
        unlink(w->data_path);
    writer_free(w);
    return rc;
}

int payload_writer_finish(struct payload_writer *w, struct prism_error *err)
{
    return payload_writer_finish_keep(w, NULL, NULL, err);
}
