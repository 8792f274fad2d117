#include "coll/types.h"

struct op_facts {
    const char *name;
    bool reduction, rooted, p2p, same_output;
};

static const struct op_facts ops[PRISM_OP_END] = {
    [0] = {.name = "?"},
    [PRISM_OP_ALLREDUCE] = {.name = "AllReduce", .reduction = true, .same_output = true},
    [PRISM_OP_REDUCE] = {.name = "Reduce", .reduction = true, .rooted = true},
    [PRISM_OP_BROADCAST] = {.name = "Broadcast", .rooted = true, .same_output = true},
    [PRISM_OP_ALLGATHER] = {.name = "AllGather", .same_output = true},
    [PRISM_OP_REDUCESCATTER] = {.name = "ReduceScatter", .reduction = true},
    [PRISM_OP_ALLTOALL] = {.name = "AlltoAll"},
    [PRISM_OP_GATHER] = {.name = "Gather", .rooted = true},
    [PRISM_OP_SCATTER] = {.name = "Scatter", .rooted = true},
    [PRISM_OP_SEND] = {.name = "Send", .p2p = true},
    [PRISM_OP_RECV] = {.name = "Recv", .p2p = true},
};

static const struct {
    const char *name;
    unsigned char size;
    bool is_float;
} datatypes[COLL_DATATYPES] = {
    [COLL_INT8] = {"int8", 1, false},          [COLL_UINT8] = {"uint8", 1, false},
    [COLL_INT32] = {"int32", 4, false},        [COLL_UINT32] = {"uint32", 4, false},
    [COLL_INT64] = {"int64", 8, false},        [COLL_UINT64] = {"uint64", 8, false},
    [COLL_FLOAT16] = {"fp16", 2, true},        [COLL_FLOAT32] = {"fp32", 4, true},
    [COLL_FLOAT64] = {"fp64", 8, true},        [COLL_BFLOAT16] = {"bf16", 2, true},
    [COLL_FLOAT8E4M3] = {"fp8_e4m3", 1, true}, [COLL_FLOAT8E5M2] = {"fp8_e5m2", 1, true},
};

static const char *const redops[COLL_REDOPS] = {"sum", "prod", "max", "min", "avg", "premulsum"};

static const struct op_facts *facts(int op)
{
    return &ops[op > 0 && op < PRISM_OP_END ? op : 0];
}

const char *prism_op_name(int op)
{
    return facts(op)->name;
}

bool coll_op_is_reduction(int op)
{
    return facts(op)->reduction;
}

bool coll_op_is_rooted(int op)
{
    return facts(op)->rooted;
}

bool coll_op_is_p2p(int op)
{
    return facts(op)->p2p;
}

bool coll_op_same_output(int op)
{
    return facts(op)->same_output;
}

static bool known_datatype(int datatype)
{
    return datatype >= 0 && datatype < COLL_DATATYPES;
}

size_t coll_datatype_size(int datatype)
{
    return known_datatype(datatype) ? datatypes[datatype].size : 0;
}

const char *coll_datatype_name(int datatype)
{
    return known_datatype(datatype) ? datatypes[datatype].name : "?";
}

bool coll_datatype_is_float(int datatype)
{
    return known_datatype(datatype) && datatypes[datatype].is_float;
}

const char *coll_redop_name(int redop)
{
    return redop >= 0 && redop < COLL_REDOPS ? redops[redop] : "?";
}

uint64_t coll_input_count(int op, uint64_t count, int rank, int root, int size)
{
    switch (op) {
    case PRISM_OP_ALLREDUCE:
    case PRISM_OP_REDUCE:
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_GATHER:
    case PRISM_OP_SEND:
        return count;
    case PRISM_OP_BROADCAST:
        return rank == root ? count : 0;
    case PRISM_OP_REDUCESCATTER:
    case PRISM_OP_ALLTOALL:
        return count * (uint64_t)size;
    case PRISM_OP_SCATTER:
        return rank == root ? count * (uint64_t)size : 0;
    default:
        return 0;
    }
}

uint64_t coll_output_count(int op, uint64_t count, int rank, int root, int size)
{
    switch (op) {
    case PRISM_OP_ALLREDUCE:
    case PRISM_OP_BROADCAST:
    case PRISM_OP_REDUCESCATTER:
    case PRISM_OP_SCATTER:
    case PRISM_OP_RECV:
        return count;
    case PRISM_OP_REDUCE:
        return rank == root ? count : 0;
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_ALLTOALL:
        return count * (uint64_t)size;
    case PRISM_OP_GATHER:
        return rank == root ? count * (uint64_t)size : 0;
    default:
        return 0;
    }
}

bool coll_part_is_possible(int op, int datatype, int redop, uint64_t count, int peer, int size)
{
    uint64_t element = coll_datatype_size(datatype);
    if (op < PRISM_OP_ALLREDUCE || op >= PRISM_OP_END || !element || size < 1 || count > COLL_BYTES_MAX / element / (uint64_t)size)
        return false;
    if (coll_op_is_reduction(op) && (redop < 0 || redop >= COLL_REDOPS))
        return false;
    return (!coll_op_is_p2p(op) && !coll_op_is_rooted(op)) || (peer >= 0 && peer < size);
}

bool coll_sizes_agree(int op, int datatype, uint64_t count, int rank, int root, int size, uint64_t in_bytes, uint64_t out_bytes)
{
    uint64_t element = coll_datatype_size(datatype);
    if (!element || coll_op_is_p2p(op) || rank < 0 || rank >= size || count > UINT64_MAX / element / (uint64_t)size)
        return false;
    if (coll_op_is_rooted(op) && (root < 0 || root >= size))
        return false;
    return in_bytes == element * coll_input_count(op, count, rank, root, size) &&
           out_bytes == element * coll_output_count(op, count, rank, root, size);
}
