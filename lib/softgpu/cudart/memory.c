/* memory.c - memory and pools. */
#include "softgpu/cudart/runtime.h"

/* The runtime gives no memory, and no error, for a size of 0; the driver refuses it. */
static bool nothing(void **pointer, size_t size)
{
    if (size == 0 && pointer)
        *pointer = NULL;
    return size == 0 && pointer;
}

cudaError_t cudaMalloc(void **pointer, size_t size)
{
    RT_READY(rt_context());
    if (nothing(pointer, size))
        return cudaSuccess;
    return rt_result(rt_driver()->cuMemAlloc((CUdeviceptr *)pointer, size));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    RT_CALL(cuMemAllocPitch, (CUdeviceptr *)pointer, pitch, width, height, 4);
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
    RT_CALL(cuMemAllocManaged, (CUdeviceptr *)pointer, size, flags);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    RT_CALL(cuMemHostAlloc, pointer, size, flags);
}

cudaError_t cudaMallocHost(void **pointer, size_t size)
{
    return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
    RT_CALL(cuMemHostRegister, pointer, size, flags);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    RT_CALL(cuMemHostUnregister, pointer);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    RT_CALL(cuMemHostGetDevicePointer, (CUdeviceptr *)device, host, flags);
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *pointer)
{
    RT_CALL(cuMemHostGetFlags, flags, pointer);
}

cudaError_t cudaFree(void *pointer)
{
    RT_CALL(cuMemFree, RT_DEVPTR(pointer));
}

cudaError_t cudaFreeHost(void *pointer)
{
    RT_CALL(cuMemFreeHost, pointer);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    RT_CALL(cuMemGetInfo, free_bytes, total_bytes);
}

/* Memory that CUDA does not know is "unregistered", not an error. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int device = 0;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &on_device, &on_host};
    RT_READY(rt_context());
    if (!attributes)
        return rt_set_error(cudaErrorInvalidValue);
    RT_CHECK(cuPointerGetAttributes, 5, names, values, RT_DEVPTR(pointer));
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = managed                        ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                       : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                      : cudaMemoryTypeUnregistered;
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)on_device;
    attributes->hostPointer = type ? on_host : (void *)(uintptr_t)pointer;
    return cudaSuccess;
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    CUmemLocation place = {(CUmemLocationType)location.type, location.id};
    RT_CALL(cuMemPrefetchAsync, RT_DEVPTR(pointer), count, place, flags, stream);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    CUmemLocation place = {(CUmemLocationType)location.type, location.id};
    RT_CALL(cuMemAdvise, RT_DEVPTR(pointer), count, (CUmem_advise)advice, place);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    RT_CALL(cuIpcGetMemHandle, (CUipcMemHandle *)handle, RT_DEVPTR(pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle copy;
    memcpy(&copy, &handle, sizeof(copy));
    RT_CALL(cuIpcOpenMemHandle, (CUdeviceptr *)pointer, copy, flags);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    RT_CALL(cuIpcCloseMemHandle, RT_DEVPTR(pointer));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    RT_CALL(cuIpcGetEventHandle, (CUipcEventHandle *)handle, event);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle copy;
    memcpy(&copy, &handle, sizeof(copy));
    RT_CALL(cuIpcOpenEventHandle, event, copy);
}

/* --- pools --- */

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
    RT_READY(rt_context());
    if (nothing(pointer, size))
        return cudaSuccess;
    return rt_result(rt_driver()->cuMemAllocAsync((CUdeviceptr *)pointer, size, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    RT_READY(rt_context());
    if (nothing(pointer, size))
        return cudaSuccess;
    return rt_result(rt_driver()->cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, size, pool, stream));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    RT_CALL(cuMemFreeAsync, RT_DEVPTR(pointer), stream);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    CUmemPoolProps copy;
    RT_READY(rt_context());
    if (!properties)
        return rt_set_error(cudaErrorInvalidValue);
    _Static_assert(sizeof(copy) == sizeof(*properties), "one layout in driver and runtime");
    memcpy(&copy, properties, sizeof(copy));
    return rt_result(rt_driver()->cuMemPoolCreate(pool, &copy));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    RT_CALL(cuMemPoolDestroy, pool);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    RT_CALL(cuMemPoolTrimTo, pool, keep);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    RT_CALL(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    RT_CALL(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *descriptions, size_t count)
{
    RT_CALL(cuMemPoolSetAccess, pool, (const CUmemAccessDesc *)descriptions, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location)
{
    RT_CALL(cuMemPoolGetAccess, (CUmemAccess_flags *)flags, pool, (CUmemLocation *)location);
}
