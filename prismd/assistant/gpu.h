/* gpu.h - CUDA's driver and NCCL as the assistant uses them: opened by name, nothing is linked.
 *
 * A call that fails ends the process, after the reason was sent to prismd.
 */
#ifndef PRISM_PRISMD_ASSISTANT_GPU_H
#define PRISM_PRISMD_ASSISTANT_GPU_H

#include <stddef.h>

#include <cuda.h>
#include <nccl.h>

#define GPU_CUDA_FUNCTIONS(F)                                                                                \
    F(cuInit)                                                                                                \
    F(cuDeviceGet) F(cuDevicePrimaryCtxRetain) F(cuCtxSetCurrent) F(cuGetErrorName) F(cuMemAlloc)            \
        F(cuMemFree) F(cuMemAllocHost) F(cuMemFreeHost) F(cuMemcpyHtoDAsync) F(cuStreamCreate)               \
            F(cuStreamDestroy) F(cuStreamSynchronize) F(cuStreamWaitEvent) F(cuEventCreate) F(cuEventRecord) \
                F(cuEventSynchronize) F(cuEventDestroy) F(cuEventElapsedTime) F(cuStreamWaitValue32)  \
                    F(cuMemHostRegister) F(cuMemHostGetDevicePointer) F(cuMemGetInfo) F(cuMemcpyDtoDAsync) \
                        F(cuMemsetD8Async)
#define GPU_NCCL_FUNCTIONS(F)                                                                                \
    F(GetUniqueId)                                                                                           \
    F(CommInitRank) F(CommDestroy) F(GroupStart) F(GroupEnd) F(AllReduce) F(Reduce) F(Broadcast) F(Send)     \
        F(Recv) F(RedOpCreatePreMulSum) F(GetErrorString) F(GetLastError)

struct gpu {
#define GPU_CUDA_MEMBER_(name) __typeof__(&name) p_##name;
#define GPU_CUDA_MEMBER(name)  GPU_CUDA_MEMBER_(name)
    GPU_CUDA_FUNCTIONS(GPU_CUDA_MEMBER)
#undef GPU_CUDA_MEMBER
#undef GPU_CUDA_MEMBER_
#define GPU_NCCL_MEMBER(name) __typeof__(&nccl##name) nccl_##name;
    GPU_NCCL_FUNCTIONS(GPU_NCCL_MEMBER)
#undef GPU_NCCL_MEMBER
};
extern struct gpu gpu_;

/* gpu_cu(cuMemAlloc)(...) calls cuMemAlloc_v2; gpu_nccl(Send)(...) calls ncclSend. */
#define GPU_PASTE(name) gpu_.p_##name
#define gpu_cu(name)    GPU_PASTE(name)
#define gpu_nccl(name)  gpu_.nccl_##name

#define GPU_MUST(call)                                                                                       \
    do {                                                                                                     \
        CUresult gpu_must_ = (call);                                                                         \
        if (gpu_must_ != CUDA_SUCCESS)                                                                       \
            gpu_cuda_failed(#call, gpu_must_);                                                               \
    } while (0)
#define GPU_NCCL_MUST(call)                                                                                  \
    do {                                                                                                     \
        ncclResult_t gpu_must_ = (call);                                                                     \
        if (gpu_must_ != ncclSuccess)                                                                        \
            gpu_nccl_failed(#call, gpu_must_);                                                               \
    } while (0)
_Noreturn void gpu_cuda_failed(const char *call, CUresult result);
_Noreturn void gpu_nccl_failed(const char *call, ncclResult_t result);

/* Open the driver and make the first visible device's context. */
void gpu_start(void);
/* The context, in a new thread. */
void gpu_use(void);
/* Open NCCL at the first call: the program's own library if it is there, else by name. Thread safe. */
void gpu_open_nccl(const char *library);

/* Buffers that only ever grow. */
struct gpu_buffer {
    CUdeviceptr device;
    size_t size;
};
/* At least size bytes. What it had before stays until the process ends (together less than twice the last size): freeing waits
 * for the device, which may stand at a gate that only opens after this. */
void gpu_buffer_grow(struct gpu_buffer *b, size_t size);

#endif
