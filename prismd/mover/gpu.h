/* gpu.h - CUDA in the mover: opened by name, one device, its primary context. What fails ends the mover (guest.h). */
#ifndef PRISM_MOVER_GPU_H
#define PRISM_MOVER_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#define GPU_FUNCTIONS(F)                                                                                     \
    F(cuInit)                                                                                                \
    F(cuDeviceGet) F(cuDevicePrimaryCtxRetain) F(cuCtxSetCurrent) F(cuGetErrorName) F(cuMemGetInfo)          \
        F(cuMemHostAlloc) F(cuMemHostRegister) F(cuMemHostUnregister) F(cuMemAddressReserve) F(cuMemAddressFree) F(cuMemMap)            \
            F(cuMemUnmap) F(cuMemSetAccess) F(cuMemRelease) F(cuMemImportFromShareableHandle)                \
                F(cuMemcpyDtoHAsync) F(cuMemcpyHtoDAsync) F(cuStreamCreate) F(cuStreamSynchronize)           \
                    F(cuEventCreate) F(cuEventRecord) F(cuEventSynchronize)

struct gpu {
#define GPU_MEMBER_(name) __typeof__(&name) p_##name;
#define GPU_MEMBER(name)  GPU_MEMBER_(name)
    GPU_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
#undef GPU_MEMBER_
};
extern struct gpu gpu_;

/* gpu_cu(cuMemGetInfo)(...) calls cuMemGetInfo_v2. */
#define GPU_PASTE(name) gpu_.p_##name
#define gpu_cu(name)    GPU_PASTE(name)

#define GPU_MUST(call)                                                                                       \
    do {                                                                                                     \
        CUresult gpu_must_ = (call);                                                                         \
        if (gpu_must_ != CUDA_SUCCESS)                                                                       \
            gpu_failed(#call, gpu_must_);                                                                    \
    } while (0)
_Noreturn void gpu_failed(const char *call, CUresult result);

/* Open the driver and make the first visible device's context. */
void gpu_start(void);
/* The context, in a new thread. */
void gpu_use(void);
/* The device is a software GPU: its memory is the host's own. */
bool gpu_is_software(void);

#endif
