/* cuda_memory.c - the program's allocations: counted; frees, which synchronise the device as CUDA's do. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "preload/device.h"
#include "preload/memory.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/slots.h"
#include "preload/sync.h"

#define RT_FAILURE  cudaErrorInsufficientDriver
#define DRV_FAILURE CUDA_ERROR_NO_DEVICE

/* --- allocation: `pointer` is where the call leaves the address, bytes what the program asked for --- */

#define ALLOCATE(result, library, failure, name, text, kind, bytes, parameters, arguments) \
    result name parameters;                                                                \
    PRISM_EXPORT result name parameters                                                    \
    {                                                                                      \
        __typeof__(&name) real = REAL_NAMED(library, name, text);                          \
        if (!real)                                                                         \
            return failure;                                                                \
        bool ours = frame_enter();                                                         \
        result r = real arguments;                                                         \
        if (ours) {                                                                        \
            if (!r && pointer && *pointer)                                                 \
                memory_add(kind, (uint64_t)*pointer, bytes);                               \
            frame_leave();                                                                 \
        }                                                                                  \
        return r;                                                                          \
    }
#define ALLOCATE_RT(name, bytes, parameters, arguments) \
    ALLOCATE(cudaError_t, REAL_CUDART, RT_FAILURE, name, #name, MEMORY_POINTER, bytes, parameters, arguments)
#define ALLOCATE_DRV(name, kind, bytes, parameters, arguments) \
    ALLOCATE(CUresult, REAL_CUDA, DRV_FAILURE, name, #name, kind, bytes, parameters, arguments)

ALLOCATE_RT(cudaMalloc, size, (void **pointer, size_t size), (pointer, size))
ALLOCATE_RT(cudaMallocPitch, width *height, (void **pointer, size_t *pitch, size_t width, size_t height),
            (pointer, pitch, width, height))
ALLOCATE_RT(cudaMallocManaged, size, (void **pointer, size_t size, unsigned flags), (pointer, size, flags))
ALLOCATE_RT(cudaMallocAsync, size, (void **pointer, size_t size, cudaStream_t stream), (pointer, size, stream))
ALLOCATE_RT(cudaMallocAsync_ptsz, size, (void **pointer, size_t size, cudaStream_t stream), (pointer, size, stream))
ALLOCATE_RT(cudaMallocFromPoolAsync, size, (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
            (pointer, size, pool, stream))
ALLOCATE_RT(cudaMallocFromPoolAsync_ptsz, size, (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
            (pointer, size, pool, stream))
ALLOCATE_DRV(cuMemAlloc_v2, MEMORY_POINTER, size, (CUdeviceptr *pointer, size_t size), (pointer, size))
ALLOCATE_DRV(cuMemAllocPitch_v2, MEMORY_POINTER, width *height,
             (CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element),
             (pointer, pitch, width, height, element))
ALLOCATE_DRV(cuMemAllocManaged, MEMORY_POINTER, size, (CUdeviceptr *pointer, size_t size, unsigned flags),
             (pointer, size, flags))
ALLOCATE_DRV(cuMemAllocAsync, MEMORY_POINTER, size, (CUdeviceptr *pointer, size_t size, CUstream stream),
             (pointer, size, stream))
ALLOCATE_DRV(cuMemAllocAsync_ptsz, MEMORY_POINTER, size, (CUdeviceptr *pointer, size_t size, CUstream stream),
             (pointer, size, stream))
ALLOCATE_DRV(cuMemAllocFromPoolAsync, MEMORY_POINTER, size,
             (CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream), (pointer, size, pool, stream))
ALLOCATE_DRV(cuMemAllocFromPoolAsync_ptsz, MEMORY_POINTER, size,
             (CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream), (pointer, size, pool, stream))

PRISM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                  const CUmemAllocationProp *properties, unsigned long long flags)
{
    __typeof__(&cuMemCreate) real = REAL_CU(cuMemCreate);
    if (!real)
        return DRV_FAILURE;
    bool ours = frame_enter();
    CUmemAllocationProp mapped;
    CUresult r = real(handle, size, device_map_allocation(properties, &mapped), flags);
    if (ours) {
        if (!r && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            memory_add(MEMORY_HANDLE, *handle, size);
        frame_leave();
    }
    return r;
}

PRISM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    __typeof__(&cuMemRelease) real = REAL_CU(cuMemRelease);
    if (!real)
        return DRV_FAILURE;
    bool ours = frame_enter();
    if (ours) {
        memory_remove(MEMORY_HANDLE, handle);
        frame_leave();
    }
    return real(handle);
}

/* --- frees in stream order --- */

#define FREE_ASYNC(result, library, failure, name, pointer_type, stream_type)    \
    result name(pointer_type pointer, stream_type stream);                       \
    PRISM_EXPORT result name(pointer_type pointer, stream_type stream)           \
    {                                                                            \
        __typeof__(&name) real = REAL_NAMED(library, name, #name);               \
        if (!real)                                                               \
            return failure;                                                      \
        bool ours = frame_enter();                                               \
        result r = real(pointer, stream);                                        \
        if (ours) {                                                              \
            if (!r)                                                              \
                memory_remove(MEMORY_POINTER, (uint64_t)pointer);                \
            frame_leave();                                                       \
        }                                                                        \
        return r;                                                                \
    }
FREE_ASYNC(cudaError_t, REAL_CUDART, RT_FAILURE, cudaFreeAsync, void *, cudaStream_t)
FREE_ASYNC(cudaError_t, REAL_CUDART, RT_FAILURE, cudaFreeAsync_ptsz, void *, cudaStream_t)
FREE_ASYNC(CUresult, REAL_CUDA, DRV_FAILURE, cuMemFreeAsync, CUdeviceptr, CUstream)
FREE_ASYNC(CUresult, REAL_CUDA, DRV_FAILURE, cuMemFreeAsync_ptsz, CUdeviceptr, CUstream)

/* --- frees that synchronise --- */

/* In capture a real free at a closed gate holds the context's lock until the gate opens, and with it the copies of
 * other gates. So the host waits in a synchronisation, which locks nothing, and frees when all is quiet; if another thread has
 * issued a gate meanwhile, at a later synchronisation. True: done or deferred here. */
static bool free_in_capture(uint64_t pointer)
{
    if (session.phase != PHASE_CAPTURE)
        return false;
    CUDA_MUST(driver(cuCtxSynchronize)());
    session_lock();
    bool busy = slots_any_closed();
    if (busy)
        memory_defer_free(pointer);
    session_unlock();
    return busy;
}

/* What is not ours to count (unknown addresses) gets its error from CUDA, without nodes. */
#define FREE(result, library, failure, name, text, pointer_type)                       \
    PRISM_EXPORT result name(pointer_type pointer)                                     \
    {                                                                                  \
        __typeof__(&name) real = REAL_NAMED(library, name, text);                      \
        if (!real)                                                                     \
            return failure;                                                            \
        if (!frame_enter())                                                            \
            return real(pointer);                                                      \
        struct sync sync;                                                              \
        sync.n = 0;                                                                    \
        bool counted = pointer && memory_remove(MEMORY_POINTER, (uint64_t)pointer);    \
        if (counted)                                                                   \
            sync_begin_device(&sync);                                                  \
        result r = counted && free_in_capture((uint64_t)pointer) ? 0 : real(pointer);  \
        sync_end(&sync);                                                               \
        frame_leave();                                                                 \
        return r;                                                                      \
    }
FREE(cudaError_t, REAL_CUDART, RT_FAILURE, cudaFree, "cudaFree", void *)
FREE(CUresult, REAL_CUDA, DRV_FAILURE, cuMemFree, "cuMemFree_v2", CUdeviceptr)

/* A reset would take the region, events and communicators from under Prism; programs call it to end with everything freed,
 * so that is what it does. */
PRISM_EXPORT cudaError_t cudaDeviceReset(void)
{
    __typeof__(&cudaDeviceReset) real = REAL_NAMED(REAL_CUDART, cudaDeviceReset, "cudaDeviceReset");
    if (!real)
        return RT_FAILURE;
    if (!frame_enter())
        return real();
    struct sync sync;
    sync_begin_device(&sync);
    CUDA_MUST(driver(cuCtxSynchronize)());
    memory_free_all();
    sync_end(&sync);
    frame_leave();
    return cudaSuccess;
}

/* Pinned host memory: synchronises too, and is not device memory. */
#define FREE_HOST(result, library, failure, name)                       \
    PRISM_EXPORT result name(void *pointer)                             \
    {                                                                   \
        __typeof__(&name) real = REAL_NAMED(library, name, #name);      \
        if (!real)                                                      \
            return failure;                                             \
        if (!frame_enter())                                             \
            return real(pointer);                                       \
        struct sync sync;                                               \
        sync.n = 0;                                                     \
        if (pointer)                                                    \
            sync_begin_device(&sync);                                   \
        if (pointer && session.phase == PHASE_CAPTURE)                  \
            CUDA_MUST(driver(cuCtxSynchronize)());                      \
        result r = real(pointer);                                       \
        sync_end(&sync);                                                \
        frame_leave();                                                  \
        return r;                                                       \
    }
FREE_HOST(cudaError_t, REAL_CUDART, RT_FAILURE, cudaFreeHost)
FREE_HOST(CUresult, REAL_CUDA, DRV_FAILURE, cuMemFreeHost)
