/* spill.h - the file for what the pinned pool has no room for: unlinked from the start, so nothing of it outlives the
 * mover, written around the page cache (O_DIRECT) where the file system can. Every range has a checksum (XXH3), which is
 * compared when it is read back. A full disk, a failed write or a wrong checksum ends the mover with one line.
 */
#ifndef PRISM_MOVER_SPILL_H
#define PRISM_MOVER_SPILL_H

#include "prismd/mover/guest.h"

struct spill_sum; /* a checksum being made */

/* The folder for the file, which is made at the first write. Borrowed. */
void spill_begin(const char *folder);
const char *spill_folder(void);
/* The folder's files lie in memory (tmpfs): what is written there gives none back. */
bool spill_is_memory(void);

/* With mover_lock. */
void spill_take(struct range *r); /* space in the file: r->disk */
void spill_give(struct extents *disk);
uint64_t spill_total(void); /* bytes that space was taken for, so far */

/* Without. data: aligned to 4 KiB; at, bytes: within the range, multiples of 4 KiB. */
void spill_write(const struct range *r, uint64_t at, const void *data, uint64_t bytes, struct spill_sum *sum);
void spill_read(const struct range *r, uint64_t at, void *data, uint64_t bytes, struct spill_sum *sum);
struct spill_sum *spill_sum_begin(void);
uint64_t spill_sum_end(struct spill_sum *sum); /* frees it */
/* Ends the mover if the range that was read back has another checksum than when it was written. Frees sum. */
void spill_check(const struct range *r, struct spill_sum *sum);

#endif
