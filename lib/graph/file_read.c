/* file_read.c - ranks put together from the chunks they are made of. */
#include <stdlib.h>
#include <string.h>

#include "graph/file_private.h"
#include "graph/share.h"
#include "graph/validate.h"

static int damaged(struct prism_error *err, const char *what)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "graph.bin is damaged (%s); prism info shows what can be saved of it; "
                           "capture again, or name another trace", what);
}

/* ---- Communicators ---- */

static int read_comms(struct graph_file *f, const struct chunk *c)
{
    if (file_contents(f, c))
        return -1;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint32_t first = bytes_get_u32(&b), n = bytes_get_u32(&b);
    if (b.bad || first != c->first || n != c->n || first > f->facts.ncomms || n > f->facts.ncomms - first ||
        4 * (uint64_t)n > b.len - b.pos)
        return -1;
    uint64_t members = 0;
    struct bytes_reader sizes = b;
    for (uint32_t i = 0; i < n; i++)
        members += bytes_get_u32(&b);
    if (b.len - b.pos != 4 * members)
        return -1;
    for (uint32_t i = first; i < first + n; i++) {
        struct graph_comm *comm = &f->comms[i];
        free(comm->ranks);
        comm->size = bytes_get_u32(&sizes);
        comm->ranks = file_array(comm->size, sizeof *comm->ranks);
        for (uint32_t m = 0; m < comm->size; m++)
            comm->ranks[m] = (int32_t)bytes_get_u32(&b);
    }
    return 0;
}

static int need_comm(struct graph_file *f, uint32_t number)
{
    if (number >= f->facts.ncomms)
        return -1;
    if (!f->comms) {
        uint64_t listed = 0; /* the index claims no more than there are chunks for */
        for (uint32_t i = 0; i < f->chunks.n; i++)
            listed += f->chunks.list[i].type == CHUNK_COMMS ? f->chunks.list[i].n : 0;
        if (listed < f->facts.ncomms && !f->salvage)
            return -1;
        f->comms = file_check(calloc(f->facts.ncomms, sizeof *f->comms));
    }
    if (f->comms[number].ranks)
        return 0;
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        const struct chunk *c = &f->chunks.list[i];
        if (c->type == CHUNK_COMMS && c->first <= number && number - c->first < c->n)
            return read_comms(f, c);
    }
    return -1;
}

int graph_file_comm(struct graph_file *f, uint32_t comm, const struct graph_comm **out, struct prism_error *err)
{
    if (comm >= f->facts.ncomms)
        return prism_error_set(err, PRISM_EXIT_TRACE, "there is no communicator %u in a trace of %u", comm, f->facts.ncomms);
    if (need_comm(f, comm))
        return damaged(err, "a communicator is missing");
    *out = &f->comms[comm];
    return 0;
}

/* ---- Records ---- */

/* Of a chunk of RANKS. */
struct record {
    uint32_t klass, ncomms, niterations, nstreams, nhosts;
    struct chunk_key program, counts;
    const uint8_t *globals, *places, *iterations; /* into the chunk's contents */
};

static uint32_t word(const uint8_t *p)
{
    struct bytes_reader r = bytes_reader_init(p, 4);
    return bytes_get_u32(&r);
}

#define FIXED (5 * 4 + 2 * sizeof(struct chunk_key))

static bool cut_records(struct bytes_reader *b, struct record *list, uint32_t n)
{
    const uint8_t *fixed = bytes_get(b, (size_t)n * FIXED);
    if (!fixed)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct record *r = &list[i];
        uint32_t *words[] = {&r->klass, &r->ncomms, &r->niterations, &r->nstreams, &r->nhosts};
        for (uint32_t w = 0; w < 5; w++)
            *words[w] = word(fixed + 4 * ((size_t)w * n + i));
        memcpy(&r->program, fixed + 20 * (size_t)n + 32 * (size_t)i, sizeof r->program);
        memcpy(&r->counts, fixed + 20 * (size_t)n + 32 * (size_t)i + 16, sizeof r->counts);
        if (r->ncomms > GRAPH_COMMS_MAX || r->nstreams > GRAPH_STREAMS_MAX || r->nhosts > UINT16_MAX + 1u)
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!(list[i].globals = bytes_get(b, 4 * (size_t)list[i].ncomms)))
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (!(list[i].places = bytes_get(b, 4 * (size_t)list[i].ncomms)))
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].niterations && !(list[i].iterations = bytes_get(b, 4 * ((size_t)list[i].niterations + 1))))
            return false;
    return b->pos == b->len;
}

/* Contents of table chunk c into f->raw and its records (owned by the caller). NULL: damaged. */
static struct record *read_records(struct graph_file *f, const struct chunk *c)
{
    if (file_contents(f, c))
        return NULL;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint32_t first = bytes_get_u32(&b), n = bytes_get_u32(&b);
    if (b.bad || first != c->first || n != c->n || first > f->facts.world || n > f->facts.world - first ||
        n > f->raw.len / FIXED)
        return NULL;
    struct record *list = file_array(n, sizeof *list);
    if (cut_records(&b, list, n))
        return list;
    free(list);
    return NULL;
}

/* Communicators, iterations and numbers of a record; its chunk's contents are still in f->raw. */
static void take_tables(const struct record *record, struct graph_rank *r)
{
    *r = (struct graph_rank){.ncomms = record->ncomms, .nstreams = record->nstreams, .nhosts = record->nhosts,
                             .klass = record->klass, .niterations = record->niterations};
    r->comms = file_array(r->ncomms, sizeof *r->comms);
    for (uint32_t i = 0; i < r->ncomms; i++)
        r->comms[i] = (struct graph_member){(int32_t)word(record->globals + 4 * (size_t)i),
                                            (int32_t)word(record->places + 4 * (size_t)i)};
    if (!r->niterations)
        return;
    r->iterations = file_array(r->niterations + 1, sizeof *r->iterations);
    for (uint32_t i = 0; i <= r->niterations; i++)
        r->iterations[i] = word(record->iterations + 4 * (size_t)i);
}

/* Its nodes and parts; on failure it is empty. */
static int complete_rank(struct graph_file *f, const struct record *record, struct graph_rank *r)
{
    int rc = 0;
    for (uint32_t i = 0; i < r->ncomms && !rc; i++)
        if (r->comms[i].global != -1)
            rc = r->comms[i].global < 0 || need_comm(f, (uint32_t)r->comms[i].global);
    if (!rc && !chunk_key_is_none(&record->program))
        rc = file_assemble(f, &record->program, &record->counts, r);
    else if (!rc) {
        r->nodes = file_array(0, sizeof *r->nodes);
        r->parts = file_array(0, sizeof *r->parts);
    }
    if (rc)
        graph_rank_clear(r);
    return rc ? -1 : 0;
}

/* ---- Works ---- */

static int take_works(struct graph_file *f, const struct chunk_key *key, uint32_t nnodes, float **works)
{
    if (chunk_key_is_none(key))
        return 0;
    if (*works || file_find(f, CHUNK_WORKS, key) || f->raw.len != 4 + 4 * (uint64_t)nnodes || word(f->raw.data) != nnodes)
        return -1;
    *works = file_array(nnodes, sizeof **works);
    for (uint32_t i = 0; i < nnodes; i++) {
        uint32_t bits = word(f->raw.data + 4 + 4 * (size_t)i);
        memcpy(*works + i, &bits, sizeof bits);
    }
    return 0;
}

#define TIME_RECORD (4 + 2 * sizeof(struct chunk_key))

/* Works of all ranks (only = UINT32_MAX) or of one, whose rank is `ranks` itself. */
static int read_times(struct graph_file *f, const struct chunk *c, uint32_t only, struct graph_rank *ranks)
{
    if (file_contents(f, c) || f->raw.len % TIME_RECORD)
        return -1;
    struct bytes table = f->raw;
    int rc = 0;
    f->raw = (struct bytes){0};
    for (size_t at = 0; at < table.len && !rc; at += TIME_RECORD) {
        uint32_t rank = word(table.data + at);
        struct chunk_key device, host;
        memcpy(&device, table.data + at + 4, sizeof device);
        memcpy(&host, table.data + at + 20, sizeof host);
        if (rank >= f->facts.world)
            rc = -1;
        else if (only == UINT32_MAX || only == rank) {
            struct graph_rank *r = only == rank ? ranks : &ranks[rank];
            rc = take_works(f, &device, r->nnodes, &r->device_work) || take_works(f, &host, r->nnodes, &r->host_work);
            if (rc && f->salvage) { /* the rank without times is still worth having */
                free(r->device_work);
                free(r->host_work);
                r->device_work = r->host_work = NULL;
                rc = 0;
            }
        }
    }
    bytes_free(&table);
    return rc ? -1 : 0;
}

static int all_times(struct graph_file *f, uint32_t only, struct graph_rank *ranks)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->chunks.n && !rc; i++)
        if (f->chunks.list[i].type == CHUNK_TIMES)
            rc = read_times(f, &f->chunks.list[i], only, ranks) && !f->salvage;
    return rc ? -1 : 0;
}

/* ---- One rank, all ranks ---- */

int graph_file_rank(struct graph_file *f, uint32_t rank, struct graph_rank *out, struct prism_error *err)
{
    *out = (struct graph_rank){0};
    if (rank >= f->facts.world)
        return prism_error_set(err, PRISM_EXIT_TRACE, "there is no rank %u in a world of %u", rank, f->facts.world);
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        const struct chunk *c = &f->chunks.list[i];
        if (c->type != CHUNK_RANKS || rank < c->first || rank - c->first >= c->n)
            continue;
        struct record *list = read_records(f, c), mine;
        if (!list)
            break;
        mine = list[rank - c->first];
        take_tables(&mine, out);
        free(list);
        if (complete_rank(f, &mine, out) || all_times(f, rank, out))
            break;
        return 0;
    }
    graph_rank_clear(out);
    return damaged(err, "a rank is not whole");
}

static int read_ranks(struct graph_file *f, const struct chunk *c, struct graph *g, struct graph_file_saved *saved)
{
    struct record *list = read_records(f, c);
    if (!list)
        return -1;
    bool *taken = file_array(c->n, sizeof *taken);
    int rc = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        struct graph_rank *r = &g->ranks[c->first + i];
        taken[i] = !r->comms; /* else the rank is in two chunks */
        if (taken[i])
            take_tables(&list[i], r);
        else if (!saved)
            rc = -1;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (!taken[i])
            continue;
        int missing = complete_rank(f, &list[i], &g->ranks[c->first + i]); /* which empties it then */
        if (saved)
            saved->ranks += !missing;
        else if (missing)
            rc = -1;
    }
    free(taken);
    free(list);
    return rc;
}

/* Chunks that nothing refers to are damage too: every bit of the file counts. */
static int all_used(struct graph_file *f)
{
    struct file_key *k, *next;
    HASH_ITER(hh, f->keys, k, next)
        if (!k->used && k->id.type <= CHUNK_WORKS && file_contents(f, k->chunk))
            return -1;
    return 0;
}

static int read_all(struct graph_file *f, struct graph *g, struct graph_file_saved *saved)
{
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        const struct chunk *c = &f->chunks.list[i];
        if (c->type == CHUNK_COMMS && c->n && need_comm(f, c->first) && !saved)
            return -1;
    }
    for (uint32_t i = 0; i < f->facts.ncomms && !saved; i++)
        if (!f->comms || !f->comms[i].ranks)
            return -1;
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        const struct chunk *c = &f->chunks.list[i];
        if (c->type == 0 || c->type >= CHUNK_INDEX) {
            if (!saved)
                return -1;
        } else if (c->type == CHUNK_RANKS) {
            if (read_ranks(f, c, g, saved) && !saved)
                return -1;
            ranks += c->n;
        }
    }
    if (!saved && (ranks != g->world || all_used(f)))
        return -1;
    return all_times(f, UINT32_MAX, g->ranks);
}

/* Communicators that were lost have no members: ranks stays NULL. A few damaged bytes can claim millions of them. */
static void move_comms(struct graph_file *f, struct graph *g)
{
    g->ncomms = f->comms ? f->facts.ncomms : 0;
    g->comms = f->comms;
    f->comms = NULL;
    uint32_t cap = 1; /* graph_add_comm expects room for the next power of two */
    while (cap < g->ncomms)
        cap *= 2;
    g->comms = file_check(realloc(g->comms, cap * sizeof *g->comms));
}

struct graph *graph_file_read(struct graph_file *f, struct graph_file_saved *saved, struct prism_error *err)
{
    uint64_t claimed = 0;
    for (uint32_t i = 0; i < f->chunks.n; i++)
        claimed += f->chunks.list[i].type == CHUNK_RANKS ? f->chunks.list[i].n : 0;
    if (saved)
        *saved = (struct graph_file_saved){.lost_bytes = f->lost_bytes};
    if (claimed != f->facts.world && !saved) {
        damaged(err, "ranks are missing");
        return NULL;
    }
    struct graph *g = graph_create(f->facts.world, f->facts.gpus_per_node);
    struct prism_error cause = {0};
    g->nclasses = f->facts.nclasses;
    int rc = read_all(f, g, saved);
    move_comms(f, g);
    if (!rc && !graph_validate(g, &cause))
        return g;
    graph_destroy(g);
    damaged(err, rc ? "contents" : cause.text);
    return NULL;
}

/* ---- Either version ---- */

struct graph *graph_read(const void *data, size_t len, struct prism_error *err)
{
    uint32_t version = len >= 12 && !memcmp(data, GRAPH_MAGIC, 8) ? word((const uint8_t *)data + 8) : 0;
    if (version == 1) {
        struct graph *old = graph_read_v1(data, len, err);
        if (old)
            graph_share(old);
        return old;
    }
    struct graph_file *f = graph_file_open(data, len, err);
    struct graph *g = f ? graph_file_read(f, NULL, err) : NULL;
    graph_file_close(f);
    return g;
}
