#include "coll/combine.h"

#include <stdlib.h>

#include "coll/share.h"

static int check(const struct coll_operation *op, int p, struct prism_error *err)
{
    if (op->op <= 0 || op->op >= PRISM_OP_END)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "operation %d is none that Prism knows", op->op);
    if (!coll_datatype_size(op->datatype))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: datatype %d is not one of NCCL's",
                               prism_op_name(op->op), op->datatype);
    if (p < 0 || p >= op->size)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: rank %d is outside its communicator of %d",
                               prism_op_name(op->op), p, op->size);
    bool rooted = coll_op_is_rooted(op->op) || coll_op_is_p2p(op->op);
    if (rooted && (op->root < 0 || op->root >= op->size))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: %s %d is outside its communicator of %d",
                               prism_op_name(op->op), coll_op_is_p2p(op->op) ? "peer" : "root", op->root,
                               op->size);
    return 0;
}

/* Block number `block` of every rank's input, one behind the other. */
static void gather_blocks(const struct coll_operation *op, const void *const *inputs, int block, void *out)
{
    size_t bytes = op->count * coll_datatype_size(op->datatype);
    for (int r = 0; r < op->size; r++)
        coll_copy((char *)out + (size_t)r * bytes, (const char *)inputs[r] + (size_t)block * bytes, bytes);
}

static void copy_block(const struct coll_operation *op, const void *input, int block, void *out)
{
    size_t bytes = op->count * coll_datatype_size(op->datatype);
    coll_copy(out, (const char *)input + (size_t)block * bytes, bytes);
}

static int reduce_shard(const struct coll_operation *op, const void *const *inputs, int p, void *out,
                        struct prism_error *err)
{
    size_t skip = (size_t)p * op->count * coll_datatype_size(op->datatype);
    const void **shards = malloc((size_t)op->size * sizeof *shards);
    if (!shards)
        abort();
    for (int r = 0; r < op->size; r++)
        shards[r] = (const char *)inputs[r] + skip;
    int rc = coll_reduce(out, shards, op->size, op->count, op->datatype, op->redop, op->premul, err);
    free(shards);
    return rc;
}

int coll_combine(const struct coll_operation *op, const void *const *inputs, int p, void *out,
                 struct prism_error *err)
{
    if (check(op, p, err))
        return -1;
    if (coll_output_count(op->op, op->count, p, op->root, op->size) == 0)
        return 0;
    switch (op->op) {
    case PRISM_OP_ALLREDUCE:
    case PRISM_OP_REDUCE:
        return coll_reduce(out, inputs, op->size, op->count, op->datatype, op->redop, op->premul, err);
    case PRISM_OP_REDUCESCATTER:
        return reduce_shard(op, inputs, p, out, err);
    case PRISM_OP_ALLTOALL:
        gather_blocks(op, inputs, p, out);
        return 0;
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_GATHER:
        gather_blocks(op, inputs, 0, out);
        return 0;
    case PRISM_OP_SCATTER:
        copy_block(op, inputs[op->root], p, out);
        return 0;
    default: /* BROADCAST, RECV */
        copy_block(op, inputs[op->root], 0, out);
        return 0;
    }
}
