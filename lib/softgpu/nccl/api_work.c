/* api_work.c - the functions of nccl.h that move data, with their groups, reductions and memory. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/nccl/api.h"
#include "softgpu/nccl/comm.h"
#include "softgpu/nccl/types.h"

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

/* --- operations --- */

static ncclResult_t check_redop(struct ncclComm *comm, const char *call, struct work *work, ncclRedOp_t op)
{
    int index = (int)op - ncclNumOps;
    if ((int)op >= 0 && index < 0) {
        work->task.redop = (int32_t)op;
        return ncclSuccess;
    }
    pthread_mutex_lock(&comm->lock);
    bool known = index >= 0 && index < comm->redop_count && comm->redops[index].used;
    if (known)
        work->scalar = comm->redops[index];
    pthread_mutex_unlock(&comm->lock);
    if (!known)
        return sgn_error(ncclInvalidArgument, "%s: there is no reduction %d", call, (int)op);
    if (work->scalar.datatype != work->task.datatype)
        return sgn_error(ncclInvalidArgument, "%s: the PreMulSum was made for another datatype", call);
    work->scales = true;
    work->task.redop = SGN_PREMULSUM;
    return ncclSuccess;
}

static ncclResult_t check_work(struct work *work, const char *call, ncclRedOp_t op)
{
    struct sgn_task *task = &work->task;
    struct ncclComm *comm = work->comm;
    ncclResult_t result = sgn_comm_usable(comm, call);
    if (result != ncclSuccess)
        return result;
    bool peer = sgn_kind_has_root(task->kind) || task->kind == SGN_SEND || task->kind == SGN_RECV;
    size_t size = sgn_datatype_size(task->datatype);
    if (!size)
        return sgn_error(ncclInvalidArgument, "%s: there is no datatype %d", call, task->datatype);
    if (peer && (task->peer < 0 || task->peer >= comm->ranks))
        return sgn_error(ncclInvalidArgument, "%s: there is no rank %d among %d", call, task->peer,
                         comm->ranks);
    if (task->count > UINT64_MAX / 16 / size / (uint64_t)comm->ranks)
        return sgn_error(ncclInvalidArgument, "%s: the count is too large", call);
    sgn_task_set_bytes(task, comm->rank, comm->ranks);
    if ((task->in_bytes && !work->in) || (task->out_bytes && !work->out))
        return sgn_error(ncclInvalidArgument, "%s: a buffer is NULL", call);
    return sgn_kind_reduces(task->kind) ? check_redop(comm, call, work, op) : ncclSuccess;
}

static ncclResult_t operate(const struct work *prototype, const char *call, ncclRedOp_t op)
{
    struct work checked = *prototype;
    ncclResult_t result = check_work(&checked, call, op);
    if (result != ncclSuccess)
        return sgn_group_fail(result);
    bool message = checked.task.kind == SGN_SEND || checked.task.kind == SGN_RECV;
    if (!message && checked.task.count == 0)
        return ncclSuccess; /* as NCCL: nothing to do, no meeting */
    struct work *work = malloc(sizeof(*work));
    if (!work)
        return sgn_group_fail(sgn_error(ncclSystemError, "%s: out of memory", call));
    *work = checked;
    return sgn_group_add(work);
}

#define OPERATE(name, kind_, in_, out_, count_, type, op, peer_)                                             \
    operate(                                                                                                 \
        &(struct work){                                                                                      \
            .comm = comm,                                                                                    \
            .in = (in_),                                                                                     \
            .out = (out_),                                                                                   \
            .stream = stream,                                                                                \
            .task = {.kind = (kind_), .datatype = (int32_t)(type), .peer = (peer_), .count = (count_)}},     \
        name, op)

ncclResult_t softnccl_AllReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclAllReduce", SGN_ALL_REDUCE, send, recv, count, datatype, op, -1);
}

ncclResult_t softnccl_Reduce(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclReduce", SGN_REDUCE, send, recv, count, datatype, op, root);
}

ncclResult_t softnccl_Broadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                                ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclBroadcast", SGN_BROADCAST, send, recv, count, datatype, ncclSum, root);
}

ncclResult_t softnccl_Bcast(void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream)
{
    return OPERATE("ncclBcast", SGN_BROADCAST, buffer, buffer, count, datatype, ncclSum, root);
}

ncclResult_t softnccl_ReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclReduceScatter", SGN_REDUCE_SCATTER, send, recv, count, datatype, op, -1);
}

ncclResult_t softnccl_AllGather(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclAllGather", SGN_ALL_GATHER, send, recv, count, datatype, ncclSum, -1);
}

ncclResult_t softnccl_AlltoAll(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                               ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclAlltoAll", SGN_ALL_TO_ALL, send, recv, count, datatype, ncclSum, -1);
}

ncclResult_t softnccl_Gather(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                             ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclGather", SGN_GATHER, send, recv, count, datatype, ncclSum, root);
}

ncclResult_t softnccl_Scatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
                              ncclComm_t comm, cudaStream_t stream)
{
    return OPERATE("ncclScatter", SGN_SCATTER, send, recv, count, datatype, ncclSum, root);
}

ncclResult_t softnccl_Send(const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
    return OPERATE("ncclSend", SGN_SEND, send, NULL, count, datatype, ncclSum, peer);
}

ncclResult_t softnccl_Recv(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
    return OPERATE("ncclRecv", SGN_RECV, NULL, recv, count, datatype, ncclSum, peer);
}

/* --- groups --- */

ncclResult_t softnccl_GroupStart(void)
{
    return sgn_group_start();
}

ncclResult_t softnccl_GroupEnd(void)
{
    return sgn_group_end(NULL);
}

ncclResult_t softnccl_GroupSimulateEnd(ncclSimInfo_t *info)
{
    ncclSimInfo_t unused = NCCL_SIM_INFO_INITIALIZER;
    if (info && info->magic != NCCL_SIM_INFO_MAGIC)
        return sgn_error(ncclInvalidArgument,
                         "ncclGroupSimulateEnd: simInfo was not made with NCCL_SIM_INFO_INITIALIZER");
    return sgn_group_end(info ? info : &unused);
}

/* --- reductions of the program's own --- */

ncclResult_t softnccl_RedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                           ncclScalarResidence_t residence, ncclComm_t comm)
{
    ncclResult_t result = sgn_comm_usable(comm, "ncclRedOpCreatePreMulSum");
    size_t size = sgn_datatype_size(datatype);
    if (result != ncclSuccess)
        return result;
    if (!op || !scalar || !size || (residence != ncclScalarDevice && residence != ncclScalarHostImmediate))
        return sgn_error(ncclInvalidArgument,
                         "ncclRedOpCreatePreMulSum: op or scalar is NULL, or the datatype or "
                         "residence does not exist");
    struct redop redop = {
        .used = true, .datatype = (int)datatype, .on_device = residence == ncclScalarDevice};
    if (redop.on_device)
        redop.pointer = scalar;
    else
        memcpy(redop.value, scalar, size);
    pthread_mutex_lock(&comm->lock);
    int index = 0;
    while (index < comm->redop_count && comm->redops[index].used)
        index++;
    if (index == comm->redop_count) {
        struct redop *more = realloc(comm->redops, ((size_t)index + 1) * sizeof(*more));
        if (more) {
            comm->redops = more;
            comm->redop_count++;
        } else {
            result = ncclSystemError;
        }
    }
    if (result == ncclSuccess) {
        comm->redops[index] = redop;
        *op = (ncclRedOp_t)(ncclNumOps + index);
    }
    pthread_mutex_unlock(&comm->lock);
    return result == ncclSuccess ? result : sgn_error(result, "ncclRedOpCreatePreMulSum: out of memory");
}

ncclResult_t softnccl_RedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = sgn_comm_check(comm, "ncclRedOpDestroy");
    if (result != ncclSuccess)
        return result;
    int index = (int)op - ncclNumOps;
    pthread_mutex_lock(&comm->lock);
    bool known = index >= 0 && index < comm->redop_count && comm->redops[index].used;
    if (known)
        comm->redops[index].used = false; /* operations under way have their own copy */
    pthread_mutex_unlock(&comm->lock);
    return known ? ncclSuccess
                 : sgn_error(ncclInvalidArgument, "ncclRedOpDestroy: %d is no reduction of the program's own",
                             (int)op);
}

/* --- memory --- */

ncclResult_t sgn_select_device(int device)
{
    CUdevice handle;
    CUcontext context;
    if (cuInit(0) || cuDeviceGet(&handle, device))
        return sgn_error(ncclInvalidArgument, "there is no device %d", device);
    if (cuDevicePrimaryCtxRetain(&context, handle) || cuCtxSetCurrent(context))
        return sgn_error(ncclUnhandledCudaError, "device %d cannot be used", device);
    return ncclSuccess;
}

ncclResult_t softnccl_MemAlloc(void **pointer, size_t size)
{
    CUdeviceptr device_pointer;
    if (!pointer || size == 0)
        return sgn_error(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL or size is 0");
    int device = sg_current_device();
    if (device < 0)
        return sgn_error(ncclUnhandledCudaError,
                         "ncclMemAlloc: there is no current device; call cudaSetDevice first");
    CUresult error = cuMemAlloc(&device_pointer, size);
    if (error)
        return sgn_error(ncclUnhandledCudaError, "ncclMemAlloc: %zu bytes on device %d: CUDA error %d", size,
                         device, (int)error);
    *pointer = (void *)(uintptr_t)device_pointer;
    return ncclSuccess;
}

ncclResult_t softnccl_MemFree(void *pointer)
{
    CUresult error = pointer ? cuMemFree((CUdeviceptr)(uintptr_t)pointer) : CUDA_SUCCESS;
    return error ? sgn_error(ncclUnhandledCudaError, "ncclMemFree: CUDA error %d", (int)error) : ncclSuccess;
}

/* Registering speeds real transfers up and changes nothing here: handles are remembered only to catch
 * mistakes. */

struct registration {
    uint64_t magic;
    struct ncclComm *comm;
};

#define REGISTRATION_MAGIC 0x53474e4352454731ull

static ncclResult_t make_registration(struct ncclComm *comm, const void *buffer, size_t size, void **handle,
                                      const char *call)
{
    ncclResult_t result = sgn_comm_usable(comm, call);
    if (result != ncclSuccess)
        return result;
    if (!handle || !buffer || size == 0)
        return sgn_error(ncclInvalidArgument,
                         "%s: the buffer, its size or the place for the handle is missing", call);
    struct registration *registration = malloc(sizeof(*registration));
    if (!registration)
        return sgn_error(ncclSystemError, "%s: out of memory", call);
    *registration = (struct registration){REGISTRATION_MAGIC, comm};
    *handle = registration;
    return ncclSuccess;
}

static ncclResult_t end_registration(const struct ncclComm *comm, void *handle, const char *call)
{
    struct registration *registration = handle;
    ncclResult_t result = sgn_comm_check(comm, call);
    if (result != ncclSuccess || !handle)
        return result;
    if (registration->magic != REGISTRATION_MAGIC || registration->comm != comm)
        return sgn_error(ncclInvalidArgument, "%s: the handle is not one of this communicator", call);
    registration->magic = 0;
    free(registration);
    return ncclSuccess;
}

ncclResult_t softnccl_CommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
    return make_registration(comm, buffer, size, handle, "ncclCommRegister");
}

ncclResult_t softnccl_CommDeregister(const ncclComm_t comm, void *handle)
{
    return end_registration(comm, handle, "ncclCommDeregister");
}

ncclResult_t softnccl_CommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window,
                                         int flags)
{
    void *handle = NULL;
    ncclResult_t result =
        make_registration(comm, buffer, size, window ? &handle : NULL, "ncclCommWindowRegister");
    if (result == ncclSuccess)
        *window = handle;
    return result;
}

ncclResult_t softnccl_CommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return end_registration(comm, window, "ncclCommWindowDeregister");
}
