/* payload.h - the payload store of a trace: content-addressed, zstd-compressed, checksummed.
 *
 * A payload is the bytes that one group of operations (rank, communicator number, ordinal) delivers, or contributes on
 * behalf of the virtual ranks. Equal contents are stored once a node. docs/formats/payload.md has the bytes.
 */
#ifndef PRISM_TRACE_PAYLOAD_H
#define PRISM_TRACE_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"

enum payload_role {
    PAYLOAD_OUTPUT = 1,   /* everything the rank received in the group: its parts' outputs one after the other */
    PAYLOAD_CONTRIBUTION, /* + number of the part in its group: what the leftmost virtual rank brings in the shrunk communicator
                             (sandbox set of capture) */
};

struct payload_key {
    uint32_t rank;
    uint32_t comm;
    uint32_t ordinal;
    uint32_t role; /* enum payload_role */
};

struct payload_writer;
/* Creates payload-<node>.dat in dir; nothing counts until finish. Thread safe. */
struct payload_writer *payload_writer_create(const char *dir, uint32_t node, struct prism_error *err);
void payload_writer_set_level(struct payload_writer *w, int level); /* of zstd, before the first put; default 1 */
void payload_writer_set_threads(struct payload_writer *w, int threads); /* for large contents, 1 to 16, before the first put */
/* A key put again replaces the one before; the order of the calls counts. Contents of 64 KiB and more are hashed, compressed and
 * written by threads (by themselves one a processor but one, 1 to 16; from the first such content on), 1 GiB of them at a time:
 * else the caller waits. After a failed write every put that comes to know of it and the finish fail with the same error. */
int payload_writer_put(struct payload_writer *w, struct payload_key key, const void *data, size_t len,
                       struct prism_error *err);
/* For contents that are made, or that several keys share: a buffer of len bytes, aligned to 64, whatever is in it, the caller's
 * until it is put under all these keys; nkeys = 0: not used after all. Nothing is copied. Taking one may wait as a put does. */
void *payload_writer_room(struct payload_writer *w, size_t len);
int payload_writer_put_room(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, void *room, size_t len,
                            struct prism_error *err);
/* Writes the index atomically; the writer is destroyed either way. */
int payload_writer_finish(struct payload_writer *w, struct prism_error *err);
/* The same, but only keys for which keep() is not 0 stay; the data file is rewritten without the others where that
 * makes it less than half as large. */
int payload_writer_finish_keep(struct payload_writer *w, int (*keep)(void *ctx, struct payload_key key), void *ctx,
                               struct prism_error *err);
void payload_writer_abort(struct payload_writer *w); /* removes the files; NULL is fine */

struct payload_reader;
/* Opens the indices of nodes 0..nodes-1. Reading is thread safe. */
struct payload_reader *payload_reader_open(const char *dir, uint32_t nodes, struct prism_error *err);
/* The same, but only keys for which keep() is not 0 are known, and cost memory and time: a trace of thousands of ranks has millions. */
struct payload_reader *payload_reader_open_some(const char *dir, uint32_t nodes, int (*keep)(void *ctx, struct payload_key key), void *ctx,
                                                struct prism_error *err);
void payload_reader_close(struct payload_reader *r);
/* Size of a payload, or -1 when there is none. */
int64_t payload_reader_size(const struct payload_reader *r, struct payload_key key);
/* Decompress into out (cap bytes); checks the checksum. Returns the size, -1 on error (missing, damaged, too small). */
int64_t payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap,
                           struct prism_error *err);
/* Totals for reports: keys, bytes of all their payloads (shared ones counted each time), bytes of the data files. */
void payload_reader_totals(const struct payload_reader *r, uint64_t *payloads, uint64_t *raw_bytes, uint64_t *disk_bytes);

#endif
