/* types.h - operations, datatypes and reductions as Prism counts them; no NCCL header needed.
 *
 * Datatypes and reductions are plain ints with NCCL's own numbers (test/abi.c compares them with lib/abi/nccl.h).
 * Counts are elements and mean what they mean in the NCCL call of the operation (nccl.h, "Collective communication
 * operations"):
 *
 *     operation      count is            input                output              root
 *     ALLREDUCE      all                 count                count               -
 *     REDUCE         all                 count                count at root       receives
 *     BROADCAST      all                 count at root        count               sends
 *     ALLGATHER      one rank's          count                size * count        -
 *     REDUCESCATTER  one rank's          size * count         count               -
 *     ALLTOALL       one pair's          size * count         size * count        -
 *     GATHER         one rank's          count                size * count at r.  receives
 *     SCATTER        one rank's          size * count at r.   count               sends
 *     SEND           all                 count                -                   the receiver
 *     RECV           all                 -                    count               the sender
 */
#ifndef PRISM_COLL_TYPES_H
#define PRISM_COLL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are in traces and messages: never renumber. */
enum prism_op {
    PRISM_OP_ALLREDUCE = 1,
    PRISM_OP_REDUCE,
    PRISM_OP_BROADCAST,
    PRISM_OP_ALLGATHER,
    PRISM_OP_REDUCESCATTER,
    PRISM_OP_ALLTOALL,
    PRISM_OP_GATHER,
    PRISM_OP_SCATTER,
    PRISM_OP_SEND,
    PRISM_OP_RECV,
    PRISM_OP_END /* one past the last */
};

/* ncclDataType_t */
enum coll_datatype {
    COLL_INT8,
    COLL_UINT8,
    COLL_INT32,
    COLL_UINT32,
    COLL_INT64,
    COLL_UINT64,
    COLL_FLOAT16,
    COLL_FLOAT32,
    COLL_FLOAT64,
    COLL_BFLOAT16,
    COLL_FLOAT8E4M3,
    COLL_FLOAT8E5M2,
    COLL_DATATYPES
};

/* ncclRedOp_t; the last stands for every operation made by ncclRedOpCreatePreMulSum. */
enum coll_redop {
    COLL_REDOP_SUM,
    COLL_REDOP_PROD,
    COLL_REDOP_MAX,
    COLL_REDOP_MIN,
    COLL_REDOP_AVG,
    COLL_REDOP_PREMUL,
    COLL_REDOPS
};

const char *prism_op_name(int op);            /* "AllReduce", …; "?" when unknown */
size_t coll_datatype_size(int datatype);      /* bytes; 0 when unknown */
const char *coll_datatype_name(int datatype); /* "bf16", "int32", …; "?" when unknown */
bool coll_datatype_is_float(int datatype);
const char *coll_redop_name(int redop); /* "sum", …, "premulsum" */

bool coll_op_is_reduction(int op); /* ALLREDUCE, REDUCE, REDUCESCATTER: datatype and redop matter */
bool coll_op_is_rooted(int op);    /* REDUCE, BROADCAST, GATHER, SCATTER */
bool coll_op_is_p2p(int op);       /* SEND, RECV */
/* Every participant ends with the same bytes (ALLREDUCE, BROADCAST, ALLGATHER): combine once, copy to all. */
bool coll_op_same_output(int op);

/* Elements that rank reads and that rank gets; 0 for an unknown operation. */
uint64_t coll_input_count(int op, uint64_t count, int rank, int root, int size);
uint64_t coll_output_count(int op, uint64_t count, int rank, int root, int size);
#define COLL_BYTES_MAX (1ull << 48) /* of an operation, all members' together: more than any machine has, and sums of these do not wrap */
/* Whether there can be such an operation in a communicator of that size: known operation, datatype and reduction, peer or root a
 * member, at most COLL_BYTES_MAX. */
bool coll_part_is_possible(int op, int datatype, int redop, uint64_t count, int peer, int size);
/* Whether a collective that says so of itself can be: known datatype, a root in the communicator, and just these bytes in and out. */
bool coll_sizes_agree(int op, int datatype, uint64_t count, int rank, int root, int size, uint64_t in_bytes, uint64_t out_bytes);

#endif
