/* store.h - where ranges lie while they are not on the device: in pinned memory (pool.h).
 *
 * When no more may be pinned and space is asked for, the keeper, a thread, writes ranges to the spill file, those of the ranks
 * first that left the device last: ranks come back much as they left, so what left longest ago is wanted next, and would be read as
 * soon as it is written (32 ranks of 5 GB on an H200: half the bytes or fewer, by both captures' order of moves). When the node's
 * memory is short it empties a slab: the one with the least in it, by
 * moving that, if there is space in the others, else the one whose ranks left last, by writing. Into a spill file that is
 * itself in memory (tmpfs) nothing is written for that.
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

/* Begins the pool (pool.h) and the keeper. */
void store_begin(uint64_t limit, unsigned movers);

/* --- with mover_lock --- */

/* Pinned space for the range; waits while the keeper can make some. False: it cannot, the range has to go to the file. By one
 * thread at a time. */
bool store_take(struct range *r);
void store_give(struct range *r); /* its pinned space, if any */
/* The range is whole in the pool: it may be moved or spilled from now on. */
void store_keep(struct range *r);
/* Wait until the keeper is not working on it. It is not touched any more once `leaving` is set. */
void store_await_writing(struct range *r);

/* --- the extents of a range, which its user owns meanwhile --- */

struct piece store_piece(const struct range *r, uint32_t extent);

#endif
