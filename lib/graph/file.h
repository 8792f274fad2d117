/* file.h - graph.bin of version 2 opened for random access and salvage (docs/formats/prismtrace.md).
 *
 * A file is an index of chunks; what a rank is made of is found from it without reading the rest. All functions take the
 * file as it lies in memory (graph_file_map maps one from disk). Not thread safe.
 */
#ifndef PRISM_GRAPH_FILE_H
#define PRISM_GRAPH_FILE_H

#include "graph/graph.h"

struct graph_file;

/* 1. Opening. data stays the caller's and must outlive the file. NULL with err (PRISM_EXIT_TRACE): damaged, another
 * version. Reads header and index only. */
struct graph_file *graph_file_open(const void *data, size_t len, struct prism_error *err);
/* The same of a file on disk, mapped; it must not be cut while it is open (Prism replaces files by renaming). */
struct graph_file *graph_file_map(const char *path, struct prism_error *err);
/* What is left of a file that was cut or damaged: every chunk whose checksum holds is found, with or without an index. NULL
 * with err when not even the header is sound. */
struct graph_file *graph_file_salvage(const void *data, size_t len, struct prism_error *err);
void graph_file_close(struct graph_file *f); /* NULL is fine */

/* 2. What is in it */

struct graph_file_info {
    uint32_t world, gpus_per_node, ncomms, nclasses;
    uint32_t blocks, programs; /* distinct ones */
    uint64_t bytes;            /* of the file */
    /* Stored bytes by part. */
    uint64_t structure_bytes, count_bytes, time_bytes, comm_bytes, rank_bytes, index_bytes;
    uint64_t lost_bytes; /* salvage: in no sound chunk */
};
void graph_file_info(const struct graph_file *f, struct graph_file_info *info);

/* One rank: its record, structure, counts, works and communicator table; filled as in struct graph (graph_rank_clear frees
 * it). Ranks of one file share arrays. -1 with err: not in the world, or not whole. */
int graph_file_rank(struct graph_file *f, uint32_t rank, struct graph_rank *out, struct prism_error *err);
/* Members of a communicator (borrowed, until the file is closed). Its operations are those of its members' nodes that name
 * it, in their order. */
int graph_file_comm(struct graph_file *f, uint32_t comm, const struct graph_comm **out, struct prism_error *err);

/* 3. All of it */

struct graph_file_saved { /* salvage */
    uint32_t ranks;     /* that are whole; the others are empty */
    uint64_t lost_bytes;
};
/* Every rank and communicator; saved = NULL: anything missing is an error. Also checks chunks that no rank needs. */
struct graph *graph_file_read(struct graph_file *f, struct graph_file_saved *saved, struct prism_error *err);

#endif
