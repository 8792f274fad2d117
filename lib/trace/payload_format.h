/* payload_format.h - bytes of payload-<node>.dat and .idx (docs/formats/payload.md). Inside lib/trace only.
 */
#ifndef PRISM_TRACE_PAYLOAD_FORMAT_H
#define PRISM_TRACE_PAYLOAD_FORMAT_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"
#include "trace/payload.h"

#define PAYLOAD_VERSION     1u
#define PAYLOAD_DATA_MAGIC  "PRSMPAYD"
#define PAYLOAD_INDEX_MAGIC "PRSMPAYI"
#define PAYLOAD_DATA_HEADER 24u          /* magic, version, node, store id */
#define PAYLOAD_RAW_MAX     (1ull << 40) /* of one payload */

struct payload_blob {             /* one content */
    uint64_t hash_low, hash_high; /* xxHash128 of the content */
    uint64_t raw;                 /* bytes of the content */
    uint64_t offset, stored;      /* place in the .dat file */
    uint8_t compressed;           /* a zstd frame; else the content itself */
};

struct payload_entry {
    struct payload_key key;
    uint32_t blob;
};

struct payload_index {
    uint32_t node;
    uint64_t store_id;             /* random; the .dat file carries the same */
    uint64_t data_size;            /* of the .dat file */
    struct payload_blob *blobs;    /* owned */
    struct payload_entry *entries; /* owned */
    uint32_t nblobs, nentries;
};

void payload_data_header(struct bytes *out, uint32_t node, uint64_t store_id);
/* 0 when header (PAYLOAD_DATA_HEADER bytes) is of that node and store. */
int payload_data_header_check(const void *header, uint32_t node, uint64_t store_id);
uint64_t payload_index_checksum(const void *data, size_t len); /* of all that stands before it */
void payload_index_write(const struct payload_index *index, struct bytes *out);
/* path is for messages. */
int payload_index_parse(const char *path, const void *data, size_t len, struct payload_index *index,
                        struct prism_error *err);
void payload_index_clear(struct payload_index *index);

#endif
