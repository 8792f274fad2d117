#include "fake_cuda.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/softgpu.h"

#define EXPORT __attribute__((visibility("default")))

long fake_launches;

EXPORT int softgpuLaunchHostFunc(void *stream, void (*fn)(void *args), const void *args, size_t args_bytes,
                                 const struct softgpuCost *cost)
{
    void *copy = malloc(args_bytes ? args_bytes : 1);
    if (!copy || cost->flops < 0 || cost->bytes < 0)
        abort();
    memcpy(copy, args, args_bytes);
    fn(copy);
    free(copy);
    fake_launches++;
    return 0;
}

cudaError_t cudaMalloc(void **address, size_t size)
{
    *address = malloc(size);
    if (*address)
        memset(*address, 0xff, size); /* not-a-numbers: reading what was never written shows */
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaHostAlloc(void **address, size_t size, unsigned int flags)
{
    return cudaMalloc(address, size);
}

cudaError_t cudaFree(void *address)
{
    free(address);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *address)
{
    return cudaFree(address);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    memcpy(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return cudaMemcpy(to, from, size, kind);
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
    memset(to, value, size);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
    return cudaMemset(to, value, size);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    static char streams[1024];
    static int count;
    *stream = (cudaStream_t)(void *)&streams[count++ % 1024];
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    static char events[1024];
    static int count;
    *event = (cudaEvent_t)(void *)&events[count++ % 1024];
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    *milliseconds = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return "an error of the fake device";
}

const char *ncclGetErrorString(ncclResult_t error)
{
    return "an error of the fake NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return "";
}

ncclResult_t ncclGroupStart(void)
{
    abort();
}

ncclResult_t ncclGroupEnd(void)
{
    abort();
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    abort();
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    abort();
}

ncclResult_t ncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream)
{
    abort();
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    abort();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    abort();
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    abort();
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *new_comm, ncclConfig_t *config)
{
    abort();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    abort();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    abort();
}
