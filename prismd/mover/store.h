/* store.h - the pinned pool: where ranges lie while they are not on the device.
 *
 * Slabs of pinned memory are added up to a limit (limit.h) by threads of their own, the pinners, because pinning is slow (some
 * GB/s a thread): ahead of need when PRISM_HOST_POOL says how much is needed, or the ranks' memory together comes near the
 * device's. When the limit is reached and space is asked for, the keeper, another thread, writes ranges to the spill file, those
 * of the ranks first that left the device longest ago.
 * What cannot be made room for at all (a pool smaller than a range) goes to the file directly (copy.c).
 */
#ifndef PRISM_MOVER_STORE_H
#define PRISM_MOVER_STORE_H

#include "prismd/mover/guest.h"

/* A piece of a range in pinned memory. */
struct piece {
    uint8_t *host;
    uint64_t bytes;
};

/* limit: bytes the pool may pin. Whole slabs of 256 MiB, if it is more than one. Starts the threads. */
void store_begin(uint64_t limit);

/* --- with mover_lock --- */

/* Pinned space for the range; waits while the keeper can make some. False: it cannot, the range has to go to the file. */
bool store_take(struct range *r);
void store_give(struct range *r); /* its pinned space, if any */
/* The range is whole in the pool: it may be spilled from now on. */
void store_keep(struct range *r);
/* Wait until the keeper is not writing it. It is not spilled any more once `leaving` is set. */
void store_await_writing(struct range *r);
/* So many bytes will be needed in all, as far as can be foreseen: pinned from now on, up to the limit. */
void store_prepare(uint64_t bytes);
/* Bytes in use, and pinned. */
void store_count(uint64_t *used, uint64_t *pinned);
/* Tell prismd (MOVER_HOST). */
void store_tell(void);

/* --- the extents of a range, which its user owns meanwhile --- */

struct piece store_piece(const struct range *r, uint32_t extent);

#endif
