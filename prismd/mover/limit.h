/* limit.h - how much host memory the mover may pin, and how much of the node's is left for everyone else. */
#ifndef PRISM_MOVER_LIMIT_H
#define PRISM_MOVER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* PRISM_HOST_POOL bytes if set, else 60 % of what is available (available.h); divided by the movers of this node. On a virtual
 * machine whose memory grows with use, what is available at the start is too little: there PRISM_HOST_POOL has to say. */
uint64_t limit_pinned(unsigned movers);
/* PRISM_HOST_POOL is set: so much will be needed. */
bool limit_is_given(void);

/* The bytes that are to stay available, of `total` that there are: with fewer, pinned memory is given back (pool.h).
 * PRISM_HOST_RESERVE if set (0: none is ever given back), else a 32nd, but at least 1 GiB, and of less than 8 GiB an eighth. It
 * has to last for what ranks take (shared memory, above all) from one look to the next and while a slab is given back, some
 * 0.2 s together: 4 GB of 132 GB are as much as the ranks of a node touch in that time at 20 GB/s. */
uint64_t limit_reserve(uint64_t total);

#endif
