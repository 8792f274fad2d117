/* cuda_sync.c - calls in which the host waits for the device: synchronisations and synchronous copies.
 *
 * Which copies wait follows "API synchronization behavior" of the CUDA runtime documentation: a copy within the device
 * and a fill return at once; a copy to or from the host waits, an asynchronous one only when it goes to pageable memory.
 */
#include "preload/cuda/wrap.h"
#include "preload/memory/park.h"
#include "preload/memory/residence.h"
#include "preload/memory/room.h"
#include "preload/nodes/sync.h"
#include "preload/memory/vmm.h"

/* Memory that CUDA knows nothing of: not allocated by it, not registered. */
static bool is_pageable(const void *address)
{
    unsigned type = 0;
    if (vmm_owns(address))
        return false;
    CUresult r =
        driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)address);
    return r || !type;
}

/* A copy that does not wait for its stream, but perhaps for room in the stream's queue. What is in pageable memory the host copies
 * itself, which takes as long. */
static void note_copy(const void *from, int64_t lasted_ns)
{
    if (lasted_ns <= BLOCKED_LEAST_NS || !is_pageable(from))
        blocked_note(lasted_ns);
}

/* begin: a statement that fills `sync`; n stays 0 when the call does not wait. */
#define SYNC_CALL(api, name, parameters, arguments, begin)   \
    WRAP(api, name, parameters,                              \
         if (!frame_enter())                                 \
             return real arguments;                          \
         struct sync sync;                                   \
         sync.n = 0;                                         \
         sync.copied = NULL;                                 \
         begin;                                              \
         int64_t began = sync.copied ? clock_now_ns() : 0;   \
         RESULT_##api r = real arguments;                    \
         if (began)                                          \
             note_copy(sync.copied, clock_now_ns() - began); \
         residence_let_go();                                 \
         sync_end(&sync);                                    \
         frame_leave();                                      \
         return r;)
#define SYNC_RT(name, parameters, arguments, begin)  SYNC_CALL(RT, name, parameters, arguments, begin)
#define SYNC_DRV(name, parameters, arguments, begin) SYNC_CALL(DRV, name, parameters, arguments, begin)

/* --- synchronisations --- */

SYNC_RT(cudaStreamSynchronize, (cudaStream_t stream), (stream), sync_begin_stream(&sync, stream, false))
SYNC_RT(cudaStreamSynchronize_ptsz, (cudaStream_t stream), (stream), sync_begin_stream(&sync, stream, true))
SYNC_RT(cudaEventSynchronize, (cudaEvent_t event), (event), sync_begin_event(&sync, event))
SYNC_RT(cudaDeviceSynchronize, (void), (), sync_begin_device(&sync))
SYNC_DRV(cuStreamSynchronize, (CUstream stream), (stream), sync_begin_stream(&sync, stream, false))
SYNC_DRV(cuStreamSynchronize_ptsz, (CUstream stream), (stream), sync_begin_stream(&sync, stream, true))
SYNC_DRV(cuEventSynchronize, (CUevent event), (event), sync_begin_event(&sync, event))
SYNC_DRV(cuCtxSynchronize, (void), (), sync_begin_device(&sync))
/* CUDA 13: of a context by name. */
SYNC_DRV(cuCtxSynchronize_v2, (CUcontext context), (context), sync_begin_device(&sync))

/* --- copies --- */

static bool is_device(const void *address)
{
    unsigned type = 0;
    if (vmm_owns(address))
        return true;
    return !driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)address) &&
           type == CU_MEMORYTYPE_DEVICE;
}

static bool copy_waits(const void *to, const void *from, int kind)
{
    return kind != cudaMemcpyDeviceToDevice && (kind != cudaMemcpyDefault || !is_device(to) || !is_device(from));
}

/* What the driver takes from pageable memory at once, without waiting for the stream. */
#define STAGED 65536u
#define SHAPED (STAGED + 1) /* a copy in two or three dimensions */

/* waits: the copy waits for its stream (SYNC nodes). Otherwise it still does so in the driver if it comes from pageable
 * memory and is large. Until residence_let_go. */
static void begin_copy(struct sync *sync, CUstream stream, bool per_thread, bool waits, const void *to, const void *from,
                       size_t count)
{
    if (!waits) /* one that does is over when it returns, and a mark of ours lies in front of it */
        put_note(stream);
    room_await(stream, per_thread, 1);
    park_touch(stream, per_thread);
    if (waits)
        sync_begin_stream(sync, stream, per_thread);
    else if (session.phase == PHASE_CALIBRATE)
        sync->copied = from;
    if (!residence_is_on())
        return;
    bool in = is_device(to);
    bool idle = in ? count > STAGED && is_pageable(from) : waits;
    if (idle && !streams_is_capturing(stream))
        residence_hold_idle(stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
    else if (waits)
        residence_hold();
    else
        residence_hold_issuing(stream, per_thread);
}

#define COPY_BEGIN(to, from, count, kind, per_thread) \
    begin_copy(&sync, NULL, per_thread, copy_waits(to, from, kind), to, from, count)
#define UNIFIED(pointer) ((const void *)(uintptr_t)(pointer))

#define MEMCPY(name, per_thread)                                                                                \
    SYNC_RT(name, (void *to, const void *from, size_t count, enum cudaMemcpyKind kind), (to, from, count, kind), \
            COPY_BEGIN(to, from, count, kind, per_thread))
MEMCPY(cudaMemcpy, false)
MEMCPY(cudaMemcpy_ptds, true)

#define MEMCPY_2D(name, per_thread)                                                                                 \
    SYNC_RT(name,                                                                                                   \
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,           \
             enum cudaMemcpyKind kind),                                                                             \
            (to, to_pitch, from, from_pitch, width, height, kind), COPY_BEGIN(to, from, SHAPED, kind, per_thread))
MEMCPY_2D(cudaMemcpy2D, false)
MEMCPY_2D(cudaMemcpy2D_ptds, true)

#define MEMCPY_3D(name, per_thread)                                         \
    SYNC_RT(name, (const struct cudaMemcpy3DParms *copy), (copy),           \
            COPY_BEGIN(copy->dstPtr.ptr, copy->srcPtr.ptr, SHAPED, copy->kind, per_thread))
MEMCPY_3D(cudaMemcpy3D, false)
MEMCPY_3D(cudaMemcpy3D_ptds, true)

#define DRIVER_COPY(name, per_thread)                                                              \
    SYNC_DRV(name, (CUdeviceptr to, CUdeviceptr from, size_t count), (to, from, count),            \
             COPY_BEGIN(UNIFIED(to), UNIFIED(from), count, cudaMemcpyDefault, per_thread))
DRIVER_COPY(cuMemcpy, false)
DRIVER_COPY(cuMemcpy_ptds, true)

#define DRIVER_COPY_IN(name, per_thread)                                                           \
    SYNC_DRV(name, (CUdeviceptr to, const void *from, size_t count), (to, from, count),            \
             begin_copy(&sync, NULL, per_thread, true, UNIFIED(to), from, count))
DRIVER_COPY_IN(cuMemcpyHtoD_v2, false)
DRIVER_COPY_IN(cuMemcpyHtoD_v2_ptds, true)

#define DRIVER_COPY_OUT(name, per_thread)                                                          \
    SYNC_DRV(name, (void *to, CUdeviceptr from, size_t count), (to, from, count),                  \
             begin_copy(&sync, NULL, per_thread, true, to, UNIFIED(from), count))
DRIVER_COPY_OUT(cuMemcpyDtoH_v2, false)
DRIVER_COPY_OUT(cuMemcpyDtoH_v2_ptds, true)

#define DRIVER_COPY_SHAPE(name, type, per_thread)                                                              \
    SYNC_DRV(name, (const type *copy), (copy),                                                                 \
             begin_copy(&sync, NULL, per_thread,                                                               \
                        copy->srcMemoryType != CU_MEMORYTYPE_DEVICE || copy->dstMemoryType != CU_MEMORYTYPE_DEVICE, \
                        UNIFIED(copy->dstMemoryType == CU_MEMORYTYPE_HOST ? 0 : copy->dstDevice),             \
                        copy->srcMemoryType == CU_MEMORYTYPE_HOST ? copy->srcHost : UNIFIED(copy->srcDevice), SHAPED))
DRIVER_COPY_SHAPE(cuMemcpy2D_v2, CUDA_MEMCPY2D, false)
DRIVER_COPY_SHAPE(cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, true)
DRIVER_COPY_SHAPE(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, false)
DRIVER_COPY_SHAPE(cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D, true)
DRIVER_COPY_SHAPE(cuMemcpy3D_v2, CUDA_MEMCPY3D, false)
DRIVER_COPY_SHAPE(cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D, true)

/* --- asynchronous copies that are none: to pageable memory --- */

#define ASYNC_COPY_BEGIN(to, from, count, kind, stream, per_thread)                                                     \
    begin_copy(&sync, (CUstream)(stream), per_thread,                                                                   \
               ((int)(kind) == cudaMemcpyDeviceToHost || (int)(kind) == cudaMemcpyDefault) && is_pageable(to), to, from, \
               count)

#define MEMCPY_ASYNC(name, per_thread)                                                                           \
    SYNC_RT(name, (void *to, const void *from, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),     \
            (to, from, count, kind, stream), ASYNC_COPY_BEGIN(to, from, count, kind, stream, per_thread))
MEMCPY_ASYNC(cudaMemcpyAsync, false)
MEMCPY_ASYNC(cudaMemcpyAsync_ptsz, true)

#define MEMCPY_2D_ASYNC(name, per_thread)                                                                        \
    SYNC_RT(name,                                                                                                \
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,        \
             enum cudaMemcpyKind kind, cudaStream_t stream),                                                     \
            (to, to_pitch, from, from_pitch, width, height, kind, stream),                                       \
            ASYNC_COPY_BEGIN(to, from, SHAPED, kind, stream, per_thread))
MEMCPY_2D_ASYNC(cudaMemcpy2DAsync, false)
MEMCPY_2D_ASYNC(cudaMemcpy2DAsync_ptsz, true)

#define DRIVER_COPY_ASYNC(name, per_thread)                                                                      \
    SYNC_DRV(name, (CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream), (to, from, count, stream), \
             ASYNC_COPY_BEGIN(UNIFIED(to), UNIFIED(from), count, cudaMemcpyDefault, stream, per_thread))
DRIVER_COPY_ASYNC(cuMemcpyAsync, false)
DRIVER_COPY_ASYNC(cuMemcpyAsync_ptsz, true)

#define DRIVER_COPY_OUT_ASYNC(name, per_thread)                                                                  \
    SYNC_DRV(name, (void *to, CUdeviceptr from, size_t count, CUstream stream), (to, from, count, stream),       \
             ASYNC_COPY_BEGIN(to, UNIFIED(from), count, cudaMemcpyDeviceToHost, stream, per_thread))
DRIVER_COPY_OUT_ASYNC(cuMemcpyDtoHAsync_v2, false)
DRIVER_COPY_OUT_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, true)
