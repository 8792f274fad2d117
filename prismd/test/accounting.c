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

#include "prismd/accounting_text.h"

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
                              "peak_memory_bytes=123456789012,prediction_error=0.0041,emulated_gpu_hours=1.6,"
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

static void merged(const char *comment, double earlier, const char *expected)
{
    char out[ACCOUNTING_MAX];
    assert_int_equal(accounting_merge(comment, "prism:world=8,step=1.1,emulated_gpu_hours=2,exit_code=0", earlier, out), 0);
    assert_string_equal(out, expected);
}

static void test_merge(void **state)
{
    merged(NULL, 0, "prism:world=8,step=1.1,emulated_gpu_hours=2,exit_code=0");
    merged("", 0, "prism:world=8,step=1.1,emulated_gpu_hours=2,exit_code=0");
    merged("mine", 0.5, "mine; prism:world=8,step=1.1,emulated_gpu_hours=2.5,exit_code=0");
    merged("mine; prism:world=8,phase=auto", 0, "mine; prism:world=8,step=1.1,emulated_gpu_hours=2,exit_code=0");
    merged("prism:world=8", 0, "prism:world=8,step=1.1,emulated_gpu_hours=2,exit_code=0");
}

static void test_steps_add_up(void **state)
{
    const char *ours = "prism:world=8,step=1.1,emulated_gpu_hours=2";
    assert_true(accounting_earlier("mine; prism:step=1.0,emulated_gpu_hours=3", ours) == 3);
    assert_true(accounting_earlier("prism:step=1.1,emulated_gpu_hours=3", ours) == 0);
    assert_true(accounting_earlier("prism:world=8", ours) == 0);
    assert_true(accounting_earlier(NULL, ours) == 0);
    /* The job started again: what its first start took has its own record in the database. */
    assert_true(accounting_earlier("prism:step=1.0,emulated_gpu_hours=3", "prism:step=1.1,restart=1,emulated_gpu_hours=2") == 0);
}

static void test_merge_fits(void **state)
{
    char ours[ACCOUNTING_MAX], comment[2 * ACCOUNTING_MAX], out[ACCOUNTING_MAX];
    accounting_print(&record, ours);
    for (size_t len = 0; len < ACCOUNTING_MAX + 10; len++) {
        memset(comment, 'x', len);
        comment[len] = 0;
        int rc = accounting_merge(comment, ours, 0.25, out);
        assert_int_equal(rc, len <= 760 || !rc ? 0 : -1);
        if (rc)
            continue;
        assert_true(strlen(out) < ACCOUNTING_MAX);
        assert_memory_equal(out, comment, len);
        const char *part = accounting_find(out);
        assert_true(accounting_number(part, "emulated_gpu_hours") == 1.85);
        assert_true(accounting_number(part, "world") == 64);
        assert_true(accounting_number(part, "exit_code") == 0);
    }
    assert_int_equal(accounting_merge(comment, ours, 0, out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print), cmocka_unit_test(test_print_long),   cmocka_unit_test(test_find),
        cmocka_unit_test(test_merge), cmocka_unit_test(test_steps_add_up), cmocka_unit_test(test_merge_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
