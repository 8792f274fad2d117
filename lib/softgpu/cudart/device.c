/* device.c - devices. */
#include "softgpu/cudart/runtime.h"

static cudaError_t set_device(int device, bool with_flags, unsigned int flags)
{
    CUcontext context;
    RT_READY(rt_init());
    if (with_flags)
        RT_CHECK(cuDevicePrimaryCtxSetFlags, device, flags);
    RT_CHECK(cuDevicePrimaryCtxRetain, &context, device);
    return rt_result(rt_driver()->cuCtxSetCurrent(context));
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = set_device(device, false, 0);
    if (error == cudaSuccess)
        rt_device = device;
    return error;
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUcontext old = NULL;
    RT_READY(rt_init());
    RT_CHECK(cuCtxGetCurrent, &old);
    cudaError_t error = set_device(device, flags & cudaInitDeviceFlagsAreValid, device_flags);
    if (error == cudaSuccess && old) /* it does not select the device */
        rt_driver()->cuCtxSetCurrent(old);
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    CUcontext context;
    RT_READY(rt_init());
    if (!device)
        return rt_set_error(cudaErrorInvalidValue);
    RT_CHECK(cuCtxGetCurrent, &context);
    *device = rt_device;
    CUresult result = context ? rt_driver()->cuCtxGetDevice(device) : CUDA_SUCCESS;
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? cudaSuccess : rt_result(result);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return rt_set_error(cudaErrorInvalidValue);
    *count = 0;
    RT_PLAIN(cuDeviceGetCount, count);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    RT_PLAIN(cuDevicePrimaryCtxSetFlags, device, flags);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    RT_CALL(cuCtxGetFlags, flags);
}

cudaError_t cudaSetValidDevices(int *devices, int count)
{
    RT_READY(rt_init());
    for (int i = 0; i < count; i++) {
        CUdevice device;
        RT_CHECK(cuDeviceGet, &device, devices[i]);
    }
    return cudaSuccess;
}

/* All devices are alike. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wish)
{
    RT_READY(rt_init());
    if (!device || !wish)
        return rt_set_error(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    RT_PLAIN(cuDeviceGetAttribute, value, (CUdevice_attribute)attribute, device);
}

static int attribute(CUdevice_attribute which, int device)
{
    int value = 0;
    rt_driver()->cuDeviceGetAttribute(&value, which, device);
    return value;
}

#define ATTRIBUTE(name) attribute(CU_DEVICE_ATTRIBUTE_##name, device)

static void fill_limits(struct cudaDeviceProp *p, int device)
{
    p->sharedMemPerBlock = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK);
    p->sharedMemPerBlockOptin = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p->sharedMemPerMultiprocessor = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p->regsPerBlock = ATTRIBUTE(MAX_REGISTERS_PER_BLOCK);
    p->regsPerMultiprocessor = ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR);
    p->warpSize = ATTRIBUTE(WARP_SIZE);
    p->memPitch = (size_t)ATTRIBUTE(MAX_PITCH);
    p->maxThreadsPerBlock = ATTRIBUTE(MAX_THREADS_PER_BLOCK);
    p->maxThreadsPerMultiProcessor = ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR);
    p->maxBlocksPerMultiProcessor = ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR);
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, device);
        p->maxGridSize[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, device);
    }
    p->totalConstMem = (size_t)ATTRIBUTE(TOTAL_CONSTANT_MEMORY);
    p->textureAlignment = (size_t)ATTRIBUTE(TEXTURE_ALIGNMENT);
    p->texturePitchAlignment = (size_t)ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    RT_READY(rt_init());
    if (!p)
        return rt_set_error(cudaErrorInvalidValue);
    memset(p, 0, sizeof(*p));
    RT_CHECK(cuDeviceGetName, p->name, (int)sizeof(p->name), device);
    RT_CHECK(cuDeviceGetUuid, &p->uuid, device);
    RT_CHECK(cuDeviceTotalMem, &p->totalGlobalMem, device);
    fill_limits(p, device);
    p->major = ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
    p->minor = ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
    p->multiProcessorCount = ATTRIBUTE(MULTIPROCESSOR_COUNT);
    p->canMapHostMemory = ATTRIBUTE(CAN_MAP_HOST_MEMORY);
    p->concurrentKernels = ATTRIBUTE(CONCURRENT_KERNELS);
    p->pciBusID = ATTRIBUTE(PCI_BUS_ID);
    p->pciDeviceID = ATTRIBUTE(PCI_DEVICE_ID);
    p->pciDomainID = ATTRIBUTE(PCI_DOMAIN_ID);
    p->asyncEngineCount = ATTRIBUTE(ASYNC_ENGINE_COUNT);
    p->unifiedAddressing = ATTRIBUTE(UNIFIED_ADDRESSING);
    p->memoryBusWidth = ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH);
    p->l2CacheSize = ATTRIBUTE(L2_CACHE_SIZE);
    p->streamPrioritiesSupported = ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
    p->managedMemory = ATTRIBUTE(MANAGED_MEMORY);
    p->hostNativeAtomicSupported = ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED);
    p->canUseHostPointerForRegisteredMem = ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    p->hostRegisterSupported = ATTRIBUTE(HOST_REGISTER_SUPPORTED);
    p->hostRegisterReadOnlySupported = ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED);
    p->memoryPoolsSupported = ATTRIBUTE(MEMORY_POOLS_SUPPORTED);
    p->deviceNumaId = ATTRIBUTE(NUMA_ID);
    p->hostNumaId = ATTRIBUTE(HOST_NUMA_ID);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    RT_PLAIN(cuDeviceGetPCIBusId, text, length, device);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    RT_PLAIN(cuDeviceGetByPCIBusId, device, text);
}

cudaError_t cudaDeviceSynchronize(void)
{
    RT_CALL(cuCtxSynchronize);
}

cudaError_t cudaDeviceReset(void)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    RT_PLAIN(cuDevicePrimaryCtxReset, device);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    RT_CALL(cuCtxGetLimit, value, (CUlimit)limit);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    RT_CALL(cuCtxSetLimit, (CUlimit)limit, value);
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    RT_CALL(cuCtxGetCacheConfig, (CUfunc_cache *)config);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    RT_CALL(cuCtxSetCacheConfig, (CUfunc_cache)config);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    RT_CALL(cuCtxGetStreamPriorityRange, least, greatest);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    RT_PLAIN(cuDeviceCanAccessPeer, can, device, peer);
}

/* The runtime names the peer by device; its context is the primary one, which the call brings up. */
static cudaError_t peer_context(int peer, CUcontext *context)
{
    RT_READY(rt_context());
    return rt_result(rt_driver()->cuDevicePrimaryCtxRetain(context, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context;
    cudaError_t error = peer_context(peer, &context);
    return error != cudaSuccess ? error : rt_result(rt_driver()->cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    cudaError_t error = peer_context(peer, &context);
    return error != cudaSuccess ? error : rt_result(rt_driver()->cuCtxDisablePeerAccess(context));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr which, int source, int destination)
{
    RT_PLAIN(cuDeviceGetP2PAttribute, value, (CUdevice_P2PAttribute)which, source, destination);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    RT_PLAIN(cuDeviceGetDefaultMemPool, pool, device);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    RT_PLAIN(cuDeviceGetMemPool, pool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    RT_PLAIN(cuDeviceSetMemPool, device, pool);
}
