/* buckets.c - a program that communicates as DistributedDataParallel does: in every iteration gradients are summed piece after piece on
 * a stream of its own, while the stream that made them goes on.
 *
 *   buckets ITERATIONS BUCKETS MIB [FILLS]
 *
 * Each rank has MIB of device memory, gradients of 256 KiB a bucket among them. The integers summed depend on the rank, the
 * iteration and all sums before. Behind the last bucket come, on the same stream, a sum of what was just summed (its input is
 * not there before) and, in the first iteration, one of what a copy on that stream has brought. The stream that made them
 * then does FILLS small fills, as an optimizer's kernels. Prints of all gradients "rank R iteration I sum S".
 */
#include <stdbool.h>
#include <stdint.h>

#include "program.h"

#define COUNT (64u << 10) /* of a bucket, 4 bytes each */

struct job {
    int rank, world;
    uint32_t buckets, fills;
    int32_t *all, *gradients, *parameters, *extra, *host;
    cudaStream_t compute, traffic;
    cudaEvent_t made, summed;
    ncclComm_t comm;
};

static void begin(struct job *j, uint32_t mib)
{
    size_t bucket = COUNT * sizeof(int32_t), need = (2u * j->buckets + 1) * bucket, bytes = (size_t)mib << 20;
    cuda(cudaMalloc((void **)&j->all, bytes > need ? bytes : need));
    cuda(cudaMallocHost((void **)&j->host, need));
    j->gradients = j->all;
    j->parameters = j->gradients + (size_t)j->buckets * COUNT;
    j->extra = j->parameters + (size_t)j->buckets * COUNT;
    cuda(cudaStreamCreateWithFlags(&j->compute, cudaStreamNonBlocking));
    cuda(cudaStreamCreateWithFlags(&j->traffic, cudaStreamNonBlocking));
    cuda(cudaEventCreateWithFlags(&j->made, cudaEventDisableTiming));
    cuda(cudaEventCreateWithFlags(&j->summed, cudaEventDisableTiming));
    for (size_t i = 0; i < need / sizeof(int32_t); i++)
        j->host[i] = (int32_t)(i * 2654435761u) ^ j->rank;
    cuda(cudaMemcpyAsync(j->gradients, j->host, need, cudaMemcpyHostToDevice, j->compute));
    cuda(cudaStreamSynchronize(j->compute));
}

static void sum(struct job *j, int32_t *what)
{
    nccl(ncclAllReduce(what, what, COUNT, ncclInt32, ncclSum, j->comm, j->traffic));
}

/* One event serves all buckets, as a wait takes it as it is at the call. */
static void traffic_follows(struct job *j)
{
    cuda(cudaEventRecord(j->made, j->compute));
    cuda(cudaStreamWaitEvent(j->traffic, j->made, 0));
}

/* bring: the last sum is of what a copy on the stream of the sums has brought. */
static void iterate(struct job *j, int iteration, bool bring)
{
    size_t bucket = COUNT * sizeof(int32_t), all = j->buckets * bucket;
    for (uint32_t b = 0; b < j->buckets; b++) {
        int32_t *at = j->gradients + (size_t)b * COUNT;
        cuda(cudaMemcpyAsync(at, j->parameters + (size_t)b * COUNT, bucket, cudaMemcpyDeviceToDevice, j->compute));
        cuda(cudaMemsetAsync(at, iteration + j->rank, 64, j->compute));
        traffic_follows(j);
        sum(j, at);
    }
    sum(j, j->gradients);
    if (bring) {
        cuda(cudaMemcpyAsync(j->extra, j->gradients, bucket, cudaMemcpyDeviceToDevice, j->traffic));
        sum(j, j->extra);
    }
    cuda(cudaEventRecord(j->summed, j->traffic));
    cuda(cudaStreamWaitEvent(j->compute, j->summed, 0));
    cuda(cudaMemcpyAsync(j->parameters, j->gradients, all, cudaMemcpyDeviceToDevice, j->compute));
    for (uint32_t i = 0; i < j->fills; i++)
        cuda(cudaMemsetAsync(j->parameters + i % COUNT, (int)i, 4, j->compute));
    cuda(cudaMemcpyAsync(j->host, j->gradients, all, cudaMemcpyDeviceToHost, j->compute));
    cuda(cudaMemcpyAsync(j->host + (size_t)j->buckets * COUNT, j->extra, bucket, cudaMemcpyDeviceToHost, j->compute));
    cuda(cudaStreamSynchronize(j->compute));
    uint32_t total = 0;
    for (size_t i = 0; i < (j->buckets + (size_t)1) * COUNT; i++)
        total = total * 31 + (uint32_t)j->host[i];
    printf("rank %d iteration %d sum %u\n", j->rank, iteration, total);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 64;
    struct job j = {.rank = number("RANK"), .world = number("WORLD_SIZE"), .buckets = (uint32_t)atoi(argv[2]), .fills = argc > 4 ? (uint32_t)atoi(argv[4]) : 0};
    cuda(cudaSetDevice(0));
    struct c10d_client *store = connect_store(j.rank);
    j.comm = make_comm(store, "buckets/id", j.world, j.rank);
    begin(&j, (uint32_t)atoi(argv[3]));
    for (int i = 0; i < atoi(argv[1]); i++)
        iterate(&j, i, i == 0);
    nccl(ncclCommDestroy(j.comm));
    c10d_client_close(store);
    return 0;
}
