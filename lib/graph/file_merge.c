/* file_merge.c - one file of those that several daemons wrote. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <zstd.h>

#include "graph/file_private.h"

struct copied { /* contents that are in the merged file */
    struct {
        uint32_t type;
        struct chunk_key key;
    } id;
    UT_hash_handle hh;
};

struct merging {
    struct bytes *out;
    struct chunks chunks;
    struct copied *copied;
    struct graph *g; /* ranks have tables only */
    struct file_keys *keys;
    uint32_t *source; /* by rank: file + 1, 0 = none yet */
};

static bool is_new(struct merging *m, const struct chunk *c)
{
    struct copied *k, id;
    memset(&id, 0, sizeof id);
    id.id.type = c->type;
    id.id.key = c->key;
    HASH_FIND(hh, m->copied, &id.id, sizeof id.id, k);
    if (k)
        return false;
    k = calloc(1, sizeof *k);
    if (!k)
        abort();
    k->id = id.id;
    HASH_ADD(hh, m->copied, id, sizeof k->id, k);
    return true;
}

static int copy_chunk(struct merging *m, const struct graph_file *f, const struct chunk *c)
{
    struct chunk copy = *c, head;
    if (!chunk_at(f->data, f->len, c->offset, &head) || memcmp(&head.key, &c->key, sizeof head.key))
        return -1;
    if (!is_new(m, c))
        return 0;
    chunk_put(m->out, &copy, f->data + c->offset + CHUNK_HEAD);
    chunks_add(&m->chunks, &copy);
    return 0;
}

static bool is_elsewhere(const struct file_record *r)
{
    return chunk_key_is_none(&r->program) && !r->ncomms && !r->niterations;
}

static int take_records(struct merging *m, struct graph_file *f, uint32_t number, const struct chunk *c,
                        struct prism_error *err)
{
    struct file_record *list = file_records(f, c);
    if (!list)
        return prism_error_set(err, PRISM_EXIT_TRACE, "part %u of the graph is damaged; capture again", number);
    int rc = 0;
    for (uint32_t i = 0; i < c->n && !rc; i++) {
        uint32_t rank = c->first + i;
        if (is_elsewhere(&list[i]))
            continue;
        if (m->source[rank]) {
            rc = prism_error_set(err, PRISM_EXIT_TRACE, "rank %u is in part %u of the graph and in part %u: they are of "
                                 "different captures", rank, m->source[rank] - 1, number);
            continue;
        }
        m->source[rank] = number + 1;
        m->keys[rank] = (struct file_keys){list[i].program, list[i].counts};
        file_take_tables(&list[i], &m->g->ranks[rank]);
    }
    free(list);
    return rc;
}

/* Chunks of one type of all files, in their order. */
static int each(struct merging *m, struct graph_file *const *files, uint32_t n, uint32_t type, struct prism_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < files[i]->chunks.n; k++) {
            const struct chunk *c = &files[i]->chunks.list[k];
            if (c->type != type)
                continue;
            if (type == CHUNK_RANKS && take_records(m, files[i], i, c, err))
                return -1;
            if (type != CHUNK_RANKS && copy_chunk(m, files[i], c))
                return prism_error_set(err, PRISM_EXIT_TRACE, "part %u of the graph is damaged; capture again", i);
        }
    return 0;
}

static int put_chunk(struct merging *m, struct bytes *raw, struct chunk c)
{
    struct bytes frame = {0};
    size_t bound = ZSTD_compressBound(raw->len);
    size_t stored = ZSTD_compress(bytes_reserve(&frame, bound), bound, raw->data, raw->len, 3);
    if (ZSTD_isError(stored)) /* only for want of memory */
        abort();
    c.stored = (uint32_t)stored;
    c.raw = (uint32_t)raw->len;
    c.key = chunk_key_of(raw->data, raw->len);
    chunk_put(m->out, &c, frame.data);
    chunks_add(&m->chunks, &c);
    bytes_free(&frame);
    return 0;
}

static void put_ranks(struct merging *m)
{
    struct bytes raw = {0};
    for (uint32_t first = 0; first < m->g->world; first += CHUNK_RANKS_N) {
        uint32_t n = m->g->world - first < CHUNK_RANKS_N ? m->g->world - first : CHUNK_RANKS_N;
        bytes_clear(&raw);
        file_put_records(&raw, m->g->ranks, m->keys + first, first, n);
        put_chunk(m, &raw, (struct chunk){.type = CHUNK_RANKS, .first = first, .n = n});
    }
    bytes_free(&raw);
}

/* Communicators are numbered alike by all daemons of a capture: the same chunks, copied once. */
static int check_alike(struct graph_file *const *files, uint32_t n, struct prism_error *err)
{
    for (uint32_t i = 1; i < n; i++) {
        const struct file_facts *a = &files[0]->facts, *b = &files[i]->facts;
        if (a->world != b->world || a->gpus_per_node != b->gpus_per_node || a->ncomms != b->ncomms)
            return prism_error_set(err, PRISM_EXIT_TRACE,
                                   "parts 0 and %u of the graph are of different captures (%u and %u ranks, %u and %u "
                                   "communicators)", i, a->world, b->world, a->ncomms, b->ncomms);
    }
    return 0;
}

static int merge(struct merging *m, struct graph_file *const *files, uint32_t n, struct prism_error *err)
{
    static const uint32_t copied[] = {CHUNK_COMMS, CHUNK_BLOCK, CHUNK_PROGRAM, CHUNK_COUNTS, CHUNK_WORKS, CHUNK_TIMES};
    struct file_facts facts = files[0]->facts;
    for (uint32_t i = 1; i < n; i++)
        if (files[i]->facts.nclasses != facts.nclasses)
            facts.nclasses = 0; /* to be found again */
    chunk_put_file_header(m->out, &facts);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        if (each(m, files, n, copied[i], err))
            return -1;
    uint32_t comms = 0;
    for (uint32_t i = 0; i < m->chunks.n; i++)
        comms += m->chunks.list[i].type == CHUNK_COMMS ? m->chunks.list[i].n : 0;
    if (comms != facts.ncomms)
        return prism_error_set(err, PRISM_EXIT_TRACE, "the parts of the graph name different communicators: they are of "
                               "different captures");
    if (each(m, files, n, CHUNK_RANKS, err))
        return -1;
    put_ranks(m);
    chunk_put_end(m->out, &m->chunks, &facts);
    return 0;
}

int graph_file_merge(struct graph_file *const *files, uint32_t n, struct bytes *out, struct prism_error *err)
{
    bytes_clear(out);
    if (!n || check_alike(files, n, err))
        return -1;
    uint32_t world = files[0]->facts.world;
    struct merging m = {.out = out, .g = graph_create(world, 0), .keys = calloc(world + 1u, sizeof *m.keys),
                        .source = calloc(world + 1u, sizeof *m.source)};
    if (!m.keys || !m.source)
        abort();
    int rc = merge(&m, files, n, err);
    struct copied *k, *next;
    HASH_ITER(hh, m.copied, k, next) {
        HASH_DEL(m.copied, k);
        free(k);
    }
    free(m.chunks.list);
    free(m.keys);
    free(m.source);
    graph_destroy(m.g);
    if (rc)
        bytes_clear(out);
    return rc;
}
