/* nccl.h - the C interface of NCCL 2.28, declared by Prism for machines without NCCL.
 *
 * ABI compatible with NCCL 2.28.9 on x86-64 (lib/abi/test compares it with the real header where that is installed).
 * NCCL exports every function twice, as nccl* and as pnccl* (for profilers); both are declared here.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

#include <cuda_runtime.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
/* Until 2.8 a version was 1000 * major + 100 * minor + patch. */
#define NCCL_VERSION(major, minor, patch)                                         \
    (((major) <= 2 && (minor) <= 8) ? (major) * 1000 + (minor) * 100 + (patch)    \
                                    : (major) * 10000 + (minor) * 100 + (patch))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

/* --- handles and results --- */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

/* --- types of data and reductions --- */

typedef enum {
    ncclInt8 = 0,
    ncclChar = ncclInt8,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = ncclInt32,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = ncclFloat16,
    ncclFloat32 = 7,
    ncclFloat = ncclFloat32,
    ncclFloat64 = 8,
    ncclDouble = ncclFloat64,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

/* Values from ncclNumOps to ncclMaxRedOp are operations that the program made (ncclRedOpCreatePreMulSum). */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* --- configuration --- */

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* end the parent's operations first */
#define NCCL_REVOKE_DEFAULT 0x00

typedef struct ncclConfig_v22800 {
    size_t size; /* of this structure; with magic and version it tells the library how much the caller knows */
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_INITIALIZER                                                                             \
    {                                                                                                       \
        sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),          \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
            NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,     \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                                    \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_MAGIC 0x74685283u
#define NCCL_SIM_INFO_INITIALIZER                                                                                      \
    {                                                                                                                  \
        sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT \
    }

/* --- functions --- */

/* PRISM_NCCL_FUNCTIONS(F) calls F(result, name without "nccl", parameters, arguments) for each function of the
 * interface; a library that wraps or implements all of them can use it too. */
#define PRISM_NCCL_FUNCTIONS(F)                                                                                        \
    F(ncclResult_t, MemAlloc, (void **ptr, size_t size), (ptr, size))                                                  \
    F(ncclResult_t, MemFree, (void *ptr), (ptr))                                                                       \
    F(ncclResult_t, GetVersion, (int *version), (version))                                                             \
    F(ncclResult_t, GetUniqueId, (ncclUniqueId * id), (id))                                                            \
    F(ncclResult_t, CommInitRankConfig,                                                                                \
      (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config),                                \
      (comm, nranks, id, rank, config))                                                                                \
    F(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank),                          \
      (comm, nranks, id, rank))                                                                                        \
    F(ncclResult_t, CommInitAll, (ncclComm_t * comms, int ndev, const int *devices), (comms, ndev, devices))           \
    F(ncclResult_t, CommInitRankScalable,                                                                              \
      (ncclComm_t * comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config),                    \
      (comm, nranks, rank, nids, ids, config))                                                                         \
    F(ncclResult_t, CommFinalize, (ncclComm_t comm), (comm))                                                           \
    F(ncclResult_t, CommDestroy, (ncclComm_t comm), (comm))                                                            \
    F(ncclResult_t, CommAbort, (ncclComm_t comm), (comm))                                                              \
    F(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags), (comm, flags))                                           \
    F(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config),         \
      (comm, color, key, child, config))                                                                               \
    F(ncclResult_t, CommShrink,                                                                                        \
      (ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config, int flags),             \
      (comm, excluded, nexcluded, child, config, flags))                                                               \
    F(const char *, GetErrorString, (ncclResult_t result), (result))                                                   \
    F(const char *, GetLastError, (ncclComm_t comm), (comm))                                                           \
    F(void, ResetDebugInit, (void), ())                                                                                \
    F(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error), (comm, error))                          \
    F(ncclResult_t, CommCount, (const ncclComm_t comm, int *count), (comm, count))                                     \
    F(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device), (comm, device))                                \
    F(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank), (comm, rank))                                    \
    F(ncclResult_t, CommRegister, (const ncclComm_t comm, void *buffer, size_t size, void **handle),                   \
      (comm, buffer, size, handle))                                                                                    \
    F(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle), (comm, handle))                             \
    F(ncclResult_t, CommWindowRegister,                                                                                \
      (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags),                                   \
      (comm, buffer, size, window, flags))                                                                             \
    F(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), (comm, window))                      \
    F(ncclResult_t, RedOpCreatePreMulSum,                                                                              \
      (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm),     \
      (op, scalar, datatype, residence, comm))                                                                         \
    F(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm))                                       \
    F(ncclResult_t, Reduce,                                                                                            \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,                  \
       ncclComm_t comm, cudaStream_t stream),                                                                          \
      (send, recv, count, datatype, op, root, comm, stream))                                                           \
    F(ncclResult_t, Bcast,                                                                                             \
      (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream),           \
      (buffer, count, datatype, root, comm, stream))                                                                   \
    F(ncclResult_t, Broadcast,                                                                                         \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,                 \
       cudaStream_t stream),                                                                                           \
      (send, recv, count, datatype, root, comm, stream))                                                               \
    F(ncclResult_t, AllReduce,                                                                                         \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,           \
       cudaStream_t stream),                                                                                           \
      (send, recv, count, datatype, op, comm, stream))                                                                 \
    F(ncclResult_t, ReduceScatter,                                                                                     \
      (const void *send, void *recv, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,       \
       cudaStream_t stream),                                                                                           \
      (send, recv, recvcount, datatype, op, comm, stream))                                                             \
    F(ncclResult_t, AllGather,                                                                                         \
      (const void *send, void *recv, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,                       \
       cudaStream_t stream),                                                                                           \
      (send, recv, sendcount, datatype, comm, stream))                                                                 \
    F(ncclResult_t, AlltoAll,                                                                                          \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream),     \
      (send, recv, count, datatype, comm, stream))                                                                     \
    F(ncclResult_t, Gather,                                                                                            \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,                 \
       cudaStream_t stream),                                                                                           \
      (send, recv, count, datatype, root, comm, stream))                                                               \
    F(ncclResult_t, Scatter,                                                                                           \
      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,                 \
       cudaStream_t stream),                                                                                           \
      (send, recv, count, datatype, root, comm, stream))                                                               \
    F(ncclResult_t, Send,                                                                                              \
      (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),       \
      (send, count, datatype, peer, comm, stream))                                                                     \
    F(ncclResult_t, Recv,                                                                                              \
      (void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),             \
      (recv, count, datatype, peer, comm, stream))                                                                     \
    F(ncclResult_t, GroupStart, (void), ())                                                                            \
    F(ncclResult_t, GroupEnd, (void), ())                                                                              \
    F(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info), (info))

#define PRISM_NCCL_DECLARE(result, name, parameters, arguments) \
    result nccl##name parameters;                               \
    result pnccl##name parameters;
PRISM_NCCL_FUNCTIONS(PRISM_NCCL_DECLARE)
#undef PRISM_NCCL_DECLARE

#ifdef __cplusplus
}
#endif
#endif
