/* runtime.h - the runtime's way to the driver, and its errors.
 *
 * As NVIDIA's runtime does, ours loads libcuda.so.1 and asks its cuGetProcAddress for every call, so a library that
 * wraps the driver sees the same traffic as on a real machine.
 */
#ifndef SOFTGPU_CUDART_RUNTIME_H
#define SOFTGPU_CUDART_RUNTIME_H

#include <stdbool.h>
#include <string.h>

#include <cuda.h>
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* Calls of the driver that the runtime makes. */
#define RT_DRIVER_CALLS(F)                                                                                             \
    F(cuInit) F(cuDriverGetVersion) F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceGetUuid)           \
    F(cuDeviceTotalMem) F(cuDeviceGetAttribute) F(cuDeviceGetPCIBusId) F(cuDeviceGetByPCIBusId)                        \
    F(cuDeviceCanAccessPeer) F(cuDeviceGetP2PAttribute) F(cuDeviceGetDefaultMemPool) F(cuDeviceGetMemPool)             \
    F(cuDeviceSetMemPool) F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxReset) F(cuDevicePrimaryCtxSetFlags)         \
    F(cuDevicePrimaryCtxGetState) F(cuCtxSetCurrent) F(cuCtxGetCurrent) F(cuCtxGetDevice) F(cuCtxSynchronize)          \
    F(cuCtxGetFlags) F(cuCtxGetLimit) F(cuCtxSetLimit) F(cuCtxGetCacheConfig) F(cuCtxSetCacheConfig)                   \
    F(cuCtxGetStreamPriorityRange) F(cuCtxEnablePeerAccess) F(cuCtxDisablePeerAccess) F(cuMemGetInfo) F(cuMemAlloc)    \
    F(cuMemAllocPitch) F(cuMemFree) F(cuMemAllocManaged) F(cuMemHostAlloc) F(cuMemFreeHost) F(cuMemHostRegister)       \
    F(cuMemHostUnregister) F(cuMemHostGetDevicePointer) F(cuMemHostGetFlags) F(cuPointerGetAttributes) F(cuMemcpy)     \
    F(cuMemcpyAsync) F(cuMemcpyPeer) F(cuMemcpyPeerAsync) F(cuMemcpy3D) F(cuMemcpy3DAsync) F(cuMemsetD8)               \
    F(cuMemsetD8Async) F(cuMemsetD2D8) F(cuMemsetD2D8Async) F(cuMemPrefetchAsync) F(cuMemAdvise) F(cuMemAllocAsync)    \
    F(cuMemAllocFromPoolAsync) F(cuMemFreeAsync) F(cuMemPoolCreate) F(cuMemPoolDestroy) F(cuMemPoolTrimTo)             \
    F(cuMemPoolSetAttribute) F(cuMemPoolGetAttribute) F(cuMemPoolSetAccess) F(cuMemPoolGetAccess)                      \
    F(cuStreamCreateWithPriority) F(cuStreamDestroy) F(cuStreamGetPriority) F(cuStreamGetFlags) F(cuStreamGetId)       \
    F(cuStreamGetDevice) F(cuStreamQuery) F(cuStreamSynchronize) F(cuStreamWaitEvent) F(cuStreamAddCallback)           \
    F(cuStreamBeginCapture) F(cuStreamEndCapture) F(cuStreamIsCapturing) F(cuThreadExchangeStreamCaptureMode)          \
    F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) F(cuEventRecordWithFlags) F(cuEventQuery)                      \
    F(cuEventSynchronize) F(cuEventElapsedTime) F(cuLaunchHostFunc) F(cuGraphCreate) F(cuGraphDestroy)                 \
    F(cuGraphInstantiate) F(cuGraphExecDestroy) F(cuGraphLaunch) F(cuProfilerStart) F(cuProfilerStop)                  \
    F(cuIpcGetMemHandle) F(cuIpcOpenMemHandle) F(cuIpcCloseMemHandle) F(cuIpcGetEventHandle) F(cuIpcOpenEventHandle)

/* Members are named by the driver's plain names as cuda.h maps them (cuMemAlloc is cuMemAlloc_v2). */
struct rt_driver {
#define RT_MEMBER(name) __typeof__(name) *name;
    RT_DRIVER_CALLS(RT_MEMBER)
#undef RT_MEMBER
    __typeof__(cuGetProcAddress) *get_proc_address;
};

/* Loads the driver and initialises it (once); the same error ever after if that fails. */
cudaError_t rt_init(void);
/* rt_init(), and a current context: the primary one of rt_device if the thread has none that can be used. */
cudaError_t rt_context(void);
extern _Thread_local int rt_device; /* what the thread has chosen, 0 at first */
const struct rt_driver *rt_driver(void); /* after rt_init() or rt_context() */

/* Keep an error for cudaGetLastError of this thread, and return it. NOT_READY is no error to keep. */
cudaError_t rt_set_error(cudaError_t error);
cudaError_t rt_result(CUresult result);

/* Body of a call that is one call of the driver, in a context or (RT_PLAIN) only after initialisation. */
#define RT_CALL(call, ...)                                               \
    do {                                                                 \
        cudaError_t rt_ready = rt_context();                             \
        if (rt_ready != cudaSuccess)                                     \
            return rt_set_error(rt_ready);                               \
        return rt_result(rt_driver()->call(__VA_ARGS__));                \
    } while (0)
#define RT_PLAIN(call, ...)                                              \
    do {                                                                 \
        cudaError_t rt_ready = rt_init();                                \
        if (rt_ready != cudaSuccess)                                     \
            return rt_set_error(rt_ready);                               \
        return rt_result(rt_driver()->call(__VA_ARGS__));                \
    } while (0)
#define RT_CHECK(call, ...)                                              \
    do {                                                                 \
        cudaError_t rt_error = rt_result(rt_driver()->call(__VA_ARGS__)); \
        if (rt_error != cudaSuccess)                                     \
            return rt_error;                                             \
    } while (0)
#define RT_READY(check)                                                  \
    do {                                                                 \
        cudaError_t rt_ready = check;                                    \
        if (rt_ready != cudaSuccess)                                     \
            return rt_set_error(rt_ready);                               \
    } while (0)

#define RT_DEVPTR(p) ((CUdeviceptr)(uintptr_t)(p))

#endif
