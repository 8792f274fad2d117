/* volume.c - how many bytes a second of large operations get through: what capture takes for programs whose operations are large.
 *
 *     prism run --emulate=2 --sandbox=0 --phase=capture --trace=DIR -- gpu_volume [KIND [MIB [ROUNDS]]]
 *     gpu_volume                                     without Prism, a communicator of one
 *
 * A round is BUCKETS operations of MIB each (default 64), one behind the other; then the host waits. KIND: sums, as
 * DistributedDataParallel's buckets, of `noise`, float32 of which nothing compresses (default), or of `halves`, float32 made of bf16,
 * half of whose bytes are zero; or `exchange`, in which every rank sends every rank, itself too, an equal part of a bucket, as
 * PyTorch's all_to_all_single does (MIB a multiple of the ranks). No two inputs are equal, nor are results; a wrong word ends it with
 * exit code 1. The line of rank 0 is in DIR/logs/capture.rank0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/gpu/check.h"

#define BUCKETS 4

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Numbers between 2^-8 and 2^-7. */
static void fill(uint32_t *bits, size_t n, int rank, int halves)
{
    uint64_t state = (uint64_t)rank + 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bits[i] = (uint32_t)(state >> 41) | 0x3b800000u;
        bits[i] &= halves ? 0xffff0000u : 0xffffffffu;
    }
}

static void exchange(const float *from, float *to, size_t count, int world, ncclComm_t comm, cudaStream_t stream)
{
    CHECK(ncclGroupStart());
    for (int peer = 0; peer < world; peer++) {
        CHECK(ncclSend(from + (size_t)peer * count, count, ncclFloat, peer, comm, stream));
        CHECK(ncclRecv(to + (size_t)peer * count, count, ncclFloat, peer, comm, stream));
    }
    CHECK(ncclGroupEnd());
}

/* Whether what came from each rank is what that rank's bucket begins with at this rank's part. host: of any rank's size. */
static int is_right(uint32_t *host, const float *to, size_t count, int rank, int world, int bucket)
{
    size_t bytes = count * (size_t)world * sizeof(float);
    uint32_t *got = malloc(bytes);
    int right = got != NULL;
    if (right)
        CHECK(cudaMemcpy(got, to, bytes, cudaMemcpyDeviceToHost));
    for (int peer = 0; right && peer < world; peer++) {
        fill(host, count * (size_t)world, peer * BUCKETS + bucket, 0);
        for (size_t i = rank ? 0 : 1; right && i < count; i++) /* the first word of a bucket was changed */
            right = got[(size_t)peer * count + i] == host[(size_t)rank * count + i];
    }
    free(got);
    return right;
}

int main(int argc, char **argv)
{
    int rank = atoi(getenv("RANK") ? getenv("RANK") : "0"), world = atoi(getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "1");
    const char *kind = argc > 1 ? argv[1] : "noise";
    size_t count = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 18, bytes = count * sizeof(float);
    int rounds = argc > 3 ? atoi(argv[3]) : 4, exchanges = !strcmp(kind, "exchange"), right = 1;
    float *buckets[BUCKETS], *sums[BUCKETS];
    ncclComm_t comm;
    cudaStream_t stream;
    ncclUniqueId id;
    uint32_t *host = malloc(bytes);
    memset(&id, 0, sizeof id); /* under Prism any id will do that all ranks have */
    if (!host)
        return 1;
    if (world == 1)
        CHECK(ncclGetUniqueId(&id));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(ncclCommInitRank(&comm, world, id, rank));
    for (int i = 0; i < BUCKETS; i++) {
        CHECK(cudaMalloc((void **)&buckets[i], bytes));
        CHECK(cudaMalloc((void **)&sums[i], bytes));
        fill(host, count, rank * BUCKETS + i, !strcmp(kind, "halves"));
        CHECK(cudaMemcpy(buckets[i], host, bytes, cudaMemcpyHostToDevice));
    }
    double began = 0;
    for (int round = -1; round < rounds; round++) { /* one to warm up */
        began = round ? began : now();
        for (int i = 0; i < BUCKETS; i++) {
            CHECK(cudaMemsetAsync(buckets[i], round + 2, sizeof(float), stream));
            if (exchanges)
                exchange(buckets[i], sums[i], count / (size_t)world, world, comm, stream);
            else
                CHECK(ncclAllReduce(buckets[i], sums[i], count, ncclFloat, ncclSum, comm, stream));
        }
        CHECK(cudaStreamSynchronize(stream));
    }
    double took = now() - began;
    for (int i = 0; i < BUCKETS && exchanges; i++)
        right = right && is_right(host, sums[i], count / (size_t)world, rank, world, i);
    printf("volume rank %d: %s%s, %d operations of %zu bytes, %.0f bytes a second, %.1f ms each\n", rank, kind, right ? "" : ", WRONG", rounds * BUCKETS, bytes,
           (double)rounds * BUCKETS * (double)bytes / took, took / rounds / BUCKETS * 1e3);
    CHECK(ncclCommDestroy(comm));
    free(host);
    return !right;
}
