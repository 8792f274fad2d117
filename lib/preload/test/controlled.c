/* controlled.c - what control.c runs as a rank: a group of a large sum, in place, and a small one, then a large one of another datatype from
 * one buffer to another.
 *
 *   preload_controlled control              the rank; prints how many elements are the pattern's and how many inputs are as they were
 *   preload_controlled assistant SIZE …     the virtual ranks' part with real NCCL, after the id in hexadecimal digits; tens, and zeros
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"

#define LARGE 800001 /* 3 MiB of floats; an odd end */
#define SMALL 1000

static ncclComm_t comm;
static cudaStream_t stream;
static float *large, *small; /* device memory of software GPUs is the host's */
static uint16_t *halves, *sums;

static void *zeros(size_t bytes)
{
    void *p;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 0, bytes));
    CHECK(cudaStreamSynchronize(NULL));
    return p;
}

static void set_up(int size, int rank, const ncclUniqueId *id)
{
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    large = zeros(LARGE * sizeof *large);
    small = zeros(SMALL * sizeof *small);
    halves = zeros(LARGE * sizeof *halves);
    sums = zeros(LARGE * sizeof *sums);
    CHECK(ncclCommInitRank(&comm, size, *id, rank));
}

static void communicate(void)
{
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(large, large, LARGE, ncclFloat, ncclSum, comm, stream));
    CHECK(ncclAllReduce(small, small, SMALL, ncclFloat, ncclSum, comm, stream));
    CHECK(ncclGroupEnd());
    CHECK(ncclAllReduce(halves, sums, LARGE, ncclBfloat16, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
}

/* docs/formats/payload.md */
static double pattern(int i)
{
    return ((double)(i * 167u % 256) / 255 - 0.5) / 16;
}

/* A bf16 is the upper half of a float, rounded. */
static int is_near(uint16_t half, int i)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    double off = (double)value - pattern(i);
    return half && off > -2e-4 && off < 2e-4;
}

static void be_rank(void)
{
    int floats = 0, bf16 = 0, inputs = 0;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    set_up(atoi(getenv("WORLD_SIZE")), atoi(getenv("RANK")), &id);
    for (int i = 0; i < SMALL; i++)
        small[i] = (float)(i + 1);
    communicate();
    for (int i = 0; i < LARGE; i++) {
        floats += large[i] == (float)pattern(i);
        bf16 += is_near(sums[i], i);
        inputs += !halves[i];
    }
    printf("floats %d halves %d inputs %d, small %g %g\n", floats, bf16, inputs, (double)small[0], (double)small[SMALL - 1]);
}

static void be_assistant(int size)
{
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id));
    for (size_t i = 0; i < sizeof id; i++)
        printf("%02x", (unsigned char)id.internal[i]);
    printf("\n");
    fflush(stdout);
    set_up(size, size - 1, &id);
    for (int i = 0; i < SMALL; i++)
        small[i] = 10;
    communicate();
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "assistant"))
        be_assistant(atoi(argv[2]));
    else
        be_rank();
    return 0;
}
