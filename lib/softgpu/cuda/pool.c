/* pool.c - stream-ordered memory. A pool keeps freed blocks up to its release threshold.
 *
 * An address is given at the call. A block freed on a stream may be reused by a later allocation on that stream at
 * once, and by any other when the free has been reached. What exceeds the threshold goes back to the device when the
 * free is reached (CUDA waits for the next synchronisation). A pool reserves blocks of 2 MiB (an H200's: 32 MiB).
 */
#include <stdlib.h>

#include <utlist.h>

#include "softgpu/cuda/api.h"

#define POOL_MAGIC 0x5347504cu

enum block_state { BLOCK_USED, BLOCK_FREEING, BLOCK_FREE };

struct pool_block {
    struct CUmemPoolHandle_st *pool;
    struct sg_piece piece;
    size_t used; /* what was asked for, in units of 512 bytes; the piece may be larger */
    enum block_state state;
    struct CUstream_st *stream; /* on which it is being freed */
    unsigned frees;             /* enqueued and not yet reached: more than one if it was reused meanwhile */
    struct pool_block *prev, *next;
};

struct CUmemPoolHandle_st {
    uint32_t magic;
    int device;
    bool destroyed; /* blocks still in use keep it */
    struct pool_block *blocks;
    uint64_t threshold, reserved, reserved_high, used, used_high;
    int reuse[4]; /* by attribute number; kept and given back */
    struct CUmemPoolHandle_st *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st *pools;

static bool pool_valid(CUmemoryPool pool)
{
    return pool && pool->magic == POOL_MAGIC && !pool->destroyed;
}

static CUresult pool_create(int device, CUmemoryPool *out)
{
    CUmemoryPool pool = calloc(1, sizeof(*pool));
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->magic = POOL_MAGIC;
    pool->device = device;
    pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
    pthread_mutex_lock(&lock);
    DL_APPEND(pools, pool);
    pthread_mutex_unlock(&lock);
    *out = pool;
    return CUDA_SUCCESS;
}

/* With the lock: give free blocks back until no more than keep bytes are reserved. */
static void pool_trim(CUmemoryPool pool, uint64_t keep)
{
    struct pool_block *block, *next;
    DL_FOREACH_SAFE(pool->blocks, block, next)
    {
        if (block->state != BLOCK_FREE || pool->reserved <= keep)
            continue;
        DL_DELETE(pool->blocks, block);
        pool->reserved -= block->piece.size;
        sg_memory_give(&block->piece);
        free(block);
    }
    if (pool->destroyed && !pool->blocks) {
        DL_DELETE(pools, pool);
        pool->magic = 0;
        free(pool);
    }
}

void sg_pool_trim_device(int device)
{
    CUmemoryPool pool, next;
    pthread_mutex_lock(&lock);
    DL_FOREACH_SAFE(pools, pool, next)
    if (pool->device == device)
        pool_trim(pool, 0);
    pthread_mutex_unlock(&lock);
}

CUmemoryPool sg_pool_of(const struct sg_range *range)
{
    return ((struct pool_block *)range->owner)->pool;
}

/* --- allocation --- */

/* With the lock: the best-fitting block that stream may have now; not more than twice of what is wanted. */
static struct pool_block *find_reusable(CUmemoryPool pool, struct CUstream_st *stream, size_t bytes)
{
    struct pool_block *block, *best = NULL;
    DL_FOREACH(pool->blocks, block)
    {
        bool usable = block->state == BLOCK_FREE || (block->state == BLOCK_FREEING && block->stream == stream);
        if (usable && block->piece.size >= bytes && block->piece.size / 2 <= bytes + 512 &&
            (!best || block->piece.size < best->piece.size))
            best = block;
    }
    return best;
}

/* Without the lock: getting device memory may trim pools. */
static CUresult new_block(CUmemoryPool pool, size_t bytes, struct pool_block **out)
{
    struct pool_block *block = calloc(1, sizeof(*block));
    CUresult result = block ? sg_memory_take(pool->device, bytes, &block->piece) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(block);
        return result;
    }
    block->pool = pool;
    block->state = BLOCK_FREE;
    pthread_mutex_lock(&lock);
    DL_APPEND(pool->blocks, block);
    pool->reserved += block->piece.size;
    pool->reserved_high = SG_MAX(pool->reserved_high, pool->reserved);
    block->state = BLOCK_USED; /* nobody else may take it */
    pthread_mutex_unlock(&lock);
    *out = block;
    return CUDA_SUCCESS;
}

static CUresult pool_alloc(CUmemoryPool pool, struct CUstream_st *stream, size_t bytes, CUdeviceptr *pointer)
{
    pthread_mutex_lock(&lock);
    struct pool_block *block = find_reusable(pool, stream, bytes);
    if (block)
        block->state = BLOCK_USED;
    pthread_mutex_unlock(&lock);
    CUresult result = block ? CUDA_SUCCESS : new_block(pool, bytes, &block);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    block->used = (bytes + 511) / 512 * 512;
    pool->used += block->used;
    pool->used_high = SG_MAX(pool->used_high, pool->used);
    pthread_mutex_unlock(&lock);
    *pointer = (CUdeviceptr)(uintptr_t)block->piece.base;
    return sg_range_add(&(struct sg_range){.base = (uintptr_t)block->piece.base, .size = block->piece.size,
                                           .requested = bytes, .kind = SG_RANGE_POOL, .device = pool->device,
                                           .owner = block});
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (!pointer || !bytes || !pool_valid(pool))
        return CUDA_ERROR_INVALID_VALUE;
    return pool_alloc(pool, stream, bytes, pointer);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    CUmemoryPool pool;
    CUresult result = cuDeviceGetMemPool(&pool, stream->context->device);
    return result == CUDA_SUCCESS ? cuMemAllocFromPoolAsync(pointer, bytes, pool, handle) : result;
}

/* The stream got to the free. */
static int64_t run_free(void *ctx, int64_t start_ns)
{
    struct pool_block *block = ctx;
    pthread_mutex_lock(&lock);
    if (--block->frees == 0 && block->state == BLOCK_FREEING) {
        block->state = BLOCK_FREE;
        block->stream = NULL;
        pool_trim(block->pool, block->pool->destroyed ? 0 : SG_MAX(block->pool->threshold, block->pool->used));
    }
    pthread_mutex_unlock(&lock);
    return start_ns;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    struct sg_range range;
    if (!pointer)
        return CUDA_SUCCESS;
    if (!sg_range_remove((uintptr_t)pointer, SG_RANGE_POOL, &range))
        return CUDA_ERROR_INVALID_VALUE;
    struct pool_block *block = range.owner;
    pthread_mutex_lock(&lock);
    block->state = BLOCK_FREEING;
    block->stream = stream;
    block->frees++;
    block->pool->used -= block->used;
    pthread_mutex_unlock(&lock);
    return sg_enqueue(stream, SG_ITEM_FREE, run_free, block, NULL, NULL);
}

/* --- pools --- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = sg_check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sg_device_opened(properties->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return pool_create(properties->location.id, pool);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    if (!pool_valid(pool) || sg_device_get(pool->device)->default_pool == pool)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_device *device = sg_device_get(pool->device);
    pthread_mutex_lock(&lock);
    if (device->pool == pool)
        device->pool = device->default_pool;
    pool->destroyed = true;
    pool_trim(pool, 0);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    if (!pool_valid(pool))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    pool_trim(pool, keep);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!pool_valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        pool->reuse[attribute] = *(int *)value;
    else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(cuuint64_t *)value;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && *(cuuint64_t *)value == 0)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && *(cuuint64_t *)value == 0)
        pool->used_high = pool->used;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!pool_valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = pool->reuse[attribute]; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = pool->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = pool->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = pool->used_high; break;
    default: result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* All devices of the process reach all memory of it. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *descriptions, size_t count)
{
    return pool_valid(pool) && (descriptions || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    if (!pool_valid(pool) || !flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

/* --- the pools of a device --- */

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice ordinal)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct sg_device *device = sg_device_opened(ordinal);
    CUresult result = CUDA_SUCCESS;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&making);
    if (!device->default_pool) {
        result = pool_create(ordinal, &device->default_pool);
        device->pool = device->default_pool;
    }
    pthread_mutex_unlock(&making);
    if (result == CUDA_SUCCESS)
        *pool = device->default_pool;
    return result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice ordinal)
{
    CUresult result = cuDeviceGetDefaultMemPool(pool, ordinal);
    if (result == CUDA_SUCCESS)
        *pool = sg_device_get(ordinal)->pool;
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool)
{
    CUmemoryPool old;
    CUresult result = cuDeviceGetDefaultMemPool(&old, ordinal);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pool_valid(pool) || pool->device != ordinal)
        return CUDA_ERROR_INVALID_VALUE;
    sg_device_get(ordinal)->pool = pool;
    return CUDA_SUCCESS;
}
