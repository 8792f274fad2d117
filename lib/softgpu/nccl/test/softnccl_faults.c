/* Mistakes and deaths: reported to every rank, never a hang. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

/* After an error: the stream has gone on, calls are refused, the text names what happened. */
static void expect_error(ncclComm_t comm, ncclResult_t result, const char *one, const char *other)
{
    int32_t *buffer = device_buffer(NULL, 4);
    CHECK(wait_async_error(comm) == result);
    if (!strstr(ncclGetLastError(comm), one) || !strstr(ncclGetLastError(comm), other))
        rank_fail(one, 0, other);
    CUDA(cudaDeviceSynchronize());
    CHECK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, NULL) == result);
    NCCL(ncclCommAbort(comm));
}

/* A rank that comes late may already be refused. */
#define LATE(call)                                                                                           \
    do {                                                                                                     \
        ncclResult_t late_ = (call);                                                                         \
        CHECK(late_ == ncclSuccess || late_ == ncclInvalidUsage || late_ == ncclRemoteError);                \
    } while (0)

enum mistake { COUNT, DATATYPE, REDUCTION, ROOT, OPERATION, MESSAGE_COUNT, MESSAGE_TYPE, CROSSED, MISTAKES };

static void mismatch(struct rank *rank)
{
    enum mistake mistake = (enum mistake)(intptr_t)rank->argument;
    bool odd = rank->rank == 1;
    ncclComm_t comm = make_comm(rank);
    char *buffer = device_buffer(NULL, 1 << 20);
    const char *one = "but rank", *other = "rank 1 calls";
    switch (mistake) {
    case COUNT:
        LATE(ncclAllReduce(buffer, buffer, odd ? 12 : 10, ncclFloat32, ncclSum, comm, NULL));
        break;
    case DATATYPE:
        LATE(ncclAllReduce(buffer, buffer, 10, odd ? ncclFloat32 : ncclInt32, ncclSum, comm, NULL));
        break;
    case REDUCTION:
        LATE(ncclAllReduce(buffer, buffer, 10, ncclInt32, odd ? ncclMax : ncclSum, comm, NULL));
        break;
    case ROOT:
        LATE(ncclBroadcast(buffer, buffer, 10, ncclInt32, odd, comm, NULL));
        break;
    case OPERATION:
        if (odd)
            LATE(ncclAllGather(buffer, buffer + 4096, 10, ncclInt32, comm, NULL));
        else
            LATE(ncclReduceScatter(buffer, buffer, 10, ncclInt32, ncclSum, comm, NULL));
        break;
    case MESSAGE_COUNT:
    case MESSAGE_TYPE:
        one = "ncclSend";
        other = "ncclRecv";
        if (odd)
            LATE(ncclSend(buffer, 100000, ncclFloat32, 0, comm, NULL));
        else if (rank->rank == 0 && mistake == MESSAGE_COUNT)
            LATE(ncclRecv(buffer, 100001, ncclFloat32, 1, comm, NULL));
        else if (rank->rank == 0)
            LATE(ncclRecv(buffer, 400000, ncclInt8, 1, comm, NULL));
        break;
    default: /* a collective on one rank, messages on the others */
        one = "ncclAllReduce";
        other = "wait for each other";
        if (odd)
            LATE(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, NULL));
        else
            LATE(ncclRecv(buffer, 1, ncclInt32, 1, comm, NULL));
        break;
    }
    expect_error(comm, ncclInvalidUsage, one, other);
}

static void test_mismatch(void **state)
{
    for (intptr_t mistake = 0; mistake < MISTAKES; mistake++)
        run_ranks(3, mismatch, (void *)mistake, (struct options){0});
}

static void killed(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    float *buffer = device_buffer(NULL, 4096);
    NCCL(ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    if (rank->rank == rank->ranks - 1)
        raise(SIGKILL);
    LATE(ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, NULL));
    expect_error(comm, ncclRemoteError, "rank 2", "ended");
}

static void test_killed(void **state)
{
    run_ranks(3, killed, NULL, (struct options){.killed = 1});
    run_ranks(3, killed, NULL, (struct options){.killed = 1, .tcp = true});
}

/* The process that made the unique id dies: here the last rank does. */
static void server_killed(struct rank *rank)
{
    if (rank->rank == rank->ranks - 1)
        NCCL(ncclGetUniqueId((ncclUniqueId *)(void *)shared_slot(0)));
    meet();
    memcpy(&rank->id, shared_slot(0), sizeof(rank->id));
    ncclComm_t comm = make_comm(rank);
    meet();
    if (rank->rank == rank->ranks - 1)
        raise(SIGKILL);
    CHECK(wait_async_error(comm) == ncclRemoteError);
    NCCL(ncclCommAbort(comm));
}

static void test_server_killed(void **state)
{
    run_ranks(3, server_killed, NULL, (struct options){.killed = 1});
}

/* Abort frees the own stream; the others, who wait for this rank, are told. */
static void aborts(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    cudaStream_t a, b;
    float *buffer = device_buffer(NULL, 1 << 20);
    CUDA(cudaStreamCreate(&a));
    CUDA(cudaStreamCreate(&b));
    meet();
    if (rank->rank == 0) {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(buffer, 1 << 18, ncclFloat32, 1, comm, a));
        NCCL(ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, b));
        NCCL(ncclGroupEnd());
        NCCL(ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, b));
        usleep(20000);
        CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
        NCCL(ncclCommAbort(comm));
        CUDA(cudaStreamSynchronize(a));
        CUDA(cudaStreamSynchronize(b));
    } else {
        LATE(ncclAllReduce(buffer, buffer, 100, ncclFloat32, ncclSum, comm, a));
        CHECK(wait_async_error(comm) == ncclRemoteError);
        CUDA(cudaStreamSynchronize(a));
        NCCL(ncclCommAbort(comm));
    }
}

static void test_aborts(void **state)
{
    run_ranks(2, aborts, NULL, (struct options){0});
}

static void waits_for_one_that_left(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    float *buffer = device_buffer(NULL, 1 << 20);
    if (rank->rank == 1) {
        NCCL(ncclCommDestroy(comm));
        meet();
        return;
    }
    meet();
    LATE(ncclSend(buffer, 1 << 18, ncclFloat32, 1, comm, NULL));
    expect_error(comm, ncclRemoteError, "rank 1", "left");
}

static void test_waits_for_one_that_left(void **state)
{
    run_ranks(2, waits_for_one_that_left, NULL, (struct options){0});
}

/* After a rank has died the others shrink the communicator and go on. */
static void shrink_after_death(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank), child;
    int excluded = rank->ranks - 1, count;
    int32_t host = 1, *buffer = device_buffer(&host, 4);
    meet();
    if (rank->rank == excluded)
        raise(SIGKILL);
    LATE(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, NULL));
    CHECK(wait_async_error(comm) == ncclRemoteError);
    NCCL(ncclCommShrink(comm, &excluded, 1, &child, NULL, NCCL_SHRINK_ABORT));
    NCCL(ncclCommCount(child, &count));
    CHECK(count == rank->ranks - 1);
    CUDA(cudaMemcpy(buffer, &host, 4, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, child, NULL));
    CUDA(cudaMemcpy(&host, buffer, 4, cudaMemcpyDeviceToHost));
    CHECK(host == rank->ranks - 1);
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommAbort(comm));
}

static void test_shrink_after_death(void **state)
{
    run_ranks(4, shrink_after_death, NULL, (struct options){.killed = 1});
}

static void revokes(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank), child;
    ncclResult_t error;
    float *buffer = device_buffer(NULL, 4);
    if (rank->rank == 0)
        NCCL(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, comm, NULL));
    meet();
    NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    CUDA(cudaStreamSynchronize(NULL));
    NCCL(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclSuccess);
    CHECK(ncclCommRevoke(comm, 1) == ncclInvalidArgument);
    CHECK(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess);
    NCCL(ncclCommSplit(comm, 0, 0, &child, NULL));
    NCCL(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, child, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommDestroy(comm));
}

static void test_revokes(void **state)
{
    run_ranks(2, revokes, NULL, (struct options){0});
}

/* A forked helper holds nothing of the communicator: the death of its parent is still seen. */
static void forked_helper(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    if (rank->rank == 1) {
        if (fork() == 0) {
            sleep(2);
            _exit(0);
        }
        raise(SIGKILL);
    }
    CHECK(wait_async_error(comm) == ncclRemoteError);
    NCCL(ncclCommAbort(comm));
}

static void test_forked_helper(void **state)
{
    run_ranks(2, forked_helper, NULL, (struct options){.killed = 1});
}

static void unreachable(struct rank *rank)
{
    ncclComm_t comm;
    if (rank->rank == 1) { /* makes an id and is gone */
        NCCL(ncclGetUniqueId((ncclUniqueId *)(void *)shared_slot(0)));
        meet();
        return;
    }
    memset(&rank->id, 0, sizeof(rank->id));
    CHECK(ncclCommInitRank(&comm, 2, rank->id, 0) == ncclInvalidArgument);
    meet();
    usleep(200000);
    memcpy(&rank->id, shared_slot(0), sizeof(rank->id));
    CHECK(ncclCommInitRank(&comm, 2, rank->id, 0) == ncclSystemError && comm == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "cannot reach"));
}

static void test_unreachable(void **state)
{
    run_ranks(2, unreachable, NULL, (struct options){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_server_killed),
        cmocka_unit_test(test_aborts),
        cmocka_unit_test(test_waits_for_one_that_left),
        cmocka_unit_test(test_shrink_after_death),
        cmocka_unit_test(test_revokes),
        cmocka_unit_test(test_forked_helper),
        cmocka_unit_test(test_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
