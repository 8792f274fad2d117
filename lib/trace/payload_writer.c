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

#include "common/check.h"
#include "common/file.h"
#include "trace/crew.h"
#include "trace/payload_format.h"
#include "trace/rooms.h"

/* From so many bytes on a content is work for the crew. */
#define LARGE ((size_t)64 << 10)
/* Of large contents on their way; who brings more waits. */
#define UNDER_WAY ((size_t)1 << 30)
/* What is larger is compressed in pieces of so many bytes, each a zstd frame of its own: several threads do it. */
#define PIECE ((size_t)4 << 20)

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

struct frame {
    const void *data; /* in the content's room, whose bytes it replaced; or owned, where it is longer than these */
    size_t len;
};

/* A large content on its way to the data file. */
struct pour {
    struct crew_job job; /* first */
    uint8_t *room;       /* the crew's, to be given back */
    size_t len;
    uint32_t entry, nentries; /* which of the index get its number, once that is known */
    uint32_t blob;
    struct frame *frames; /* owned; one a piece */
};

struct payload_writer {
    char data_path[PATH_MAX], index_path[PATH_MAX];
    int fd;
    int level, threads;
    struct rooms rooms;
    pthread_mutex_t writing; /* one at a time: the file system takes them so, and lets those who wait spin */
    pthread_mutex_t lock;    /* all below */
    struct crew *crew;       /* NULL before the first large content */
    struct payload_index index;
    uint32_t blobs_cap, entries_cap;
    uint32_t *table; /* open addressing by hash: blob + 1, 0 = empty */
    uint32_t table_size;
    struct compressor *idle;
    struct prism_error failed; /* the first failure, for all that follow */
};

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
    crew_finish(w->crew);
    rooms_clear(&w->rooms);
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
    pthread_mutex_destroy(&w->writing);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

struct payload_writer *payload_writer_create(const char *dir, uint32_t node, struct prism_error *err)
{
    struct payload_writer *w = check(calloc(1, sizeof *w));
    w->fd = -1;
    w->level = 1;
    w->index.node = node;
    rooms_init(&w->rooms, UNDER_WAY);
    pthread_mutex_init(&w->writing, NULL);
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

void payload_writer_set_threads(struct payload_writer *w, int threads)
{
    w->threads = threads;
}

void payload_writer_abort(struct payload_writer *w)
{
    if (!w)
        return;
    unlink(w->data_path);
    pthread_mutex_lock(&w->lock);
    prism_error_set(&w->failed, PRISM_EXIT_TRACE, "%s is not wanted any more", w->data_path); /* so the crew does nothing more */
    pthread_mutex_unlock(&w->lock);
    writer_free(w);
}

/* ---- Index ---- */

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

static void add_entries(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, uint32_t blob)
{
    for (uint32_t i = 0; i < nkeys; i++) {
        w->index.entries = grow(w->index.entries, w->index.nentries, &w->entries_cap, sizeof *w->index.entries);
        w->index.entries[w->index.nentries++] = (struct payload_entry){keys[i], blob};
    }
}

static struct payload_blob content_of(const void *data, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(data, len);
    return (struct payload_blob){.hash_low = hash.low64, .hash_high = hash.high64, .raw = len, .offset = PAYLOAD_DATA_HEADER};
}

/* ---- Compress, write ---- */

static struct compressor *compressor_take(struct payload_writer *w)
{
    pthread_mutex_lock(&w->lock);
    struct compressor *c = w->idle;
    if (c)
        w->idle = c->next;
    pthread_mutex_unlock(&w->lock);
    if (c)
        return c;
    c = check(calloc(1, sizeof *c));
    c->zstd = check(ZSTD_createCCtx());
    return c;
}

static void compressor_give(struct payload_writer *w, struct compressor *c)
{
    pthread_mutex_lock(&w->lock);
    c->next = w->idle;
    w->idle = c;
    pthread_mutex_unlock(&w->lock);
}

/* Bytes of the frame, in c->buffer. */
static size_t compress(struct compressor *c, int level, const void *data, size_t len)
{
    size_t bound = ZSTD_compressBound(len);
    if (bound > c->cap) {
        free(c->buffer);
        c->buffer = check(malloc(bound));
        c->cap = bound;
    }
    size_t n = ZSTD_compressCCtx(c->zstd, c->buffer, c->cap, data, len, level);
    if (ZSTD_isError(n))
        abort(); /* for want of memory: the buffer is large enough for anything */
    return n;
}

/* Gradients are mostly noise: whether a large content is worth the time is seen from some of its parts. */
static bool worth_compressing(struct compressor *c, int level, const char *data, size_t len)
{
    size_t after = 0;
    if (len < SAMPLED)
        return true;
    for (size_t i = 0; i < SAMPLES; i++)
        after += compress(c, level, data + (len - SAMPLE) / (SAMPLES - 1) * i, SAMPLE);
    return after < SAMPLES * SAMPLE / 3 * 2;
}

/* Write outside the lock; only the place in the file is taken under it. */
static void write_blob(struct payload_writer *w, uint32_t blob, bool compressed, const struct frame *parts, size_t nparts)
{
    uint64_t stored = 0;
    int rc = 0;
    for (size_t i = 0; i < nparts; i++)
        stored += parts[i].len;
    pthread_mutex_lock(&w->lock);
    struct payload_blob *b = &w->index.blobs[blob];
    uint64_t offset = w->index.data_size;
    b->offset = offset;
    b->stored = stored;
    b->compressed = compressed;
    w->index.data_size += stored;
    pthread_mutex_unlock(&w->lock);

    pthread_mutex_lock(&w->writing);
    for (size_t i = 0; i < nparts && !rc; i++) {
        rc = write_all(w->fd, parts[i].data, parts[i].len, offset);
        offset += parts[i].len;
    }
    struct prism_error err = {0};
    if (rc)
        cannot_write(w->data_path, &err);
    pthread_mutex_unlock(&w->writing);
    if (!rc)
        return;
    pthread_mutex_lock(&w->lock);
    prism_error_set(&w->failed, err.code, "%s", err.text);
    pthread_mutex_unlock(&w->lock);
}

/* In one piece: compressed where that makes it less. */
static void store(struct payload_writer *w, struct compressor *c, uint32_t blob, const void *data, size_t len, bool worth)
{
    size_t n = worth ? compress(c, w->level, data, len) : len;
    struct frame whole = n < len ? (struct frame){c->buffer, n} : (struct frame){data, len};
    write_blob(w, blob, n < len, &whole, 1);
}

/* To be called with the lock held, if at all. */
static int report_failed(const struct payload_writer *w, struct prism_error *err)
{
    return w->failed.code ? prism_error_set(err, w->failed.code, "%s", w->failed.text) : 0;
}

/* ---- Large contents, by the crew ---- */

static bool has_failed(struct payload_writer *w)
{
    pthread_mutex_lock(&w->lock);
    bool failed = report_failed(w, NULL);
    pthread_mutex_unlock(&w->lock);
    return failed;
}

static uint32_t pour_begin(void *ctx, struct crew_job *job)
{
    struct payload_writer *w = ctx;
    struct pour *p = (struct pour *)job;
    bool fresh = false;
    if (has_failed(w))
        return 0;
    struct payload_blob content = content_of(p->room, p->len);
    pthread_mutex_lock(&w->lock);
    p->blob = blob_of(w, &content, &fresh);
    for (uint32_t i = 0; i < p->nentries; i++)
        w->index.entries[p->entry + i].blob = p->blob;
    pthread_mutex_unlock(&w->lock);
    if (!fresh)
        return 0;
    struct compressor *c = compressor_take(w);
    bool worth = worth_compressing(c, w->level, (const char *)p->room, p->len);
    size_t pieces = worth && p->len > PIECE ? (p->len + PIECE - 1) / PIECE : 0;
    if (pieces)
        p->frames = check(calloc(pieces, sizeof *p->frames));
    else
        store(w, c, p->blob, p->room, p->len, worth);
    compressor_give(w, c);
    return (uint32_t)pieces;
}

static size_t piece_len(const struct pour *p, uint32_t number)
{
    size_t from = number * PIECE;
    return p->len - from < PIECE ? p->len - from : PIECE;
}

static void pour_piece(void *ctx, struct crew_job *job, uint32_t number)
{
    struct payload_writer *w = ctx;
    struct pour *p = (struct pour *)job;
    uint8_t *raw = p->room + number * PIECE;
    size_t len = piece_len(p, number);
    if (has_failed(w))
        return;
    struct compressor *c = compressor_take(w);
    size_t n = compress(c, w->level, raw, len);
    void *to = n <= len ? raw : check(malloc(n));
    memcpy(to, c->buffer, n);
    p->frames[number] = (struct frame){to, n};
    compressor_give(w, c);
}

static void pour_end(void *ctx, struct crew_job *job)
{
    struct payload_writer *w = ctx;
    struct pour *p = (struct pour *)job;
    uint32_t pieces = p->frames ? job->pieces : 0;
    if (pieces && !has_failed(w))
        write_blob(w, p->blob, true, p->frames, pieces);
    for (uint32_t i = 0; i < pieces; i++)
        if (p->frames[i].len > piece_len(p, i))
            free((void *)p->frames[i].data);
    free(p->frames);
    rooms_give(&w->rooms, p->room);
    free(p);
}

static const struct crew_work pouring = {pour_begin, pour_piece, pour_end};

static int pour(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, void *room, size_t len, struct prism_error *err)
{
    struct pour *p = check(calloc(1, sizeof *p));
    p->room = room;
    p->len = len;
    p->nentries = nkeys;
    pthread_mutex_lock(&w->lock);
    int rc = report_failed(w, err);
    p->entry = w->index.nentries;
    add_entries(w, keys, nkeys, 0);
    if (!w->crew)
        w->crew = crew_create(&pouring, w, w->threads);
    pthread_mutex_unlock(&w->lock);
    rooms_send(&w->rooms, room);
    crew_submit(w->crew, &p->job);
    return rc;
}

/* ---- Put ---- */

static int put_small(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, const void *data, size_t len,
                     struct prism_error *err)
{
    struct payload_blob content = content_of(data, len);
    bool fresh = false;
    uint32_t blob = 0;
    pthread_mutex_lock(&w->lock);
    int rc = report_failed(w, err);
    if (!rc) {
        blob = blob_of(w, &content, &fresh);
        add_entries(w, keys, nkeys, blob);
    }
    pthread_mutex_unlock(&w->lock);
    if (!fresh || !len)
        return rc;
    struct compressor *c = compressor_take(w);
    store(w, c, blob, data, len, true);
    compressor_give(w, c);
    pthread_mutex_lock(&w->lock);
    rc = report_failed(w, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void *payload_writer_room(struct payload_writer *w, size_t len)
{
    pthread_mutex_lock(&w->lock);
    struct crew *crew = w->crew; /* there before anything is under way */
    pthread_mutex_unlock(&w->lock);
    while (crew && rooms_would_wait(&w->rooms, len) && crew_help(crew))
        ;
    return rooms_take(&w->rooms, len);
}

int payload_writer_put_room(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, void *room, size_t len,
                            struct prism_error *err)
{
    if (nkeys && len >= LARGE)
        return pour(w, keys, nkeys, room, len, err);
    int rc = nkeys ? put_small(w, keys, nkeys, room, len, err) : 0;
    rooms_give(&w->rooms, room);
    return rc;
}

int payload_writer_put(struct payload_writer *w, struct payload_key key, const void *data, size_t len,
                       struct prism_error *err)
{
    if (len < LARGE)
        return put_small(w, &key, 1, data, len, err);
    void *room = payload_writer_room(w, len);
    memcpy(room, data, len);
    return payload_writer_put_room(w, &key, 1, room, len, err);
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
    crew_finish(w->crew);
    w->crew = NULL;
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
