/* align.c - live nodes find the recorded ones they are, whatever else a run does between its communications. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/replay/align.h"

/* Letters: A, B groups of communicators 0 and 1; r, R a record on stream 0, 1; w, W a wait; s a host wait; j a join. */
static uint8_t kind_of(char c)
{
    switch (c) {
    case 'A':
    case 'B':
        return GRAPH_COMM;
    case 'r':
    case 'R':
        return GRAPH_RECORD;
    case 'w':
    case 'W':
        return GRAPH_WAIT;
    case 's':
        return GRAPH_SYNC;
    default:
        return GRAPH_JOIN;
    }
}

static struct graph *recorded(const char *text)
{
    const int32_t ranks[] = {0};
    const struct graph_part part = {.op = 1, .datatype = 7, .peer = -1, .count = 1};
    struct graph *g = graph_create(1, 8);
    uint32_t ordinal[2] = {0, 0};
    for (uint32_t c = 0; c < 2; c++)
        graph_set_member(g, 0, c, graph_add_comm(g, ranks, 1), 0);
    for (const char *c = text; *c; c++) {
        struct graph_node n = {.kind = kind_of(*c), .stream = *c == 'R' || *c == 'W', .comm = *c == 'B'};
        if (n.kind == GRAPH_COMM)
            n.ordinal = ordinal[n.comm]++;
        if (n.kind == GRAPH_SYNC || n.kind == GRAPH_WAIT)
            n.dep = 1;
        assert_true(graph_add_node(g, 0, &n, &part, n.kind == GRAPH_COMM) >= 0);
    }
    return g;
}

/* want: the recorded index of every live node, in base 36, '-' for none. */
static void expect(const char *graph, const char *live, const char *want)
{
    struct graph *g = recorded(graph);
    struct align *a = align_create(&g->ranks[0]);
    uint32_t ordinal[2] = {0, 0};
    assert_int_equal(strlen(live), strlen(want));
    for (uint32_t i = 0; live[i]; i++) {
        uint32_t comm = live[i] == 'B';
        bool is_comm = kind_of(live[i]) == GRAPH_COMM;
        int64_t got = align_next(a, kind_of(live[i]), live[i] == 'R' || live[i] == 'W', comm, is_comm ? ordinal[comm]++ : 0);
        char digit[2] = {want[i], 0};
        assert_int_equal(got, want[i] == '-' ? -1 : strtol(digit, NULL, 36));
        assert_int_equal(align_find(a, i), got);
    }
    assert_int_equal(align_find(a, (uint32_t)strlen(live)), -1);
    align_destroy(a);
    graph_destroy(g);
}

static void test_equal(void **state)
{
    expect("rsjArRWBs", "rsjArRWBs", "012345678");
}

static void test_extra_and_missing(void **state)
{
    expect("rARB", "rrAjRRsB", "0-1-2--3");   /* more than recorded */
    expect("rrsjARRB", "rARB", "0457");       /* less */
    expect("rRA", "RrA", "102");              /* another order */
    expect("rArA", "ArA", "123");             /* a missing one does not take the next segment's */
    expect("A", "rAAB", "-0--");              /* beyond what was recorded, and another communicator */
    expect("", "rs", "--");
}

static void test_communicators_in_another_order(void **state)
{
    expect("ArBR", "BRArBr", "2301--");
}

/* The last iteration again and again. pass: of every live node that is found. */
static void expect_looped(const char *graph, uint32_t begin, uint32_t end, const char *live, const char *want, const char *pass)
{
    struct graph *g = recorded(graph);
    uint32_t ordinal[2] = {0, 0};
    g->ranks[0].niterations = 1;
    g->ranks[0].iterations = malloc(2 * sizeof(uint32_t));
    g->ranks[0].iterations[0] = begin;
    g->ranks[0].iterations[1] = end;
    struct align *a = align_create(&g->ranks[0]);
    for (uint32_t i = 0; live[i]; i++) {
        bool is_comm = kind_of(live[i]) == GRAPH_COMM;
        uint32_t comm = live[i] == 'B';
        int64_t got = align_next(a, kind_of(live[i]), live[i] == 'R' || live[i] == 'W', comm, is_comm ? ordinal[comm]++ : 0);
        char digit[2] = {want[i], 0};
        if (got != (want[i] == '-' ? -1 : strtol(digit, NULL, 36)))
            fail_msg("%s: node %u is %lld", live, i, (long long)got);
        if (got >= 0)
            assert_int_equal(align_pass(a), pass[i] - '0');
    }
    align_destroy(a);
    graph_destroy(g);
}

static void test_last_iteration_again(void **state)
{
    (void)state;
    /* Set-up A, then an iteration: a record, A, a wait, B, a host wait. */
    expect_looped("ArAWBs", 1, 6, "ArAWBsrAWBsrAW", "01234512345123", "00000011111222");
    /* Others than recorded; the beginning is not missed where the end is. */
    expect_looped("ArAWBs", 1, 6, "ArAWBrARWBss", "012341" "2-345-", "000001" "101111");
    /* Set-up's communicator does not come again, and what does is counted by communicator. */
    expect_looped("BArA", 1, 4, "BArArAB", "0123-1-", "0000010");
    /* Nothing is looped that something was recorded behind. */
    expect_looped("ArAB", 1, 3, "ArABArA", "0123---", "0000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_iteration_again),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_extra_and_missing),
        cmocka_unit_test(test_communicators_in_another_order),
    };
    return cmocka_run_group_tests_name("prismd: align", tests, NULL, NULL);
}
