/* nccl_more.c - NCCL functions that came with 2.28 to 2.30 and are not in our nccl.h, and those that Prism cannot serve.
 *
 * What takes a communicator or window may not reach NCCL in a rank, where both are ours. Refused: communication from within
 * kernels (nccl_device.h) and one-sided communication, which have nothing on a stream that a gate could replace, and
 * communicators that grow. All functions of NCCL that are not exported here at all are about neither (test/symbols.c).
 */
#include <stdint.h>

#include <cuda.h>
#include <nccl.h>

#include "common/log.h"
#include "preload/nccl/comm.h"
#include "preload/preload.h"
#include "preload/real.h"

#define REFUSE_ONE(result, name, parameters, arguments, otherwise, why)                                       \
    result name parameters;                                                                                   \
    PRISM_EXPORT result name parameters                                                                       \
    {                                                                                                         \
        __typeof__(&name) real = REAL_NAMED(REAL_NCCL, name, #name);                                          \
        if (frame_enter())                                                                                    \
            session_fatal(PRISM_EXIT_UNSUPPORTED, "rank %u: " #name ": Prism cannot serve " why, session.rank); \
        return real ? real arguments : otherwise;                                                             \
    }
#define REFUSE_AS(result, name, parameters, arguments, otherwise, why)              \
    REFUSE_ONE(result, nccl##name, parameters, arguments, otherwise, why)           \
    REFUSE_ONE(result, pnccl##name, parameters, arguments, otherwise, why)
#define REFUSE(name, parameters, arguments, why) \
    REFUSE_AS(ncclResult_t, name, parameters, arguments, ncclSystemError, why)

/* --- communication from within kernels --- */

#define IN_KERNELS "NCCL's device interface (communication from within kernels)"

struct team {
    int nranks, rank, stride;
};

REFUSE(DevCommCreate, (ncclComm_t comm, const void *needs, void *device_comm), (comm, needs, device_comm), IN_KERNELS)
REFUSE(DevCommDestroy, (ncclComm_t comm, const void *device_comm), (comm, device_comm), IN_KERNELS)
REFUSE(CommQueryProperties, (ncclComm_t comm, void *properties), (comm, properties), IN_KERNELS)
REFUSE_AS(struct team, TeamWorld, (ncclComm_t comm), (comm), (struct team){0}, IN_KERNELS)
REFUSE_AS(struct team, TeamLsa, (ncclComm_t comm), (comm), (struct team){0}, IN_KERNELS)
REFUSE_AS(struct team, TeamRail, (ncclComm_t comm), (comm), (struct team){0}, IN_KERNELS)
REFUSE_AS(int, TeamRankToWorld, (ncclComm_t comm, struct team team, int rank), (comm, team, rank), -1, IN_KERNELS)
REFUSE_AS(int, TeamRankToLsa, (ncclComm_t comm, struct team team, int rank), (comm, team, rank), -1, IN_KERNELS)
REFUSE(GinBarrierCreateRequirement, (ncclComm_t comm, struct team team, int n, void *handle, void *needs),
       (comm, team, n, handle, needs), IN_KERNELS)
REFUSE(GetLsaDevicePointer, (ncclWindow_t window, size_t offset, int rank, void **pointer),
       (window, offset, rank, pointer), IN_KERNELS)
REFUSE(GetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **pointer), (window, offset, pointer),
       IN_KERNELS)
REFUSE(GetMultimemDevicePointer, (ncclWindow_t window, size_t offset, void *multimem, void **pointer),
       (window, offset, multimem, pointer), IN_KERNELS)
REFUSE(GetPeerDevicePointer, (ncclWindow_t window, size_t offset, int peer, void **pointer),
       (window, offset, peer, pointer), IN_KERNELS)

/* --- one-sided communication --- */

#define ONE_SIDED "one-sided communication"

REFUSE(PutSignal,
       (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t window, size_t offset, int signal,
        int context, unsigned flags, ncclComm_t comm, cudaStream_t stream),
       (send, count, datatype, peer, window, offset, signal, context, flags, comm, stream), ONE_SIDED)
REFUSE(Signal, (int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream),
       (peer, signal, context, flags, comm, stream), ONE_SIDED)
REFUSE(WaitSignal, (int n, void *signals, ncclComm_t comm, cudaStream_t stream), (n, signals, comm, stream), ONE_SIDED)

/* --- communicators that grow --- */

#define GROWTH "communicators that grow: the number of ranks is the emulated world's"

REFUSE(CommGrow,
       (ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *bigger, ncclConfig_t *config),
       (comm, nranks, id, rank, bigger, config), GROWTH)
REFUSE(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id), (comm, id), GROWTH)

/* --- served --- */

#define SERVE_ONE(name, serve, parameters, arguments)                    \
    ncclResult_t name parameters;                                        \
    PRISM_EXPORT ncclResult_t name parameters                            \
    {                                                                    \
        __typeof__(&name) real = REAL_NAMED(REAL_NCCL, name, #name);     \
        if (!frame_enter())                                              \
            return real ? real arguments : ncclSystemError;              \
        ncclResult_t r = serve arguments;                                \
        frame_leave();                                                   \
        return r;                                                        \
    }
#define SERVE(name, serve, parameters, arguments)           \
    SERVE_ONE(nccl##name, serve, parameters, arguments)     \
    SERVE_ONE(pnccl##name, serve, parameters, arguments)

/* NCCL would give its own memory back for a while; there is none. */
static ncclResult_t suspend(ncclComm_t comm, int flags)
{
    return comm_of(comm) ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t resume(ncclComm_t comm)
{
    return suspend(comm, 0);
}

static ncclResult_t memory_of(ncclComm_t comm, int which, uint64_t *value)
{
    if (!comm_of(comm) || !value)
        return ncclInvalidArgument;
    log_warn("rank %u: ncclCommMemStats: NCCL's own memory is not emulated, 0 bytes reported", session.rank);
    *value = 0;
    return ncclSuccess;
}

/* ncclCommWindowRegister makes the buffer the window. */
static ncclResult_t pointer_of(ncclComm_t comm, ncclWindow_t window, void **pointer)
{
    if (!comm_of(comm) || !pointer)
        return ncclInvalidArgument;
    *pointer = (void *)window;
    return ncclSuccess;
}

SERVE(CommSuspend, suspend, (ncclComm_t comm, int flags), (comm, flags))
SERVE(CommResume, resume, (ncclComm_t comm), (comm))
SERVE(CommMemStats, memory_of, (ncclComm_t comm, int which, uint64_t *value), (comm, which, value))
SERVE(WinGetUserPtr, pointer_of, (ncclComm_t comm, ncclWindow_t window, void **pointer), (comm, window, pointer))
