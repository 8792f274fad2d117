/* grant.h - how much physical memory prismd has granted this rank (proto/mover.h: WANT, GRANT, LESS).
 *
 * Asked for in large steps and given back late, so that a program that allocates and frees talks to prismd seldom. A
 * rank alone on the cluster has the whole device but for what its context takes, so that is the limit here, whatever
 * other ranks hold: prismd evicts them. residence_lock held throughout.
 */
#ifndef PRISM_PRELOAD_GRANT_H
#define PRISM_PRELOAD_GRANT_H

#include <stdbool.h>
#include <stdint.h>

/* total: bytes of the device. */
void grant_init(uint64_t total);
/* Take bytes; false: out of memory. Sleeps (lock given up) until prismd answers, and until the memory is present. */
bool grant_take(uint64_t bytes);
void grant_give(uint64_t bytes);
/* The device refused bytes that were taken: have room made. Sleeps as grant_take. False: there is none. */
bool grant_make_room(uint64_t bytes);
/* prismd's answer. */
void grant_answer(uint64_t bytes);
/* As cudaMemGetInfo on a device of its own. */
void grant_info(uint64_t *free_bytes, uint64_t *total_bytes);

#endif
