/* cuda_first.c - calls that do nothing here but make this process its rank (the first real use of a device), and CUDA's
 * start, at which it reads its environment. */
#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"
#include "preload/environment.h"

#define FIRST_USE(api, name, parameters, arguments) \
    WRAP(api, name, parameters,                     \
         bool ours = frame_enter();                 \
         RESULT_##api r = real arguments;           \
         if (ours)                                  \
             frame_leave();                         \
         return r;)
#define FIRST_RT(name, parameters, arguments)  FIRST_USE(RT, name, parameters, arguments)
#define FIRST_DRV(name, parameters, arguments) FIRST_USE(DRV, name, parameters, arguments)

FIRST_RT(cudaStreamCreate, (cudaStream_t * stream), (stream))
FIRST_RT(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
FIRST_RT(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority), (stream, flags, priority))
FIRST_RT(cudaEventCreate, (cudaEvent_t * event), (event))
FIRST_RT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
FIRST_RT(cudaMallocHost, (void **pointer, size_t size), (pointer, size))
FIRST_RT(cudaHostAlloc, (void **pointer, size_t size, unsigned flags), (pointer, size, flags))
FIRST_RT(cudaHostRegister, (void *pointer, size_t size, unsigned flags), (pointer, size, flags))
FIRST_RT(cudaMemset, (void *pointer, int value, size_t count), (pointer, value, count))
FIRST_DRV(cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))
FIRST_DRV(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority), (stream, flags, priority))
FIRST_DRV(cuEventCreate, (CUevent * event, unsigned flags), (event, flags))

/* No device is used yet. */
PRISM_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    FIND(RT, cudaSetDeviceFlags);
    bool asked = environment_ask();
    cudaError_t r = real(flags);
    environment_answered(asked);
    return r;
}

/* The CUDA runtimes, static ones too, come here whatever call of theirs was the first, inside calls of ours or not. */
PRISM_EXPORT CUresult cuInit(unsigned flags)
{
    FIND(DRV, cuInit);
    if (session_is_off() && !device_is_mapped())
        return real(flags);
    environment_enter();
    CUresult r = real(flags);
    environment_leave();
    return r;
}
