/* clash.c - a small NCCL program whose ranks do not agree, in one of the ways that programs have:
 *
 *   clash WHAT [AT]      three all-reduces and all-gathers an iteration; in the one numbered AT (from 0; 1):
 *
 *   none      nothing                            order     rank 2 calls the two collectives the other way round
 *   count, type, root                            rank 2 has another one in a broadcast
 *   ring      two communicators, ranks 0 and 1 use them in opposite order, each waiting for the first
 *   receive   rank 3 receives from rank 0, which never sends
 *   init      rank 1 does not make the second communicator
 *   sleep     rank 1 sleeps for ever              busy      rank 1 computes on its host for six seconds, all is well
 */
#include <time.h>
#include <unistd.h>

#include "program.h"

#define COUNT 1024

static int rank, size;
static const char *what;
static cudaStream_t stream;
static float *buffer, *gathered;

static int is(const char *name, int who)
{
    return strcmp(what, name) == 0 && rank == who;
}

static void all_reduce(ncclComm_t comm)
{
    nccl(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, comm, stream));
}

static void all_gather(ncclComm_t comm)
{
    nccl(ncclAllGather(buffer, gathered, COUNT, ncclFloat32, comm, stream));
}

static void compute(double seconds)
{
    struct timespec t;
    volatile double x = 1;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (double end = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + seconds;;) {
        for (int i = 0; i < 1000000; i++)
            x = x * 1.0000001;
        clock_gettime(CLOCK_MONOTONIC, &t);
        if ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec > end)
            return;
    }
}

static void disagree(ncclComm_t world, struct c10d_client *store)
{
    nccl(ncclBroadcast(buffer, buffer, is("count", 2) ? COUNT / 2 : COUNT, is("type", 2) ? ncclInt32 : ncclFloat32,
                       is("root", 2) ? 1 : 0, world, stream));
    if (is("receive", 3))
        nccl(ncclRecv(buffer, COUNT, ncclFloat32, 0, world, stream));
    if (is("sleep", 1))
        for (;;)
            pause();
    if (is("busy", 1))
        compute(6);
    if (strcmp(what, "init") == 0 && rank != 1)
        make_comm(store, "clash/second", size, rank);
    if (strcmp(what, "ring") == 0) {
        ncclComm_t other = make_comm(store, "clash/other", size, rank);
        all_reduce(is("ring", 0) ? world : other);
        cuda(cudaStreamSynchronize(stream));
        all_reduce(is("ring", 0) ? other : world);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    rank = number("RANK"), size = number("WORLD_SIZE"), what = argv[1];
    int at = argc > 2 ? atoi(argv[2]) : 1;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&buffer, COUNT * sizeof(float)));
    cuda(cudaMalloc((void **)&gathered, COUNT * sizeof(float) * (size_t)size));
    struct c10d_client *store = connect_store(rank);
    ncclComm_t world = make_comm(store, "clash/world", size, rank);
    for (int i = 0; i < at + 2; i++) {
        for (int k = 0; k < 3; k++) {
            if (i == at && k == 1 && is("order", 2)) {
                all_gather(world);
                all_reduce(world);
            } else {
                all_reduce(world);
                all_gather(world);
            }
        }
        if (i == at)
            disagree(world, store);
        cuda(cudaStreamSynchronize(stream));
    }
    printf("rank %d done\n", rank);
    return 0;
}
