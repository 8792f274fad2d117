/* api_comm.c - the functions of nccl.h that make, ask and end communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/nccl/api.h"
#include "softgpu/nccl/comm.h"
#include "softgpu/nccl/hub.h"
#include "softgpu/nccl/types.h"

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

_Static_assert(sizeof(struct sgn_id) <= NCCL_UNIQUE_ID_BYTES, "a unique id holds a sgn_id");

ncclResult_t softnccl_GetVersion(int *version)
{
    if (!version)
        return sgn_error(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t softnccl_GetUniqueId(ncclUniqueId *id)
{
    struct sgn_id own;
    char text[SGN_TEXT];
    if (!id)
        return sgn_error(ncclInvalidArgument, "ncclGetUniqueId: id is NULL");
    if (sgn_hub_new_id(&own, text))
        return sgn_error(ncclSystemError, "ncclGetUniqueId: %s", text);
    memset(id, 0, sizeof(*id));
    memcpy(id, &own, sizeof(own));
    return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *out, int ranks, const ncclUniqueId *unique, int rank,
                              const ncclConfig_t *config, const char *call)
{
    struct sgn_id id;
    struct ncclComm *comm;
    memcpy(&id, unique, sizeof(id));
    if (!out)
        return sgn_error(ncclInvalidArgument, "%s: comm is NULL", call);
    *out = NULL;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return sgn_error(ncclInvalidArgument, "%s: rank %d of %d does not exist", call, rank, ranks);
    if (id.magic != SGN_ID_MAGIC)
        return sgn_error(ncclInvalidArgument,
                         "%s: the unique id was not made by the software libnccl (is another libnccl "
                         "loaded in the process that made it?)",
                         call);
    ncclResult_t result = sgn_comm_create(&comm, ranks, rank, config, NULL, call);
    if (result != ncclSuccess)
        return result;
    result = sgn_comm_join(comm, &id);
    if (result == ncclSuccess && sgn_reader_watch(comm))
        result = sgn_error(ncclSystemError, "%s: cannot start the thread that reads from other ranks", call);
    if (result != ncclSuccess) {
        sgn_comm_unref(comm);
        return result;
    }
    *out = comm;
    return sgn_group_add_init(comm, out);
}

ncclResult_t softnccl_CommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return sgn_group_fail(init_rank(comm, ranks, &id, rank, NULL, "ncclCommInitRank"));
}

ncclResult_t softnccl_CommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                         ncclConfig_t *config)
{
    return sgn_group_fail(init_rank(comm, ranks, &id, rank, config, "ncclCommInitRankConfig"));
}

ncclResult_t softnccl_CommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int id_count,
                                           ncclUniqueId *ids, ncclConfig_t *config)
{
    if (id_count < 1 || !ids || id_count > ranks)
        return sgn_group_fail(
            sgn_error(ncclInvalidArgument, "ncclCommInitRankScalable: %d ids for %d ranks", id_count, ranks));
    return sgn_group_fail(init_rank(comm, ranks, &ids[0], rank, config, "ncclCommInitRankScalable"));
}

ncclResult_t softnccl_CommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    int before = sg_current_device();
    ncclUniqueId id;
    if (!comms || count < 1)
        return sgn_error(ncclInvalidArgument, "ncclCommInitAll: %d devices", count);
    ncclResult_t result = softnccl_GetUniqueId(&id);
    if (result != ncclSuccess)
        return result;
    sgn_group_start();
    for (int i = 0; i < count && result == ncclSuccess; i++) {
        result = sgn_select_device(devices ? devices[i] : i);
        if (result == ncclSuccess)
            result = init_rank(&comms[i], count, &id, i, NULL, "ncclCommInitAll");
    }
    sgn_group_fail(result);
    ncclResult_t end = sgn_group_end(NULL);
    if (before >= 0)
        sgn_select_device(before);
    return result != ncclSuccess ? result : end;
}

/* --- children --- */

static ncclResult_t parent_ready(struct ncclComm *comm, const char *call, bool failed_is_fine)
{
    ncclResult_t result = sgn_comm_check(comm, call);
    if (result != ncclSuccess)
        return result;
    pthread_mutex_lock(&comm->lock);
    bool fine =
        comm->state == COMM_READY || (comm->state == COMM_FAILED && (failed_is_fine || comm->revoked));
    pthread_mutex_unlock(&comm->lock);
    return fine ? ncclSuccess : sgn_comm_usable(comm, call);
}

static ncclResult_t make_child(struct ncclComm *comm, int color, int key, ncclComm_t *out,
                               const ncclConfig_t *config, const int32_t *excluded, int count, bool shrink,
                               const char *call)
{
    struct ncclComm *child;
    ncclResult_t result = sgn_comm_create(&child, 0, 0, config, comm, call);
    if (result != ncclSuccess)
        return result;
    result = sgn_comm_ask_child(comm, child, color, key, excluded, count, shrink);
    if (result != ncclSuccess) {
        sgn_comm_unref(child);
        return result;
    }
    *out = child;
    return sgn_group_add_init(child, out);
}

ncclResult_t softnccl_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    ncclResult_t result = parent_ready(comm, "ncclCommSplit", false);
    if (result == ncclSuccess && !child)
        result = sgn_error(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    if (result == ncclSuccess && color < 0 && color != NCCL_SPLIT_NOCOLOR)
        result = sgn_error(ncclInvalidArgument,
                           "ncclCommSplit: color %d is neither >= 0 nor NCCL_SPLIT_NOCOLOR", color);
    if (result != ncclSuccess)
        return sgn_group_fail(result);
    *child = NULL;
    if (color == NCCL_SPLIT_NOCOLOR)
        return sgn_group_fail(sgn_comm_ask_child(comm, NULL, color, key, NULL, 0, false));
    return sgn_group_fail(make_child(comm, color, key, child, config, NULL, 0, false, "ncclCommSplit"));
}

static int compare_int(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : *(const int32_t *)a > *(const int32_t *)b;
}

/* Sort and check the ranks to exclude. Returns the number of different ones, -1: one does not exist or is the
 * caller. */
static int sort_excluded(const struct ncclComm *comm, int32_t *ranks, int count)
{
    int kept = 0;
    qsort(ranks, (size_t)count, sizeof(*ranks), compare_int);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->ranks || ranks[i] == comm->rank)
            return -1;
        if (kept == 0 || ranks[kept - 1] != ranks[i])
            ranks[kept++] = ranks[i];
    }
    return kept;
}

ncclResult_t softnccl_CommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *child,
                                 ncclConfig_t *config, int flags)
{
    bool abort_first = flags & NCCL_SHRINK_ABORT;
    ncclResult_t result = parent_ready(comm, "ncclCommShrink", abort_first);
    if (result == ncclSuccess && (!child || (!excluded && count) || count < 0))
        result = sgn_error(ncclInvalidArgument, "ncclCommShrink: newcomm or the list of ranks is NULL");
    if (result != ncclSuccess)
        return sgn_group_fail(result);
    *child = NULL;
    int32_t *sorted = calloc((size_t)count + 1, sizeof(*sorted));
    if (!sorted)
        return sgn_group_fail(sgn_error(ncclSystemError, "ncclCommShrink: out of memory"));
    if (count)
        memcpy(sorted, excluded, (size_t)count * sizeof(*sorted));
    int kept = sort_excluded(comm, sorted, count);
    if (kept < 0) {
        result = sgn_error(ncclInvalidArgument,
                           "ncclCommShrink: the ranks to exclude must exist (0 to %d) and not hold the "
                           "caller (%d)",
                           comm->ranks - 1, comm->rank);
    } else {
        if (abort_first)
            sgn_comm_revoke(comm);
        result = make_child(comm, 0, 0, child, config, sorted, kept, true, "ncclCommShrink");
    }
    free(sorted);
    return sgn_group_fail(result);
}

/* --- the end --- */

ncclResult_t softnccl_CommFinalize(ncclComm_t comm)
{
    ncclResult_t result = sgn_comm_usable(comm, "ncclCommFinalize");
    return result != ncclSuccess ? result : sgn_comm_finalize(comm, comm->blocking);
}

ncclResult_t softnccl_CommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = sgn_comm_check(comm, "ncclCommDestroy");
    if (result != ncclSuccess)
        return result;
    sgn_comm_finalize(comm, true);
    sgn_comm_leave(comm);
    sgn_reader_forget(comm);
    sgn_comm_unref(comm);
    return ncclSuccess;
}

ncclResult_t softnccl_CommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = sgn_comm_check(comm, "ncclCommAbort");
    return result != ncclSuccess ? result : sgn_comm_abort(comm);
}

ncclResult_t softnccl_CommRevoke(ncclComm_t comm, int flags)
{
    ncclResult_t result = sgn_comm_check(comm, "ncclCommRevoke"); /* failed ones can be revoked too */
    if (result == ncclSuccess && flags != NCCL_REVOKE_DEFAULT)
        result = sgn_error(ncclInvalidArgument,
                           "ncclCommRevoke: flags are %d, they must be NCCL_REVOKE_DEFAULT", flags);
    return result != ncclSuccess ? result : sgn_comm_revoke(comm);
}

/* --- questions --- */

ncclResult_t softnccl_CommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t result = sgn_comm_check(comm, "ncclCommGetAsyncError");
    if (result == ncclSuccess && !error)
        result = sgn_error(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    if (result == ncclSuccess)
        *error = sgn_comm_async_error(comm);
    return result;
}

static ncclResult_t ask(const struct ncclComm *comm, const int *out, const char *call)
{
    ncclResult_t result = sgn_comm_check(comm, call);
    if (result != ncclSuccess)
        return result;
    if (!out)
        return sgn_error(ncclInvalidArgument, "%s: the place for the answer is NULL", call);
    struct ncclComm *own = (struct ncclComm *)(uintptr_t)comm;
    pthread_mutex_lock(&own->lock);
    bool made = own->state != COMM_CREATED && own->state != COMM_JOINING;
    pthread_mutex_unlock(&own->lock);
    return made ? ncclSuccess : sgn_error(ncclInvalidArgument, "%s: the communicator is not ready", call);
}

ncclResult_t softnccl_CommCount(const ncclComm_t comm, int *count)
{
    ncclResult_t result = ask(comm, count, "ncclCommCount");
    if (result == ncclSuccess)
        *count = comm->ranks;
    return result;
}

ncclResult_t softnccl_CommCuDevice(const ncclComm_t comm, int *device)
{
    ncclResult_t result = ask(comm, device, "ncclCommCuDevice");
    if (result == ncclSuccess)
        *device = comm->device;
    return result;
}

ncclResult_t softnccl_CommUserRank(const ncclComm_t comm, int *rank)
{
    ncclResult_t result = ask(comm, rank, "ncclCommUserRank");
    if (result == ncclSuccess)
        *rank = comm->rank;
    return result;
}

const char *softnccl_GetLastError(ncclComm_t comm)
{
    return sgn_last_error();
}

const char *softnccl_GetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (ncclGetLastError says which)",
        [ncclSystemError] = "unhandled system error (ncclGetLastError says which)",
        [ncclInternalError] = "internal error of the software libnccl",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "operation in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

void softnccl_ResetDebugInit(void)
{
}
