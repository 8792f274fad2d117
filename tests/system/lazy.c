/* lazy.c - two pipeline stages of two ranks each, which make a communicator when they first use it, as PyTorch does: the second stage waits in
 * the store for an id that the first stage publishes behind its first operation.
 *
 *   lazy ITERATIONS     prints "rank R: NUMBER" */
#include "program.h"

#define COUNT 256

int main(int argc, char **argv)
{
    int rank = number("RANK"), stage = rank / 2, within = rank % 2, iterations = argc > 1 ? atoi(argv[1]) : 1;
    cudaStream_t stream;
    float *values, host = 0;
    ncclComm_t tensor = NULL, pipe = NULL;
    char tensor_key[32], pipe_key[32];
    snprintf(tensor_key, sizeof tensor_key, "lazy/tensor%d", stage);
    snprintf(pipe_key, sizeof pipe_key, "lazy/pipe%d", within);
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&values, COUNT * sizeof *values));
    cuda(cudaMemset(values, 0, COUNT * sizeof *values));
    struct c10d_client *store = connect_store(rank);
    for (int i = 0; i < iterations; i++) {
        host = (float)(i + 1);
        if (stage == 0) {
            tensor = tensor ? tensor : make_comm(store, tensor_key, 2, within);
            cuda(cudaMemcpy(values, &host, sizeof host, cudaMemcpyHostToDevice));
            nccl(ncclAllReduce(values, values, COUNT, ncclFloat32, ncclSum, tensor, stream));
            cuda(cudaStreamSynchronize(stream));
            pipe = pipe ? pipe : make_comm(store, pipe_key, 2, stage);
            nccl(ncclSend(values, COUNT, ncclFloat32, 1, pipe, stream));
        } else {
            pipe = pipe ? pipe : make_comm(store, pipe_key, 2, stage);
            nccl(ncclRecv(values, COUNT, ncclFloat32, 0, pipe, stream));
            cuda(cudaStreamSynchronize(stream));
            tensor = tensor ? tensor : make_comm(store, tensor_key, 2, within);
            nccl(ncclAllReduce(values, values, COUNT, ncclFloat32, ncclSum, tensor, stream));
        }
        cuda(cudaStreamSynchronize(stream));
    }
    cuda(cudaMemcpy(&host, values, sizeof host, cudaMemcpyDeviceToHost));
    printf("rank %d: %g\n", rank, host);
    nccl(ncclCommDestroy(tensor));
    nccl(ncclCommDestroy(pipe));
    c10d_client_close(store);
    return 0;
}
