/* pmix_log.h - what ranks put into PMIx in capture, kept in the trace: docs/formats/pmix-log.md has the bytes.
 *
 * A record is all that a rank has put so far, as libpmix packs it, and the number of the rank's fence (from 1) that made
 * it known; what no fence made known bears the number of the fence that would have been next.
 */
#ifndef PRISM_PRISMD_PMIX_LOG_H
#define PRISM_PRISMD_PMIX_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"

struct pmix_record {
    uint32_t rank, fence;
    uint8_t *data; /* owned by the log */
    uint32_t len;
    uint32_t next; /* of the rank, in the order of adding; UINT32_MAX = last */
};

struct pmix_log;

/* version: of libpmix, as 4.2; only the same reads its packed data. */
struct pmix_log *pmix_log_create(uint32_t world);
void pmix_log_destroy(struct pmix_log *log); /* NULL is fine */
void pmix_log_set_version(struct pmix_log *log, const char *version); /* the first stays */
const char *pmix_log_version(const struct pmix_log *log); /* "" = none */
/* Copies data; a record equal to the rank's last is left out. */
void pmix_log_add(struct pmix_log *log, uint32_t rank, uint32_t fence, const void *data, size_t len);
size_t pmix_log_count(const struct pmix_log *log);

/* What a rank has put as one sees it who has `fences` fences behind it: the last record of a fence up to that, or, if `key`
 * (may be "") is not in it, the first later one that has it, as a get waits for its key. NULL = the rank put nothing. */
const struct pmix_record *pmix_log_find(const struct pmix_log *log, uint32_t rank, uint32_t fences, const char *key);
/* Some record holds this text. */
bool pmix_log_mentions(const struct pmix_log *log, const char *text);

void pmix_log_encode(const struct pmix_log *log, struct bytes *out);
/* NULL with err (PRISM_EXIT_TRACE) for anything but what encode wrote. */
struct pmix_log *pmix_log_decode(const void *data, size_t len, struct prism_error *err);

#endif
