/* memory_api.c - device, host, registered and managed memory, and what a pointer is. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "softgpu/cuda/api.h"

/* --- device memory --- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    SG_CONTEXT_OR_RETURN(context);
    uint64_t total = sg_profile()->memory, used = sg_shared_used(sg_device_get(context->device)->shared);
    if (free_bytes)
        *free_bytes = used < total ? total - used : 0;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    void *p;
    CUresult result = sg_memory_alloc(context, bytes, &p);
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)p;
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    if (!pitch || (element != 4 && element != 8 && element != 16) || !width || !height || width > SIZE_MAX / 2 / height)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(pointer, *pitch * height);
}

/* Waits for the device: behind a closed gate it blocks, as CUDA's does. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    SG_CONTEXT_OR_RETURN(context);
    struct sg_range range;
    uintptr_t address = (uintptr_t)pointer;
    if (!pointer)
        return CUDA_SUCCESS;
    if (!sg_range_find(address, &range) || range.base != address)
        return CUDA_ERROR_INVALID_VALUE;
    (void)context;
    if (range.kind == SG_RANGE_POOL) {
        sg_device_synchronize(range.device);
        CUresult result = cuMemFreeAsync(pointer, CU_STREAM_LEGACY);
        return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_LEGACY) : result;
    }
    if (range.kind != SG_RANGE_DEVICE && range.kind != SG_RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    sg_device_synchronize(range.device);
    if (range.kind == SG_RANGE_DEVICE)
        return sg_memory_free((void *)address);
    if (!sg_range_remove(address, SG_RANGE_MANAGED, &range))
        return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)address, range.size);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    struct sg_range range;
    int device;
    if (!sg_address_is_device((uintptr_t)pointer, &device) || !sg_range_find((uintptr_t)pointer, &range))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range.base;
    if (size)
        *size = range.requested ? range.requested : range.size;
    return CUDA_SUCCESS;
}

/* Managed memory is host memory that device code reaches; it does not count against the device's capacity. */
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!pointer || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    size_t size = (bytes + 4095) / 4096 * 4096;
    void *p = sg_map_lazily(size);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = (CUdeviceptr)(uintptr_t)p;
    return sg_range_add(&(struct sg_range){.base = (uintptr_t)p, .size = size, .requested = bytes,
                                           .kind = SG_RANGE_MANAGED, .device = context->device});
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    (void)stream;
    return sg_range_find_kind((uintptr_t)pointer, SG_RANGE_MANAGED, NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync_v1(CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream)
{
    return cuMemPrefetchAsync_v2(pointer, count, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device}, 0, stream);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t count, CUmem_advise advice, CUmemLocation location)
{
    return sg_range_find_kind((uintptr_t)pointer, SG_RANGE_MANAGED, NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise_v1(CUdeviceptr pointer, size_t count, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(pointer, count, advice, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device});
}

/* --- host memory --- */

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!pointer || flags > (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    if (!bytes) {
        *pointer = NULL;
        return CUDA_SUCCESS;
    }
    size_t size = (bytes + 4095) / 4096 * 4096;
    void *p = size < bytes ? MAP_FAILED
                           : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = p;
    return sg_range_add(&(struct sg_range){.base = (uintptr_t)p, .size = size, .requested = bytes, .kind = SG_RANGE_HOST,
                                           .device = context->device, .flags = flags | CU_MEMHOSTALLOC_DEVICEMAP});
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

/* Synchronises the device, as measured. */
CUresult cuMemFreeHost(void *pointer)
{
    struct sg_range range;
    if (!pointer)
        return CUDA_SUCCESS;
    if (!sg_range_find_kind((uintptr_t)pointer, SG_RANGE_HOST, &range) || range.base != (uintptr_t)pointer)
        return CUDA_ERROR_INVALID_VALUE;
    sg_device_synchronize(range.device);
    if (!sg_range_remove((uintptr_t)pointer, SG_RANGE_HOST, &range))
        return CUDA_ERROR_INVALID_VALUE;
    munmap(pointer, range.size);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!pointer || !bytes || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult allowed = sg_capture_check_unsafe();
    if (allowed != CUDA_SUCCESS)
        return allowed;
    CUresult result = sg_range_add(&(struct sg_range){.base = (uintptr_t)pointer, .size = bytes, .requested = bytes,
                                                      .kind = SG_RANGE_REGISTERED, .device = context->device,
                                                      .flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP});
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : result;
}

/* Synchronises the device, as measured; registering does not. */
CUresult cuMemHostUnregister(void *pointer)
{
    struct sg_range range;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_range_find_kind((uintptr_t)pointer, SG_RANGE_REGISTERED, &range) || range.base != (uintptr_t)pointer)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sg_device_synchronize(range.device);
    sg_range_remove((uintptr_t)pointer, SG_RANGE_REGISTERED, NULL);
    return CUDA_SUCCESS;
}

/* Host and device share one address space. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags)
{
    if (!device || flags || !sg_address_is_pinned((uintptr_t)host))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
    struct sg_range range;
    if (!flags || !sg_range_find((uintptr_t)pointer, &range) ||
        (range.kind != SG_RANGE_HOST && range.kind != SG_RANGE_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range.flags;
    return CUDA_SUCCESS;
}

/* --- what a pointer is --- */

static unsigned memory_type(const struct sg_range *range)
{
    return range->kind == SG_RANGE_HOST || range->kind == SG_RANGE_REGISTERED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUcontext context_of(const struct sg_range *range)
{
    return range->kind == SG_RANGE_MAPPED || range->kind == SG_RANGE_POOL ? NULL : sg_device_get(range->device)->primary;
}

static CUresult get_attribute(void *data, CUpointer_attribute attribute, uintptr_t address, const struct sg_range *range)
{
    bool host = memory_type(range) == CU_MEMORYTYPE_HOST, managed = range->kind == SG_RANGE_MANAGED;
    size_t size = range->requested ? range->requested : range->size;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = context_of(range); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = memory_type(range); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = address; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = host || managed ? (void *)address : NULL;
        return host || managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *(unsigned long long *)data = range->id; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = managed; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = range->device; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = range->base; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = size; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = range->kind == SG_RANGE_MAPPED ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned *)data = 0; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = range->kind == SG_RANGE_POOL ? sg_pool_of(range) : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = range->size; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)data = range->base; return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct sg_range range;
    if (!data || !sg_range_find((uintptr_t)pointer, &range))
        return CUDA_ERROR_INVALID_VALUE;
    return get_attribute(data, attribute, (uintptr_t)pointer, &range);
}

static size_t attribute_size(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
    default: return 8;
    }
}

/* Unlike the singular call this succeeds for memory that CUDA does not know, with zeros (and device -2). */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    struct sg_range range;
    if (!count || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = sg_range_find((uintptr_t)pointer, &range);
    for (unsigned i = 0; i < count; i++) {
        memset(data[i], 0, attribute_size(attributes[i]));
        if (known)
            get_attribute(data[i], attributes[i], (uintptr_t)pointer, &range);
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = CU_DEVICE_INVALID;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value || !sg_range_find((uintptr_t)pointer, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
