/* NCCL's numbers, as lib/coll has them, against the NCCL header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "abi/nccl.h"
#include "coll/types.h"

_Static_assert((int)COLL_INT8 == (int)ncclInt8 && (int)COLL_UINT8 == (int)ncclUint8, "8-bit integers");
_Static_assert((int)COLL_INT32 == (int)ncclInt32 && (int)COLL_UINT32 == (int)ncclUint32, "32-bit integers");
_Static_assert((int)COLL_INT64 == (int)ncclInt64 && (int)COLL_UINT64 == (int)ncclUint64, "64-bit integers");
_Static_assert((int)COLL_FLOAT16 == (int)ncclFloat16 && (int)COLL_BFLOAT16 == (int)ncclBfloat16,
               "16-bit floats");
_Static_assert((int)COLL_FLOAT32 == (int)ncclFloat32 && (int)COLL_FLOAT64 == (int)ncclFloat64, "floats");
_Static_assert((int)COLL_FLOAT8E4M3 == (int)ncclFloat8e4m3 && (int)COLL_FLOAT8E5M2 == (int)ncclFloat8e5m2,
               "fp8");
_Static_assert((int)COLL_DATATYPES == (int)ncclNumTypes, "number of datatypes");
_Static_assert((int)COLL_REDOP_SUM == (int)ncclSum && (int)COLL_REDOP_PROD == (int)ncclProd, "sum, prod");
_Static_assert((int)COLL_REDOP_MAX == (int)ncclMax && (int)COLL_REDOP_MIN == (int)ncclMin, "max, min");
_Static_assert((int)COLL_REDOP_AVG == (int)ncclAvg && (int)COLL_REDOP_PREMUL == (int)ncclNumOps,
               "avg, made ones");

static void names_and_sizes(void **state)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    for (int t = 0; t < COLL_DATATYPES; t++) {
        assert_int_equal(coll_datatype_size(t), sizes[t]);
        assert_string_not_equal(coll_datatype_name(t), "?");
        assert_int_equal(coll_datatype_is_float(t), t >= COLL_FLOAT16);
    }
    for (int op = PRISM_OP_ALLREDUCE; op < PRISM_OP_END; op++)
        assert_string_not_equal(prism_op_name(op), "?");
    for (int r = 0; r < COLL_REDOPS; r++)
        assert_string_not_equal(coll_redop_name(r), "?");
    const int unknown[] = {-1, 12, 255, 1 << 30};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(coll_datatype_size(unknown[i]), 0);
        assert_string_equal(prism_op_name(unknown[i]), "?");
        assert_string_equal(coll_datatype_name(unknown[i]), "?");
        assert_string_equal(coll_redop_name(unknown[i]), "?");
        assert_int_equal(coll_input_count(unknown[i], 1, 0, 0, 2) + coll_output_count(unknown[i], 1, 0, 0, 2),
                         0);
    }
    assert_string_equal(prism_op_name(0), "?");
}

static void counts(void **state)
{
    /* of 4 ranks, count 10, root 1: input and output at the root and at rank 2 */
    static const uint64_t expected[PRISM_OP_END][4] = {[PRISM_OP_ALLREDUCE] = {10, 10, 10, 10},
                                                       [PRISM_OP_REDUCE] = {10, 10, 10, 0},
                                                       [PRISM_OP_BROADCAST] = {10, 10, 0, 10},
                                                       [PRISM_OP_ALLGATHER] = {10, 40, 10, 40},
                                                       [PRISM_OP_REDUCESCATTER] = {40, 10, 40, 10},
                                                       [PRISM_OP_ALLTOALL] = {40, 40, 40, 40},
                                                       [PRISM_OP_GATHER] = {10, 40, 10, 0},
                                                       [PRISM_OP_SCATTER] = {40, 10, 0, 10},
                                                       [PRISM_OP_SEND] = {10, 0, 10, 0},
                                                       [PRISM_OP_RECV] = {0, 10, 0, 10}};
    for (int op = PRISM_OP_ALLREDUCE; op < PRISM_OP_END; op++) {
        assert_int_equal(coll_input_count(op, 10, 1, 1, 4), expected[op][0]);
        assert_int_equal(coll_output_count(op, 10, 1, 1, 4), expected[op][1]);
        assert_int_equal(coll_input_count(op, 10, 2, 1, 4), expected[op][2]);
        assert_int_equal(coll_output_count(op, 10, 2, 1, 4), expected[op][3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_sizes), cmocka_unit_test(counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
