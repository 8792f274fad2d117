/* pool.h - slabs of pinned memory: how many there are, and the space in them.
 *
 * Slabs (256 MiB; an eighth of a pool of less than 2 GiB) are added up to a limit (limit.h) by threads of their own, the pinners,
 * because pinning is slow (some GB/s a thread): ahead of need when PRISM_HOST_POOL says how much is needed, or the ranks' memory
 * together comes near the device's.
 *
 * The pool yields to the rest of the node. Another thread, the watcher, looks every 100 ms at what is available (available.h)
 * while slabs are there or wanted:
 *   less than reserve + slab   no slab is added, nor for a second after memory was short. That is as if the limit were reached,
 *                              but only until a later look: memory of virtual machines grows as it is used.
 *   less than the reserve      (limit.h) the memory is short: slabs in which nothing lies are given back, one, a look, the next.
 *                              Where there is none, one is emptied: what is free in it is not handed out any more, and the
 *                              keeper (store.h) moves or writes what lies in it. What is being copied is waited for, never touched.
 * Between two looks slabs are added only as far as the last look allows, for all movers of the node as if each added as many.
 */
#ifndef PRISM_MOVER_POOL_H
#define PRISM_MOVER_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "prismd/mover/units.h"

#define POOL_NONE UINT64_MAX /* no slab */

/* With mover_lock. Space or memory came or went, space is wanted, or the keeper has done something. */
extern pthread_cond_t pool_change;

/* limit: bytes that may be pinned, for one of `movers` on this node. Starts the threads. */
void pool_begin(uint64_t limit, unsigned movers);

/* --- with mover_lock --- */

/* So many bytes will be needed in all, as far as can be foreseen: pinned from now on, up to the limit. */
void pool_prepare(uint64_t bytes);
/* A copy waits for so many units, or does not any more (0). */
void pool_want(uint64_t units);
/* False: there are not so many free. */
bool pool_take(uint64_t units, struct extents *out);
void pool_give(struct extents *e);
/* Where units that were taken lie. */
uint8_t *pool_at(uint64_t unit);

/* A slab is being added, or would be if more space were wanted, or whether it may be is not known yet: it will be before long. */
bool pool_may_grow(void);
/* A copy waits, and space has to be made: no slab will be added. */
bool pool_lacks_space(void);
/* Memory is short, and something lies in every slab. */
bool pool_must_empty(void);

/* Slabs have numbers from 0; some may not be there, and nothing lies in these. */
uint64_t pool_slabs(void);
uint64_t pool_slab_of(uint64_t unit);
uint64_t pool_taken_in(uint64_t slab); /* units */
uint64_t pool_free_beside(uint64_t slab); /* units in all others, while none is being emptied; this one is there */
/* Empty this one now; it is given back when nothing lies in it, if memory is short even then. One at a time. */
void pool_empty(uint64_t slab);
uint64_t pool_emptying(void); /* POOL_NONE: none */
void pool_keep(void);         /* none any more */

/* Bytes in use, and pinned. */
void pool_count(uint64_t *used, uint64_t *pinned);
/* Tell prismd (MOVER_HOST). */
void pool_tell(void);

#endif
