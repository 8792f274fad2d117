/* ahead.c - a program whose host is further ahead of its stream than the stream's queue holds. Prints "inside I outside O": nanoseconds
 * from the first operation to the second, in the calls in between and outside of them. A second argument: the stream waits for the default one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"
#include "softgpu/softgpu.h"

#define KERNELS 30

static void nothing(void *unused)
{
    (void)unused;
}

static cudaStream_t stream;
static float *buffer;
static long long inside;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void launch(void)
{
    struct softgpuCost cost = {.flops = 1e6}; /* 20 ms */
    CHECK(softgpuLaunchHostFunc(stream, nothing, &cost, sizeof cost, &cost));
}

/* Something on the stream, once, or on many others; 0: it is none of these. */
static int act_once(const char *what)
{
    struct softgpuCost cost = {.flops = 1};
    if (!strcmp(what, "kernel"))
        CHECK(softgpuLaunchHostFunc(stream, nothing, &cost, sizeof cost, &cost));
    else if (!strcmp(what, "copy"))
        CHECK(cudaMemcpyAsync(buffer, buffer + 512, 1024, cudaMemcpyDeviceToDevice, stream));
    else if (!strcmp(what, "fill"))
        CHECK(cudaMemsetAsync(buffer, 0, 1024, stream));
    else if (!strcmp(what, "memory")) /* waits for nothing */
        CHECK(cuStreamWaitValue32((CUstream)stream, (CUdeviceptr)(uintptr_t)(buffer + 900), 0, CU_STREAM_WAIT_VALUE_GEQ));
    else if (!strcmp(what, "elsewhere"))
        for (int i = 0; i < 300; i++) {
            cudaStream_t other;
            CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
            CHECK(softgpuLaunchHostFunc(other, nothing, &cost, sizeof cost, &cost));
        }
    else
        return strcmp(what, "nothing") == 0;
    return 1;
}

/* What lies between two operations. */
static void act(const char *what)
{
    cudaEvent_t event;
    if (act_once(what))
        return;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (!strcmp(what, "event")) /* that long ago that nobody waits for it */
        CHECK(cudaEventRecord(event, stream));
    for (int k = 0; k < KERNELS; k++) {
        long long began = now();
        launch();
        if (!strcmp(what, "copies"))
            CHECK(cudaMemcpyAsync(buffer, buffer + 512, 1024, cudaMemcpyDeviceToDevice, stream));
        inside += now() - began;
    }
    if (!strcmp(what, "event")) {
        usleep(100000);
        CHECK(cudaEventSynchronize(event));
        usleep(100000);
    }
}

int main(int argc, char **argv)
{
    ncclUniqueId id;
    ncclComm_t comm;
    memset(&id, 0, sizeof id);
    id.internal[20] = 1;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, argc > 2 ? cudaStreamDefault : cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&buffer, 4096));
    CHECK(ncclCommInitRank(&comm, atoi(getenv("WORLD_SIZE")), id, atoi(getenv("RANK"))));
    long long began = 0, between = 0;
    for (int i = 0; i < 2; i++) {
        if (i)
            act(argc > 1 ? argv[1] : "");
        between = now() - began;
        CHECK(ncclAllReduce(buffer, buffer, 1000, ncclFloat, ncclSum, comm, stream));
        began = i ? began : now();
    }
    printf("inside %lld outside %lld\n", inside, between - inside);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
    CHECK(cudaFree(buffer));
    return 0;
}
