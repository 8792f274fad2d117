/* slots.h - gates in flight: slots of the region and their ranges of the staging heap.
 *
 * A slot is taken when a gate is issued and free again once the stream has written `done`; that is looked up lazily,
 * whenever something is taken. session_lock held throughout, except where slots_take sleeps.
 */
#ifndef PRISM_PRELOAD_SLOTS_H
#define PRISM_PRELOAD_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/region.h"

struct slot_use {
    uint32_t slot, generation;
    uint64_t offset, bytes; /* within the region; bytes 0 = no heap range */
};

void slots_init(void *region, size_t region_size);
/* Largest range that can ever be had. */
uint64_t slots_heap_size(void);
/* Take a slot and bytes of heap. False when either is lacking now. bytes <= slots_heap_size(). */
bool slots_try(uint64_t bytes, struct slot_use *use);
/* Give back every slot that is done; number of gates still in flight. */
size_t slots_reclaim(void);
/* The gate has been opened (or is long over). */
bool slots_opened(uint32_t slot, uint32_t generation);
/* Some gate of the rank is not open yet. */
bool slots_any_closed(void);

#endif
