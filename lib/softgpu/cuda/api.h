/* api.h - what the files of the driver interface share. */
#ifndef SOFTGPU_CUDA_API_H
#define SOFTGPU_CUDA_API_H

#include "softgpu/core/internal.h"

/* The current context, or return the error that CUDA gives without one that can be used. */
#define SG_CONTEXT_OR_RETURN(context)                          \
    struct CUctx_st *context;                                  \
    do {                                                       \
        if (sg_check_init() != CUDA_SUCCESS)                   \
            return CUDA_ERROR_NOT_INITIALIZED;                 \
        CUresult sg_result = sg_context_usable(&context);      \
        if (sg_result != CUDA_SUCCESS)                         \
            return sg_result;                                  \
    } while (0)

#define SG_STREAM_OR_RETURN(handle, stream)                    \
    struct CUstream_st *stream;                                \
    do {                                                       \
        if (sg_check_init() != CUDA_SUCCESS)                   \
            return CUDA_ERROR_NOT_INITIALIZED;                 \
        CUresult sg_result = sg_stream_resolve(handle, &stream); \
        if (sg_result != CUDA_SUCCESS)                         \
            return sg_result;                                  \
    } while (0)

/* memop.c: what a kernel does with a 32-bit word. Poll: until (int)(*address - value) >= 0; holds no hardware queue; returns
 * the model time of the end. */
int64_t sg_memop_poll(CUdeviceptr address, uint32_t value, int64_t start_ns);
void sg_memop_write(CUdeviceptr address, uint32_t value);

CUresult sg_capture_check_unsafe(void); /* unsupported.c */

#pragma GCC visibility push(default)

/* Older versions of entry points, still found by cuGetProcAddress. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuGetProcAddress_v1(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
    __asm__("cuGetProcAddress");
CUresult cuEventElapsedTime_v1(float *milliseconds, CUevent start, CUevent end) __asm__("cuEventElapsedTime");
CUresult cuDeviceGetUuid_v1(CUuuid *uuid, CUdevice device) __asm__("cuDeviceGetUuid");
CUresult cuMemPrefetchAsync_v1(CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream)
    __asm__("cuMemPrefetchAsync");
CUresult cuMemAdvise_v1(CUdeviceptr pointer, size_t count, CUmem_advise advice, CUdevice device)
    __asm__("cuMemAdvise");

/* Calls whose stream NULL is the calling thread's own; F(name, parameters, arguments). S(stream) maps the stream. */
#define SG_PER_THREAD_CALLS(F, S)                                                                                      \
    F(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h), (d, s, n, S(h)))        \
    F(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,                                                                       \
      (CUdeviceptr d, CUcontext t, CUdeviceptr s, CUcontext f, size_t n, CUstream h), (d, t, s, f, n, S(h)))           \
    F(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void *s, size_t n, CUstream h),           \
      (d, s, n, S(h)))                                                                                                 \
    F(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void *d, CUdeviceptr s, size_t n, CUstream h), (d, s, n, S(h))) \
    F(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h),           \
      (d, s, n, S(h)))                                                                                                 \
    F(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream h), (c, S(h)))                    \
    F(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *c, CUstream h), (c, S(h)))                    \
    F(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr p, unsigned char v, size_t n, CUstream h), (p, v, n, S(h)))  \
    F(cuMemsetD16Async_ptsz, cuMemsetD16Async, (CUdeviceptr p, unsigned short v, size_t n, CUstream h),                \
      (p, v, n, S(h)))                                                                                                 \
    F(cuMemsetD32Async_ptsz, cuMemsetD32Async, (CUdeviceptr p, unsigned int v, size_t n, CUstream h), (p, v, n, S(h))) \
    F(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async,                                                                       \
      (CUdeviceptr p, size_t q, unsigned char v, size_t w, size_t t, CUstream h), (p, q, v, w, t, S(h)))               \
    F(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async,                                                                     \
      (CUdeviceptr p, size_t q, unsigned short v, size_t w, size_t t, CUstream h), (p, q, v, w, t, S(h)))              \
    F(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async,                                                                     \
      (CUdeviceptr p, size_t q, unsigned int v, size_t w, size_t t, CUstream h), (p, q, v, w, t, S(h)))                \
    F(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2,                                                               \
      (CUdeviceptr p, size_t n, CUmemLocation l, unsigned int f, CUstream h), (p, n, l, f, S(h)))                      \
    F(cuMemAllocAsync_ptsz, cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream h), (p, n, S(h)))                    \
    F(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,                                                           \
      (CUdeviceptr * p, size_t n, CUmemoryPool l, CUstream h), (p, n, l, S(h)))                                        \
    F(cuMemFreeAsync_ptsz, cuMemFreeAsync, (CUdeviceptr p, CUstream h), (p, S(h)))                                     \
    F(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream h, int *p), (S(h), p))                                  \
    F(cuStreamGetFlags_ptsz, cuStreamGetFlags, (CUstream h, unsigned int *f), (S(h), f))                               \
    F(cuStreamGetId_ptsz, cuStreamGetId, (CUstream h, unsigned long long *i), (S(h), i))                               \
    F(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream h, CUcontext * c), (S(h), c))                                     \
    F(cuStreamGetDevice_ptsz, cuStreamGetDevice, (CUstream h, CUdevice * d), (S(h), d))                                \
    F(cuStreamQuery_ptsz, cuStreamQuery, (CUstream h), (S(h)))                                                         \
    F(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream h), (S(h)))                                             \
    F(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream h, CUevent e, unsigned int f), (S(h), e, f))                \
    F(cuStreamAddCallback_ptsz, cuStreamAddCallback, (CUstream h, CUstreamCallback c, void *d, unsigned int f),        \
      (S(h), c, d, f))                                                                                                 \
    F(cuStreamAttachMemAsync_ptsz, cuStreamAttachMemAsync, (CUstream h, CUdeviceptr p, size_t n, unsigned int f),      \
      (S(h), p, n, f))                                                                                                 \
    F(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32_v2, (CUstream h, CUdeviceptr a, cuuint32_t v, unsigned int f),  \
      (S(h), a, v, f))                                                                                                 \
    F(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64_v2, (CUstream h, CUdeviceptr a, cuuint64_t v, unsigned int f),  \
      (S(h), a, v, f))                                                                                                 \
    F(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32_v2,                                                           \
      (CUstream h, CUdeviceptr a, cuuint32_t v, unsigned int f), (S(h), a, v, f))                                      \
    F(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64_v2,                                                           \
      (CUstream h, CUdeviceptr a, cuuint64_t v, unsigned int f), (S(h), a, v, f))                                      \
    F(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp_v2,                                                               \
      (CUstream h, unsigned int n, CUstreamBatchMemOpParams *o, unsigned int f), (S(h), n, o, f))                      \
    F(cuEventRecord_ptsz, cuEventRecord, (CUevent e, CUstream h), (e, S(h)))                                           \
    F(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, (CUevent e, CUstream h, unsigned int f), (e, S(h), f))      \
    F(cuLaunchHostFunc_ptsz, cuLaunchHostFunc, (CUstream h, CUhostFn f, void *d), (S(h), f, d))                        \
    F(cuLaunchKernel_ptsz, cuLaunchKernel,                                                                             \
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,              \
       unsigned int bz, unsigned int n, CUstream h, void **p, void **e),                                               \
      (f, gx, gy, gz, bx, by, bz, n, S(h), p, e))                                                                      \
    F(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **p, void **e),            \
      (c, f, p, e))                                                                                                    \
    F(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream h, CUstreamCaptureMode m), (S(h), m))           \
    F(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream h, CUgraph * g), (S(h), g))                               \
    F(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (CUstream h, CUstreamCaptureStatus * s), (S(h), s))               \
    F(cuGraphLaunch_ptsz, cuGraphLaunch, (CUgraphExec g, CUstream h), (g, S(h)))

/* Synchronous calls, which run on the legacy stream or, as _ptds, on the calling thread's own. */
#define SG_SYNCHRONOUS_CALLS(F)                                                                                        \
    F(cuMemcpy, cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n), (d, s, n, h))                                 \
    F(cuMemcpyPeer, cuMemcpyPeerAsync, (CUdeviceptr d, CUcontext t, CUdeviceptr s, CUcontext f, size_t n),             \
      (d, t, s, f, n, h))                                                                                              \
    F(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void *s, size_t n), (d, s, n, h))                   \
    F(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void *d, CUdeviceptr s, size_t n), (d, s, n, h))                         \
    F(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n), (d, s, n, h))                   \
    F(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c), (c, h))                                             \
    F(cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c), (c, h))                                    \
    F(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *c), (c, h))                                             \
    F(cuMemsetD8_v2, cuMemsetD8Async, (CUdeviceptr p, unsigned char v, size_t n), (p, v, n, h))                        \
    F(cuMemsetD16_v2, cuMemsetD16Async, (CUdeviceptr p, unsigned short v, size_t n), (p, v, n, h))                     \
    F(cuMemsetD32_v2, cuMemsetD32Async, (CUdeviceptr p, unsigned int v, size_t n), (p, v, n, h))                       \
    F(cuMemsetD2D8_v2, cuMemsetD2D8Async, (CUdeviceptr p, size_t q, unsigned char v, size_t w, size_t t),              \
      (p, q, v, w, t, h))                                                                                              \
    F(cuMemsetD2D16_v2, cuMemsetD2D16Async, (CUdeviceptr p, size_t q, unsigned short v, size_t w, size_t t),           \
      (p, q, v, w, t, h))                                                                                              \
    F(cuMemsetD2D32_v2, cuMemsetD2D32Async, (CUdeviceptr p, size_t q, unsigned int v, size_t w, size_t t),             \
      (p, q, v, w, t, h))

#define SG_DECLARE_CALL(name, target, parameters, arguments) CUresult name parameters;
#define SG_DECLARE_PTDS(name, target, parameters, arguments) CUresult name##_ptds parameters;
SG_PER_THREAD_CALLS(SG_DECLARE_CALL, )
SG_SYNCHRONOUS_CALLS(SG_DECLARE_PTDS)
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int cuda_version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);

#pragma GCC visibility pop
#endif
