/* file_private.h - inside of graph_file (file.c, file_program.c, file_read.c). */
#ifndef PRISM_GRAPH_FILE_PRIVATE_H
#define PRISM_GRAPH_FILE_PRIVATE_H

#include <stdlib.h>
#include <uthash.h>

#include "graph/file.h"
#include "graph/format.h"

/* A chunk by what it holds. */
struct file_id {
    uint32_t type;
    struct chunk_key key;
};

struct file_key {
    struct file_id id;
    const struct chunk *chunk;
    bool used;
    bool sized; /* of a block: it holds so many */
    uint32_t nnodes, nparts;
    UT_hash_handle hh;
};

struct file_program; /* a program put together, shared by its ranks */
struct file_parts;   /* parts of ranks with equal programs, counts and places */

struct graph_file {
    const uint8_t *data;
    size_t len;
    void *mapped; /* to unmap; NULL = the caller's */
    struct file_facts facts;
    struct chunks chunks;
    struct ZSTD_DCtx_s *zstd;
    struct bytes raw; /* of the chunk at hand */
    struct graph_comm *comms; /* facts.ncomms of them once one was asked for; size 0, ranks NULL: not read yet */
    struct file_key *keys;         /* hash */
    struct file_program *programs; /* hash */
    struct file_parts *parts;      /* hash */
    uint64_t index_bytes, lost_bytes;
    bool salvage;
};

/* Never NULL. file_array: room for n, a power of two of them. */
static inline void *file_check(void *p)
{
    if (!p)
        abort();
    return p;
}

static inline void *file_array(uint32_t n, size_t size)
{
    uint64_t cap = 1;
    while (cap < n)
        cap *= 2;
    return file_check(calloc(cap, size));
}

/* Contents of a chunk into f->raw; file_find: of the one with that key. 0, or -1 when it is damaged or missing. */
int file_contents(struct graph_file *f, const struct chunk *c);
int file_find(struct graph_file *f, uint32_t type, const struct chunk_key *key);
/* Nodes and parts of a rank, shared with its like. */
int file_assemble(struct graph_file *f, const struct chunk_key *program, const struct chunk_key *counts, struct graph_rank *r);
void file_index_keys(struct graph_file *f);
void file_free_caches(struct graph_file *f);

#endif
