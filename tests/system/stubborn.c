/* stubborn.c - a rank that cannot leave its device for a while, and whose operation becomes ready meanwhile.
 *
 * World 2, each rank has 40 MiB. Rank 1 issues a sum and has another stream busy for seven seconds, so that the rank comes to no
 * stop. Rank 0 asks for 40 MiB more, for which rank 1 would have to leave; then another thread of it issues the sum. Both
 * print "rank R sum S".
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "program.h"

#define COUNT 1024u
#define MIB40 ((size_t)40 << 20)

static ncclComm_t comm;
static cudaStream_t stream;
static int32_t *values, host[COUNT];

static void *sum(void *late)
{
    if (late)
        sleep(2);
    cuda(cudaSetDevice(0));
    nccl(ncclAllReduce(values, values, COUNT, ncclInt32, ncclSum, comm, stream));
    return NULL;
}

static void keep_busy(void *unused)
{
    (void)unused;
    sleep(7);
}

int main(void)
{
    int rank = number("RANK");
    void *more;
    pthread_t thread;
    cudaStream_t busy;
    cuda(cudaSetDevice(0));
    struct c10d_client *store = connect_store(rank);
    comm = make_comm(store, "stubborn/id", number("WORLD_SIZE"), rank);
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&values, MIB40));
    for (uint32_t i = 0; i < COUNT; i++)
        host[i] = (int32_t)(i * (rank + 1));
    cuda(cudaMemcpyAsync(values, host, sizeof host, cudaMemcpyHostToDevice, stream));
    cuda(cudaStreamSynchronize(stream));
    if (rank) {
        sum(NULL);
        cuda(cudaLaunchHostFunc(busy, keep_busy, NULL));
    } else {
        sleep(1);
        pthread_create(&thread, NULL, sum, &stream);
        cuda(cudaMalloc(&more, MIB40));
        pthread_join(thread, NULL);
    }
    cuda(cudaMemcpyAsync(host, values, sizeof host, cudaMemcpyDeviceToHost, stream));
    cuda(cudaStreamSynchronize(stream));
    int64_t total = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        total += host[i];
    printf("rank %d sum %lld\n", rank, (long long)total);
    fflush(stdout);
    nccl(ncclCommDestroy(comm));
    c10d_client_close(store);
    return 0;
}
