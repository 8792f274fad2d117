/* Capture that ends early: counting iterations while they come, ranks that are ahead of others, cutting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build.h"

#define AR GRAPH_OP_ALLREDUCE
#define AG GRAPH_OP_ALLGATHER

/* Letters: a, b all-reduce and all-gather on communicator 0, A, B on communicator 1, '.' the host waits for a record,
 * '>' and '<' a send to and a receive from the other of two on communicator 0. */
static void play(struct graph *g, uint32_t rank, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '.':
            build_node(g, rank, GRAPH_SYNC, 0, build_node(g, rank, GRAPH_RECORD, 0, -1));
            break;
        case '>':
        case '<':
            build_op(g, rank, 0, *text == '>' ? GRAPH_OP_SEND : GRAPH_OP_RECV, 1 - (int32_t)rank, 1);
            break;
        default:
            build_op(g, rank, *text < 'a', (*text | 32) == 'a' ? AR : AG, -1, 1);
        }
}

static void play_times(struct graph *g, uint32_t rank, const char *text, int times)
{
    while (times--)
        play(g, rank, text);
}

/* Ranks 0 and 1 have communicator 0 to themselves; 1 is the world's. */
static struct graph *two_comms(void)
{
    const int32_t pair[] = {0, 1};
    struct graph *g = graph_create(4, 8);
    build_comm(g, 0, pair, 2);
    build_world(g, 1);
    return g;
}

static uint32_t count(const struct graph *g, uint32_t rank)
{
    return graph_count_iterations(g, rank, UINT32_MAX);
}

static void test_counts_as_they_come(void **state)
{
    struct graph *g = two_comms();
    assert_int_equal(count(g, 0), 0);
    play(g, 0, "b");
    for (uint32_t done = 1; done < 6; done++) {
        play(g, 0, "aab");
        assert_int_equal(count(g, 0), done <= 2 ? 0 : done - 1);
        play(g, 0, "A.");
        assert_int_equal(count(g, 0), done < 2 ? 0 : done);
    }
    graph_destroy(g);
}

static void test_only_what_is_over_counts(void **state)
{
    struct graph *g = two_comms();
    play_times(g, 0, "aA.", 5);
    assert_int_equal(g->ranks[0].nnodes, 20);
    assert_int_equal(graph_count_iterations(g, 0, 20), 5);
    assert_int_equal(graph_count_iterations(g, 0, 17), 4); /* its all-reduce on communicator 1 is still under way */
    assert_int_equal(graph_count_iterations(g, 0, 5), 0);
    assert_int_equal(graph_count_iterations(g, 0, 0), 0);
    graph_destroy(g);
}

static void test_micro_batches_are_no_iterations(void **state)
{
    struct graph *g = two_comms();
    play(g, 0, "b");
    play_times(g, 0, "aab.", 12);
    assert_int_equal(count(g, 0), 0); /* communicator 1 does not occur yet */
    play(g, 0, "A.");
    assert_int_equal(count(g, 0), 0);
    graph_destroy(g);
}

/* Layers of the first forward pass: no communicator is missing, but the host never looked at a result. */
static void test_layers_are_no_iterations(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    play_times(g, 0, "a", 64);
    assert_int_equal(count(g, 0), 0);
    play(g, 0, "b.");
    assert_int_equal(count(g, 0), 0);
    play_times(g, 0, "a", 64);
    play(g, 0, "b.");
    assert_int_equal(count(g, 0), 2);
    graph_destroy(g);
}

/* Buckets of the first backward pass: the host waits once on the way. */
static void test_buckets_are_no_iterations(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    play_times(g, 0, "a", 3);
    play(g, 0, ".");
    play_times(g, 0, "a", 20);
    assert_true(count(g, 0) < 2);
    play(g, 0, "b.");
    play_times(g, 0, "a", 24);
    play(g, 0, "b.");
    assert_true(count(g, 0) < 3);
    play_times(g, 0, "a", 24);
    play(g, 0, "b.");
    play_times(g, 0, "a", 24);
    play(g, 0, "b.");
    assert_int_equal(count(g, 0), 3);
    graph_destroy(g);
}

/* A small one that is never used holds nothing up, a large one not for ever. */
static void test_unused_communicator(void **state)
{
    struct graph *g = two_comms();
    play_times(g, 0, "ab.", 15);
    assert_int_equal(count(g, 0), 0);
    play_times(g, 0, "ab.", 33);
    assert_int_equal(count(g, 0), 3);
    play_times(g, 1, "AB.", 3);
    assert_int_equal(count(g, 1), 3);
    graph_destroy(g);
}

static void test_truncate(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    build_world(g, 1);
    for (uint32_t r = 0; r < 2; r++) {
        play(g, r, "bb");
        play_times(g, r, r ? "ab<A." : "ab>A.", 4);
    }
    play(g, 0, "ab"); /* ahead when the end came */
    assert_int_equal(graph_check(g, NULL), -1);
    assert_int_equal(graph_check_truncated(g, NULL), 0);
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    assert_int_equal(g->ranks[0].niterations, 4);
    assert_int_equal(graph_truncate(g, 5), -1);
    assert_int_equal(graph_truncate(g, 0), -1);
    assert_int_equal(graph_truncate(g, 3), 0);
    assert_int_equal(graph_check(g, NULL), 0);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(g->ranks[r].niterations, 3);
        assert_int_equal(g->ranks[r].nnodes, g->ranks[r].iterations[3]);
        assert_int_equal(g->ranks[r].nparts, 2 + 3 * 4);
        assert_int_equal(g->ranks[r].nodes[g->ranks[r].nnodes - 1].comm, 1);
    }
    graph_find_classes(g);
    struct bytes b = {0};
    graph_write(g, &b);
    struct graph *copy = graph_read(b.data, b.len, NULL);
    assert_non_null(copy);
    assert_int_equal(copy->ranks[1].niterations, 3);
    assert_int_equal(copy->ranks[1].nnodes, g->ranks[1].nnodes);
    graph_destroy(copy);
    bytes_free(&b);
    graph_destroy(g);
}

/* Rank 1 sees but micro-batches, and is nearly an iteration ahead: its last ones must not make its iterations longer. */
static void test_ahead_by_micro_batches(void **state)
{
    for (int ahead = 0; ahead < 8; ahead++) {
        struct graph *g = graph_create(3, 8);
        const int32_t pair[] = {0, 1}, other[] = {0, 2};
        build_comm(g, 0, pair, 2);
        build_comm(g, 1, other, 2);
        play_times(g, 0, "aaaaA.", 3); /* all see four micro-batches an iteration, rank 2 the end of each */
        play_times(g, 1, "a", 3 * 4 + ahead);
        play_times(g, 2, "A", 3 + ahead / 4);
        assert_int_equal(graph_find_iterations(g, NULL), 0);
        assert_int_equal(g->ranks[0].niterations, 3);
        for (uint32_t i = 0; i <= 3; i++) {
            assert_int_equal(g->ranks[1].iterations[i], 4 * i);
            assert_int_equal(g->ranks[2].iterations[i], i);
        }
        assert_int_equal(graph_truncate(g, 2), 0);
        assert_int_equal(graph_check(g, NULL), 0);
        graph_destroy(g);
    }
}

/* Periods of 2 and 3 that go together in 6 only: not guessed at. */
static void test_odd_counts(void **state)
{
    struct graph *g = graph_create(2, 8);
    build_world(g, 0);
    play_times(g, 0, "aab", 6);
    play_times(g, 1, "aabaab", 3);
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    assert_int_equal(g->ranks[0].niterations, 6);
    graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_as_they_come), cmocka_unit_test(test_only_what_is_over_counts),
        cmocka_unit_test(test_micro_batches_are_no_iterations), cmocka_unit_test(test_layers_are_no_iterations),
        cmocka_unit_test(test_buckets_are_no_iterations), cmocka_unit_test(test_unused_communicator),
        cmocka_unit_test(test_truncate),            cmocka_unit_test(test_ahead_by_micro_batches),
        cmocka_unit_test(test_odd_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
