/* cuda_first.c - calls that do nothing here but make this process its rank (the first real use of a device), or that
 * make CUDA read CUDA_DEVICE_MAX_CONNECTIONS without using a device: questions, which launchers and helpers ask too. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "preload/connections.h"
#include "preload/preload.h"
#include "preload/real.h"

#define FIRST_USE(result, library, failure, name, text, parameters, arguments) \
    result name parameters;                                                    \
    PRISM_EXPORT result name parameters                                        \
    {                                                                          \
        __typeof__(&name) real = REAL_NAMED(library, name, text);              \
        if (!real)                                                             \
            return failure;                                                    \
        bool ours = frame_enter();                                             \
        result r = real arguments;                                             \
        if (ours)                                                              \
            frame_leave();                                                     \
        return r;                                                              \
    }
#define FIRST_RT(name, parameters, arguments) \
    FIRST_USE(cudaError_t, REAL_CUDART, cudaErrorInsufficientDriver, name, #name, parameters, arguments)
#define FIRST_DRV(name, parameters, arguments) \
    FIRST_USE(CUresult, REAL_CUDA, CUDA_ERROR_NO_DEVICE, name, #name, parameters, arguments)

FIRST_RT(cudaSetDevice, (int device), (device))
FIRST_RT(cudaInitDevice, (int device, unsigned device_flags, unsigned flags), (device, device_flags, flags))
FIRST_RT(cudaStreamCreate, (cudaStream_t * stream), (stream))
FIRST_RT(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
FIRST_RT(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority), (stream, flags, priority))
FIRST_RT(cudaEventCreate, (cudaEvent_t * event), (event))
FIRST_RT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
FIRST_RT(cudaMallocHost, (void **pointer, size_t size), (pointer, size))
FIRST_RT(cudaHostAlloc, (void **pointer, size_t size, unsigned flags), (pointer, size, flags))
FIRST_RT(cudaHostRegister, (void *pointer, size_t size, unsigned flags), (pointer, size, flags))
FIRST_RT(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
FIRST_RT(cudaMemset, (void *pointer, int value, size_t count), (pointer, value, count))
FIRST_DRV(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
FIRST_DRV(cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))
FIRST_DRV(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority), (stream, flags, priority))
FIRST_DRV(cuEventCreate, (CUevent * event, unsigned flags), (event, flags))

/* The program's own context comes before our first use of a device, so only the variable is changed. */
#define QUESTION(result, library, failure, name, text, parameters, arguments) \
    result name parameters;                                                   \
    PRISM_EXPORT result name parameters                                       \
    {                                                                         \
        __typeof__(&name) real = REAL_NAMED(library, name, text);             \
        if (!real)                                                            \
            return failure;                                                   \
        if (frame.depth || session_is_off())                                  \
            return real arguments;                                            \
        frame.depth++;                                                        \
        connections_widen();                                                  \
        result r = real arguments;                                            \
        connections_restore();                                                \
        frame.depth--;                                                        \
        return r;                                                             \
    }
#define QUESTION_RT(name, parameters, arguments) \
    QUESTION(cudaError_t, REAL_CUDART, cudaErrorInsufficientDriver, name, #name, parameters, arguments)
#define QUESTION_DRV(name, parameters, arguments) \
    QUESTION(CUresult, REAL_CUDA, CUDA_ERROR_NO_DEVICE, name, #name, parameters, arguments)

QUESTION_RT(cudaGetDeviceCount, (int *count), (count))
QUESTION_RT(cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device), (properties, device))
QUESTION_RT(cudaDeviceGetPCIBusId, (char *text, int length, int device), (text, length, device))
QUESTION_RT(cudaSetDeviceFlags, (unsigned flags), (flags))
QUESTION_DRV(cuInit, (unsigned flags), (flags))
QUESTION_DRV(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
QUESTION_DRV(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams *parameters, unsigned flags, CUdevice device),
             (context, parameters, flags, device))
