/* The text of a job's Comment: printed, found, read and merged with the user's own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/report/accounting_text.h"

static const struct accounting_record record = {
    .world = 64, .gpus_per_node = 8, .devices = 4, .sandbox_ranks = 3, .sandbox = "0,9-10", .assistants = 1, .phase = "auto",
    .step = "12.1", .state = "ended", .capture_seconds = 10, .calibrate_seconds = 20, .emulate_seconds = 60,
    .iterations = 5, .iteration_seconds = 0.0125, .peak_memory_bytes = 123456789012, .prediction_error = 0.0041,
    .trace_id = "00ff00ff00ff00ff", .exit_code = 0, .exit_origin = "program"};

static void test_print(void **state)
{
    char text[ACCOUNTING_MAX], value[64];
    accounting_print(&record, text);
    assert_string_equal(text, "prism:world=64,nodes=8,gpus_per_node=8,devices=4,sandbox_ranks=3,sandbox=0+9-10,assistants=1,"
                              "phase=auto,step=12.1,state=ended,iterations=5,iteration_seconds=0.0125,"
                              "peak_memory_bytes=123456789012,prediction_error=0.0041,emulated_gpu_hours=1.6,steps=1,failed=0,"
                              "trace_id=00ff00ff00ff00ff,exit_code=0,exit_origin=program,"
                              "capture_seconds=10.000,calibrate_seconds=20.000,emulate_seconds=60.000");
    assert_true(accounting_number(text, "world") == 64);
    assert_true(accounting_number(text, "emulated_gpu_hours") == 1.6);
    assert_true(isnan(accounting_number(text, "sandbox")));
    assert_true(isnan(accounting_number(text, "orld")));
    assert_true(accounting_value(text, "sandbox", value, sizeof value));
    assert_string_equal(value, "0+9-10");
    assert_false(accounting_value(text, "restart", value, sizeof value));
    assert_false(accounting_value(NULL, "world", value, sizeof value));
    struct accounting_record running = {.world = 8, .gpus_per_node = 8, .phase = "auto", .step = "1.0", .state = "capture",
                                        .assistants = -1, .prediction_error = -1, .exit_code = -1};
    accounting_print(&running, text);
    assert_null(strstr(text, "exit_"));
    assert_null(strstr(text, "iteration"));
    assert_null(strstr(text, "assistants"));
    assert_non_null(strstr(text, "steps=1,failed=0"));
    running.state = "begun"; /* perhaps no emulation at all */
    running.capture_seconds = 60;
    accounting_print(&running, text);
    assert_null(strstr(text, "steps"));
    assert_null(strstr(text, "hours"));
}

/* A list of sandbox ranks that is too long is left out, and everything still fits. */
static void test_print_long(void **state)
{
    char text[ACCOUNTING_MAX], list[3000] = "0";
    struct accounting_record r = record;
    for (int i = 2; i < 1000; i += 2)
        snprintf(list + strlen(list), 8, ",%d", i);
    r.sandbox = list;
    accounting_print(&r, text);
    assert_null(strstr(text, ",sandbox="));
    assert_non_null(strstr(text, "emulate_seconds=60.000"));
}

static void test_find(void **state)
{
    assert_null(accounting_find(NULL));
    assert_null(accounting_find(""));
    assert_null(accounting_find("about a prism, notprism:world=3"));
    assert_string_equal(accounting_find("prism:world=3"), "prism:world=3");
    assert_string_equal(accounting_find("prism:x=1; prism:world=3"), "prism:world=3");
}

static void merged(const char *comment, const char *expected)
{
    char out[ACCOUNTING_MAX];
    struct accounting_share share = {0}, next;
    assert_int_equal(accounting_merge(comment, "prism:world=8,step=1.1,emulated_gpu_hours=2,steps=1,failed=0,exit_code=0", &share, &next,
                                      out), 0);
    assert_string_equal(out, expected);
    assert_true(next.hours == 2 && next.steps == 1 && next.failed == 0);
}

static void test_merge(void **state)
{
#define OURS "prism:world=8,step=1.1,emulated_gpu_hours=2,steps=1,failed=0,exit_code=0"
    merged(NULL, OURS);
    merged("", OURS);
    merged("mine", "mine; " OURS);
    merged("mine; prism:world=8,phase=auto", "mine; " OURS);
    merged("prism:world=8", OURS);
    merged("prism:world=8,step=1.0,state=begun", OURS);
    merged("mine; prism:step=1.0,emulated_gpu_hours=3,steps=2,failed=1",
           "mine; prism:world=8,step=1.1,emulated_gpu_hours=5,steps=3,failed=1,exit_code=0");
    /* What the job's first start took has its own record in the database. */
    merged("prism:step=1.7,restart=1,emulated_gpu_hours=3,steps=1", OURS);
}

/* Steps that run at once, written in turn: one after another of (step, hours, exit code), each with what it knows itself. */
static void test_steps_add_up(void **state)
{
    static const struct {
        int step, hours, failed;
    } writes[] = {{1, 1, 0}, {2, 1, 0}, {1, 4, 0}, {2, 5, 0}, {3, 0, 1}, {1, 9, 1}, {2, 7, 0}};
    struct accounting_share share[4] = {{0}}, next;
    char comment[ACCOUNTING_MAX] = "mine; prism:world=64", ours[ACCOUNTING_MAX], out[ACCOUNTING_MAX], value[32];
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        snprintf(ours, sizeof ours, "prism:step=9.%d,mark=of-%d,emulated_gpu_hours=%d,steps=1,failed=%d", writes[i].step, writes[i].step,
                 writes[i].hours, writes[i].failed);
        assert_int_equal(accounting_merge(comment, ours, &share[writes[i].step], &next, out), 0);
        share[writes[i].step] = next;
        strcpy(comment, out);
        if (i == 3) /* the first has written later */
            assert_string_equal(comment, "mine; prism:step=9.2,mark=of-2,emulated_gpu_hours=9,steps=2,failed=0");
    }
    assert_string_equal(comment, "mine; prism:step=9.3,mark=of-3,emulated_gpu_hours=16,steps=3,failed=2");
    /* The user has written over it: ours is there again. */
    assert_int_equal(accounting_merge("other", ours, &share[2], &next, out), 0);
    assert_true(accounting_value(accounting_find(out), "mark", value, sizeof value));
    assert_true(accounting_number(accounting_find(out), "emulated_gpu_hours") == 7);
}

/* srun cp, before, between and behind emulated steps */
static void test_helpers_leave_results(void **state)
{
    static const char *const helper[] = {"prism:world=8,step=1.2,state=begun", "prism:world=8,step=1.2,state=none,exit_code=0"};
    struct accounting_share share = {0}, next;
    char out[ACCOUNTING_MAX];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(accounting_merge("mine; prism:step=1.1,emulated_gpu_hours=3,steps=1,failed=0", helper[i], &share, &next, out), 0);
        assert_string_equal(out, "mine; prism:step=1.1,emulated_gpu_hours=3,steps=1,failed=0");
        assert_true(next.steps == 0 && next.hours == 0);
        assert_int_equal(accounting_merge("prism:world=8,step=1.1,state=none,exit_code=7", helper[i], &share, &next, out), 0);
        assert_string_equal(out, helper[i]);
    }
}

/* What a function finds in its variables that it does not set. */
static __attribute__((noinline)) void fill_stack(void)
{
    char text[8 * ACCOUNTING_MAX];
    memset(text, 'z', sizeof text);
    __asm__ volatile("" : : "r"(text) : "memory");
}

/* A comment that a user has changed: what is missing comes behind all else, whatever lies behind the text in memory. */
static void test_sums_of_a_spoiled_comment(void **state)
{
    struct accounting_share share = {0}, next;
    char out[ACCOUNTING_MAX];
    (void)state;
    fill_stack();
    assert_int_equal(accounting_merge("prism:step=1.9,steps=2,state=of-a-length", "prism:step=1.1,emulated_gpu_hours=2,steps=1,failed=0", &share,
                                      &next, out), 0);
    assert_string_equal(out, "prism:step=1.9,steps=3,state=of-a-length,emulated_gpu_hours=2,failed=0");
}

static void test_merge_fits(void **state)
{
    char ours[ACCOUNTING_MAX], comment[2 * ACCOUNTING_MAX], out[ACCOUNTING_MAX];
    struct accounting_share share = {0}, next;
    accounting_print(&record, ours);
    for (size_t len = 0; len < ACCOUNTING_MAX + 10; len++) {
        memset(comment, 'x', len);
        comment[len] = 0;
        int rc = accounting_merge(comment, ours, &share, &next, out);
        assert_int_equal(rc, len <= 740 || !rc ? 0 : -1);
        if (rc)
            continue;
        assert_true(strlen(out) < ACCOUNTING_MAX);
        assert_memory_equal(out, comment, len);
        const char *part = accounting_find(out);
        assert_true(accounting_number(part, "emulated_gpu_hours") == 1.6);
        assert_true(accounting_number(part, "steps") == 1);
        assert_true(accounting_number(part, "world") == 64);
        assert_true(accounting_number(part, "exit_code") == 0);
    }
    assert_int_equal(accounting_merge(comment, ours, &share, &next, out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print), cmocka_unit_test(test_print_long),   cmocka_unit_test(test_find),
        cmocka_unit_test(test_merge), cmocka_unit_test(test_steps_add_up), cmocka_unit_test(test_merge_fits),
        cmocka_unit_test(test_sums_of_a_spoiled_comment),
        cmocka_unit_test(test_helpers_leave_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
