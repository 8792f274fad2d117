/* averages.c - averages and sums over all ranks: `averages ITERATIONS [floating]`. Odd ranks bring 3 and even ones 1, times the iteration from 1
 * on, so that in a world of a power of two all partial sums are exact; fp16 is 512 times that, so that 128 ranks' sum is beyond it and their average
 * is not. Uneven is a sum in bf16 of 256 from rank 1 and 1 from all others, which comes to nothing added to 256 one by one. Prints
 * "rank R iteration I: fp32 A bf16 A fp16 A int32 A sum S uneven S", of the first element of each. floating: no integers, 0 is printed, and fp16 is 16 times that. */
#include <stdint.h>

#include "program.h"

#define COUNT 1000
#define KINDS 6
#define FP16 2
#define INT32 3
#define AVERAGES 4 /* the first so many; then come sums */

static const ncclDataType_t datatypes[KINDS] = {ncclFloat32, ncclBfloat16, ncclFloat16, ncclInt32, ncclFloat32, ncclBfloat16};

/* Exact: small integers. */
static uint32_t bits_of(int kind, int value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (datatypes[kind]) {
    case ncclInt32: return (uint32_t)value;
    case ncclBfloat16: return bits >> 16;
    case ncclFloat16: return ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff);
    default: return bits;
    }
}

static float value_of(int kind, const void *element)
{
    uint32_t bits = 0;
    float f;
    memcpy(&bits, element, datatypes[kind] == ncclBfloat16 || datatypes[kind] == ncclFloat16 ? 2 : 4);
    switch (datatypes[kind]) {
    case ncclInt32: return (float)(int32_t)bits;
    case ncclBfloat16: bits <<= 16; break;
    case ncclFloat16: bits = ((bits >> 10) + 112) << 23 | (bits & 0x3ff) << 13; break;
    default: break;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

static int left_out = -1;

static int value_at(int kind, int rank)
{
    int value = rank % 2 ? 3 : 1;
    if (kind == KINDS - 1)
        return rank == 1 ? 256 : 1;
    return kind != FP16 ? value : left_out < 0 ? 512 * value : 16 * value;
}

static void iterate(int rank, int iteration, void **device, char *host, ncclComm_t comm, cudaStream_t stream)
{
    float got[KINDS] = {0};
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == left_out)
            continue;
        size_t size = datatypes[kind] == ncclBfloat16 || datatypes[kind] == ncclFloat16 ? 2 : 4;
        uint32_t bits = bits_of(kind, value_at(kind, rank) * iteration);
        for (int i = 0; i < COUNT; i++)
            memcpy(host + (size_t)i * size, &bits, size);
        cuda(cudaMemcpyAsync(device[kind], host, COUNT * size, cudaMemcpyHostToDevice, stream));
        nccl(ncclAllReduce(device[kind], device[kind], COUNT, datatypes[kind], kind < AVERAGES ? ncclAvg : ncclSum, comm, stream));
        cuda(cudaMemcpyAsync(host, device[kind], COUNT * size, cudaMemcpyDeviceToHost, stream));
        cuda(cudaStreamSynchronize(stream));
        got[kind] = value_of(kind, host);
    }
    printf("rank %d iteration %d: fp32 %g bf16 %g fp16 %g int32 %g sum %g uneven %g\n", rank, iteration, got[0], got[1], got[2], got[3], got[4],
           got[5]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank = number("RANK"), world = number("WORLD_SIZE");
    struct c10d_client *store = connect_store(rank);
    void *device[KINDS];
    char *host;
    cudaStream_t stream;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    ncclComm_t comm = make_comm(store, "averages", world, rank);
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMallocHost((void **)&host, COUNT * 4));
    for (int kind = 0; kind < KINDS; kind++)
        cuda(cudaMalloc(&device[kind], COUNT * 4));
    if (argc > 2)
        left_out = INT32;
    for (int i = 1; i <= (argc > 1 ? atoi(argv[1]) : 2); i++)
        iterate(rank, i, device, host, comm, stream);
    nccl(ncclCommDestroy(comm));
    return 0;
}
