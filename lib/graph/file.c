#include "graph/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "graph/file_private.h"

/* ---- Opening ---- */

static int refuse(struct prism_error *err, const char *what)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "graph.bin is damaged (%s); prism info shows what can be saved of it; "
                           "capture again, or name another trace", what);
}

static int read_header(struct graph_file *f, struct prism_error *err)
{
    if (f->len < FILE_HEADER || memcmp(f->data, GRAPH_MAGIC, 8))
        return refuse(err, f->len < FILE_HEADER ? "too short" : "not a graph");
    struct bytes_reader r = bytes_reader_init(f->data, FILE_HEADER);
    bytes_get(&r, 8);
    uint32_t version = bytes_get_u32(&r);
    if (version != GRAPH_VERSION)
        return prism_error_set(err, PRISM_EXIT_TRACE,
                               "graph.bin is of version %u, this Prism reads versions 1 and %u; capture again, or use the "
                               "Prism that made it",
                               version, GRAPH_VERSION);
    f->facts.world = bytes_get_u32(&r);
    f->facts.gpus_per_node = bytes_get_u32(&r);
    bytes_get_u32(&r);
    if (!FORMAT_HOLDS(bytes_get_u64(&r) == XXH64(f->data, FILE_HEADER - 8, 0)))
        return refuse(err, "checksum of the header");
    return f->facts.world > GRAPH_WORLD_MAX ? refuse(err, "sizes") : 0;
}

static bool get_entry(struct bytes_reader *r, struct chunk *c)
{
    c->type = bytes_get_u32(r);
    c->first = bytes_get_u32(r);
    c->n = bytes_get_u32(r);
    c->stored = bytes_get_u32(r);
    c->raw = bytes_get_u32(r);
    bytes_get_u32(r);
    c->offset = bytes_get_u64(r);
    const void *key = bytes_get(r, sizeof c->key.bytes);
    if (key)
        memcpy(c->key.bytes, key, sizeof c->key.bytes);
    return key;
}

/* Chunks lie one behind the other from the header to the index: no byte is without a checksum. */
static int read_index(struct graph_file *f, struct prism_error *err)
{
    if (f->len < FILE_HEADER + CHUNK_HEAD + FILE_TRAILER)
        return refuse(err, "too short");
    const uint8_t *end = f->data + f->len - FILE_TRAILER;
    struct bytes_reader r = bytes_reader_init(end, FILE_TRAILER);
    const void *magic = bytes_get(&r, 8);
    uint64_t offset = bytes_get_u64(&r), length = bytes_get_u64(&r);
    if (memcmp(magic, FILE_END, 8) || !FORMAT_HOLDS(bytes_get_u64(&r) == XXH64(end, FILE_TRAILER - 8, 0)) || length != f->len)
        return refuse(err, "its end is missing: it was cut, or never finished");
    struct chunk index;
    if (!chunk_at(f->data, f->len - FILE_TRAILER, offset, &index) || index.type != CHUNK_INDEX ||
        offset + CHUNK_HEAD + index.stored != f->len - FILE_TRAILER || chunk_contents(f->zstd, f->data, &index, &f->raw))
        return refuse(err, "checksum of the index");
    r = bytes_reader_init(f->raw.data, f->raw.len);
    f->facts.ncomms = bytes_get_u32(&r);
    f->facts.nclasses = bytes_get_u32(&r);
    uint32_t n = bytes_get_u32(&r);
    bytes_get_u32(&r);
    if (r.bad || r.len != 16 + CHUNK_ENTRY * (uint64_t)n || f->facts.nclasses > f->facts.world ||
        f->facts.ncomms > FILE_COMMS_MAX)
        return refuse(err, "sizes");
    uint64_t at = FILE_HEADER;
    for (uint32_t i = 0; i < n; i++) {
        struct chunk c;
        if (!get_entry(&r, &c) || c.offset != at || c.stored > f->len || c.raw > CHUNK_RAW_MAX)
            return refuse(err, "index");
        at += CHUNK_HEAD + (uint64_t)c.stored;
        chunks_add(&f->chunks, &c);
    }
    f->index_bytes = f->len - at;
    return at == offset ? 0 : refuse(err, "index");
}

static struct graph_file *create(const void *data, size_t len)
{
    struct graph_file *f = calloc(1, sizeof *f);
    if (!f || !(f->zstd = ZSTD_createDCtx()))
        abort();
    f->data = data;
    f->len = len;
    return f;
}

struct graph_file *graph_file_open(const void *data, size_t len, struct prism_error *err)
{
    struct graph_file *f = create(data, len);
    if (!read_header(f, err) && !read_index(f, err)) {
        file_index_keys(f);
        return f;
    }
    graph_file_close(f);
    return NULL;
}

struct graph_file *graph_file_map(const char *path, struct prism_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *data = MAP_FAILED;
    if (fd < 0 || fstat(fd, &st)) {
        prism_error_set(err, PRISM_EXIT_TRACE, "cannot open %s: %m", path);
    } else if (st.st_size == 0) {
        prism_error_set(err, PRISM_EXIT_TRACE, "%s is empty; capture again, or name another trace", path);
    } else {
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            prism_error_set(err, PRISM_EXIT_TRACE, "cannot map %s: %m", path);
        else
            madvise(data, (size_t)st.st_size, MADV_RANDOM); /* what is not looked at is not read from disk */
    }
    if (fd >= 0)
        close(fd);
    struct graph_file *f = data == MAP_FAILED ? NULL : graph_file_open(data, (size_t)st.st_size, err);
    if (f)
        f->mapped = data;
    else if (data != MAP_FAILED)
        munmap(data, (size_t)st.st_size);
    return f;
}

/* The numbers in a table chunk: its first two words. */
static bool table_range(struct graph_file *f, struct chunk *c)
{
    if (c->type == CHUNK_COMMS || c->type == CHUNK_RANKS) {
        if (chunk_contents(f->zstd, f->data, c, &f->raw))
            return false;
        struct bytes_reader r = bytes_reader_init(f->raw.data, f->raw.len);
        c->first = bytes_get_u32(&r);
        c->n = bytes_get_u32(&r);
        uint32_t most = c->type == CHUNK_COMMS ? FILE_COMMS_MAX : f->facts.world;
        return !r.bad && c->first <= most && c->n <= most - c->first;
    }
    return true;
}

/* The places where a chunk's magic stands are tried; after a sound chunk the search goes on behind it. */
struct graph_file *graph_file_salvage(const void *data, size_t len, struct prism_error *err)
{
    struct graph_file *f = create(data, len);
    uint64_t sound = FILE_HEADER;
    if (read_header(f, err)) {
        graph_file_close(f);
        return NULL;
    }
    for (uint64_t at = FILE_HEADER; at + CHUNK_HEAD <= len;) {
        struct chunk c;
        if (!chunk_at(data, len, at, &c) || !table_range(f, &c)) {
            const void *next = memchr(f->data + at + 1, CHUNK_MAGIC & 0xff, len - at - 1);
            at = next ? (uint64_t)((const uint8_t *)next - f->data) : len;
            continue;
        }
        at += CHUNK_HEAD + (uint64_t)c.stored;
        sound += CHUNK_HEAD + (uint64_t)c.stored;
        if (c.type != CHUNK_INDEX)
            chunks_add(&f->chunks, &c);
        if (c.type == CHUNK_COMMS && c.first + c.n > f->facts.ncomms)
            f->facts.ncomms = c.first + c.n;
    }
    f->lost_bytes = len > sound + FILE_TRAILER ? len - sound : 0;
    f->salvage = true;
    file_index_keys(f);
    return f;
}

void graph_file_close(struct graph_file *f)
{
    if (!f)
        return;
    file_free_caches(f);
    if (f->mapped)
        munmap(f->mapped, f->len);
    free(f->chunks.list);
    bytes_free(&f->raw);
    ZSTD_freeDCtx(f->zstd);
    free(f);
}

/* ---- Information ---- */

void graph_file_info(const struct graph_file *f, struct graph_file_info *info)
{
    *info = (struct graph_file_info){.world = f->facts.world, .gpus_per_node = f->facts.gpus_per_node,
                                     .ncomms = f->facts.ncomms, .nclasses = f->facts.nclasses, .bytes = f->len,
                                     .index_bytes = f->index_bytes + FILE_HEADER, .lost_bytes = f->lost_bytes};
    uint64_t *by_type[CHUNK_TYPES] = {
        [CHUNK_BLOCK] = &info->structure_bytes, [CHUNK_PROGRAM] = &info->structure_bytes,
        [CHUNK_COUNTS] = &info->count_bytes,    [CHUNK_WORKS] = &info->time_bytes,
        [CHUNK_TIMES] = &info->time_bytes,      [CHUNK_COMMS] = &info->comm_bytes,
        [CHUNK_RANKS] = &info->rank_bytes,
    };
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        const struct chunk *c = &f->chunks.list[i];
        if (c->type < CHUNK_TYPES && by_type[c->type])
            *by_type[c->type] += CHUNK_HEAD + c->stored;
        info->blocks += c->type == CHUNK_BLOCK;
        info->programs += c->type == CHUNK_PROGRAM;
    }
}
