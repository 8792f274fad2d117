/* per_thread.c - the variants for programs compiled with per-thread default streams (nvcc's and the headers'
 * CUDA_API_PER_THREAD_DEFAULT_STREAM): the stream NULL is the calling thread's own, and synchronous calls run on it.
 */
#include "softgpu/cudart/runtime.h"

#define S(stream) ((stream) ? (stream) : cudaStreamPerThread)

/* F(name, parameters, arguments): name_ptsz is name with its stream mapped. */
#define PER_THREAD_CALLS(F)                                                                                            \
    F(cudaGetDriverEntryPoint,                                                                                         \
      (const char *n, void **p, unsigned long long f, enum cudaDriverEntryPointQueryResult *r),                        \
      (n, p, f ? f : cudaEnablePerThreadDefaultStream, r))                                                             \
    F(cudaGetDriverEntryPointByVersion,                                                                                \
      (const char *n, void **p, unsigned int v, unsigned long long f, enum cudaDriverEntryPointQueryResult *r),        \
      (n, p, v, f ? f : cudaEnablePerThreadDefaultStream, r))                                                          \
    F(cudaMemcpyAsync, (void *d, const void *s, size_t n, enum cudaMemcpyKind k, cudaStream_t h), (d, s, n, k, S(h)))  \
    F(cudaMemcpy2DAsync,                                                                                               \
      (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t t, enum cudaMemcpyKind k, cudaStream_t h),       \
      (d, dp, s, sp, w, t, k, S(h)))                                                                                   \
    F(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t h), (p, S(h)))                               \
    F(cudaMemsetAsync, (void *p, int v, size_t n, cudaStream_t h), (p, v, n, S(h)))                                    \
    F(cudaMemset2DAsync, (void *p, size_t q, int v, size_t w, size_t t, cudaStream_t h), (p, q, v, w, t, S(h)))        \
    F(cudaMemPrefetchAsync, (const void *p, size_t n, struct cudaMemLocation l, unsigned int f, cudaStream_t h),       \
      (p, n, l, f, S(h)))                                                                                              \
    F(cudaStreamQuery, (cudaStream_t h), (S(h)))                                                                       \
    F(cudaStreamSynchronize, (cudaStream_t h), (S(h)))                                                                 \
    F(cudaStreamGetFlags, (cudaStream_t h, unsigned int *f), (S(h), f))                                                \
    F(cudaStreamGetId, (cudaStream_t h, unsigned long long *i), (S(h), i))                                             \
    F(cudaStreamGetDevice, (cudaStream_t h, int *d), (S(h), d))                                                        \
    F(cudaStreamGetPriority, (cudaStream_t h, int *p), (S(h), p))                                                      \
    F(cudaStreamWaitEvent, (cudaStream_t h, cudaEvent_t e, unsigned int f), (S(h), e, f))                              \
    F(cudaStreamAddCallback, (cudaStream_t h, cudaStreamCallback_t c, void *d, unsigned int f), (S(h), c, d, f))       \
    F(cudaStreamBeginCapture, (cudaStream_t h, enum cudaStreamCaptureMode m), (S(h), m))                               \
    F(cudaStreamEndCapture, (cudaStream_t h, cudaGraph_t *g), (S(h), g))                                               \
    F(cudaStreamIsCapturing, (cudaStream_t h, enum cudaStreamCaptureStatus *s), (S(h), s))                             \
    F(cudaEventRecord, (cudaEvent_t e, cudaStream_t h), (e, S(h)))                                                     \
    F(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t h, unsigned int f), (e, S(h), f))                         \
    F(cudaLaunchKernel, (const void *f, dim3 g, dim3 b, void **a, size_t n, cudaStream_t h), (f, g, b, a, n, S(h)))    \
    F(cudaLaunchKernelExC, (const cudaLaunchConfig_t *c, const void *f, void **a), (c, f, a))                          \
    F(cudaLaunchHostFunc, (cudaStream_t h, cudaHostFn_t f, void *d), (S(h), f, d))                                     \
    F(cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t h), (g, S(h)))                                                 \
    F(cudaMallocAsync, (void **p, size_t n, cudaStream_t h), (p, n, S(h)))                                             \
    F(cudaMallocFromPoolAsync, (void **p, size_t n, cudaMemPool_t l, cudaStream_t h), (p, n, l, S(h)))                 \
    F(cudaFreeAsync, (void *p, cudaStream_t h), (p, S(h)))

/* F(name, asynchronous call, parameters, arguments, waits): name_ptds. */
#define SYNCHRONOUS_CALLS(F)                                                                                           \
    F(cudaMemcpy, cudaMemcpyAsync, (void *d, const void *s, size_t n, enum cudaMemcpyKind k), (d, s, n, k, H), true)   \
    F(cudaMemcpy2D, cudaMemcpy2DAsync,                                                                                 \
      (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t t, enum cudaMemcpyKind k),                       \
      (d, dp, s, sp, w, t, k, H), true)                                                                                \
    F(cudaMemcpy3D, cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p), (p, H), true)                              \
    F(cudaMemset, cudaMemsetAsync, (void *p, int v, size_t n), (p, v, n, H), false)                                    \
    F(cudaMemset2D, cudaMemset2DAsync, (void *p, size_t q, int v, size_t w, size_t t), (p, q, v, w, t, H), false)

#define H cudaStreamPerThread
#define EXPORT __attribute__((visibility("default")))

#define DEFINE_PTSZ(name, parameters, arguments) \
    EXPORT cudaError_t name##_ptsz parameters;   \
    cudaError_t name##_ptsz parameters           \
    {                                            \
        return name arguments;                   \
    }
PER_THREAD_CALLS(DEFINE_PTSZ)

#define DEFINE_PTDS(name, target, parameters, arguments, waits)                     \
    EXPORT cudaError_t name##_ptds parameters;                                      \
    cudaError_t name##_ptds parameters                                              \
    {                                                                               \
        cudaError_t error = target arguments;                                       \
        return waits && error == cudaSuccess ? cudaStreamSynchronize(H) : error;    \
    }
SYNCHRONOUS_CALLS(DEFINE_PTDS)
