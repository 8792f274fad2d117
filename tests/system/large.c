/* large.c - operations that are large for the memory that a rank's operations may take together (PRISM_STAGING), for staging.bats:
 *
 *   large one MIB       a broadcast and a sum of so many MiB
 *   large crossed MIB   two sums of so many MiB on each of two communicators and streams, which odd ranks issue the other way round
 *
 * Prints "rank R: FIRST LAST", of the results' elements. */
#include "program.h"

static int rank, size;
static size_t count;

static float *filled(float value)
{
    float *values; /* device memory of software GPUs is the host's */
    cuda(cudaMalloc((void **)&values, count * sizeof *values));
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    return values;
}

static void show(const float *values)
{
    printf("rank %d: %g %g\n", rank, (double)values[0], (double)values[count - 1]);
    fflush(stdout);
}

static void one(ncclComm_t comm)
{
    cudaStream_t stream;
    float *values = filled((float)(rank + 1));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    nccl(ncclBroadcast(values, values, count, ncclFloat32, size - 1, comm, stream));
    nccl(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm, stream));
    cuda(cudaStreamSynchronize(stream));
    show(values);
}

static void crossed(ncclComm_t first, ncclComm_t second)
{
    ncclComm_t comms[2] = {first, second};
    cudaStream_t streams[2];
    float *values[2] = {filled(1), filled(2)};
    for (int i = 0; i < 2; i++)
        cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (int k = 0; k < 2; k++) {
        int i = rank % 2 ? !k : k;
        for (int n = 0; n < 2; n++)
            nccl(ncclAllReduce(values[i], values[i], count, ncclFloat32, ncclSum, comms[i], streams[i]));
    }
    for (int i = 0; i < 2; i++) {
        cuda(cudaStreamSynchronize(streams[i]));
        show(values[i]);
    }
}

int main(int argc, char **argv)
{
    rank = number("RANK");
    size = number("WORLD_SIZE");
    count = (size_t)(argc > 2 ? atoi(argv[2]) : 1) << 18;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    struct c10d_client *store = connect_store(rank);
    ncclComm_t first = make_comm(store, "large/first", size, rank), second = make_comm(store, "large/second", size, rank);
    if (argc > 1 && !strcmp(argv[1], "crossed"))
        crossed(first, second);
    else
        one(first);
    nccl(ncclCommDestroy(second));
    nccl(ncclCommDestroy(first));
    c10d_client_close(store);
    return 0;
}
