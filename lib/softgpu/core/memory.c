/* memory.c - device memory of cuMemAlloc: host memory, mapped lazily, counted against the device's capacity.
 *
 * As measured for cudaMalloc on an H200: sizes are multiples of 512 bytes; physical memory comes in blocks of 2 MiB. Requests up
 * to 1 MiB share blocks (first fit), larger ones get blocks of their own. A block goes back when it is empty.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include <utlist.h>

#include "softgpu/core/internal.h"

#define GRAIN 512u
#define SMALL (1u << 20)
#define GRAINS (SG_BLOCK_BYTES / GRAIN)

/* A 2 MiB block that small allocations share; one bit a grain. */
struct sg_block {
    char *base;
    int device;
    unsigned used; /* grains */
    uint64_t map[GRAINS / 64];
    struct sg_block *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_block *blocks;

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

CUresult sg_blocks_take(int ordinal, size_t bytes)
{
    struct sg_device *device = sg_device_opened(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t capacity = sg_profile()->memory;
    if (sg_shared_take(device->shared, bytes, capacity))
        return CUDA_SUCCESS;
    sg_pool_trim_device(ordinal);
    return sg_shared_take(device->shared, bytes, capacity) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sg_blocks_give(int ordinal, size_t bytes)
{
    sg_shared_give(sg_device_get(ordinal)->shared, bytes);
}

/* More than is wanted is mapped, and cut to the alignment. */
void *sg_map_lazily(size_t bytes)
{
    size_t room = bytes + SG_BLOCK_BYTES;
    if (room < bytes)
        return NULL;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *aligned = (char *)round_up((uintptr_t)p, SG_BLOCK_BYTES);
    if (aligned > p)
        munmap(p, (size_t)(aligned - p));
    char *end = p + room, *wanted = aligned + bytes;
    if (end > wanted)
        munmap(wanted, (size_t)(end - wanted));
    return aligned;
}

static CUresult blocks_map(int device, size_t bytes, void **pointer)
{
    CUresult result = sg_blocks_take(device, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    *pointer = sg_map_lazily(bytes);
    if (*pointer)
        return CUDA_SUCCESS;
    sg_blocks_give(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool grain_used(const struct sg_block *block, unsigned i)
{
    return block->map[i / 64] >> (i % 64) & 1;
}

static void mark_grains(struct sg_block *block, unsigned first, unsigned n, bool used)
{
    for (unsigned i = first; i < first + n; i++)
        if (used)
            block->map[i / 64] |= 1ull << (i % 64);
        else
            block->map[i / 64] &= ~(1ull << (i % 64));
    block->used = used ? block->used + n : block->used - n;
}

/* First run of n free grains; GRAINS: none. */
static unsigned find_run(const struct sg_block *block, unsigned n)
{
    unsigned run = 0;
    for (unsigned i = 0; i < GRAINS; i++) {
        run = grain_used(block, i) ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return GRAINS;
}

static CUresult new_block(int device, struct sg_block **out)
{
    struct sg_block *block = calloc(1, sizeof(*block));
    void *base = NULL;
    CUresult result = block ? blocks_map(device, SG_BLOCK_BYTES, &base) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(block);
        return result;
    }
    block->base = base;
    block->device = device;
    DL_APPEND(blocks, block);
    *out = block;
    return CUDA_SUCCESS;
}

static CUresult small_alloc(int device, size_t bytes, void **pointer, struct sg_block **owner)
{
    unsigned n = (unsigned)(bytes / GRAIN), at = GRAINS;
    struct sg_block *block;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    DL_FOREACH(blocks, block)
    if (block->device == device && GRAINS - block->used >= n && (at = find_run(block, n)) < GRAINS)
        break;
    if (at == GRAINS) {
        result = new_block(device, &block);
        at = 0;
    }
    if (result == CUDA_SUCCESS) {
        mark_grains(block, at, n, true);
        *pointer = block->base + (size_t)at * GRAIN;
        *owner = block;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void small_free(struct sg_block *block, uintptr_t base, size_t bytes)
{
    pthread_mutex_lock(&lock);
    mark_grains(block, (unsigned)((base - (uintptr_t)block->base) / GRAIN), (unsigned)(bytes / GRAIN), false);
    if (block->used == 0) {
        DL_DELETE(blocks, block);
        munmap(block->base, SG_BLOCK_BYTES);
        sg_blocks_give(block->device, SG_BLOCK_BYTES);
        free(block);
    }
    pthread_mutex_unlock(&lock);
}

CUresult sg_memory_take(int device, size_t bytes, struct sg_piece *piece)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > sg_profile()->memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool is_small = bytes <= SMALL;
    *piece = (struct sg_piece){.device = device, .size = round_up(bytes, is_small ? GRAIN : SG_BLOCK_BYTES)};
    return is_small ? small_alloc(device, piece->size, &piece->base, &piece->block)
                    : blocks_map(device, piece->size, &piece->base);
}

void sg_memory_give(const struct sg_piece *piece)
{
    if (piece->block) {
        small_free(piece->block, (uintptr_t)piece->base, piece->size);
        return;
    }
    munmap(piece->base, piece->size);
    sg_blocks_give(piece->device, piece->size);
}

CUresult sg_memory_alloc(struct CUctx_st *context, size_t bytes, void **pointer)
{
    struct sg_piece piece;
    CUresult result = sg_memory_take(context->device, bytes, &piece);
    if (result != CUDA_SUCCESS)
        return result;
    result = sg_range_add(&(struct sg_range){.base = (uintptr_t)piece.base, .size = piece.size, .requested = bytes,
                                             .kind = SG_RANGE_DEVICE, .device = piece.device, .owner = piece.block});
    if (result == CUDA_SUCCESS)
        *pointer = piece.base;
    else
        sg_memory_give(&piece);
    return result;
}

CUresult sg_memory_free(void *pointer)
{
    struct sg_range range;
    if (!sg_range_remove((uintptr_t)pointer, SG_RANGE_DEVICE, &range))
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_give(&(struct sg_piece){.base = pointer, .size = range.size, .device = range.device, .block = range.owner});
    return CUDA_SUCCESS;
}
