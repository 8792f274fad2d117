/* The numbers that lib/graph repeats must be those of lib/coll. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/types.h"
#include "graph/feeds.h"

_Static_assert((int)GRAPH_OP_ALLREDUCE == (int)PRISM_OP_ALLREDUCE, "enum prism_op");
_Static_assert((int)GRAPH_OP_REDUCE == (int)PRISM_OP_REDUCE, "enum prism_op");
_Static_assert((int)GRAPH_OP_BROADCAST == (int)PRISM_OP_BROADCAST, "enum prism_op");
_Static_assert((int)GRAPH_OP_ALLGATHER == (int)PRISM_OP_ALLGATHER, "enum prism_op");
_Static_assert((int)GRAPH_OP_REDUCESCATTER == (int)PRISM_OP_REDUCESCATTER, "enum prism_op");
_Static_assert((int)GRAPH_OP_ALLTOALL == (int)PRISM_OP_ALLTOALL, "enum prism_op");
_Static_assert((int)GRAPH_OP_GATHER == (int)PRISM_OP_GATHER, "enum prism_op");
_Static_assert((int)GRAPH_OP_SCATTER == (int)PRISM_OP_SCATTER, "enum prism_op");
_Static_assert((int)GRAPH_OP_SEND == (int)PRISM_OP_SEND, "enum prism_op");
_Static_assert((int)GRAPH_OP_RECV == (int)PRISM_OP_RECV, "enum prism_op");
_Static_assert((int)GRAPH_OP_END == (int)PRISM_OP_END, "enum prism_op");

static void test_datatypes(void **state)
{
    for (int t = 0; t < 256; t++)
        assert_int_equal(graph_datatype_size((uint8_t)t), coll_datatype_size(t));
}

static void test_feeds(void **state)
{
    for (int op = 0; op < 256; op++) {
        enum graph_feeds f = graph_feeds((uint8_t)op);
        assert_int_equal(f != GRAPH_FEEDS_NONE, op >= PRISM_OP_ALLREDUCE && op < PRISM_OP_END);
        assert_int_equal(f == GRAPH_FEEDS_FROM_ROOT || f == GRAPH_FEEDS_TO_ROOT, coll_op_is_rooted(op));
        assert_int_equal(f == GRAPH_FEEDS_SEND || f == GRAPH_FEEDS_RECV, coll_op_is_p2p(op));
        assert_non_null(graph_op_name((uint8_t)op));
    }
    assert_int_equal(graph_feeds(PRISM_OP_BROADCAST), GRAPH_FEEDS_FROM_ROOT);
    assert_int_equal(graph_feeds(PRISM_OP_GATHER), GRAPH_FEEDS_TO_ROOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_datatypes), cmocka_unit_test(test_feeds)};
    return cmocka_run_group_tests_name("graph: operations", tests, NULL, NULL);
}
