#include "memory.h"

#include <stdlib.h>

#include "check.h"
#include "resources.h"

static size_t live, peak;

void *memory_allocate(size_t bytes)
{
    void *address = resource_device(bytes);
    live += bytes ? bytes : 1;
    peak = live > peak ? live : peak;
    return address;
}

void memory_released(void)
{
    live = 0;
}

size_t memory_peak(void)
{
    return peak;
}

static struct pool_block *pool_add(struct pool *pool, size_t bytes)
{
    if (pool->count == pool->capacity) {
        pool->capacity = pool->capacity ? 2 * pool->capacity : 16;
        pool->blocks = realloc(pool->blocks, sizeof *pool->blocks * (size_t)pool->capacity);
        if (!pool->blocks)
            die("out of host memory");
    }
    struct pool_block *block = &pool->blocks[pool->count++];
    *block = (struct pool_block){memory_allocate(bytes), bytes, 0};
    return block;
}

void *pool_take(struct pool *pool, size_t bytes)
{
    struct pool_block *best = NULL;
    size_t grain = pool->grain ? pool->grain : 512;
    bytes = (bytes + grain - 1) / grain * grain;
    bytes = bytes ? bytes : grain;
    for (int i = 0; i < pool->count; i++) {
        struct pool_block *block = &pool->blocks[i];
        if (!block->taken && block->size >= bytes && block->size <= 2 * bytes &&
            (!best || block->size < best->size))
            best = block;
    }
    if (!best)
        best = pool_add(pool, bytes);
    best->taken = 1;
    return best->address;
}

void pool_give(struct pool *pool, const void *address)
{
    for (int i = 0; i < pool->count; i++)
        if (pool->blocks[i].address == address)
            pool->blocks[i].taken = 0;
}

void pool_clear(struct pool *pool)
{
    free(pool->blocks);
    *pool = (struct pool){.grain = pool->grain};
}

void *slab_carve(struct slab *slab, size_t bytes)
{
    void *part = slab->base ? slab->base + slab->used : NULL;
    slab->used += (bytes + 255) / 256 * 256;
    return part;
}
