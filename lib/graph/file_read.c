/* file_read.c - ranks put together from the chunks they are made of. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <zstd.h>

#include "graph/block_peer.h"
#include "graph/file_private.h"
#include "graph/share.h"
#include "graph/validate.h"

struct id {
    uint32_t type;
    struct chunk_key key;
};

struct file_key {
    struct id id;
    const struct chunk *chunk;
    bool used;
    UT_hash_handle hh;
};

struct file_program {
    struct chunk_key key;
    struct graph_rank rank;      /* nodes shared; parts with relative peers, counts 0 */
    uint32_t ncomms;             /* communicators that sends and receives name are below */
    bool *by_place;              /* by communicator: whether peers depend on the rank's place in it */
    UT_hash_handle hh;
};

struct file_parts {
    struct chunk_key key; /* of program, counts and places */
    struct graph_rank rank;
    UT_hash_handle hh;
};

static void *check(void *p)
{
    if (!p)
        abort();
    return p;
}

static void *array(uint32_t n, size_t size)
{
    uint64_t cap = 1;
    while (cap < n)
        cap *= 2;
    return check(calloc(cap, size));
}

static int damaged(struct prism_error *err, const char *what)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "graph.bin is damaged (%s); prism info shows what can be saved of it; "
                           "capture again, or name another trace", what);
}

/* ---- Chunks by content ---- */

void file_index_keys(struct graph_file *f)
{
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        struct file_key *k = check(calloc(1, sizeof *k)), *other;
        k->id.type = f->chunks.list[i].type;
        k->id.key = f->chunks.list[i].key;
        k->chunk = &f->chunks.list[i];
        HASH_FIND(hh, f->keys, &k->id, sizeof k->id, other);
        if (other)
            free(k);
        else
            HASH_ADD(hh, f->keys, id, sizeof k->id, k);
    }
}

/* Contents of a chunk into f->raw; its head must be what the index says. */
static int contents(struct graph_file *f, const struct chunk *c)
{
    struct chunk head;
    if (!chunk_at(f->data, f->len, c->offset, &head) || head.type != c->type || head.stored != c->stored ||
        head.raw != c->raw || memcmp(&head.key, &c->key, sizeof c->key))
        return -1;
    return chunk_contents(f->zstd, f->data, c, &f->raw);
}

static int find(struct graph_file *f, uint32_t type, const struct chunk_key *key)
{
    struct file_key *k;
    struct id id;
    memset(&id, 0, sizeof id);
    id.type = type;
    id.key = *key;
    HASH_FIND(hh, f->keys, &id, sizeof id, k);
    if (!k || contents(f, k->chunk))
        return -1;
    k->used = true;
    return 0;
}

/* ---- Programs ---- */

static void free_program(struct file_program *p)
{
    graph_rank_clear(&p->rank);
    free(p->by_place);
    free(p);
}

static int add_block(struct graph_file *f, const struct chunk_key *key, struct graph_rank *r, uint32_t nnodes, uint32_t nparts)
{
    uint32_t n, np;
    if (find(f, CHUNK_BLOCK, key) || !block_sizes(&f->raw, &n, &np) || n > nnodes - r->nnodes || np > nparts - r->nparts)
        return -1;
    block_get(&f->raw, r->nodes + r->nnodes, r->parts + r->nparts, r->nparts);
    r->nnodes += n;
    r->nparts += np;
    return 0;
}

/* Ordinals count on over blocks; which communicators are used for sends and receives. */
static int complete(struct file_program *p)
{
    struct graph_rank *r = &p->rank;
    uint32_t ncomms = 0, parts = 0;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind == GRAPH_COMM && n->comm >= GRAPH_COMMS_MAX)
            return -1;
        if (n->kind == GRAPH_COMM && n->comm >= ncomms)
            ncomms = n->comm + 1;
        if (n->first_part != parts || n->nparts > r->nparts - parts || (n->nparts && n->kind != GRAPH_COMM))
            return -1;
        parts += n->nparts;
    }
    if (parts != r->nparts)
        return -1;
    uint32_t *next = array(ncomms, sizeof *next);
    p->ncomms = ncomms;
    p->by_place = array(ncomms, sizeof *p->by_place);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM)
            continue;
        n->ordinal += next[n->comm]++;
        for (uint32_t k = n->first_part; k < n->first_part + n->nparts; k++)
            p->by_place[n->comm] |= graph_feeds(r->parts[k].op) >= GRAPH_FEEDS_SEND;
    }
    free(next);
    return 0;
}

/* Sizes come first, so that memory is not taken for more than the blocks hold: a block of n nodes is longer than n bytes. */
static int sum_blocks(struct graph_file *f, const struct chunk_key *keys, uint32_t n, uint64_t *nodes)
{
    for (uint32_t i = 0; i < n; i++) {
        struct file_key *k;
        struct id id;
        memset(&id, 0, sizeof id);
        id.type = CHUNK_BLOCK;
        id.key = keys[i];
        HASH_FIND(hh, f->keys, &id, sizeof id, k);
        if (!k)
            return -1;
        *nodes += k->chunk->raw;
    }
    return 0;
}

static struct file_program *make_program(struct graph_file *f, const struct chunk_key *key)
{
    if (find(f, CHUNK_PROGRAM, key))
        return NULL;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint32_t nnodes = bytes_get_u32(&b), nparts = bytes_get_u32(&b), nblocks = bytes_get_u32(&b);
    uint64_t most = 0;
    if (b.bad || f->raw.len != 12 + sizeof *key * (uint64_t)nblocks)
        return NULL;
    struct chunk_key *keys = array(nblocks, sizeof *keys);
    if (nblocks)
        memcpy(keys, bytes_get(&b, nblocks * sizeof *keys), nblocks * sizeof *keys);
    struct file_program *p = NULL;
    if (!sum_blocks(f, keys, nblocks, &most) && nnodes <= most && nparts <= most) {
        p = check(calloc(1, sizeof *p));
        void *data;
        p->key = *key;
        p->rank.nodes_shared = shared_create(nnodes, sizeof *p->rank.nodes, &data);
        p->rank.nodes = data;
        p->rank.parts = array(nparts, sizeof *p->rank.parts);
    }
    int rc = p ? 0 : -1;
    for (uint32_t i = 0; i < nblocks && !rc; i++)
        rc = add_block(f, &keys[i], &p->rank, nnodes, nparts);
    free(keys);
    if (!rc && p->rank.nnodes == nnodes && p->rank.nparts == nparts && !complete(p))
        return p;
    if (p)
        free_program(p);
    return NULL;
}

static struct file_program *program_of(struct graph_file *f, const struct chunk_key *key)
{
    struct file_program *p;
    HASH_FIND(hh, f->programs, key, sizeof *key, p);
    if (p || !(p = make_program(f, key)))
        return p;
    HASH_ADD(hh, f->programs, key, sizeof p->key, p);
    return p;
}

/* ---- Parts ---- */

static int fill_counts(struct graph_file *f, const struct chunk_key *counts, struct graph_part *parts, uint32_t n)
{
    if (find(f, CHUNK_COUNTS, counts))
        return -1;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint8_t width = bytes_get_u8(&b);
    if ((width != 2 && width != 4 && width != 8) || f->raw.len != 1 + (uint64_t)width * n)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        parts[i].count = width == 8 ? bytes_get_u64(&b) : width == 4 ? bytes_get_u32(&b) : bytes_get_u16(&b);
    return 0;
}

static uint32_t size_of(const struct graph_file *f, const struct graph_rank *r, uint32_t comm)
{
    return comm < r->ncomms && r->comms[comm].global >= 0 ? f->comms[r->comms[comm].global].size : 0;
}

static struct chunk_key parts_key(const struct graph_file *f, const struct file_program *p, const struct chunk_key *counts,
                                  const struct graph_rank *r)
{
    struct bytes b = {0};
    bytes_put(&b, p->key.bytes, sizeof p->key.bytes);
    bytes_put(&b, counts->bytes, sizeof counts->bytes);
    for (uint32_t c = 0; c < p->ncomms; c++)
        if (p->by_place[c]) {
            bytes_put_u32(&b, size_of(f, r, c));
            bytes_put_u32(&b, c < r->ncomms ? (uint32_t)r->comms[c].rank : 0);
        }
    struct chunk_key key = chunk_key_of(b.data, b.len);
    bytes_free(&b);
    return key;
}

static void absolute_peers(const struct graph_file *f, const struct file_program *p, struct graph_rank *r)
{
    for (uint32_t i = 0; i < p->rank.nnodes; i++) {
        const struct graph_node *n = &p->rank.nodes[i];
        uint32_t size = n->nparts ? size_of(f, r, n->comm) : 0;
        for (uint32_t k = n->first_part; k < n->first_part + n->nparts; k++)
            r->parts[k].peer = block_absolute(r->parts[k].op, r->parts[k].peer, size ? r->comms[n->comm].rank : 0, size);
    }
}

/* r has its communicators; it gets nodes and parts. */
static int assemble(struct graph_file *f, const struct chunk_key *program, const struct chunk_key *counts, struct graph_rank *r)
{
    struct file_program *p = program_of(f, program);
    if (!p)
        return -1;
    struct chunk_key key = parts_key(f, p, counts, r);
    struct file_parts *known;
    shared_use_nodes(r, &p->rank);
    HASH_FIND(hh, f->parts, &key, sizeof key, known);
    if (!known) {
        void *data;
        known = check(calloc(1, sizeof *known));
        known->key = key;
        known->rank.comms = r->comms; /* for a moment */
        known->rank.ncomms = r->ncomms;
        known->rank.nparts = p->rank.nparts;
        known->rank.parts_shared = shared_create(p->rank.nparts, sizeof *p->rank.parts, &data);
        known->rank.parts = data;
        if (p->rank.nparts)
            memcpy(data, p->rank.parts, p->rank.nparts * sizeof *p->rank.parts);
        absolute_peers(f, p, &known->rank);
        known->rank.comms = NULL;
        if (fill_counts(f, counts, known->rank.parts, known->rank.nparts)) {
            graph_rank_clear(&known->rank);
            free(known);
            return -1;
        }
        HASH_ADD(hh, f->parts, key, sizeof known->key, known);
    }
    shared_use_parts(r, &known->rank);
    return 0;
}

/* ---- Communicators ---- */

static int read_comms(struct graph_file *f, const struct chunk *c)
{
    if (contents(f, c))
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
        comm->ranks = array(comm->size, sizeof *comm->ranks);
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
        f->comms = check(calloc(f->facts.ncomms, sizeof *f->comms));
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

static uint32_t word(const uint8_t *p)
{
    struct bytes_reader r = bytes_reader_init(p, 4);
    return bytes_get_u32(&r);
}

#define FIXED (5 * 4 + 2 * sizeof(struct chunk_key))

static bool cut_records(struct bytes_reader *b, struct file_record *list, uint32_t n)
{
    const uint8_t *fixed = bytes_get(b, (size_t)n * FIXED);
    if (!fixed)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct file_record *r = &list[i];
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

struct file_record *file_records(struct graph_file *f, const struct chunk *c)
{
    if (contents(f, c))
        return NULL;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint32_t first = bytes_get_u32(&b), n = bytes_get_u32(&b);
    if (b.bad || first != c->first || n != c->n || first > f->facts.world || n > f->facts.world - first ||
        n > f->raw.len / FIXED)
        return NULL;
    struct file_record *list = array(n, sizeof *list);
    if (cut_records(&b, list, n))
        return list;
    free(list);
    return NULL;
}

void file_take_tables(const struct file_record *record, struct graph_rank *r)
{
    *r = (struct graph_rank){.ncomms = record->ncomms, .nstreams = record->nstreams, .nhosts = record->nhosts,
                             .klass = record->klass, .niterations = record->niterations};
    r->comms = array(r->ncomms, sizeof *r->comms);
    for (uint32_t i = 0; i < r->ncomms; i++)
        r->comms[i] = (struct graph_member){(int32_t)word(record->globals + 4 * (size_t)i),
                                            (int32_t)word(record->places + 4 * (size_t)i)};
    if (!r->niterations)
        return;
    r->iterations = array(r->niterations + 1, sizeof *r->iterations);
    for (uint32_t i = 0; i <= r->niterations; i++)
        r->iterations[i] = word(record->iterations + 4 * (size_t)i);
}

/* Its nodes and parts; on failure it is empty. */
static int complete_rank(struct graph_file *f, const struct file_record *record, struct graph_rank *r)
{
    int rc = 0;
    for (uint32_t i = 0; i < r->ncomms && !rc; i++)
        if (r->comms[i].global != -1)
            rc = r->comms[i].global < 0 || need_comm(f, (uint32_t)r->comms[i].global);
    if (!rc && !chunk_key_is_none(&record->program))
        rc = assemble(f, &record->program, &record->counts, r);
    else if (!rc) {
        r->nodes = array(0, sizeof *r->nodes);
        r->parts = array(0, sizeof *r->parts);
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
    if (*works || find(f, CHUNK_WORKS, key) || f->raw.len != 4 + 4 * (uint64_t)nnodes || word(f->raw.data) != nnodes)
        return -1;
    *works = array(nnodes, sizeof **works);
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
    if (contents(f, c) || f->raw.len % TIME_RECORD)
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
        struct file_record *list = file_records(f, c), mine;
        if (!list)
            break;
        mine = list[rank - c->first];
        file_take_tables(&mine, out);
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
    struct file_record *list = file_records(f, c);
    if (!list)
        return -1;
    bool *taken = array(c->n, sizeof *taken);
    int rc = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        struct graph_rank *r = &g->ranks[c->first + i];
        taken[i] = !r->comms; /* else the rank is in two chunks */
        if (taken[i])
            file_take_tables(&list[i], r);
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
        if (!k->used && k->id.type <= CHUNK_WORKS && contents(f, k->chunk))
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

static void move_comms(struct graph_file *f, struct graph *g)
{
    g->ncomms = f->comms ? f->facts.ncomms : 0;
    g->comms = f->comms;
    f->comms = NULL;
    uint32_t cap = 1; /* graph_add_comm expects room for the next power of two */
    while (cap < g->ncomms)
        cap *= 2;
    g->comms = check(realloc(g->comms, cap * sizeof *g->comms));
    for (uint32_t i = 0; i < g->ncomms; i++)
        if (!g->comms[i].ranks)
            g->comms[i].ranks = array(0, sizeof *g->comms[i].ranks);
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

void file_free_caches(struct graph_file *f)
{
    struct file_key *k, *next_key;
    struct file_program *p, *next_program;
    struct file_parts *q, *next_parts;
    HASH_ITER(hh, f->keys, k, next_key) {
        HASH_DEL(f->keys, k);
        free(k);
    }
    HASH_ITER(hh, f->programs, p, next_program) {
        HASH_DEL(f->programs, p);
        free_program(p);
    }
    HASH_ITER(hh, f->parts, q, next_parts) {
        HASH_DEL(f->parts, q);
        graph_rank_clear(&q->rank);
        free(q);
    }
    for (uint32_t i = 0; f->comms && i < f->facts.ncomms; i++)
        free(f->comms[i].ranks);
    free(f->comms);
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
