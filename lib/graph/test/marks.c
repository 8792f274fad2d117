/* Iterations by ranges that the program names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build.h"
#include "graph/marks.h"
#include "random_graph.h"

#define BOUNDS 64u

/* Letters: a, b all-reduce and all-gather on communicator 0 of all ranks, A and B on communicator 1, the same; c, C: on communicator 2,
 * of ranks 0 and 1; '.' the host waits; pairs of brackets: ranges of four names; '|' where an iteration is expected to begin or end. */
static void play(struct graph *g, struct graph_marks *m, uint32_t rank, const char *text, uint32_t *bounds)
{
    static const char brackets[] = "()[]{}<>";
    uint32_t n = 0;
    for (; *text; text++) {
        const char *bracket = strchr(brackets, *text);
        if (*text == '|')
            bounds[n++] = g->ranks[rank].nnodes;
        else if (*text == '.')
            build_node(g, rank, GRAPH_SYNC, 0, build_node(g, rank, GRAPH_RECORD, 0, -1));
        else if (bracket)
            assert_int_equal(graph_marks_add(m, rank, (bracket - brackets) % 2 ? GRAPH_MARK_POP : GRAPH_MARK_PUSH,
                                             100 + (uint64_t)(bracket - brackets) / 2, g->ranks[rank].nnodes), 0);
        else
            build_op(g, rank, (*text | 32) == 'c' ? 2 : *text < 'a', (*text | 32) == 'b' ? GRAPH_OP_ALLGATHER : GRAPH_OP_ALLREDUCE, -1, 1);
        assert_true(n < BOUNDS);
    }
}

static struct graph *world_of(uint32_t world)
{
    struct graph *g = graph_create(world, 8);
    build_world(g, 0);
    build_world(g, 1);
    build_comm(g, 2, (int32_t[]){0, 1}, 2);
    return g;
}

#define ROUND  100u /* the names of brackets */
#define SQUARE 101u
#define CURLY  102u
#define ANGLE  103u

/* Ranks 0 and 1; a third one does nothing. NULL text: as rank 0. Are they told by ranges of that name? */
static bool told_by(uint64_t name, const char *text, const char *other, uint32_t ended_after)
{
    uint32_t bounds[2][BOUNDS] = {0}, before[2][BOUNDS], n[2];
    struct graph *g = world_of(3);
    struct graph_marks *m = graph_marks_create(3);
    play(g, m, 0, text, bounds[0]);
    play(g, m, 1, other ? other : text, bounds[1]);
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        n[i] = g->ranks[i].niterations;
        memcpy(before[i], g->ranks[i].iterations, (n[i] + 1) * sizeof **before);
    }
    bool found = graph_find_marked_iterations(g, m, name, ended_after);
    for (uint32_t i = 0; i < 2; i++) {
        const struct graph_rank *r = &g->ranks[i];
        const uint32_t *expected = found ? bounds[i] : before[i];
        if (!found)
            assert_int_equal(r->niterations, n[i]);
        for (uint32_t k = 0; k <= r->niterations; k++)
            if (r->iterations[k] != expected[k])
                fail_msg("%s: rank %u has bound %u at node %u, not %u", i && other ? other : text, i, k, r->iterations[k], expected[k]);
        assert_true(!found || r->niterations == BOUNDS - 1 || !bounds[i][r->niterations + 1]);
    }
    assert_int_equal(g->ranks[2].niterations, g->ranks[0].niterations);
    graph_marks_destroy(m);
    graph_destroy(g);
    return found;
}

static bool told(const char *text, const char *other, uint32_t ended_after)
{
    assert_false(told_by(0, text, other, ended_after)); /* nobody has said which it is */
    return told_by(ROUND, text, other, ended_after);
}

static void iterations_that_differ(void **state)
{
    assert_true(told("b|(aA|.)(aaA|.)(aaaA|.)(aA|.)", NULL, 0));
    assert_true(told("|(aA|.)(aA|.)(aA|.)(aA|.)", NULL, 0)); /* periodicity says the same */
    assert_true(told("b|(aA|.)(aA|.)(aA.bbb|)(aA|.)(aA|.)(aA.bbb|)(aA|.)", NULL, 0)); /* a validation in every third */
    assert_true(told("b|(aA|.)(aA|.)(aA.)bbb|.(aA|.)(aA|.)(aA.)bbb|.(aA|.)", NULL, 0)); /* behind it */
    assert_true(told("b|(aaaA.)b|(aaaA.)b|(aaaA.)b|aaaa", NULL, 0)); /* a loss behind each, then teardown */
    assert_true(told("b|(aA.)aaA|.(aA.)aA|.(aA|.)", NULL, 0));      /* half of each is in no range */
}

static void other_names_beside(void **state)
{
    const char *nested = "<b|([a][a]A|.)([a][a][a]A|.)([a]A|.)>", *parts = "b|[a]{aA|}.[aa]{aA|}.[a]{aA|}.";
    assert_true(told_by(ROUND, nested, NULL, 0));
    assert_false(told_by(ANGLE, nested, NULL, 0)); /* one */
    assert_true(told_by(SQUARE, parts, NULL, 0));  /* from the beginning of one to that of the next */
    assert_true(told_by(SQUARE, "b|[]{aA|.}[]{aaA|.}[]{aA|.}", NULL, 0)); /* it does not communicate itself */
    assert_false(told_by(7, nested, NULL, 0));     /* nobody has that name */
}

static void ranges_that_are_no_iterations(void **state)
{
    assert_false(told("b(aA.)", NULL, 0));
    assert_false(told("b(aA.)(A.)", "b(aA.)A.", 0));      /* not as many on both */
    assert_false(told("(aA.)(aA.)(aA.)", "aA.aA.aA.", 0)); /* on one only */
    assert_false(told("(aAa)(Aa)(AaA)", "(aA)(aA)(aAaA)", 0)); /* other operations in them */
    assert_false(told("b(aA.)(.)(aA.)", NULL, 0));        /* nothing in one */
}

static void ended_from_outside(void **state)
{
    /* Rank 1 is one behind, the operation of rank 0's last range is not whole. */
    assert_true(told("b|(aA|.)(aaA|.)(aaaA|.)(aA.)(aa", "b|(aA|.)(aaA|.)(aaaA|.)(aA", 2));
    assert_true(told_by(SQUARE, "b|[a]{A|.}[aa]{A|.}[aaa]{A|.}[a]{", "b|[a]{A|.}[aa]{A|.}[aaa]{A|.}[", 3));
    assert_false(told("b(aA.)(aaA.)(aaaA.)(aA.)(aa", "b(aA.)(aaA.)(aaaA.)(aA", 4)); /* too few */
}

/* Iterations of random length with ranges in them, between ranks that are no more than alike; and one mark too few. */
static void random_programs(void **state)
{
    uint64_t seed = 11;
    char text[4096], one_less[4096];
    for (int i = 0; i < 300; i++) {
        uint32_t n = 2 + random_below(&seed, 8), at = 0, last = 0;
        for (uint32_t k = random_below(&seed, 3); k > 0; k--)
            text[at++] = 'b';
        text[at++] = '|';
        for (uint32_t k = 0; k < n; k++) {
            last = at;
            text[at++] = '(';
            for (uint32_t micro = 1 + random_below(&seed, 5); micro > 0; micro--)
                at += (uint32_t)sprintf(text + at, "[%s]", random_below(&seed, 2) ? "ac" : "bca");
            at += (uint32_t)sprintf(text + at, "aA|.)");
        }
        text[at] = 0;
        if (!told(text, NULL, 0))
            fail_msg("not told: %s", text);
        strcpy(one_less, text);
        memmove(one_less + last, one_less + last + 1, strlen(one_less + last)); /* its end is left */
        if (told(one_less, text, 0))
            fail_msg("told, with one range less on rank 0: %s", text);
    }
}

static int64_t count(const char *text, uint32_t nodes)
{
    uint32_t unused[BOUNDS];
    struct graph *g = world_of(2);
    struct graph_marks *m = graph_marks_create(2);
    play(g, m, 0, text, unused);
    int64_t n = graph_count_marked_iterations(m, 0, ROUND, nodes);
    assert_int_equal(graph_count_marked_iterations(NULL, 0, ROUND, nodes), -1);
    assert_int_equal(graph_count_marked_iterations(m, 0, 0, nodes), -1);
    graph_marks_destroy(m);
    graph_destroy(g);
    return n;
}

static void counted_as_they_come(void **state)
{
    assert_int_equal(count("b(aA.)", UINT32_MAX), 0);
    assert_int_equal(count("b(aA.)(aaA.)(a", UINT32_MAX), 2);
    assert_int_equal(count("b(aA.)(aaA.)(a", 6), 1); /* the first three nodes of the second */
    assert_int_equal(count("b(aA.)bb.(aA.)(aaA.)(a", UINT32_MAX), 3);
    assert_int_equal(count("b(aA)(aA)(aA)(", UINT32_MAX), 3);                     /* the host never waits */
    assert_int_equal(count("b([a].[a].A.)([a].[a].[a].A.)([a].", UINT32_MAX), 2); /* micro-batches with a wait each */
    assert_int_equal(count("b[aA][aA][aA]", UINT32_MAX), -1);                     /* another name */
}

/* ---- Marks ---- */

static void expect_same(const struct graph_marks *a, const struct graph_marks *b)
{
    struct bytes x = {0}, y = {0};
    graph_marks_put(a, &x);
    graph_marks_put(b, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    bytes_free(&x);
    bytes_free(&y);
}

static void sent_and_taken(void **state)
{
    struct graph_marks *m = graph_marks_create(4), *late = graph_marks_create(4), *copy = graph_marks_create(5);
    struct bytes b = {0};
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(graph_marks_add(m, i % 2 + 1, GRAPH_MARK_PUSH + (int)i % 3 / 2, i, i), 0);
    for (uint32_t i = 0; i < 20; i++) /* another order */
        assert_int_equal(graph_marks_add(late, (i * 7 + 1) % 20 % 2 + 1, GRAPH_MARK_PUSH + (int)(i * 7 + 1) % 20 % 3 / 2, (i * 7 + 1) % 20, (i * 7 + 1) % 20), 0);
    expect_same(m, late);
    graph_marks_put(m, &b);
    for (size_t len = 0; len <= b.len; len++) {
        struct bytes_reader r = bytes_reader_init(b.data, len);
        struct graph_marks *taken = graph_marks_take(&r, 4);
        assert_int_equal(taken != NULL, len == b.len);
        if (taken)
            expect_same(m, taken);
        graph_marks_destroy(taken);
    }
    struct bytes_reader r = bytes_reader_init(b.data, b.len);
    assert_null(graph_marks_take(&r, 2)); /* a rank beyond */
    graph_marks_copy(copy, 1, m, 1);
    graph_marks_copy(copy, 2, m, 2);
    graph_marks_copy(copy, 2, copy, 2);
    expect_same(m, copy);
    assert_int_equal(graph_marks_add(m, 4, GRAPH_MARK_PUSH, 1, 1), -1);
    assert_int_equal(graph_marks_add(m, 0, 4, 1, 1), -1);
    graph_marks_destroy(m);
    graph_marks_destroy(late);
    graph_marks_destroy(copy);
    bytes_free(&b);
}

static void dropped_and_lost(void **state)
{
    struct graph *g = world_of(2);
    struct graph_marks *m = graph_marks_create(2), *taken;
    struct bytes b = {0};
    uint32_t unused[BOUNDS];
    for (uint32_t r = 0; r < 2; r++)
        play(g, m, r, "([aA.])([aaA.])([aA.])", unused);
    assert_int_equal(graph_find_iterations(g, NULL), 0);
    assert_int_equal(graph_marks_add(m, 1, GRAPH_MARK_DROP, ROUND, 0), 0); /* the outer one: the inner one is left */
    assert_false(graph_find_marked_iterations(g, m, ROUND, 0));
    assert_true(graph_find_marked_iterations(g, m, SQUARE, 0));
    assert_int_equal(graph_marks_add(m, 1, GRAPH_MARK_DROP, SQUARE, 0), 0);
    assert_false(graph_find_marked_iterations(g, m, SQUARE, 0));
    for (uint32_t i = 0; i <= GRAPH_MARKS_MAX; i++)
        assert_int_equal(graph_marks_add(m, 0, GRAPH_MARK_PUSH, 1, i), 0);
    assert_false(graph_find_marked_iterations(g, m, SQUARE, 0));
    graph_marks_put(m, &b);
    assert_int_equal(b.len, 12);
    struct bytes_reader r = bytes_reader_init(b.data, b.len);
    assert_non_null(taken = graph_marks_take(&r, 2));
    expect_same(m, taken);
    graph_marks_destroy(taken);
    graph_marks_destroy(m);
    graph_destroy(g);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations_that_differ), cmocka_unit_test(other_names_beside), cmocka_unit_test(ranges_that_are_no_iterations),
        cmocka_unit_test(ended_from_outside), cmocka_unit_test(random_programs), cmocka_unit_test(counted_as_they_come),
        cmocka_unit_test(sent_and_taken), cmocka_unit_test(dropped_and_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
