/* gpu.h - the CUDA runtime, a little of the driver, and NCCL, loaded when needed: the `prism` command has to start on
 * machines without any of them. Whatever the loader finds first counts, software GPUs included. */
#ifndef PRISM_CLI_GPU_H
#define PRISM_CLI_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "common/error.h"

#define GPU_CUDART_CALLS(F)                                                                                            \
    F(GetErrorString) F(RuntimeGetVersion) F(GetDeviceCount) F(SetDevice) F(Malloc) F(Free) F(Memset)                  \
    F(StreamCreateWithFlags) F(StreamSynchronize) F(StreamDestroy) F(EventCreateWithFlags) F(EventRecord)              \
    F(EventElapsedTime) F(EventDestroy) F(HostRegister) F(HostUnregister) F(HostGetDevicePointer)

#define GPU_NCCL_CALLS(F)                                                                                              \
    F(GetVersion) F(GetUniqueId) F(CommInitRank) F(CommDestroy) F(GetErrorString) F(GroupStart) F(GroupEnd)            \
    F(AllReduce) F(AllGather) F(ReduceScatter) F(Broadcast) F(Send) F(Recv)

struct gpu {
    void *driver, *cudart, *nccl; /* dlopen handles, NULL = not loaded */
    char cudart_name[32];
#define GPU_FIELD(name) __typeof__(cuda##name) *name;
    GPU_CUDART_CALLS(GPU_FIELD)
#undef GPU_FIELD
#define GPU_FIELD(name) __typeof__(nccl##name) *nccl##name;
    GPU_NCCL_CALLS(GPU_FIELD)
#undef GPU_FIELD
    CUresult (*StreamWriteValue32)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
    CUresult (*StreamWaitValue32)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
};

/* Each loads one library into gpu; -1 with err that says what the loader said. */
int gpu_load_driver(struct gpu *gpu, struct prism_error *err);
int gpu_load_cudart(struct gpu *gpu, struct prism_error *err);
int gpu_load_nccl(struct gpu *gpu, struct prism_error *err);
int gpu_load(struct gpu *gpu, struct prism_error *err); /* all three */

/* Fill err from a failed call: what names it. Return -1. */
int gpu_cuda_failed(const struct gpu *gpu, cudaError_t result, const char *what, struct prism_error *err);
int gpu_nccl_failed(const struct gpu *gpu, ncclResult_t result, const char *what, struct prism_error *err);

#define GPU_CUDA(gpu, call, err)                                       \
    do {                                                               \
        cudaError_t result_ = (gpu)->call;                             \
        if (result_ != cudaSuccess)                                    \
            return gpu_cuda_failed((gpu), result_, "cuda" #call, err); \
    } while (0)
#define GPU_NCCL(gpu, call, err)                                       \
    do {                                                               \
        ncclResult_t result_ = (gpu)->nccl##call;                      \
        if (result_ != ncclSuccess)                                    \
            return gpu_nccl_failed((gpu), result_, "nccl" #call, err); \
    } while (0)

#endif
