/* memory.h - device memory with an account, and a pool for buffers whose size depends on the data.
 *
 * Nothing is freed while training: cudaFree waits for the device, and with it for receives posted ahead. The
 * pool keeps what it is given back, as frameworks do. A block may be used again by work enqueued later on the
 * compute stream; users on other streams must be ordered with the compute stream by events on both sides.
 */
#ifndef MOETRAIN_MEMORY_H
#define MOETRAIN_MEMORY_H

#include <stddef.h>

/* resource_device, and its size (0 counts as 1) in the account. */
void *memory_allocate(size_t bytes);

/* The account after resources_release: nothing is live. */
void memory_released(void);

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
    size_t grain; /* sizes are multiples of it; 0: of 512 bytes */
};

/* A block of at least bytes: the smallest free one that wastes no more than half, else a new one. */
void *pool_take(struct pool *pool, size_t bytes);

/* An address that is not of the pool is left alone. */
void pool_give(struct pool *pool, const void *address);

/* Frees the list of blocks; their memory goes with resources_release. */
void pool_clear(struct pool *pool);

/* Carves one allocation into parts. A first pass with base NULL adds up used; allocate that and pass again.
 */
struct slab {
    char *base;
    size_t used;
};
void *slab_carve(struct slab *slab, size_t bytes);

#endif
