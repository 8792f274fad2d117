/* marks.c - which of a program's NVTX ranges prismd is told, with a double of it. preload_ranged_real does the same by NVIDIA's headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/nodes/marks.h"
#include "preload/test/fake_prismd.h"

static struct fake f;
static const char *const programs[] = {"test/preload_ranged", "test/preload_ranged_real"};

static bool is_built(const char *program)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    *strrchr(path, '/') = 0;
    strcpy(strrchr(path, '/') + 1, program);
    return !access(path, X_OK);
}

static void run(const char *program, uint32_t n, const char *act, uint32_t phase)
{
    memset(&f, 0, sizeof f);
    f.phase = phase;
    f.program = program;
    fake_run(&f, n, (const char *const[]){act, NULL});
    for (uint32_t i = 0; i < n; i++)
        if (!WIFEXITED(f.ranks[i].status) || WEXITSTATUS(f.ranks[i].status))
            fail_msg("%s %s: status %#x: %s %s", program, act, f.ranks[i].status, f.ranks[i].output, f.ranks[i].fatal);
}

/* Of the name of the mark number `of`, or of all (UINT32_MAX). */
static uint32_t count(const struct fake_rank *r, uint32_t kind, uint32_t of)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->nmarks; i++)
        n += r->marks[i].kind == kind && (of == UINT32_MAX || r->marks[i].name == r->marks[of].name);
    return n;
}

static void expect_output(const char *part)
{
    if (!strstr(f.ranks[0].output, part))
        fail_msg("no \"%s\" in: %s", part, f.ranks[0].output);
}

static void check_nested(const char *program)
{
    run(program, 2, "nested", PHASE_CAPTURE);
    for (uint32_t k = 0; k < 2; k++) {
        const struct fake_rank *r = &f.ranks[k];
        assert_non_null(strstr(r->output, "level 0\nlevel 4\nlevel 0\n"));
        assert_int_equal(count(r, MARK_DROP, UINT32_MAX), 2); /* layer, inner */
        assert_int_equal(count(r, MARK_PUSH, 0), 1);          /* train */
        assert_int_equal(count(r, MARK_POP, 0), 1);
        assert_int_equal(r->marks[0].position, 0);
        assert_int_equal(count(r, MARK_PUSH, 1), 3); /* iteration, whatever its number */
        assert_int_equal(count(r, MARK_POP, 1), 3);
        assert_int_equal(r->nmarks, 10);
        assert_true(r->marks[0].name != r->marks[1].name && r->marks[0].name == f.ranks[0].marks[0].name);
        uint32_t comms = 0;
        for (uint32_t i = 0; i < r->nmarks; i++)
            if (r->marks[i].kind == MARK_PUSH && i) /* an operation in each */
                assert_int_equal(r->nodes[r->marks[i].position].kind, GRAPH_COMM);
        for (uint32_t i = 0; i < r->nnodes; i++)
            comms += r->nodes[i].kind == GRAPH_COMM;
        assert_int_equal(comms, 3);
    }
}

static void check_forms(const char *program)
{
    run(program, 2, "forms", PHASE_CAPTURE);
    const struct fake_rank *r = &f.ranks[0];
    assert_int_equal(r->nmarks, 12);
    assert_int_equal(count(r, MARK_PUSH, 0), 4);
    assert_int_equal(count(r, MARK_PUSH, 8), 2); /* the domain's */
    for (uint32_t i = 0; i < r->nmarks; i++) {
        assert_int_equal(r->marks[i].kind, i % 2 ? MARK_POP : MARK_PUSH);
        assert_int_equal(r->marks[i].position, (i + 1) / 2);
    }
}

static void check_bounds(const char *program)
{
    run(program, 2, "many", PHASE_CAPTURE);
    const struct fake_rank *r = &f.ranks[0];
    assert_int_equal(count(r, MARK_PUSH, 0), MARKS_EACH);
    assert_int_equal(count(r, MARK_DROP, 0), 1);
    assert_true(r->nmarks <= 2 * MARKS_EACH + 1 + 2 * MARKS_NAMES);
    assert_true(r->nmarks > 2 * MARKS_EACH + MARKS_NAMES);
}

static void each_program(void (*test)(const char *program))
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (is_built(programs[i]))
            test(programs[i]);
}

static void outer_ranges_are_told(void **state)
{
    each_program(check_nested);
}

static void names_of_all_forms(void **state)
{
    each_program(check_forms);
}

static void what_is_told_is_bounded(void **state)
{
    each_program(check_bounds);
}

static void only_in_capture(void **state)
{
    run(programs[0], 2, "nested", PHASE_CALIBRATE);
    assert_int_equal(f.ranks[0].nmarks, 0);
    expect_output("level 4");
}

/* No rank yet, and none at all. */
static void nothing_comes_of_a_range_alone(void **state)
{
    run(programs[0], 1, "alone", PHASE_CAPTURE);
    assert_int_equal(f.ranks[0].hellos, 0);
    expect_output("level 0");
    memset(&f, 0, sizeof f);
    f.phase = PHASE_CAPTURE;
    f.program = programs[0];
    f.inert = true;
    fake_run(&f, 1, (const char *const[]){"alone", NULL});
    expect_output("level -2");
}

/* Opened by NVTX, in a program that was not started with the library in front. */
static void a_program_without_the_library_in_front(void **state)
{
    memset(&f, 0, sizeof f);
    f.phase = PHASE_CAPTURE;
    f.program = programs[0];
    f.bare = true;
    fake_run(&f, 1, (const char *const[]){"alone", NULL});
    expect_output("level 0");
    assert_int_equal(f.ranks[0].hellos, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outer_ranges_are_told), cmocka_unit_test(names_of_all_forms), cmocka_unit_test(what_is_told_is_bounded),
        cmocka_unit_test(only_in_capture), cmocka_unit_test(nothing_comes_of_a_range_alone), cmocka_unit_test(a_program_without_the_library_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
