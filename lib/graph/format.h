/* format.h - what writer and reader of graph.bin share (docs/formats/prismtrace.md). Inside lib/graph only. */
#ifndef PRISM_GRAPH_FORMAT_H
#define PRISM_GRAPH_FORMAT_H

#include <xxhash.h>

#include "graph/graph.h"

#define GRAPH_MAGIC     "PRSMGRPH"
#define GRAPH_VERSION   2u
#define GRAPH_WORLD_MAX 1048576u

/* Version 1 (docs/formats/graph.md), still read. */
#define GRAPH_V1_HEADER     40u /* magic, version, world, GPUs a node, communicators, classes, reserved, raw bytes */
#define GRAPH_V1_RANK_FIXED 29u /* bytes of a rank's block before its columns */
#define GRAPH_NODE_BYTES    23u
#define GRAPH_PART_BYTES    15u
enum { GRAPH_HAS_DEVICE_WORK = 1, GRAPH_HAS_HOST_WORK = 2 };
struct graph *graph_read_v1(const void *data, size_t len, struct prism_error *err);

/* Version 2. */
#define FILE_HEADER   32u
#define FILE_TRAILER  32u
#define FILE_END      "PRSMDONE"
#define CHUNK_MAGIC   0x4b435350u /* "PSCK" */
#define CHUNK_HEAD    48u
#define CHUNK_ENTRY   48u /* in the index */
#define CHUNK_RAW_MAX (1u << 30)
#define CHUNK_RANKS_N 256u /* ranks in a chunk of RANKS */
#define CHUNK_COMMS_N 256u
#define FILE_COMMS_MAX (4u * GRAPH_COMMS_MAX)

/* A fuzzer does not find checksums: in its builds they hold, and contents may stand uncompressed. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FORMAT_HOLDS(equal) ((void)(equal), true)
#define FORMAT_MAY_BE_RAW   true
#else
#define FORMAT_HOLDS(equal) (equal)
#define FORMAT_MAY_BE_RAW   false
#endif

enum chunk_type {
    CHUNK_BLOCK = 1, /* structure of a run of nodes */
    CHUNK_PROGRAM,   /* structure of a rank: its blocks */
    CHUNK_COUNTS,    /* counts of a rank's parts */
    CHUNK_WORKS,     /* device or host works of a rank's nodes */
    CHUNK_COMMS,     /* communicators */
    CHUNK_RANKS,     /* what ranks are made of */
    CHUNK_TIMES,     /* whose works are which */
    CHUNK_INDEX,
    CHUNK_TYPES
};

/* XXH3-128 of a chunk's contents; of all zeroes: none. */
struct chunk_key {
    uint8_t bytes[16];
};

struct chunk {
    uint32_t type;
    uint32_t first, n;    /* COMMS, RANKS: the numbers in it */
    uint32_t stored, raw; /* bytes of the zstd frame, and of what it holds */
    uint64_t offset;      /* of the head */
    struct chunk_key key;
};

struct chunks {
    struct chunk *list; /* owned */
    uint32_t n;
};

struct file_facts { /* header and index */
    uint32_t world, gpus_per_node, ncomms, nclasses;
};

static inline bool chunk_key_is_none(const struct chunk_key *k)
{
    for (int i = 0; i < 16; i++)
        if (k->bytes[i])
            return false;
    return true;
}

/* chunk.c: bytes of a chunk's head, of the file's. */
struct chunk_key chunk_key_of(const void *data, size_t len);
void chunk_put_file_header(struct bytes *out, const struct file_facts *facts);
/* Head and frame; c->stored is the frame's length, offset is set. */
void chunk_put(struct bytes *out, struct chunk *c, const void *frame);
/* Index and trailer. */
void chunk_put_end(struct bytes *out, const struct chunks *chunks, const struct file_facts *facts);
void chunks_add(struct chunks *list, const struct chunk *c);
/* Chunk whose head is at offset: whether head and frame are sound. c->first and n are not in the head: 0. */
bool chunk_at(const void *data, size_t len, uint64_t offset, struct chunk *c);
/* Contents of a sound chunk into raw (cleared first). -1: it does not hold what its head says. */
struct ZSTD_DCtx_s;
int chunk_contents(struct ZSTD_DCtx_s *zstd, const void *data, const struct chunk *c, struct bytes *raw);

/* block.c: nodes [from, to) of a rank without what differs from rank to rank. next: by communicator, the ordinal
 * expected; updated. Groups on communicators the rank is no member of keep their peers as they are. */
void block_put(struct bytes *out, const struct graph *g, const struct graph_rank *r, uint32_t from, uint32_t to,
               uint32_t *next);
/* Where the block that begins at node `from` ends: where iterations do, and with at_sends where passes of micro-batches end. */
uint32_t block_end(const struct graph_rank *r, uint32_t from, bool at_sends);
/* Sizes of a block; false: its length is another. */
bool block_sizes(const struct bytes *raw, uint32_t *nnodes, uint32_t *nparts);
/* Fill nodes and parts (peers still relative, counts 0) that come after `parts_before` others. */
void block_get(const struct bytes *raw, struct graph_node *nodes, struct graph_part *parts, uint32_t parts_before);

#endif
