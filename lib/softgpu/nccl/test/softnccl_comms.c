/* Making, asking, splitting, shrinking and ending communicators. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

static int count_of(ncclComm_t comm)
{
    int count;
    NCCL(ncclCommCount(comm, &count));
    return count;
}

static int rank_of(ncclComm_t comm)
{
    int rank;
    NCCL(ncclCommUserRank(comm, &rank));
    return rank;
}

/* Every rank's number in `comm` summed up: proves that the communicator works. */
static void try_out(ncclComm_t comm)
{
    int32_t host = rank_of(comm) + 1, n = count_of(comm), *buffer = device_buffer(&host, 4);
    NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    CUDA(cudaMemcpy(&host, buffer, 4, cudaMemcpyDeviceToHost));
    CHECK(host == n * (n + 1) / 2);
    CUDA(cudaFree(buffer));
}

static void wait_ready(ncclComm_t comm)
{
    ncclResult_t state;
    do {
        NCCL(ncclCommGetAsyncError(comm, &state));
        usleep(1000);
    } while (state == ncclInProgress);
    CHECK(state == ncclSuccess);
}

static void questions(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    ncclResult_t error;
    int version, device;
    void *memory, *handle;
    ncclWindow_t window;
    NCCL(ncclGetVersion(&version));
    CHECK(version == 22809);
    CHECK(count_of(comm) == rank->ranks && rank_of(comm) == rank->rank);
    NCCL(ncclCommCuDevice(comm, &device));
    CHECK(device == 0);
    NCCL(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclSuccess);
    CHECK(pncclCommCount(comm, &device) == ncclSuccess && device == rank->ranks);
    NCCL(ncclMemAlloc(&memory, 1 << 20));
    NCCL(ncclCommRegister(comm, memory, 1 << 20, &handle));
    NCCL(ncclCommDeregister(comm, handle));
    NCCL(ncclCommWindowRegister(comm, memory, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
    NCCL(ncclCommWindowDeregister(comm, window));
    NCCL(ncclMemFree(memory));
    CHECK(ncclAllReduce(NULL, NULL, 4, ncclFloat32, ncclSum, comm, NULL) == ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(comm), "ncclAllReduce"));
    CHECK(ncclBroadcast(&device, &device, 1, ncclInt32, rank->ranks, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclAllReduce(&device, &device, 1, ncclInt32, (ncclRedOp_t)77, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclAllReduce(&device, &device, 1, (ncclDataType_t)77, ncclSum, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclCommCount(NULL, &device) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    NCCL(ncclGroupStart());
    CHECK(ncclSend(&device, 1, ncclInt32, -1, comm, NULL) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument);                         /* and nothing was launched */
    NCCL(ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL)); /* nothing to do */
    try_out(comm);
    NCCL(ncclCommFinalize(comm));
    NCCL(ncclCommDestroy(comm));
}

static void test_questions(void **state)
{
    run_ranks(2, questions, NULL, (struct options){0});
}

static void splits(struct rank *rank)
{
    ncclComm_t world = make_comm(rank), child, grandchild;
    int me = rank->rank, n = rank->ranks;
    /* Colours by parity, keys backwards. */
    NCCL(ncclCommSplit(world, me % 2, -me, &child, NULL));
    int members = (n - me % 2 + 1) / 2;
    CHECK(count_of(child) == members && rank_of(child) == members - 1 - me / 2);
    try_out(child);
    /* Equal keys keep the parent's order; rank 1 stays out. */
    NCCL(ncclCommSplit(world, me == 1 ? NCCL_SPLIT_NOCOLOR : 7, 0, &grandchild, NULL));
    if (me == 1) {
        CHECK(grandchild == NULL);
    } else {
        CHECK(count_of(grandchild) == n - 1 && rank_of(grandchild) == (me ? me - 1 : 0));
        try_out(grandchild);
        NCCL(ncclCommDestroy(grandchild));
    }
    NCCL(ncclCommSplit(child, 0, 0, &grandchild, NULL));
    try_out(grandchild);
    NCCL(ncclCommDestroy(child)); /* before its child */
    try_out(grandchild);
    NCCL(ncclCommDestroy(grandchild));
    /* Two in one group. */
    NCCL(ncclGroupStart());
    NCCL(ncclCommSplit(world, me / 2, 0, &child, NULL));
    NCCL(ncclCommSplit(world, 0, 0, &grandchild, NULL));
    NCCL(ncclGroupEnd());
    try_out(child);
    try_out(grandchild);
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommDestroy(grandchild));
    CHECK(ncclCommSplit(world, -5, 0, &child, NULL) == ncclInvalidArgument);
    NCCL(ncclCommDestroy(world));
}

static void test_splits(void **state)
{
    run_ranks(5, splits, NULL, (struct options){0});
    run_ranks(4, splits, NULL, (struct options){.ranks_per_node = 2, .tcp = true});
}

static void shrinks(struct rank *rank)
{
    ncclComm_t world = make_comm(rank), child;
    int excluded[] = {3, 1};
    if (rank->rank != 1 && rank->rank != 3) {
        NCCL(ncclCommShrink(world, excluded, 2, &child, NULL, NCCL_SHRINK_DEFAULT));
        CHECK(count_of(child) == 3 && rank_of(child) == rank->rank / 2);
        try_out(child);
        NCCL(ncclCommDestroy(child));
    }
    meet();
    CHECK(ncclCommShrink(world, &rank->rank, 1, &child, NULL, 0) == ncclInvalidArgument);
    NCCL(ncclCommDestroy(world));
}

static void test_shrinks(void **state)
{
    run_ranks(5, shrinks, NULL, (struct options){0});
}

static void non_blocking(struct rank *rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm, child;
    ncclResult_t state;
    config.blocking = 0;
    config.commName = "shy";
    if (rank->rank == 0) {
        ncclResult_t result = ncclCommInitRankConfig(&comm, rank->ranks, rank->id, rank->rank, &config);
        CHECK(result == ncclInProgress);
        NCCL(ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclInProgress); /* the others have not come */
        CHECK(ncclAllReduce(&state, &state, 1, ncclInt32, ncclSum, comm, NULL) == ncclInvalidArgument);
        meet();
    } else {
        meet();
        ncclResult_t result = ncclCommInitRankConfig(&comm, rank->ranks, rank->id, rank->rank, &config);
        CHECK(result == ncclInProgress || result == ncclSuccess);
    }
    wait_ready(comm);
    try_out(comm);
    ncclResult_t result = ncclCommSplit(comm, 0, 0, &child, NULL);
    CHECK(result == ncclInProgress || result == ncclSuccess);
    wait_ready(child);
    try_out(child);
    result = ncclCommFinalize(child);
    CHECK(result == ncclInProgress || result == ncclSuccess);
    wait_ready(child);
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommDestroy(comm));
}

static void test_non_blocking(void **state)
{
    run_ranks(3, non_blocking, NULL, (struct options){0});
}

/* One process with four devices: ncclCommInitAll, and ncclCommInitRank in a group. */
static void one_process(struct rank *rank)
{
    enum { N = 4 };
    ncclComm_t comms[N];
    ncclUniqueId id;
    cudaStream_t streams[N];
    int32_t host, *buffers[N];
    for (int way = 0; way < 2; way++) {
        if (way == 0) {
            NCCL(ncclCommInitAll(comms, N, NULL));
        } else {
            NCCL(ncclGetUniqueId(&id));
            NCCL(ncclGroupStart());
            for (int i = 0; i < N; i++) {
                CUDA(cudaSetDevice(i));
                NCCL(ncclCommInitRank(&comms[i], N, id, i));
            }
            NCCL(ncclGroupEnd());
        }
        NCCL(ncclGroupStart());
        for (int i = 0; i < N; i++) {
            CUDA(cudaSetDevice(i));
            CUDA(cudaStreamCreate(&streams[i]));
            host = i + 1;
            buffers[i] = device_buffer(&host, 4);
            NCCL(ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, ncclProd, comms[i], streams[i]));
        }
        NCCL(ncclGroupEnd());
        for (int i = 0; i < N; i++) {
            CUDA(cudaSetDevice(i));
            CUDA(cudaStreamSynchronize(streams[i]));
            CUDA(cudaMemcpy(&host, buffers[i], 4, cudaMemcpyDeviceToHost));
            CHECK(host == 24);
            NCCL(ncclCommDestroy(comms[i]));
        }
    }
}

static void test_one_process(void **state)
{
    run_ranks(1, one_process, NULL, (struct options){.environment = "CUDA_VISIBLE_DEVICES=0,1,2,3"});
}

/* Ranks that share a device are refused, as by NCCL, unless NCCL_HOSTID differs. */
static void shared_device(struct rank *rank)
{
    ncclComm_t comm;
    char text[16];
    CHECK(ncclCommInitRank(&comm, rank->ranks, rank->id, rank->rank) == ncclInvalidUsage && comm == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "NCCL_HOSTID"));
    meet();
    if (rank->rank == 0)
        NCCL(ncclGetUniqueId((ncclUniqueId *)(void *)shared_slot(0)));
    meet();
    memcpy(&rank->id, shared_slot(0), sizeof(rank->id));
    snprintf(text, sizeof(text), "host%d", rank->rank);
    setenv("NCCL_HOSTID", text, 1);
    comm = make_comm(rank);
    try_out(comm);
    NCCL(ncclCommDestroy(comm));
}

static void test_shared_device(void **state)
{
    run_ranks(2, shared_device, NULL, (struct options){.environment = "CUDA_VISIBLE_DEVICES=0"});
}

static void wrong_size(struct rank *rank)
{
    ncclComm_t comm;
    CHECK(ncclCommInitRank(&comm, rank->rank == 1 ? 3 : 2, rank->id, rank->rank) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(NULL), "ranks"));
    meet();
}

static void test_wrong_size(void **state)
{
    run_ranks(2, wrong_size, NULL, (struct options){0});
}

/* The rank that made the unique id ends first; the others go on without it. */
static void creator_leaves_first(struct rank *rank)
{
    ncclComm_t comm = make_comm(rank);
    int32_t host = 0, *buffer = device_buffer(NULL, 4);
    try_out(comm);
    if (rank->rank == 0) {
        if (rank->argument) /* else it just exits */
            NCCL(ncclCommDestroy(comm));
        meet();
        return;
    }
    meet();
    usleep(100000);
    for (int i = 0; i < 10; i++) {
        if (rank->rank == 1)
            NCCL(ncclSend(buffer, 1, ncclInt32, 2, comm, NULL));
        else
            NCCL(ncclRecv(buffer, 1, ncclInt32, 1, comm, NULL));
        CUDA(cudaStreamSynchronize(NULL));
    }
    CUDA(cudaMemcpy(&host, buffer, 4, cudaMemcpyDeviceToHost));
    ncclResult_t error;
    NCCL(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclSuccess);
    NCCL(ncclCommDestroy(comm));
}

static void test_creator_leaves_first(void **state)
{
    run_ranks(3, creator_leaves_first, "destroys", (struct options){0});
    run_ranks(3, creator_leaves_first, NULL, (struct options){0});
}

static void simulate(struct rank *rank)
{
    ncclSimInfo_t small = NCCL_SIM_INFO_INITIALIZER, large = NCCL_SIM_INFO_INITIALIZER;
    ncclComm_t comm = make_comm(rank);
    float *buffer = device_buffer(NULL, 1 << 20);
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(buffer, buffer, 1 << 10, ncclFloat32, ncclSum, comm, NULL));
    NCCL(ncclGroupSimulateEnd(&small));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(buffer, buffer, 1 << 18, ncclFloat32, ncclSum, comm, NULL));
    NCCL(ncclGroupSimulateEnd(&large));
    CHECK(small.estimatedTime > 0 && large.estimatedTime > small.estimatedTime);
    try_out(comm); /* nothing was launched */
    NCCL(ncclCommDestroy(comm));
}

static void test_simulate(void **state)
{
    run_ranks(2, simulate, NULL, (struct options){0});
}

/* Every function of nccl.h is there under both its names. */
static void test_symbols(void **state)
{
#define BOTH(result, name, parameters, arguments)                                                            \
    assert_non_null(dlsym(RTLD_DEFAULT, "nccl" #name));                                                      \
    assert_non_null(dlsym(RTLD_DEFAULT, "pnccl" #name));
    PRISM_NCCL_FUNCTIONS(BOTH)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions),   cmocka_unit_test(test_splits),
        cmocka_unit_test(test_shrinks),     cmocka_unit_test(test_non_blocking),
        cmocka_unit_test(test_one_process), cmocka_unit_test(test_shared_device),
        cmocka_unit_test(test_wrong_size),  cmocka_unit_test(test_creator_leaves_first),
        cmocka_unit_test(test_simulate),    cmocka_unit_test(test_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
