/* Sends, receives and groups: random sizes, several streams, several communicators, eager sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ranks.h"

/* Elements from rank a to rank b in round k: also none, and some beyond the eager limit. */
static size_t amount(int a, int b, int k)
{
    unsigned x = (unsigned)(a * 1009 + b * 9176 + k * 31337 + 7);
    x = (x ^ x >> 3) * 2654435761u;
    return x % 5 == 0 ? 0 : (x >> 8) % (x % 3 == 0 ? 30000 : 300);
}

static int32_t word(int a, int b, int k, size_t i)
{
    return (int32_t)(a * 1000003 + b * 10007 + k * 101 + (int)i);
}

static void exchange(struct rank *rank, ncclComm_t comm, cudaStream_t stream, int round)
{
    int n = rank->ranks, me = rank->rank;
    int32_t *host = malloc(30000 * sizeof(int32_t));
    void *out[16], *in[16];
    for (int peer = 0; peer < n; peer++) {
        for (size_t i = 0; i < amount(me, peer, round); i++)
            host[i] = word(me, peer, round, i);
        out[peer] = device_buffer(host, amount(me, peer, round) * sizeof(int32_t));
        in[peer] = device_buffer(NULL, amount(peer, me, round) * sizeof(int32_t));
    }
    NCCL(ncclGroupStart());
    for (int k = 0; k < n; k++) {
        int to = (me + k) % n, from = (me + n - k) % n;
        NCCL(ncclSend(out[to], amount(me, to, round), ncclInt32, to, comm, stream));
        NCCL(ncclGroupStart()); /* nested */
        NCCL(ncclRecv(in[from], amount(from, me, round), ncclInt32, from, comm, stream));
        NCCL(ncclGroupEnd());
    }
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(stream));
    for (int peer = 0; peer < n; peer++) {
        size_t count = amount(peer, me, round);
        CUDA(cudaMemcpy(host, in[peer], count * sizeof(int32_t), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; i++)
            CHECK(host[i] == word(peer, me, round, i));
        CUDA(cudaFree(out[peer]));
        CUDA(cudaFree(in[peer]));
    }
    free(host);
}

static void variable_all_to_all(struct rank *rank)
{
    cudaStream_t stream;
    ncclComm_t comm = make_comm(rank);
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 20; round++)
        exchange(rank, comm, stream, round);
    NCCL(ncclCommDestroy(comm));
}

static void test_variable_all_to_all(void **state)
{
    run_ranks(4, variable_all_to_all, NULL, (struct options){0});
    run_ranks(4, variable_all_to_all, NULL, (struct options){.tcp = true});
}

/* Many communicators and streams of one process at once; operations of each in their own order. */
static void many_streams(struct rank *rank)
{
    enum { COMMS = 6, ROUNDS = 8, COUNT = 2000 };
    ncclComm_t world = make_comm(rank), comms[COMMS];
    cudaStream_t streams[COMMS];
    int64_t *buffers[COMMS], host[COUNT];
    for (int c = 0; c < COMMS; c++) {
        NCCL(ncclCommSplit(world, 0, c % 2 ? -rank->rank : rank->rank, &comms[c], NULL));
        CUDA(cudaStreamCreateWithFlags(&streams[c], cudaStreamNonBlocking));
        for (int i = 0; i < COUNT; i++)
            host[i] = rank->rank + 1 + c;
        buffers[c] = device_buffer(host, sizeof(host));
    }
    for (int k = 0; k < ROUNDS; k++)
        for (int c = 0; c < COMMS; c++) {
            int turn = rank->rank % 2 ? COMMS - 1 - c : c; /* no order between communicators */
            NCCL(ncclAllReduce(buffers[turn], buffers[turn], COUNT, ncclInt64, ncclSum, comms[turn],
                               streams[turn]));
        }
    CUDA(cudaDeviceSynchronize());
    for (int c = 0; c < COMMS; c++) {
        int64_t expected = 0;
        for (int r = 0; r < rank->ranks; r++)
            expected += r + 1 + c;
        for (int k = 1; k < ROUNDS; k++)
            expected *= rank->ranks;
        CUDA(cudaMemcpy(host, buffers[c], sizeof(host), cudaMemcpyDeviceToHost));
        CHECK(host[0] == expected && host[COUNT - 1] == expected);
        NCCL(ncclCommDestroy(comms[c]));
    }
    NCCL(ncclCommDestroy(world));
}

static void test_many_streams(void **state)
{
    run_ranks(4, many_streams, NULL, (struct options){0});
}

static void slow_host_function(void *flag)
{
    struct timespec ts = {.tv_nsec = 50000000};
    nanosleep(&ts, NULL);
    *(volatile int64_t *)flag = 1;
}

/* A group over two streams begins when both have come, and both go on when it has ended. */
static void group_of_two_streams(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    cudaStream_t a, b;
    int64_t host = 5, late = 0;
    int64_t *x = device_buffer(&host, 8), *y = device_buffer(&host, 8), *z = device_buffer(NULL, 8);
    CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CUDA(cudaLaunchHostFunc(b, slow_host_function, &late));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(x, x, 1, ncclInt64, ncclSum, comm, a));
    NCCL(ncclAllReduce(y, y, 1, ncclInt64, ncclSum, comm, b));
    NCCL(ncclGroupEnd());
    CUDA(cudaMemcpyAsync(z, y, 8, cudaMemcpyDeviceToDevice, a));
    CUDA(cudaStreamSynchronize(a));
    CHECK(late == 1);
    CUDA(cudaMemcpy(&host, z, 8, cudaMemcpyDeviceToHost));
    CHECK(host == 5 * rank->ranks);
    CUDA(cudaMemcpy(&host, x, 8, cudaMemcpyDeviceToHost));
    CHECK(host == 5 * rank->ranks);
    NCCL(ncclCommDestroy(comm));
}

static void test_group_of_two_streams(void **state)
{
    run_ranks(3, group_of_two_streams, NULL, (struct options){0});
}

/* Small sends end without their receiver and keep their bytes; messages between two ranks stay in order. */
static void eager(struct rank *rank)
{
    enum { MESSAGES = 50 };
    ncclComm_t comm = make_comm(rank);
    int32_t host = 0, *buffer = device_buffer(NULL, 4);
    if (rank->rank == 0) {
        for (host = 0; host < MESSAGES; host++) {
            CUDA(cudaMemcpy(buffer, &host, 4, cudaMemcpyHostToDevice));
            NCCL(ncclSend(buffer, 1, ncclInt32, 1, comm, NULL));
            CUDA(cudaStreamSynchronize(NULL));
        }
        meet();
    } else {
        meet(); /* all sends have ended */
        for (int i = 0; i < MESSAGES; i++) {
            NCCL(ncclRecv(buffer, 1, ncclInt32, 0, comm, NULL));
            CUDA(cudaMemcpy(&host, buffer, 4, cudaMemcpyDeviceToHost));
            CHECK(host == i);
        }
    }
    NCCL(ncclCommDestroy(comm));
}

static void test_eager(void **state)
{
    run_ranks(2, eager, NULL, (struct options){0});
}

/* The host never waits for peers. */
static void host_goes_on(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    float *buffer = device_buffer(NULL, 4096);
    if (rank->rank == 0) {
        for (int i = 0; i < 20; i++)
            NCCL(ncclAllReduce(buffer, buffer, 1000, ncclFloat32, ncclSum, comm, NULL));
        CHECK(cudaStreamQuery(NULL) == cudaErrorNotReady);
        meet();
    } else {
        meet();
        for (int i = 0; i < 20; i++)
            NCCL(ncclAllReduce(buffer, buffer, 1000, ncclFloat32, ncclSum, comm, NULL));
    }
    CUDA(cudaStreamSynchronize(NULL));
    NCCL(ncclCommDestroy(comm));
}

static void test_host_goes_on(void **state)
{
    run_ranks(2, host_goes_on, NULL, (struct options){0});
}

static void barrier_loop(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    float *buffer = device_buffer(NULL, 4);
    for (int i = 0; i < 20; i++) {
        NCCL(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, comm, NULL));
        CUDA(cudaStreamSynchronize(NULL));
    }
    NCCL(ncclCommDestroy(comm));
}

static void test_32_ranks(void **state)
{
    run_ranks(32, barrier_loop, NULL, (struct options){0});
}

static void test_two_nodes(void **state)
{
    run_ranks(6, variable_all_to_all, NULL, (struct options){.ranks_per_node = 3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variable_all_to_all),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_group_of_two_streams),
        cmocka_unit_test(test_eager),
        cmocka_unit_test(test_host_goes_on),
        cmocka_unit_test(test_32_ranks),
        cmocka_unit_test(test_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
