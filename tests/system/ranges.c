/* ranges.c - a trainer whose iterations differ, with NVTX ranges around them.
 *
 *   ranges WHAT ITERATIONS NAMED [MILLISECONDS]
 *
 * WHAT: "validates": two all-reduces an iteration, and every third is followed by a validation (three gathers and an all-reduce);
 * "micro": an iteration has one to four micro-batches, a gather each, then an all-reduce. The host waits once an iteration. NAMED: "named": an
 * iteration is a range "iteration N", with ranges of its layers and micro-batches in it; "plain": there are no ranges; "parts": iterations
 * are ranges "forward", "backward", one behind the other; "lonely": rank 0 alone names iterations. Prints "rank R done".
 */
#include "tests/nvtx/client.h"
#include "tests/system/program.h"

#include <unistd.h>

#define COUNT 1024

static ncclComm_t comm;
static cudaStream_t stream;
static float *buffer;
static int world;

static void all_reduce(int count)
{
    nccl(ncclAllReduce(buffer, buffer, (size_t)count, ncclFloat, ncclSum, comm, stream));
}

static void gather(void)
{
    nccl(ncclAllGather(buffer, buffer + COUNT, COUNT / 8, ncclFloat, comm, stream));
}

static void begin(const char *name, int number, int there)
{
    char text[64];
    snprintf(text, sizeof text, "%s %d", name, number);
    if (there)
        nvtxRangePushA(text);
}

static void end(int there)
{
    if (there)
        nvtxRangePop();
}

static void validate(void)
{
    for (int i = 0; i < 3; i++)
        gather();
    all_reduce(1);
    cuda(cudaStreamSynchronize(stream));
}

static void iterate(const char *what, int i, int named, int parts)
{
    int micro = strcmp(what, "micro") ? 0 : 1 + i * 7 % 4;
    begin("iteration", i, named);
    begin("forward", 0, parts);
    for (int k = 0; k < micro; k++) {
        begin("micro-batch", k, named);
        gather();
        end(named);
    }
    for (int layer = 0; layer < 20; layer++) {
        begin("layer", layer, named);
        end(named);
    }
    end(parts);
    begin("backward", 0, parts);
    all_reduce(COUNT);
    if (!micro)
        all_reduce(COUNT / 2);
    cuda(cudaStreamSynchronize(stream));
    end(parts);
    end(named);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int rank = number("RANK"), iterations = atoi(argv[2]), pause = argc > 4 ? atoi(argv[4]) : 0;
    int named = !strcmp(argv[3], "named") || (!strcmp(argv[3], "lonely") && rank == 0), parts = !strcmp(argv[3], "parts");
    world = number("WORLD_SIZE");
    begin("train", 0, named);
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&buffer, sizeof(float) * COUNT * (size_t)(1 + world)));
    comm = make_comm(connect_store(rank), "ranges", world, rank);
    nccl(ncclBroadcast(buffer, buffer, COUNT, ncclFloat, 0, comm, stream));
    for (int i = 0; i < iterations; i++) {
        iterate(argv[1], i, named, parts);
        if (!strcmp(argv[1], "validates") && i % 3 == 2)
            validate();
        usleep((unsigned)pause * 1000);
    }
    end(named);
    nccl(ncclCommDestroy(comm));
    printf("rank %d done\n", rank);
    return 0;
}
