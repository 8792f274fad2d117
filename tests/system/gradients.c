/* gradients.c - what control mode is for (control.bats): gradients that are large, and small things that must be right.
 *
 *   gradients MIB ITERATIONS
 *
 * An iteration sums, over all ranks: MIB MiB of float gradients, in place; as many from one buffer to another; a group of 2,048
 * floats and one, the norm; 1,024 counts (int64); the loss. Prints "rank R iteration I loss L norm N count C" and behind it, on a line of its
 * own, "rank R gradients FIRST SECOND LAST other FIRST SECOND LAST". */
#include <stdint.h>

#include "program.h"

#define FEW 2048

static float *gradients, *other, *few, *small; /* small: norm, loss; device memory of software GPUs is the host's */
static int64_t *counts;
static size_t count;

static void *memory(size_t bytes)
{
    void *p;
    cuda(cudaMalloc(&p, bytes));
    memset(p, 0, bytes);
    return p;
}

static void compute(int rank, int iteration)
{
    for (size_t i = 0; i < count; i++)
        gradients[i] = (float)(rank + iteration + 1);
    for (int i = 0; i < FEW; i++)
        few[i] = (float)i;
    for (int i = 0; i < 1024; i++)
        counts[i] = i + rank;
    small[0] = (float)(rank + 1) * 0.5f;
    small[1] = (float)((rank + 1) * (iteration + 1));
}

static void communicate(ncclComm_t comm, cudaStream_t stream)
{
    nccl(ncclAllReduce(gradients, other, count, ncclFloat32, ncclSum, comm, stream));
    nccl(ncclAllReduce(gradients, gradients, count, ncclFloat32, ncclSum, comm, stream));
    nccl(ncclGroupStart());
    nccl(ncclAllReduce(few, few, FEW, ncclFloat32, ncclSum, comm, stream));
    nccl(ncclAllReduce(&small[0], &small[0], 1, ncclFloat32, ncclSum, comm, stream));
    nccl(ncclGroupEnd());
    nccl(ncclAllReduce(counts, counts, 1024, ncclInt64, ncclSum, comm, stream));
    nccl(ncclAllReduce(&small[1], &small[1], 1, ncclFloat32, ncclSum, comm, stream));
    cuda(cudaStreamSynchronize(stream));
}

static void show(int rank, int iteration)
{
    int64_t sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += counts[i];
    printf("rank %d iteration %d loss %g norm %g count %lld\n", rank, iteration, (double)small[1], (double)small[0], (long long)sum);
    printf("rank %d gradients %g %g %g other %g %g %g\n", rank, (double)gradients[0], (double)gradients[1], (double)gradients[count - 1],
           (double)other[0], (double)other[1], (double)other[count - 1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank = number("RANK"), iterations = argc > 2 ? atoi(argv[2]) : 3;
    cudaStream_t stream;
    count = (size_t)(argc > 1 ? atoi(argv[1]) : 1) << 18;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    gradients = memory(count * sizeof *gradients);
    other = memory(count * sizeof *other);
    few = memory(FEW * sizeof *few);
    small = memory(2 * sizeof *small);
    counts = memory(1024 * sizeof *counts);
    struct c10d_client *store = connect_store(rank);
    ncclComm_t comm = make_comm(store, "gradients", number("WORLD_SIZE"), rank);
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < iterations; i++) {
        compute(rank, i);
        communicate(comm, stream);
        show(rank, i);
    }
    nccl(ncclCommDestroy(comm));
    c10d_client_close(store);
    return 0;
}
