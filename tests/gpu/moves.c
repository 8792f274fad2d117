/* moves.c - ranks that share one device by turns: how fast is their memory moved.
 *
 *     PRISM_DEVICE_MEMORY=20000000000 PRISM_HOST_POOL=40000000000 PRISM_LOG=debug prism run --emulate=4 --sandbox=0 --phase=capture \
 *         --payload=control --trace=DIR -- gpu_moves [MiB a rank] [rounds] [MiB a range; 0: as below] [seconds]
 *
 * An ordinary CUDA and NCCL program for real and software GPUs. Each rank allocates its memory in ranges of 2, 20, 20 and 200 MiB, as
 * PyTorch's allocator has them, or of the size given, and fills them; a round is an operation of all ranks, for which those that are
 * off the device must come back. It rests for so many seconds first, in which the host memory is pinned. At the end each range's first
 * and last bytes are compared with what was filled in. Prints one line a rank; exit code 1 if any differ.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/gpu/check.h"

#define MIB    ((size_t)1 << 20)
#define RANGES 16384
#define WORDS  4

static ncclComm_t comm;
static cudaStream_t stream;
static struct {
    char *at;
    size_t bytes;
} ranges[RANGES];
static int rank, n;

static int byte_of(int i, int round)
{
    return (rank * 37 + i * 11 + round) & 0xff;
}

static void allocate(size_t wanted, size_t each)
{
    static const size_t sizes[] = {2, 20, 20, 200};
    for (size_t sum = 0; sum < wanted && n < RANGES; sum += ranges[n++].bytes) {
        ranges[n].bytes = (each ? each : sizes[n % 4]) * MIB;
        CHECK(cudaMalloc((void **)&ranges[n].at, ranges[n].bytes));
    }
}

/* The first bytes of some ranges change each round, so that a copy of an earlier one is seen. */
static void fill(int round)
{
    for (int i = 0; i < n; i++)
        if (round == 0)
            CHECK(cudaMemsetAsync(ranges[i].at, byte_of(i, 0), ranges[i].bytes, stream));
        else
            CHECK(cudaMemsetAsync(ranges[i].at, byte_of(i, round), WORDS, stream));
}

static int wrong_bytes(int round)
{
    int wrong = 0;
    unsigned char first[WORDS], last[WORDS];
    for (int i = 0; i < n; i++) {
        CHECK(cudaMemcpy(first, ranges[i].at, WORDS, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(last, ranges[i].at + ranges[i].bytes - WORDS, WORDS, cudaMemcpyDeviceToHost));
        for (int k = 0; k < WORDS; k++)
            wrong += (first[k] != byte_of(i, round)) + (last[k] != byte_of(i, 0));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? (size_t)atol(argv[1]) : 64;
    int rounds = argc > 2 ? atoi(argv[2]) : 2;
    const char *text = getenv("RANK"), *count = getenv("WORLD_SIZE");
    float *small;
    rank = text ? atoi(text) : 0;
    ncclUniqueId id;
    memset(&id, 0, sizeof id); /* under Prism any id will do that all ranks have */
    if (!count || atoi(count) == 1)
        CHECK(ncclGetUniqueId(&id));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&small, 4096));
    CHECK(cudaMemset(small, 0, 4096));
    CHECK(ncclCommInitRank(&comm, count ? atoi(count) : 1, id, rank));
    if (argc > 4)
        sleep((unsigned)atoi(argv[4]));
    allocate(mib * MIB, argc > 3 ? (size_t)atol(argv[3]) : 0);
    for (int round = 0; round < rounds; round++) {
        fill(round);
        CHECK(ncclAllReduce(small, small, 16, ncclFloat, ncclSum, comm, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    int wrong = wrong_bytes(rounds - 1);
    printf("moves rank %d: %d ranges, %zu MiB, %d rounds, wrong bytes: %d\n", rank, n, mib, rounds, wrong);
    CHECK(ncclCommDestroy(comm));
    return wrong != 0;
}
