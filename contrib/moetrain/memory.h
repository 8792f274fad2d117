/* memory.h - device memory with an account, and a pool for buffers whose size depends on the data.
 *
 * Nothing is freed while training: cudaFree waits for the device, and with it for receives posted ahead. The pool
 * keeps what it is given back, as frameworks do. A block may be used again by work enqueued later on the compute
 * stream; users on other streams must be ordered with the compute stream by events on both sides.
 */
#ifndef MOETRAIN_MEMORY_H
#define MOETRAIN_MEMORY_H

#include <stddef.h>

/* cudaMalloc of bytes (0 is served as 1); dies with the sizes when the device is full. */
void *memory_allocate(size_t bytes);

/* The highest number of bytes that were allocated at once. */
size_t memory_peak(void);

struct pool_block {
    void *address;
    size_t size;
    int taken;
};

struct pool {
    struct pool_block *blocks;
    int count, capacity;
};

/* A block of at least bytes: the smallest free one that wastes no more than half, else a new one. */
void *pool_take(struct pool *pool, size_t bytes);

/* NULL is fine. */
void pool_give(struct pool *pool, const void *address);

/* Carves one allocation into parts. A first pass with base NULL adds up used; allocate that and pass again. */
struct slab {
    char *base;
    size_t used;
};
void *slab_carve(struct slab *slab, size_t bytes);

#endif
