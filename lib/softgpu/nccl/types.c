#include "softgpu/nccl/types.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} datatypes[] = {
    {"ncclInt8", 1, false},    {"ncclUint8", 1, false},     {"ncclInt32", 4, false},
    {"ncclUint32", 4, false},  {"ncclInt64", 8, false},     {"ncclUint64", 8, false},
    {"ncclFloat16", 2, true},  {"ncclFloat32", 4, true},    {"ncclFloat64", 8, true},
    {"ncclBfloat16", 2, true}, {"ncclFloat8e4m3", 1, true}, {"ncclFloat8e5m2", 1, true},
};
#define DATATYPES ((int)(sizeof(datatypes) / sizeof(datatypes[0])))

static const char *const redops[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg", "PreMulSum"};

static const char *const kinds[SGN_KINDS] = {
    "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
    "AlltoAll",  "Gather", "Scatter",   "Send",      "Recv",
};

size_t sgn_datatype_size(int datatype)
{
    return datatype >= 0 && datatype < DATATYPES ? datatypes[datatype].size : 0;
}

bool sgn_datatype_is_float(int datatype)
{
    return datatype >= 0 && datatype < DATATYPES && datatypes[datatype].is_float;
}

const char *sgn_kind_name(uint32_t kind)
{
    return kind < SGN_KINDS ? kinds[kind] : "?";
}

bool sgn_kind_reduces(uint32_t kind)
{
    return kind == SGN_ALL_REDUCE || kind == SGN_REDUCE || kind == SGN_REDUCE_SCATTER;
}

bool sgn_kind_has_root(uint32_t kind)
{
    return kind == SGN_REDUCE || kind == SGN_BROADCAST || kind == SGN_GATHER || kind == SGN_SCATTER;
}

const char *sgn_task_describe(const struct sgn_task *task, char *text, size_t size)
{
    const char *type = sgn_datatype_size(task->datatype) ? datatypes[task->datatype].name : "?";
    char tail[64] = "";
    if (sgn_kind_reduces(task->kind) && task->redop >= 0 && task->redop <= SGN_PREMULSUM)
        snprintf(tail, sizeof(tail), ", %s", redops[task->redop]);
    if (task->peer >= 0) {
        size_t used = 0;
        while (tail[used])
            used++;
        snprintf(tail + used, sizeof(tail) - used, ", %s %d",
                 task->kind == SGN_SEND   ? "to"
                 : task->kind == SGN_RECV ? "from"
                                          : "root",
                 task->peer);
    }
    snprintf(text, size, "nccl%s(count %" PRIu64 ", %s%s)", sgn_kind_name(task->kind), task->count, type,
             tail);
    return text;
}

void sgn_task_set_bytes(struct sgn_task *task, int rank, int ranks)
{
    uint64_t one = task->count * sgn_datatype_size(task->datatype), all = one * (uint64_t)ranks;
    bool root = task->peer == rank;
    switch (task->kind) {
    case SGN_ALL_REDUCE:
        task->in_bytes = one;
        task->out_bytes = one;
        break;
    case SGN_REDUCE:
        task->in_bytes = one;
        task->out_bytes = root ? one : 0;
        break;
    case SGN_BROADCAST:
        task->in_bytes = root ? one : 0;
        task->out_bytes = root ? 0 : one;
        break;
    case SGN_ALL_GATHER:
        task->in_bytes = one;
        task->out_bytes = all;
        break;
    case SGN_REDUCE_SCATTER:
        task->in_bytes = all;
        task->out_bytes = one;
        break;
    case SGN_ALL_TO_ALL:
        task->in_bytes = all;
        task->out_bytes = all;
        break;
    case SGN_GATHER:
        task->in_bytes = one;
        task->out_bytes = root ? all : 0;
        break;
    case SGN_SCATTER:
        task->in_bytes = root ? all : 0;
        task->out_bytes = one;
        break;
    case SGN_SEND:
        task->in_bytes = one;
        task->out_bytes = 0;
        break;
    default:
        task->in_bytes = 0;
        task->out_bytes = one;
        break;
    }
}
