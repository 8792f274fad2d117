/* Every operation's result for a world of three, written down by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "coll/combine.h"

static void expect(int op, int root, int p, const int32_t *expected, size_t n)
{
    static const int32_t a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30, 40, 50, 60},
                         c[] = {100, 200, 300, 400, 500, 600};
    const void *inputs[] = {a, b, c};
    int32_t out[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    struct coll_operation operation = {
        .op = op, .size = 3, .root = root, .datatype = COLL_INT32, .redop = COLL_REDOP_SUM, .count = 2};
    assert_int_equal(coll_combine(&operation, inputs, p, out, NULL), 0);
    assert_memory_equal(out, expected, n * sizeof *expected);
    for (size_t i = n; i < 8; i++)
        assert_int_equal(out[i], -1);
}

#define EXPECT(op, root, p, ...)                                                                             \
    expect(op, root, p, (const int32_t[]){__VA_ARGS__}, sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t))

static void by_hand(void **state)
{
    EXPECT(PRISM_OP_ALLREDUCE, 0, 1, 111, 222);
    EXPECT(PRISM_OP_REDUCE, 1, 1, 111, 222);
    expect(PRISM_OP_REDUCE, 1, 0, NULL, 0);
    EXPECT(PRISM_OP_BROADCAST, 2, 0, 100, 200);
    EXPECT(PRISM_OP_ALLGATHER, 0, 2, 1, 2, 10, 20, 100, 200);
    EXPECT(PRISM_OP_REDUCESCATTER, 0, 2, 555, 666);
    EXPECT(PRISM_OP_ALLTOALL, 0, 1, 3, 4, 30, 40, 300, 400);
    EXPECT(PRISM_OP_GATHER, 0, 0, 1, 2, 10, 20, 100, 200);
    expect(PRISM_OP_GATHER, 0, 1, NULL, 0);
    EXPECT(PRISM_OP_SCATTER, 1, 2, 50, 60);
    EXPECT(PRISM_OP_RECV, 1, 0, 10, 20);
    expect(PRISM_OP_SEND, 1, 0, NULL, 0);
}

static void others_of_a_rooted_operation_bring_nothing(void **state)
{
    float x[] = {1, 2}, out[2];
    const void *inputs[] = {NULL, x, NULL};
    struct coll_operation op = {
        .op = PRISM_OP_BROADCAST, .size = 3, .root = 1, .datatype = COLL_FLOAT32, .count = 2};
    assert_int_equal(coll_combine(&op, inputs, 0, out, NULL), 0);
    assert_memory_equal(out, x, sizeof x);
    op.count = 0;
    assert_int_equal(coll_combine(&op, inputs, 0, NULL, NULL), 0);
}

static void refuses(void **state)
{
    const struct coll_operation good = {.op = PRISM_OP_REDUCE, .size = 1, .datatype = COLL_INT8, .count = 1};
    struct {
        int op, p, root, datatype, redop;
        const char *text;
    } bad[] = {{99, 0, 0, COLL_INT8, 0, "99"},
               {PRISM_OP_REDUCE, 1, 0, COLL_INT8, 0, "rank 1"},
               {PRISM_OP_REDUCE, 0, -1, COLL_INT8, 0, "root -1"},
               {PRISM_OP_RECV, 0, 7, COLL_INT8, 0, "peer 7"},
               {PRISM_OP_REDUCE, 0, 0, 50, 0, "datatype 50"},
               {PRISM_OP_REDUCE, 0, 0, COLL_INT8, 9, "reduction 9"}};
    int8_t x = 1, out;
    const void *inputs[] = {&x};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct prism_error err = {0};
        struct coll_operation op = good;
        op.op = bad[i].op;
        op.root = bad[i].root;
        op.datatype = bad[i].datatype;
        op.redop = bad[i].redop;
        assert_int_equal(coll_combine(&op, inputs, bad[i].p, &out, &err), -1);
        assert_non_null(strstr(err.text, bad[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(others_of_a_rooted_operation_bring_nothing),
                                       cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
