/* player.c - what one rank of a small synthetic job does (tests/system/synth.bats): tensor parallel 2, data parallel 2; a layer
 * with an all-reduce forward and backward, two micro-batches, an all-reduce of the gradients.
 *
 *   player ITERATIONS
 */
#include "program.h"

#define TP 2

int main(int argc, char **argv)
{
    int rank = number("RANK"), size = number("WORLD_SIZE"), iterations = argc > 1 ? atoi(argv[1]) : 2;
    cudaStream_t stream;
    void *buffer;
    char key[32];
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc(&buffer, 1 << 20));
    struct c10d_client *store = connect_store(rank);
    snprintf(key, sizeof(key), "player/tp%d", rank / TP);
    ncclComm_t tp = make_comm(store, key, TP, rank % TP);
    snprintf(key, sizeof(key), "player/dp%d", rank % TP);
    ncclComm_t dp = make_comm(store, key, size / TP, rank / TP);
    for (int i = 0; i < iterations; i++) {
        for (int pass = 0; pass < 4; pass++)
            nccl(ncclAllReduce(buffer, buffer, 1 << 15, ncclBfloat16, ncclSum, tp, stream));
        nccl(ncclAllReduce(buffer, buffer, 1 << 18, ncclBfloat16, ncclSum, dp, stream));
        cuda(cudaStreamSynchronize(stream));
        printf("rank %d iteration %d\n", rank, i);
    }
    printf("rank %d done\n", rank);
    return 0;
}
