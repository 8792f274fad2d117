/* heap.h - ranges of the staging heap: first fit from the low end, so that few pages are ever touched; neighbours
 * coalesce. Offsets and sizes in bytes, in units of HEAP_ALIGN. Not thread-safe (session_lock). */
#ifndef PRISM_PRELOAD_HEAP_H
#define PRISM_PRELOAD_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define HEAP_ALIGN 256u
#define HEAP_NONE  UINT64_MAX

struct heap_range {
    uint64_t offset, size;
};

struct heap {
    struct heap_range *free; /* owned; by offset, never adjacent */
    size_t nfree, cap;
    uint64_t size;
};

void heap_init(struct heap *h, uint64_t size);
void heap_clear(struct heap *h);
uint64_t heap_round(uint64_t bytes);
/* Offset of a range of at least bytes (> 0), HEAP_NONE when none is large enough now. */
uint64_t heap_take(struct heap *h, uint64_t bytes);
void heap_give(struct heap *h, uint64_t offset, uint64_t bytes); /* as taken */
uint64_t heap_free_bytes(const struct heap *h);

#endif
