/* region.h - the memory that one rank's process shares with its node's prismd (a memfd made by prismd, registered
 * with CUDA by the preload library).
 *
 *     [ struct region_slot x REGION_SLOTS ][ staging heap ... region size )
 *
 * The region is far larger than what is meant to be used of it (PRISM_STAGING, which WELCOME tells), so that an operation of
 * any size has room. It is address space: only pages that were touched exist, and low ranges of the heap are used first.
 *
 * One slot is one gate in flight. All four words count generations: the preload library takes a free slot, adds one to
 * its generation and uses that number in every write and wait of this use, so nothing has to be reset.
 *
 *   word    written by           meaning when >= generation
 *   arrive  the stream (GPU)     the stream got here; in capture the inputs have been copied to the heap before
 *   ready   prismd               the outputs lie in the heap (emulation; in capture go implies it)
 *   go      prismd               the op may end
 *   done    the stream (GPU)     the stream has passed; the slot and its heap ranges are free again
 *
 * Writers on the CPU store with release order and then FUTEX_WAKE the word (shared futex), so that waiters which are
 * threads sleep instead of polling; a GPU polls anyway. Comparison is on the signed difference (wraps).
 */
#ifndef PRISM_PROTO_REGION_H
#define PRISM_PROTO_REGION_H

#include <stddef.h>
#include <stdint.h>

#define REGION_SLOTS 4096u

struct region_slot {
    _Alignas(64) uint32_t arrive;
    uint32_t ready;
    uint32_t go;
    uint32_t done;
    uint32_t unused[12];
};

#define REGION_HEAP_OFFSET (REGION_SLOTS * sizeof(struct region_slot))

/* Map the region of *size bytes, or, where the address space does not hold that, as much of its beginning as it does: *size is then
 * what was mapped, a half, a quarter … of it and more than REGION_HEAP_OFFSET. It stays out of core dumps, which would fill its
 * holes. NULL with errno when even that fails. */
void *region_map(int fd, int protection, size_t *size);

/* Store value with release order and wake every sleeper on word; only wake them. */
void region_word_set(uint32_t *word, uint32_t value);
void region_word_wake(uint32_t *word);
/* True when word has reached value (acquire order). */
int region_word_reached(const uint32_t *word, uint32_t value);

#endif
