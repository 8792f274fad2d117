/* cuda_memory.c - the program's allocations: counted; frees, which synchronise the device as CUDA's do. */
#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"
#include "preload/memory/memory.h"
#include "preload/memory/park.h"
#include "preload/memory/residence.h"
#include "preload/memory/room.h"
#include "preload/gate/slots.h"
#include "preload/gate/streams.h"
#include "preload/nodes/sync.h"
#include "preload/memory/vmm.h"

#define PITCH 512u /* as CUDA aligns rows */

/* --- served by vmm.h instead of CUDA --- */

static int serve(CUdeviceptr *pointer, size_t bytes)
{
    session_enter_context();
    return (int)vmm_alloc(pointer, bytes);
}

static int serve_pitched(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height)
{
    if (width > SIZE_MAX - PITCH || height > SIZE_MAX / (width + PITCH))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t row = (width + PITCH - 1) / PITCH * PITCH;
    int r = serve(pointer, row * height);
    if (!r)
        *pitch = row;
    return r;
}

static CUstream handle_of(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static int serve_async(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    session_enter_context();
    return (int)vmm_alloc_async(pointer, bytes, stream);
}

/* Allocations of graphs are left to CUDA. */
static bool served_async(const void *pointer, size_t bytes, CUstream stream)
{
    return residence_is_on() && pointer && bytes && !streams_is_capturing(stream);
}

/* --- allocation: `pointer` is where the call leaves the address, bytes what the program asked for --- */

#define ALLOCATE(api, name, bytes, parameters, arguments, served, service)             \
    WRAP(api, name, parameters,                                                        \
         bool ours = frame_enter();                                                    \
         RESULT_##api r = ours && (served) ? (RESULT_##api)(service) : real arguments; \
         if (ours) {                                                                   \
             if (!r && pointer && *pointer)                                            \
                 memory_add(MEMORY_POINTER, (uint64_t)*pointer, bytes);                \
             frame_leave();                                                            \
         }                                                                             \
         return r;)

#define AT         ((CUdeviceptr *)(void *)pointer)
#define ALLOCATE_SYNC(api, name, parameters) \
    ALLOCATE(api, name, size, parameters, (pointer, size), residence_is_on() && pointer && size, serve(AT, size))
#define ALLOCATE_PITCHED(api, name, parameters, arguments)    \
    ALLOCATE(api, name, width *height, parameters, arguments, \
             residence_is_on() && pointer && pitch && width && height, serve_pitched(AT, pitch, width, height))
/* Managed memory moves by itself. */
#define ALLOCATE_MANAGED(api, name, parameters) ALLOCATE(api, name, size, parameters, (pointer, size, flags), false, 0)
#define ALLOCATE_ASYNC(api, name, per_thread, parameters, arguments)                                             \
    ALLOCATE(api, name, size, parameters, arguments, served_async(pointer, size, handle_of(stream, per_thread)), \
             serve_async(AT, size, handle_of(stream, per_thread)))

ALLOCATE_SYNC(RT, cudaMalloc, (void **pointer, size_t size))
ALLOCATE_PITCHED(RT, cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height),
                 (pointer, pitch, width, height))
ALLOCATE_MANAGED(RT, cudaMallocManaged, (void **pointer, size_t size, unsigned flags))
ALLOCATE_ASYNC(RT, cudaMallocAsync, false, (void **pointer, size_t size, cudaStream_t stream),
               (pointer, size, stream))
ALLOCATE_ASYNC(RT, cudaMallocAsync_ptsz, true, (void **pointer, size_t size, cudaStream_t stream),
               (pointer, size, stream))
ALLOCATE_ASYNC(RT, cudaMallocFromPoolAsync, false,
               (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream), (pointer, size, pool, stream))
ALLOCATE_ASYNC(RT, cudaMallocFromPoolAsync_ptsz, true,
               (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream), (pointer, size, pool, stream))
ALLOCATE_SYNC(DRV, cuMemAlloc_v2, (CUdeviceptr *pointer, size_t size))
ALLOCATE_PITCHED(DRV, cuMemAllocPitch_v2,
                 (CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element),
                 (pointer, pitch, width, height, element))
ALLOCATE_MANAGED(DRV, cuMemAllocManaged, (CUdeviceptr *pointer, size_t size, unsigned flags))
ALLOCATE_ASYNC(DRV, cuMemAllocAsync, false, (CUdeviceptr *pointer, size_t size, CUstream stream),
               (pointer, size, stream))
ALLOCATE_ASYNC(DRV, cuMemAllocAsync_ptsz, true, (CUdeviceptr *pointer, size_t size, CUstream stream),
               (pointer, size, stream))
ALLOCATE_ASYNC(DRV, cuMemAllocFromPoolAsync, false,
               (CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream), (pointer, size, pool, stream))
ALLOCATE_ASYNC(DRV, cuMemAllocFromPoolAsync_ptsz, true,
               (CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream), (pointer, size, pool, stream))

PRISM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                  const CUmemAllocationProp *properties, unsigned long long flags)
{
    FIND(DRV, cuMemCreate);
    bool ours = frame_enter();
    CUmemAllocationProp mapped;
    CUresult r;
    if (!ours || !residence_is_on() || flags || !vmm_create(handle, size, properties, &r))
        r = real(handle, size, device_map_allocation(properties, &mapped), flags);
    if (ours) {
        if (!r && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            memory_add(MEMORY_HANDLE, *handle, size);
        frame_leave();
    }
    return r;
}

PRISM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    FIND(DRV, cuMemRelease);
    bool ours = frame_enter();
    CUresult r;
    if (ours)
        memory_remove(MEMORY_HANDLE, handle);
    if (!ours || !residence_is_on() || !vmm_release(handle, &r))
        r = real(handle);
    if (ours)
        frame_leave();
    return r;
}

/* --- frees in stream order --- */

/* False: CUDA's to free. */
static bool free_async(CUdeviceptr pointer, CUstream stream, int *r)
{
    CUresult result;
    if (!residence_is_on())
        return false;
    room_await(stream, false, 1);
    park_touch(stream, false);
    if (!vmm_free_async(pointer, stream, &result))
        return false;
    *r = (int)result;
    return true;
}

#define FREE_ASYNC(api, name, per_thread, pointer_type, stream_type)                                  \
    WRAP(api, name, (pointer_type pointer, stream_type stream),                                       \
         bool ours = frame_enter();                                                                   \
         int r;                                                                                       \
         if (!ours || !free_async((CUdeviceptr)pointer, handle_of((CUstream)stream, per_thread), &r)) \
             r = (int)real(pointer, stream);                                                          \
         if (ours) {                                                                                  \
             if (!r)                                                                                  \
                 memory_remove(MEMORY_POINTER, (uint64_t)pointer);                                    \
             frame_leave();                                                                           \
         }                                                                                            \
         return (RESULT_##api)r;)
FREE_ASYNC(RT, cudaFreeAsync, false, void *, cudaStream_t)
FREE_ASYNC(RT, cudaFreeAsync_ptsz, true, void *, cudaStream_t)
FREE_ASYNC(DRV, cuMemFreeAsync, false, CUdeviceptr, CUstream)
FREE_ASYNC(DRV, cuMemFreeAsync_ptsz, true, CUdeviceptr, CUstream)

/* --- frees that synchronise --- */

/* In capture a real free at a closed gate holds the context's lock until the gate opens, and with it the copies of
 * other gates. So the host waits in a synchronisation, which locks nothing, and frees when all is quiet; if another thread has
 * issued a gate meanwhile, at a later synchronisation. Memory of vmm.h goes at once, which locks nothing (measured).
 * True: done or deferred here. */
static bool free_in_capture(uint64_t pointer)
{
    if (session.phase != PHASE_CAPTURE)
        return false;
    CUDA_MUST(driver(cuCtxSynchronize)());
    if (residence_is_on() && vmm_free(pointer))
        return true;
    session_lock();
    bool busy = slots_any_closed();
    if (busy)
        memory_defer_free(pointer);
    session_unlock();
    return busy;
}

/* What is not ours to count (unknown addresses) gets its error from CUDA, without nodes. */
#define FREE(api, name, pointer_type)                                                        \
    WRAP(api, name, (pointer_type pointer),                                                  \
         if (!frame_enter())                                                                 \
             return real(pointer);                                                           \
         struct sync sync;                                                                   \
         sync.n = 0;                                                                         \
         bool counted = pointer && memory_remove(MEMORY_POINTER, (uint64_t)pointer);         \
         if (counted)                                                                        \
             sync_begin_device(&sync);                                                       \
         RESULT_##api r = counted && free_in_capture((uint64_t)pointer) ? 0 : real(pointer); \
         sync_end(&sync);                                                                    \
         frame_leave();                                                                      \
         return r;)
FREE(RT, cudaFree, void *)
FREE(DRV, cuMemFree, CUdeviceptr)

/* A reset would take the region, events and communicators from under Prism; programs call it to end with everything freed,
 * so that is what it does. Ends the frame. */
static void reset(void)
{
    struct sync sync;
    sync_begin_device(&sync);
    CUDA_MUST(driver(cuCtxSynchronize)());
    memory_free_all();
    sync_end(&sync);
    frame_leave();
}

PRISM_EXPORT cudaError_t cudaDeviceReset(void)
{
    FIND(RT, cudaDeviceReset);
    if (!frame_enter())
        return real();
    reset();
    return cudaSuccess;
}

/* What cudaDeviceReset of a runtime linked in statically comes to. */
#undef cuDevicePrimaryCtxReset /* here it is the first version */
#define PRIMARY_RESET(name)                                            \
    WRAP(DRV, name, (CUdevice device),                                 \
         bool logical = device_is_logical();                           \
         bool ours = !device_real(device) && frame_enter();            \
         CUresult r = ours ? CUDA_SUCCESS : real(device_real(device)); \
         if (ours)                                                     \
             reset();                                                  \
         else                                                          \
             device_unbind_all();                                      \
         if (logical && !r)                                            \
             device_activate(device, false);                           \
         return r;)
PRIMARY_RESET(cuDevicePrimaryCtxReset)
PRIMARY_RESET(cuDevicePrimaryCtxReset_v2)

/* The same for a context that the program made, and that Prism's things are in. */
PRISM_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
    FIND(DRV, cuCtxDestroy);
    __typeof__(&cuCtxPopCurrent) pop = REAL_CU(cuCtxPopCurrent);
    CUcontext current = NULL;
    bool ours = context && session.context_is_own && context == session.context && frame_enter();
    device_unbind_all();
    if (!ours)
        return real(context);
    reset();
    if (pop && !driver(cuCtxGetCurrent)(&current) && current == context)
        pop(NULL);
    return CUDA_SUCCESS;
}

/* Host memory that is pinned no more: synchronises too, and is not device memory. */
#define FREE_HOST(api, name)                            \
    WRAP(api, name, (void *pointer),                    \
         if (!frame_enter())                            \
             return real(pointer);                      \
         struct sync sync;                              \
         sync.n = 0;                                    \
         if (pointer)                                   \
             sync_begin_device(&sync);                  \
         if (pointer && session.phase == PHASE_CAPTURE) \
             CUDA_MUST(driver(cuCtxSynchronize)());     \
         RESULT_##api r = real(pointer);                \
         sync_end(&sync);                               \
         frame_leave();                                 \
         return r;)
FREE_HOST(RT, cudaFreeHost)
FREE_HOST(RT, cudaHostUnregister)
FREE_HOST(DRV, cuMemFreeHost)
FREE_HOST(DRV, cuMemHostUnregister)
