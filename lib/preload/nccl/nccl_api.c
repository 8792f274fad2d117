/* nccl_api.c - every function of nccl.h, under both of its names (nccl*, and pnccl* for profilers); newer ones: nccl_more.c.
 *
 * In a process that is no rank they are NCCL's. In a rank NCCL itself is asked only for its version and texts; what the
 * program holds as ncclComm_t is ours. rank_X is what a rank does for ncclX.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <nccl.h>

#include "common/log.h"
#include "preload/nccl/comm.h"
#include "preload/nccl/group.h"
#include "preload/preload.h"
#include "preload/real.h"

/* --- the exported functions --- */

/* Asked by processes that never communicate, too: they do not make a process its rank. */
#define PASSIVE_GetVersion ~, never
#define PASSIVE_GetErrorString ~, never
#define PASSIVE_ResetDebugInit ~, never
#define ENTER_PICK(a, b, ...) b
#define ENTER_(...) ENTER_PICK(__VA_ARGS__)
#define ENTER(name) ENTER_(PASSIVE_##name, frame_enter, ~)

static bool never(void)
{
    return false;
}

static void leave(bool *ours)
{
    if (*ours)
        frame_leave();
}

/* Ends the process, as the dynamic linker would have, unless the function can be answered without NCCL. */
static void missing(const char *name)
{
    if (!strcmp(name, "GetVersion") || !strcmp(name, "GetErrorString") || !strcmp(name, "ResetDebugInit"))
        return;
    dprintf(STDERR_FILENO, "prism: nccl%s was called, but there is no libnccl.so.2\n", name);
    _exit(127);
}

#define EXPORT(result, name, parameters, arguments)                                               \
    static result rank_##name parameters;                                                         \
    PRISM_EXPORT result nccl##name parameters                                                     \
    {                                                                                             \
        __attribute__((cleanup(leave))) bool ours = ENTER(name)();                                \
        if (ours)                                                                                 \
            return rank_##name arguments;                                                         \
        __typeof__(&nccl##name) real = REAL_NAMED(REAL_NCCL, nccl##name, "nccl" #name);           \
        if (real)                                                                                 \
            return real arguments;                                                                \
        missing(#name);                                                                           \
        return rank_##name arguments;                                                             \
    }                                                                                             \
    PRISM_EXPORT result pnccl##name parameters                                                    \
    {                                                                                             \
        return nccl##name arguments;                                                              \
    }
PRISM_NCCL_FUNCTIONS(EXPORT)

/* --- library --- */

static ncclResult_t rank_GetVersion(int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

static const char *rank_GetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        "no error",         "a CUDA call failed", "a system call failed",       "internal error",
        "invalid argument", "invalid usage",      "a remote process has failed", "in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

static const char *rank_GetLastError(ncclComm_t comm)
{
    return "";
}

static void rank_ResetDebugInit(void)
{
}

/* --- memory --- */

/* Memory of the program like any other: left to our cuMemAlloc and cuMemFree, outside of this frame. */
static ncclResult_t rank_MemAlloc(void **ptr, size_t size)
{
    CUdeviceptr pointer = 0;
    if (!ptr)
        return ncclInvalidArgument;
    frame.depth--;
    CUresult r = cuMemAlloc(&pointer, size);
    frame.depth++;
    if (r)
        return ncclUnhandledCudaError;
    *ptr = (void *)(uintptr_t)pointer;
    return ncclSuccess;
}

static ncclResult_t rank_MemFree(void *ptr)
{
    if (!ptr)
        return ncclSuccess;
    frame.depth--;
    CUresult r = cuMemFree((CUdeviceptr)(uintptr_t)ptr);
    frame.depth++;
    return r ? ncclUnhandledCudaError : ncclSuccess;
}

/* --- communicators --- */

static ncclResult_t rank_GetUniqueId(ncclUniqueId *id)
{
    return comm_unique_id(id);
}

static ncclResult_t rank_CommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                            ncclConfig_t *config)
{
    return comm_init(comm, nranks, &id, rank);
}

static ncclResult_t rank_CommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return comm_init(comm, nranks, &id, rank);
}

static ncclResult_t rank_CommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids,
                                              ncclConfig_t *config)
{
    return nids < 1 ? ncclInvalidArgument : comm_init(comm, nranks, ids, rank);
}

static ncclResult_t rank_CommInitAll(ncclComm_t *comms, int ndev, const int *devices)
{
    ncclUniqueId id;
    if (ndev != 1)
        session_fatal(PRISM_EXIT_UNSUPPORTED,
                      "rank %u: ncclCommInitAll over %d devices: Prism runs one process a device; start the program with one "
                      "task a device", session.rank, ndev);
    ncclResult_t r = comm_unique_id(&id);
    return r ? r : comm_init(comms, 1, &id, 0);
}

static ncclResult_t rank_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    return comm_split(comm_of(comm), color, key, child);
}

static ncclResult_t rank_CommShrink(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child,
                                    ncclConfig_t *config, int flags)
{
    session_fatal(PRISM_EXIT_UNSUPPORTED, "rank %u: ncclCommShrink: Prism cannot serve programs that go on without some of "
                  "their ranks", session.rank);
}

static ncclResult_t rank_CommFinalize(ncclComm_t comm)
{
    return comm_of(comm) ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t rank_CommDestroy(ncclComm_t comm)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return comm ? ncclInvalidArgument : ncclSuccess;
    comm_free(c);
    return ncclSuccess;
}

static ncclResult_t rank_CommAbort(ncclComm_t comm)
{
    return rank_CommDestroy(comm);
}

static ncclResult_t rank_CommRevoke(ncclComm_t comm, int flags)
{
    return comm_of(comm) ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t rank_CommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm_of(comm) || !error)
        return ncclInvalidArgument;
    *error = ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t rank_CommCount(const ncclComm_t comm, int *count)
{
    struct comm *c = comm_of(comm);
    if (!c || !count)
        return ncclInvalidArgument;
    *count = c->size;
    return ncclSuccess;
}

static ncclResult_t rank_CommUserRank(const ncclComm_t comm, int *rank)
{
    struct comm *c = comm_of(comm);
    if (!c || !rank)
        return ncclInvalidArgument;
    *rank = c->rank;
    return ncclSuccess;
}

static ncclResult_t rank_CommCuDevice(const ncclComm_t comm, int *device)
{
    struct comm *c = comm_of(comm);
    if (!c || !device)
        return ncclInvalidArgument;
    *device = c->device;
    return ncclSuccess;
}

/* --- registration: a hint to NCCL, of no use to gates --- */

static ncclResult_t rank_CommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
    if (!comm_of(comm) || !handle)
        return ncclInvalidArgument;
    *handle = buffer;
    return ncclSuccess;
}

static ncclResult_t rank_CommDeregister(const ncclComm_t comm, void *handle)
{
    return comm_of(comm) ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t rank_CommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)
{
    if (!comm_of(comm) || !window)
        return ncclInvalidArgument;
    *window = (ncclWindow_t)buffer;
    return ncclSuccess;
}

static ncclResult_t rank_CommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return comm_of(comm) ? ncclSuccess : ncclInvalidArgument;
}

/* --- reduction operations --- */

static ncclResult_t rank_RedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                              ncclScalarResidence_t residence, ncclComm_t comm)
{
    return comm_redop_create(comm_of(comm), op, scalar, datatype, residence);
}

static ncclResult_t rank_RedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    return comm_redop_destroy(comm_of(comm), op);
}

/* --- operations --- */

static ncclResult_t add(enum prism_op op, const void *send, void *recv, size_t count, ncclDataType_t datatype, int redop,
                        int peer, ncclComm_t comm, cudaStream_t stream)
{
    struct operation o = {.op = op,
                          .comm = comm_of(comm),
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .datatype = (int)datatype,
                          .redop = redop,
                          .peer = peer,
                          .stream = stream};
    return group_add(&o);
}

static ncclResult_t rank_Reduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_REDUCE, send, recv, count, datatype, (int)op, root, comm, stream);
}

static ncclResult_t rank_Bcast(void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
    return add(PRISM_OP_BROADCAST, buffer, buffer, count, datatype, 0, root, comm, stream);
}

static ncclResult_t rank_Broadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_BROADCAST, send, recv, count, datatype, 0, root, comm, stream);
}

static ncclResult_t rank_AllReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_ALLREDUCE, send, recv, count, datatype, (int)op, -1, comm, stream);
}

static ncclResult_t rank_ReduceScatter(const void *send, void *recv, size_t recvcount, ncclDataType_t datatype,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_REDUCESCATTER, send, recv, recvcount, datatype, (int)op, -1, comm, stream);
}

static ncclResult_t rank_AllGather(const void *send, void *recv, size_t sendcount, ncclDataType_t datatype,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_ALLGATHER, send, recv, sendcount, datatype, 0, -1, comm, stream);
}

static ncclResult_t rank_AlltoAll(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                                  cudaStream_t stream)
{
    return add(PRISM_OP_ALLTOALL, send, recv, count, datatype, 0, -1, comm, stream);
}

static ncclResult_t rank_Gather(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                                ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_GATHER, send, recv, count, datatype, 0, root, comm, stream);
}

static ncclResult_t rank_Scatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                                 ncclComm_t comm, cudaStream_t stream)
{
    return add(PRISM_OP_SCATTER, send, recv, count, datatype, 0, root, comm, stream);
}

static ncclResult_t rank_Send(const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    return add(PRISM_OP_SEND, send, NULL, count, datatype, 0, peer, comm, stream);
}

static ncclResult_t rank_Recv(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    return add(PRISM_OP_RECV, NULL, recv, count, datatype, 0, peer, comm, stream);
}

/* --- groups --- */

static ncclResult_t rank_GroupStart(void)
{
    group_start();
    return ncclSuccess;
}

static ncclResult_t rank_GroupEnd(void)
{
    return group_end();
}

static ncclResult_t rank_GroupSimulateEnd(ncclSimInfo_t *info)
{
    log_warn("rank %u: ncclGroupSimulateEnd is not served: durations are those of the emulated cluster, not of this NCCL",
             session.rank);
    group_discard();
    group_end();
    return ncclInvalidUsage;
}
