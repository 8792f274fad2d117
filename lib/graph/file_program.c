/* file_program.c - chunks by what they hold, and the programs and parts that ranks share. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "graph/block_peer.h"
#include "graph/file_private.h"
#include "graph/share.h"

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

/* ---- Chunks by content ---- */

void file_index_keys(struct graph_file *f)
{
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        struct file_key *k = file_check(calloc(1, sizeof *k)), *other;
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
int file_contents(struct graph_file *f, const struct chunk *c)
{
    struct chunk head;
    if (!chunk_at(f->data, f->len, c->offset, &head) || head.type != c->type || head.stored != c->stored ||
        head.raw != c->raw || memcmp(&head.key, &c->key, sizeof c->key))
        return -1;
    return chunk_contents(f->zstd, f->data, c, &f->raw);
}

static struct file_key *find_key(struct graph_file *f, uint32_t type, const struct chunk_key *key)
{
    struct file_key *k;
    struct file_id id;
    memset(&id, 0, sizeof id);
    id.type = type;
    id.key = *key;
    HASH_FIND(hh, f->keys, &id, sizeof id, k);
    return k;
}

int file_find(struct graph_file *f, uint32_t type, const struct chunk_key *key)
{
    struct file_key *k = find_key(f, type, key);
    if (!k || file_contents(f, k->chunk))
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
    if (file_find(f, CHUNK_BLOCK, key) || !block_sizes(&f->raw, &n, &np) || n > nnodes - r->nnodes || np > nparts - r->nparts)
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
    uint32_t *next = file_array(ncomms, sizeof *next);
    p->ncomms = ncomms;
    p->by_place = file_array(ncomms, sizeof *p->by_place);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM)
            continue;
        n->ordinal += next[n->comm]++;
        for (uint32_t k = n->first_part; k < n->first_part + n->nparts; k++)
            p->by_place[n->comm] |= graph_feeds(r->parts[k].op) >= GRAPH_FEEDS_SEND && r->parts[k].peer < BLOCK_NUMBERED;
    }
    free(next);
    return 0;
}

/* Sizes come first, so that memory is not taken for more than the blocks hold: what they hold, not what heads of chunks claim. */
static int sum_blocks(struct graph_file *f, const struct chunk_key *keys, uint32_t n, uint64_t *nodes, uint64_t *parts)
{
    for (uint32_t i = 0; i < n; i++) {
        struct file_key *k = find_key(f, CHUNK_BLOCK, &keys[i]);
        if (!k || (!k->sized && (file_contents(f, k->chunk) || !block_sizes(&f->raw, &k->nnodes, &k->nparts))))
            return -1;
        k->sized = true;
        *nodes += k->nnodes;
        *parts += k->nparts;
    }
    return 0;
}

static struct file_program *make_program(struct graph_file *f, const struct chunk_key *key)
{
    if (file_find(f, CHUNK_PROGRAM, key))
        return NULL;
    struct bytes_reader b = bytes_reader_init(f->raw.data, f->raw.len);
    uint32_t nnodes = bytes_get_u32(&b), nparts = bytes_get_u32(&b), nblocks = bytes_get_u32(&b);
    uint64_t nodes = 0, parts = 0;
    if (b.bad || f->raw.len != 12 + sizeof *key * (uint64_t)nblocks)
        return NULL;
    struct chunk_key *keys = file_array(nblocks, sizeof *keys);
    if (nblocks)
        memcpy(keys, bytes_get(&b, nblocks * sizeof *keys), nblocks * sizeof *keys);
    struct file_program *p = NULL;
    if (!sum_blocks(f, keys, nblocks, &nodes, &parts) && nodes == nnodes && parts == nparts) {
        p = file_check(calloc(1, sizeof *p));
        void *data;
        p->key = *key;
        p->rank.nodes_shared = shared_create(nnodes, sizeof *p->rank.nodes, &data);
        p->rank.nodes = data;
        p->rank.parts = file_array(nparts, sizeof *p->rank.parts);
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
    if (file_find(f, CHUNK_COUNTS, counts))
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
int file_assemble(struct graph_file *f, const struct chunk_key *program, const struct chunk_key *counts, struct graph_rank *r)
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
        known = file_check(calloc(1, sizeof *known));
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
