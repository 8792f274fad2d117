#include "preload/gate/heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

uint64_t heap_round(uint64_t bytes)
{
    return (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
}

static void insert(struct heap *h, size_t at, struct heap_range range)
{
    if (h->nfree == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 64;
        h->free = realloc(h->free, h->cap * sizeof *h->free);
        if (!h->free)
            abort();
    }
    memmove(h->free + at + 1, h->free + at, (h->nfree - at) * sizeof *h->free);
    h->free[at] = range;
    h->nfree++;
}

static void erase(struct heap *h, size_t at)
{
    h->nfree--;
    memmove(h->free + at, h->free + at + 1, (h->nfree - at) * sizeof *h->free);
}

void heap_init(struct heap *h, uint64_t size)
{
    *h = (struct heap){.size = size / HEAP_ALIGN * HEAP_ALIGN};
    if (h->size)
        insert(h, 0, (struct heap_range){0, h->size});
}

void heap_clear(struct heap *h)
{
    free(h->free);
    *h = (struct heap){0};
}

uint64_t heap_take(struct heap *h, uint64_t bytes)
{
    bytes = heap_round(bytes);
    for (size_t i = 0; i < h->nfree; i++) {
        struct heap_range *r = &h->free[i];
        if (r->size < bytes)
            continue;
        uint64_t offset = r->offset;
        r->offset += bytes;
        r->size -= bytes;
        if (!r->size)
            erase(h, i);
        return offset;
    }
    return HEAP_NONE;
}

/* Index of the first free range behind offset. */
static size_t position(const struct heap *h, uint64_t offset)
{
    size_t low = 0, high = h->nfree;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->free[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void heap_give(struct heap *h, uint64_t offset, uint64_t bytes)
{
    bytes = heap_round(bytes);
    size_t at = position(h, offset);
    struct heap_range *before = at ? &h->free[at - 1] : NULL;
    struct heap_range *after = at < h->nfree ? &h->free[at] : NULL;
    bool joins_before = before && before->offset + before->size == offset;
    bool joins_after = after && offset + bytes == after->offset;
    if (joins_before && joins_after) {
        before->size += bytes + after->size;
        erase(h, at);
    } else if (joins_before) {
        before->size += bytes;
    } else if (joins_after) {
        after->offset = offset;
        after->size += bytes;
    } else {
        insert(h, at, (struct heap_range){offset, bytes});
    }
}

uint64_t heap_free_bytes(const struct heap *h)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < h->nfree; i++)
        sum += h->free[i].size;
    return sum;
}
