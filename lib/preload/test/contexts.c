/* contexts.c - a rank whose contexts are not what a program with CUDA's runtime has: one act an argument. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"
#include "softgpu/softgpu.h"

#define N 1000

static CUstream stream;
static CUdeviceptr memory;
static float host[N];

/* An all-reduce of two, with the driver's calls only: the current context is what it is. */
static void communicate(void)
{
    static char communicators;
    ncclUniqueId id = {.internal = {[20] = ++communicators}}; /* enough for prismd's double */
    ncclComm_t comm;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&memory, sizeof host));
    CHECK(ncclCommInitRank(&comm, 2, id, atoi(getenv("RANK"))));
    CHECK(ncclAllReduce((void *)memory, (void *)memory, N, ncclFloat, ncclSum, comm, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
}

static void nothing(void *unused)
{
}

/* As a CUDA runtime linked in statically begins: the primary context is current, and nobody has retained it, when the first call
 * comes that makes this process its rank. */
static void half(void)
{
    CUcontext current, context;
    struct softgpuCost cost = {.bytes = 1};
    CHECK(softgpuLaunchHostFunc(NULL, nothing, &cost, sizeof cost, &cost)); /* makes no process a rank */
    CHECK(cuDevicePrimaryCtxRelease(0));
    CHECK(cuCtxGetCurrent(&current));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(current != context);
    communicate();
    CHECK(cuMemFree(memory));
    CHECK(cuDevicePrimaryCtxRelease(0)); /* the rank has one more */
    CHECK(cuCtxSynchronize());
}

static void *copying_thread(void *unused)
{
    CHECK(cudaMemcpy((void *)memory, host, sizeof host, cudaMemcpyHostToDevice));
    return NULL;
}

static void *freeing_thread(void *unused)
{
    CHECK(cudaFree((void *)memory));
    return NULL;
}

/* Threads that have no context yet, whose first call needs one. */
static void threads(void)
{
    pthread_t thread;
    CHECK(cudaSetDevice(0));
    communicate();
    CHECK(pthread_create(&thread, NULL, copying_thread, NULL));
    CHECK(pthread_join(thread, NULL));
    CHECK(pthread_create(&thread, NULL, freeing_thread, NULL));
    CHECK(pthread_join(thread, NULL));
}

/* As a runtime linked in statically resets the device, and goes on. */
static void reset(void)
{
    CHECK(cudaSetDevice(0));
    communicate();
    CHECK(cuDevicePrimaryCtxReset(0));
    communicate();
    CHECK(cuDevicePrimaryCtxReset(0));
}

/* A context of its own, which it destroys with all that is in it; then it ends. */
static void own(void)
{
    CUcontext context, current;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
    communicate();
    CHECK(cuCtxDestroy(context));
    CHECK(cuCtxGetCurrent(&current));
    CHECK(current != NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*act)(void);
    } acts[] = {{"half", half}, {"threads", threads}, {"reset", reset}, {"own", own}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (argc > 1 && !strcmp(argv[1], acts[i].name)) {
            acts[i].act();
            return 0;
        }
    return 2;
}
