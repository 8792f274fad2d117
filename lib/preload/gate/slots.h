/* slots.h - gates in flight: slots of the region and their ranges of the staging heap.
 *
 * A slot is taken when a gate is issued and free again once the stream has written `done`; that is looked up lazily,
 * whenever something is taken. session_lock held throughout.
 *
 * The heap is address space; what gates in flight take of it is bounded by a limit (PRISM_STAGING) that may be exceeded: by a
 * gate that has the heap to itself, and by one that has waited for long (slots_waited).
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

void slots_init(void *region, size_t region_size, uint64_t limit);
/* Largest range that can ever be had. */
uint64_t slots_heap_size(void);
uint64_t slots_in_use(void); /* bytes of heap */
/* Take a slot and bytes of heap. False when either is lacking now, or, unless beyond, when other gates have some of the heap and
 * together it would be more than the limit. bytes <= slots_heap_size(). */
bool slots_try(uint64_t bytes, bool beyond, struct slot_use *use);

/* The wait of one gate for room; begins as {0}. */
struct slots_wait {
    int64_t since_ns; /* nothing has ended since */
    uint64_t ended;
};
/* The gate may go beyond the limit: ranks may issue on several communicators in different orders, and NCCL's calls never wait, so
 * those that are in flight may have to wait for one that waits here. True once no gate of the rank has ended for a second, for
 * two where twice the limit is in use, and so on to eight: who only waits for a late peer shall not take much more memory. */
bool slots_waited(struct slots_wait *w, int64_t now_ns);
/* Give back every slot that is done; number of gates still in flight. */
size_t slots_reclaim(void);
/* The gate has been opened (or is long over). */
bool slots_opened(uint32_t slot, uint32_t generation);
/* Some gate of the rank is not open yet. */
bool slots_any_closed(void);

#endif
