/* ahead.c - a program whose host is further ahead of its stream than the stream's queue holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "softgpu/softgpu.h"

#define CHECK(call)                                                  \
    do {                                                             \
        int check_ = (int)(call);                                    \
        if (check_) {                                                \
            printf("%s = %d at line %d\n", #call, check_, __LINE__); \
            exit(1);                                                 \
        }                                                            \
    } while (0)

#define KERNELS 30

static void nothing(void *unused)
{
    (void)unused;
}

int main(void)
{
    struct softgpuCost cost = {.flops = 1e6}; /* 20 ms */
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *buffer;
    memset(&id, 0, sizeof id);
    id.internal[20] = 1;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&buffer, 4096));
    CHECK(ncclCommInitRank(&comm, atoi(getenv("WORLD_SIZE")), id, atoi(getenv("RANK"))));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; i && k < KERNELS; k++)
            CHECK(softgpuLaunchHostFunc(stream, nothing, &cost, sizeof cost, &cost));
        CHECK(ncclAllReduce(buffer, buffer, 1000, ncclFloat, ncclSum, comm, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
    CHECK(cudaFree(buffer));
    return 0;
}
