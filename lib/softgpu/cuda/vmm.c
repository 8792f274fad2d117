/* vmm.c - virtual memory management: addresses, physical memory and mappings apart.
 *
 * Physical memory is a memory file, so that it can be mapped in several places, in other processes too, and keeps its
 * content while it is mapped nowhere. A mapping becomes accessible with cuMemSetAccess. None of these calls waits for
 * the device (measured: they go on behind closed gates).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/cuda/api.h"

#define PHYSICAL_MAGIC 0x53475048u

/* Handle and mappings each hold a reference. */
struct physical {
    uint32_t magic;
    int fd, device, refs, handles;
    bool imported; /* accounted by the process that made it */
    size_t size;
    CUmemAllocationProp properties;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct physical *p = (struct physical *)(uintptr_t)handle;
    return p && p->magic == PHYSICAL_MAGIC && p->handles > 0 ? p : NULL;
}

static void physical_unref(struct physical *p)
{
    pthread_mutex_lock(&lock);
    bool last = --p->refs == 0;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    close(p->fd);
    if (!p->imported)
        sg_blocks_give(p->device, p->size);
    p->magic = 0;
    free(p);
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sg_device_opened(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Takes the file descriptor and the accounted memory. */
static struct physical *physical_create(int fd, size_t size, const CUmemAllocationProp *properties)
{
    struct physical *p = calloc(1, sizeof(*p));
    if (p)
        *p = (struct physical){.magic = PHYSICAL_MAGIC, .fd = fd, .device = properties->location.id, .refs = 1,
                               .handles = 1, .size = size, .properties = *properties};
    return p;
}

/* --- addresses --- */

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    if (sg_check_init() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!pointer || !size || size % SG_BLOCK_BYTES || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    alignment = SG_MAX(alignment, (size_t)SG_BLOCK_BYTES);
    char *p = MAP_FAILED;
    int protection = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (wish && wish % alignment == 0)
        p = mmap((void *)(uintptr_t)wish, size, PROT_NONE, protection | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) {
        size_t room = size + alignment;
        p = room < size ? MAP_FAILED : mmap(NULL, room, PROT_NONE, protection, -1, 0);
        if (p == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        char *aligned = (char *)(((uintptr_t)p + alignment - 1) / alignment * alignment);
        if (aligned > p)
            munmap(p, (size_t)(aligned - p));
        if (p + room > aligned + size)
            munmap(aligned + size, (size_t)(p + room - (aligned + size)));
        p = aligned;
    }
    CUresult result = sg_range_add(&(struct sg_range){.base = (uintptr_t)p, .size = size, .kind = SG_RANGE_RESERVED});
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)p;
    else
        munmap(p, size);
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    struct sg_range range;
    if (!sg_range_find_kind((uintptr_t)pointer, SG_RANGE_RESERVED, &range) || range.base != (uintptr_t)pointer ||
        range.size != size || sg_range_overlaps((uintptr_t)pointer, size, SG_RANGE_MAPPED) ||
        !sg_range_remove((uintptr_t)pointer, SG_RANGE_RESERVED, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)(uintptr_t)pointer, size);
    return CUDA_SUCCESS;
}

/* --- physical memory --- */

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    if (sg_check_init() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = check_properties(properties);
    if (result != CUDA_SUCCESS)
        return result;
    if (!handle || !size || size % SG_BLOCK_BYTES || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = sg_blocks_take(properties->location.id, size);
    if (result != CUDA_SUCCESS)
        return result;
    int fd = memfd_create("softgpu-memory", MFD_CLOEXEC);
    struct physical *p = fd >= 0 && ftruncate(fd, (off_t)size) == 0 ? physical_create(fd, size, properties) : NULL;
    if (!p) {
        if (fd >= 0)
            close(fd);
        sg_blocks_give(properties->location.id, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    p->handles--;
    pthread_mutex_unlock(&lock);
    physical_unref(p);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct sg_range range;
    if (!handle || !sg_range_find_kind((uintptr_t)address, SG_RANGE_MAPPED, &range))
        return CUDA_ERROR_INVALID_VALUE;
    struct physical *p = range.owner;
    pthread_mutex_lock(&lock);
    p->refs++;
    p->handles++;
    pthread_mutex_unlock(&lock);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = sg_check_init() == CUDA_SUCCESS ? check_properties(properties) : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS)
        *granularity = SG_BLOCK_BYTES;
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);
    if (!p || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    *properties = p->properties;
    return CUDA_SUCCESS;
}

/* --- mappings --- */

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    struct physical *p = physical_of(handle);
    struct sg_range reserved;
    if (!p || flags || !size || size % SG_BLOCK_BYTES || offset % SG_BLOCK_BYTES || pointer % SG_BLOCK_BYTES ||
        offset > p->size || size > p->size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_range_find_kind((uintptr_t)pointer, SG_RANGE_RESERVED, &reserved) ||
        size > reserved.size - ((uintptr_t)pointer - reserved.base))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sg_range_add(&(struct sg_range){.base = (uintptr_t)pointer, .size = size, .kind = SG_RANGE_MAPPED,
                                                      .device = p->device, .owner = p});
    if (result != CUDA_SUCCESS)
        return result;
    if (mmap((void *)(uintptr_t)pointer, size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, (off_t)offset) == MAP_FAILED) {
        sg_range_remove((uintptr_t)pointer, SG_RANGE_MAPPED, NULL);
        return CUDA_ERROR_MAP_FAILED;
    }
    pthread_mutex_lock(&lock);
    p->refs++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Calls fn for each mapping of [pointer, pointer + size), which must be filled by whole mappings. */
static CUresult for_mappings(CUdeviceptr pointer, size_t size, void (*fn)(const struct sg_range *, void *), void *ctx)
{
    uintptr_t at = (uintptr_t)pointer, end = at + size;
    struct sg_range range;
    for (uintptr_t look = at; look < end; look = range.base + range.size)
        if (!sg_range_find_kind(look, SG_RANGE_MAPPED, &range) || range.base != look || range.base + range.size > end)
            return CUDA_ERROR_INVALID_VALUE;
    for (; at < end; at = range.base + range.size) {
        sg_range_find_kind(at, SG_RANGE_MAPPED, &range);
        fn(&range, ctx);
    }
    return CUDA_SUCCESS;
}

static void unmap_one(const struct sg_range *range, void *ctx)
{
    mmap((void *)range->base, range->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sg_range_remove(range->base, SG_RANGE_MAPPED, NULL);
    physical_unref(range->owner);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    return size ? for_mappings(pointer, size, unmap_one, NULL) : CUDA_ERROR_INVALID_VALUE;
}

static void protect_one(const struct sg_range *range, void *ctx)
{
    int protection = *(int *)ctx;
    if (mprotect((void *)range->base, range->size, protection) == 0)
        sg_range_set_flags(range->base, SG_RANGE_MAPPED, (unsigned)protection);
}

/* Host and devices share one address space, so the rights of any device are those of all. */
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *descriptions, size_t count)
{
    if (!descriptions || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    int protection = PROT_NONE;
    for (size_t i = 0; i < count; i++) {
        if (descriptions[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !sg_device_get(descriptions[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        protection |= descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                      : descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                                  : PROT_NONE;
    }
    return for_mappings(pointer, size, protect_one, &protection);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    struct sg_range range;
    if (!flags || !location || !sg_range_find_kind((uintptr_t)pointer, SG_RANGE_MAPPED, &range))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range.flags & PROT_WRITE  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : range.flags & PROT_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* --- sharing --- */

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    struct physical *p = physical_of(handle);
    if (!p || !shared || flags || p->imported) /* what was imported is not exported again (seen on an H200) */
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || p->properties.requestedHandleTypes != type)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shared = fd;
    return CUDA_SUCCESS;
}

/* The memory is accounted in the exporter; the importer keeps it alive, but does not pay for it. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type)
{
    struct CUctx_st *context = sg_context_current();
    struct stat st;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl((int)(intptr_t)shared, F_DUPFD_CLOEXEC, 0);
    if (!handle || fd < 0 || fstat(fd, &st) != 0 || !st.st_size || st.st_size % (off_t)SG_BLOCK_BYTES) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, context ? context->device : 0}};
    struct physical *p = physical_create(fd, (size_t)st.st_size, &properties);
    if (!p) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->imported = true;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}
