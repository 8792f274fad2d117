/* cost.c - what the host spends in NCCL, event and synchronisation calls: nanoseconds a call.
 *
 *     prism run --emulate=2 --sandbox=0 --trace=DIR -- gpu_cost [calls a batch]     emulation; capture's and calibration's
 *                                                                                   lines are in DIR/logs
 *     gpu_cost                                                                      without Prism, a communicator of one
 *
 * An ordinary CUDA and NCCL program for real and software GPUs. Calls are issued in batches that fit the hardware's
 * launch queues, with the device idle before each, so nothing is waited for while the clock runs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/gpu/check.h"

#define BATCHES 40

static ncclComm_t comm;
static cudaStream_t stream, other;
static cudaEvent_t event;
static float *buffer;
static int rank, world;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void call_allreduce(void)
{
    CHECK(ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream));
}

/* A group without results to deliver for even ranks, one with for odd ones. */
static void call_message(void)
{
    if (world == 1)
        return;
    if (rank % 2)
        CHECK(ncclRecv(buffer, 16, ncclFloat, rank - 1, comm, stream));
    else
        CHECK(ncclSend(buffer, 16, ncclFloat, rank + 1, comm, stream));
}

static void call_events(void)
{
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
}

static void call_synchronize(void)
{
    CHECK(cudaStreamSynchronize(stream));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(const char *name, void (*call)(void), int calls)
{
    double each[BATCHES];
    for (int b = -2; b < BATCHES; b++) { /* two to warm up */
        CHECK(cudaDeviceSynchronize());
        int64_t start = now_ns();
        for (int i = 0; i < calls; i++)
            call();
        int64_t end = now_ns();
        CHECK(cudaDeviceSynchronize());
        if (b >= 0)
            each[b] = (double)(end - start) / calls;
    }
    qsort(each, BATCHES, sizeof *each, by_value);
    printf("cost rank %d: %-12s %7.0f ns a call (p10 %.0f, p90 %.0f; %d batches of %d)\n", rank, name, each[BATCHES / 2],
           each[BATCHES / 10], each[BATCHES * 9 / 10], BATCHES, calls);
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 32;
    rank = atoi(getenv("RANK") ? getenv("RANK") : "0");
    world = atoi(getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "1");
    ncclUniqueId id;
    memset(&id, 0, sizeof id); /* under Prism any id will do that all ranks have */
    if (world == 1)
        CHECK(ncclGetUniqueId(&id));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&buffer, 4096));
    CHECK(cudaMemset(buffer, 0, 4096));
    CHECK(ncclCommInitRank(&comm, world, id, rank));
    measure("AllReduce", call_allreduce, calls);
    measure("Send/Recv", call_message, calls);
    measure("event+wait", call_events, calls);
    measure("synchronize", call_synchronize, calls);
    CHECK(ncclCommDestroy(comm));
    return 0;
}
