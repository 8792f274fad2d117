/* per_thread.c - the synchronous calls, and the variants of calls for per-thread default streams. */
#include "softgpu/cuda/api.h"

#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

#define DEFINE_PTSZ(name, target, parameters, arguments) \
    CUresult name parameters                             \
    {                                                    \
        return target arguments;                         \
    }
SG_PER_THREAD_CALLS(DEFINE_PTSZ, PER_THREAD)

/* A synchronous call is the asynchronous one and a wait for its stream. */
#define DEFINE_ON(name, target, parameters, arguments, stream)     \
    CUresult name parameters                                       \
    {                                                              \
        const CUstream h = stream;                                 \
        CUresult result = target arguments;                        \
        return result == CUDA_SUCCESS ? cuStreamSynchronize(h) : result; \
    }
#define DEFINE_SYNC(name, target, parameters, arguments)                          \
    DEFINE_ON(name, target, parameters, arguments, CU_STREAM_LEGACY)              \
    DEFINE_ON(name##_ptds, target, parameters, arguments, CU_STREAM_PER_THREAD)
SG_SYNCHRONOUS_CALLS(DEFINE_SYNC)
