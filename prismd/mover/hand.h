/* hand.h - device memory on its way from a rank that leaves to one that comes (proto/mover.h, TAKE).
 *
 * Memory of a range that was copied out is kept when a rank that comes back still has a range of that size to bring in, one for one:
 * so what is kept is part of what that rank was promised, and lies here no longer than until it asks. All else is released at once,
 * and what is kept too as soon as nobody lacks it any more or the device has refused memory to somebody. The copy in uses
 * the handle that the copy out imported; the descriptor goes to the rank.
 */
#ifndef PRISM_MOVER_HAND_H
#define PRISM_MOVER_HAND_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Imported memory, not mapped here. handle 0 = none, fd -1 = none; both are the holder's. */
struct memory {
    CUmemGenericAllocationHandle handle;
    int fd;
};

/* --- with mover_lock --- */

/* Keep it for a rank that comes. False: nobody lacks it; it stays the caller's. */
bool hand_keep(struct memory m, uint64_t bytes);
/* Memory of that size, the caller's from now on. False: there is none. */
bool hand_take(uint64_t bytes, struct memory *m);
/* Release what nobody lacks any more. */
void hand_trim(void);
/* Release everything. True: there was something. */
bool hand_clear(void);

#endif
