/* log.h - the log of a store's mutations, kept in the trace: docs/formats/store-log.md has the bytes. */
#ifndef PRISM_C10D_LOG_H
#define PRISM_C10D_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "c10d/mutation.h"
#include "common/bytes.h"
#include "common/error.h"

#define C10D_AUTHOR_NONE                                                                                     \
    UINT32_MAX /* not a logical rank (a launcher, prismd itself): replayed like a virtual rank */

struct c10d_record {
    uint64_t sequence;             /* order in the whole store, ascending; gaps are allowed */
    uint32_t author;               /* logical rank, or C10D_AUTHOR_NONE */
    struct c10d_mutation mutation; /* key and value owned by the log */
};

struct c10d_log;

struct c10d_log *c10d_log_create(void);
void c10d_log_destroy(struct c10d_log *log); /* NULL is fine */
/* Copies m; the sequence is the last one's + 1. -1 when m is over the bounds of mutation.h or of no known kind. */
int c10d_log_append(struct c10d_log *log, uint32_t author, const struct c10d_mutation *m,
                    struct prism_error *err);
size_t c10d_log_count(const struct c10d_log *log);
const struct c10d_record *c10d_log_at(const struct c10d_log *log, size_t i); /* until the next append */

void c10d_log_encode(const struct c10d_log *log, struct bytes *out); /* appends to out */
/* NULL with err (PRISM_EXIT_TRACE) for anything but what encode wrote; never reads past len. */
struct c10d_log *c10d_log_decode(const void *data, size_t len, struct prism_error *err);

#endif
