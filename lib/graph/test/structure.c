/* Building, checking, iterations and classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build.h"
#include "random_graph.h"

#define AR GRAPH_OP_ALLREDUCE
#define BC GRAPH_OP_BROADCAST

static void test_building(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    struct graph_part part = {.op = AR, .datatype = 7, .peer = -1, .count = 1};
    struct graph_node comm = {.kind = GRAPH_COMM}, wait = {.kind = GRAPH_WAIT, .dep = 1}, odd = {.kind = 77};
    assert_int_equal(graph_add_node(g, 2, &comm, &part, 1), -1);
    assert_int_equal(graph_add_node(g, 0, &comm, NULL, 0), -1);
    assert_int_equal(graph_add_node(g, 0, &wait, NULL, 0), -1); /* nothing there yet */
    assert_int_equal(graph_add_node(g, 0, &odd, NULL, 0), -1);
    assert_int_equal(graph_add_node(g, 0, &comm, &part, 1), 0);
    wait.host = 3;
    wait.stream = 5;
    assert_int_equal(graph_add_node(g, 0, &wait, NULL, 0), 0);
    assert_int_equal(g->ranks[0].nstreams, 6);
    assert_int_equal(g->ranks[0].nhosts, 4);
    assert_int_equal(graph_set_member(g, 0, 5, -1, 0), 0);
    assert_int_equal(g->ranks[0].ncomms, 6);
    assert_int_equal(g->ranks[0].comms[3].global, -1);
    assert_int_equal(graph_set_member(g, 0, 1, 1, 0), -1); /* no such communicator */
    assert_int_equal(graph_set_member(g, 0, 1, 0, 2), -1); /* nor member */
    graph_alloc_works(g, 0);
    assert_int_equal(graph_add_node(g, 0, &comm, &part, 1), -1);
    graph_destroy(g);
    graph_destroy(NULL);
}

static void test_works(void **state)
{
    struct graph *g = graph_create(3, 8);
    build_world(g, 0);
    for (uint32_t r = 0; r < 3; r++)
        for (int i = 0; i < (r == 2 ? 1 : 2); i++)
            build_op(g, r, 0, AR, -1, 1);
    graph_find_classes(g);
    assert_int_equal(g->nclasses, 2);
    assert_int_equal(graph_representative(g, 0), -1);
    assert_true(graph_device_work(g, 1, 0) == 0);
    graph_alloc_works(g, 0);
    g->ranks[0].device_work[1] = 5;
    g->ranks[0].host_work[0] = 7;
    assert_int_equal(graph_representative(g, 0), 0);
    assert_true(graph_device_work(g, 1, 1) == 5);
    assert_true(graph_host_work(g, 1, 0) == 7);
    assert_true(graph_device_work(g, 2, 0) == 0);
    graph_destroy(g);
}

/* ---- Check ---- */

static void expect_fault(const struct graph *g, const char *text)
{
    struct prism_error err = {0};
    if (!text) {
        if (graph_check(g, &err))
            fail_msg("%s", err.text);
        return;
    }
    assert_int_equal(graph_check(g, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void test_check_collectives(void **state)
{
    struct graph *g = graph_create(3, 8);
    build_world(g, 0);
    for (uint32_t r = 0; r < 3; r++) {
        build_op(g, r, 0, AR, -1, 10);
        build_op(g, r, 0, BC, 1, 10);
    }
    expect_fault(g, NULL);
    struct graph_part *last = &g->ranks[2].parts[1];
    last->count = 11;
    expect_fault(g, "count differs: rank 0, node 1 has broadcast (10 elements");
    last->count = 10;
    last->peer = 2;
    expect_fault(g, "root differs");
    last->peer = 1;
    last->redop = 3; /* means nothing for a broadcast */
    expect_fault(g, NULL);
    g->ranks[2].parts[0].redop = 3;
    expect_fault(g, "reduction differs");
    g->ranks[2].parts[0].redop = 0;
    g->ranks[1].parts[0].datatype = 6;
    expect_fault(g, "datatype differs");
    g->ranks[1].parts[0].datatype = 7;
    last->op = GRAPH_OP_REDUCE;
    expect_fault(g, "operation differs: rank 0, node 1 has broadcast");
    last->op = BC;
    last->peer = 3;
    expect_fault(g, "rank 2, node 1: peer or root outside the communicator");
    last->peer = 1;
    build_op(g, 1, 0, AR, -1, 1);
    expect_fault(g, "rank 0 did not take part in all-reduce number 2");
    assert_int_equal(graph_check_truncated(g, NULL), 0);
    graph_destroy(g);
}

static void test_check_messages(void **state)
{
    struct graph *g = graph_create(3, 8);
    build_world(g, 0);
    build_op(g, 0, 0, GRAPH_OP_SEND, 1, 10);
    build_op(g, 1, 0, GRAPH_OP_RECV, 0, 10);
    build_op(g, 2, 0, GRAPH_OP_SEND, 1, 20);
    build_op(g, 1, 0, GRAPH_OP_RECV, 2, 20);
    struct graph_part self[] = {{.op = GRAPH_OP_SEND, .datatype = 7, .peer = 2, .count = 1},
                                {.op = GRAPH_OP_RECV, .datatype = 7, .peer = 2, .count = 1}};
    build_group(g, 2, 0, self, 2);
    expect_fault(g, NULL);
    g->ranks[1].parts[1].count = 19;
    expect_fault(g, "size of a send and its receive differs: rank 2, node 0");
    g->ranks[1].parts[1].count = 20;
    build_op(g, 2, 0, GRAPH_OP_SEND, 0, 5);
    expect_fault(g, "rank 2, node 2: send number 0 to rank 0 on communicator 0 of the trace has no receive");
    assert_int_equal(graph_check_truncated(g, NULL), 0);
    build_op(g, 0, 0, GRAPH_OP_RECV, 2, 5);
    expect_fault(g, NULL);
    build_op(g, 0, 0, GRAPH_OP_RECV, 1, 5);
    expect_fault(g, "rank 0, node 2: receive number 0 from rank 1");
    graph_destroy(g);
}

static void test_check_random(void **state)
{
    uint64_t seed = 11;
    for (int i = 0; i < 300; i++) {
        struct random_shape shape = random_shape(&seed);
        shape.drop = 0;
        struct graph *g = random_graph(&seed, &shape);
        expect_fault(g, NULL);
        graph_destroy(g);
    }
}

/* ---- Iterations ---- */

/* A rank whose operations are letters: lower case a … z all-reduces of that count on communicator 0, A … Z
 * the same on communicator 1, '.' a record, '!' the host waits for the node before, ':' stream 1 does, digits broadcasts
 * from that root. */
static void letters(struct graph *g, uint32_t rank, const char *text)
{
    for (; *text; text++) {
        if (*text == '.')
            build_node(g, rank, GRAPH_RECORD, 0, -1);
        else if (*text == '!' || *text == ':')
            build_node(g, rank, *text == '!' ? GRAPH_SYNC : GRAPH_WAIT, *text == ':', (int64_t)g->ranks[rank].nnodes - 1);
        else if (*text >= '0' && *text <= '9')
            build_op(g, rank, 0, BC, *text - '0', 1);
        else if (*text >= 'a')
            build_op(g, rank, 0, (uint8_t)(*text < 'n' ? AR : GRAPH_OP_ALLGATHER), -1, (uint64_t)*text);
        else
            build_op(g, rank, 1, (uint8_t)(*text < 'N' ? AR : GRAPH_OP_ALLGATHER), -1, (uint64_t)*text);
    }
}

/* bars: '|' where iterations begin and end. */
static void expect_iterations(const struct graph *g, uint32_t rank, const char *bars)
{
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t node = 0, bound = 0;
    for (; *bars; bars++) {
        if (*bars != '|') {
            node++;
            continue;
        }
        assert_true(bound <= r->niterations);
        assert_int_equal(r->iterations[bound++], node);
    }
    assert_int_equal(node, r->nnodes);
    assert_int_equal(bound, r->niterations + 1);
}

static void one_rank(const char *bars)
{
    char text[512];
    size_t n = 0;
    for (const char *c = bars; *c; c++)
        if (*c != '|')
            text[n++] = *c;
    text[n] = 0;
    struct graph *g = graph_create(10, 8);
    build_world(g, 0);
    build_world(g, 1);
    letters(g, 0, text);
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    expect_iterations(g, 0, bars);
    assert_int_equal(g->ranks[5].niterations, g->ranks[0].niterations); /* has no nodes */
    graph_destroy(g);
}

static void test_iterations(void **state)
{
    one_rank("|aA|aA|aA|");
    one_rank("0|aA|aA|aA|");   /* set-up */
    one_rank("0|aA|aA|aA|a");  /* ended within an iteration */
    one_rank("01|aA|aA|aA|1"); /* teardown */
    one_rank("01|aA|aA|aA|1230");
    one_rank("0|..a.A|.a.A|.a.A|.");    /* nodes that are no operations */
    one_rank("0|aaaaA|aaaaA|aaaaA|aa"); /* micro-batches within */
    one_rank("0|abcA|bbaA|cacA|");      /* counts differ */
    one_rank("|0123|0123|0123|");       /* roots take turns */
}

/* Buckets of gradients that look alike, of equal and of different counts; the first iteration has one that is larger. */
static void test_layers_that_look_alike(void **state)
{
    one_rank("0y.!0|.!abcabcabc|.!abcabcabc|.!abcabcabc|.!");
    one_rank("0y.!k|.!abcabcabc|.!abcabcabc|.!abcabcabc|.!");
    one_rank("0m|.:ab.ab|.:ab.ab|.:ab.ab|.:"); /* the optimizer waits, the host never looks */
    one_rank("0z|abba|abba|abba|");            /* nothing but the counts */
    one_rank("0y|.!abcd|.!efgh|.!iabk|.!");    /* counts come from data */
}

static void test_no_period(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    build_world(g, 1);
    letters(g, 0, "a1A0n");
    letters(g, 1, "aAaAaA");
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    expect_iterations(g, 0, "|a1A0n|");
    expect_iterations(g, 1, "|aAaAaA|");
    graph_destroy(g);
}

/* Rank 1 sees three like operations where rank 0 sees an iteration; its set-up ends with one more, of another
 * count. */
static void test_common_number(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    build_world(g, 1);
    letters(g, 0,
            "0naaA"
            "naaA"
            "naaA");
    letters(g, 1,
            "b"
            "aaa"
            "aaa"
            "aaa");
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    expect_iterations(g, 0, "0|naaA|naaA|naaA|");
    expect_iterations(g, 1, "b|aaa|aaa|aaa|");
    graph_destroy(g);
}

/* A long program without any period is given up on in time. */
static void test_long(void **state)
{
    struct graph *g = graph_create(1, 8);
    uint64_t seed = 5;
    build_world(g, 0);
    struct graph_part p = {.datatype = 7, .peer = -1, .count = 1};
    for (uint32_t i = 0; i < 30000; i++) {
        struct graph_node n = {.kind = GRAPH_COMM, .ordinal = i};
        p.op = (uint8_t)(1 + 3 * random_below(&seed, 2));
        p.redop = (uint8_t)random_below(&seed, 250);
        assert_int_equal(graph_add_node(g, 0, &n, &p, 1), 0);
    }
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    graph_destroy(g);
}

/* ---- Classes ---- */

/* Pipelines of four, data-parallel pairs: inner stages of a pipeline look alike, first and last do not. */
static void test_classes(void **state)
{
    struct graph *g = graph_create(8, 8);
    for (int32_t d = 0; d < 2; d++)
        build_comm(g, 0, (int32_t[]){d, d + 2, d + 4, d + 6}, 4);
    for (int32_t p = 0; p < 4; p++)
        build_comm(g, 1, (int32_t[]){2 * p, 2 * p + 1}, 2);
    for (uint32_t r = 0; r < 8; r++) {
        int32_t stage = (int32_t)r / 2;
        if (stage > 0)
            build_op(g, r, 0, GRAPH_OP_RECV, stage - 1, 100 + r);
        if (stage < 3)
            build_op(g, r, 0, GRAPH_OP_SEND, stage + 1, 100 + r);
        build_op(g, r, 1, AR, -1, 10);
    }
    graph_find_classes(g);
    const uint32_t want[8] = {0, 0, 1, 1, 1, 1, 2, 2};
    assert_int_equal(g->nclasses, 3);
    for (uint32_t r = 0; r < 8; r++)
        assert_int_equal(g->ranks[r].klass, want[r]);
    build_op(g, 3, 1, BC, 0, 10); /* not the root */
    build_op(g, 2, 1, BC, 0, 10); /* the root */
    graph_find_classes(g);
    assert_int_equal(g->nclasses, 5);
    assert_int_equal(g->ranks[4].klass, g->ranks[5].klass);
    graph_destroy(g);
}

/* An all-to-all of sends and receives, that every rank writes in order of the peers' numbers, is the same
 * everywhere. */
static void test_class_of_group(void **state)
{
    struct graph *g = graph_create(4, 8);
    build_world(g, 0);
    for (uint32_t r = 0; r < 4; r++) {
        struct graph_part parts[8];
        for (int32_t p = 0; p < 4; p++) {
            parts[2 * p] =
                (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = p, .count = r * 10};
            parts[2 * p + 1] =
                (struct graph_part){.op = GRAPH_OP_RECV, .datatype = 7, .peer = p, .count = (uint64_t)p * 10};
        }
        build_group(g, r, 0, parts, 8);
    }
    expect_fault(g, NULL);
    graph_find_classes(g);
    assert_int_equal(g->nclasses, 1);
    graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_building),
        cmocka_unit_test(test_works),
        cmocka_unit_test(test_check_collectives),
        cmocka_unit_test(test_check_messages),
        cmocka_unit_test(test_check_random),
        cmocka_unit_test(test_iterations),
        cmocka_unit_test(test_layers_that_look_alike),
        cmocka_unit_test(test_no_period),
        cmocka_unit_test(test_common_number),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_class_of_group),
    };
    return cmocka_run_group_tests_name("graph: structure", tests, NULL, NULL);
}
