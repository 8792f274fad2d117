/* cli.c - the parts of the `prism` command that need no trace: numbers, options, losses, groups to measure. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../cli.h"
#include "../measure_group.h"
#include "../report_text.h"

static void test_numbers_for_people(void **state)
{
    char buf[64];
    assert_string_equal(format_bytes(buf, sizeof(buf), 0), "0 B");
    assert_string_equal(format_bytes(buf, sizeof(buf), 1023), "1023 B");
    assert_string_equal(format_bytes(buf, sizeof(buf), 1536), "1.50 KiB");
    assert_string_equal(format_bytes(buf, sizeof(buf), 80.0 * (1ull << 30)), "80.00 GiB");
    assert_string_equal(format_seconds(buf, sizeof(buf), 0), "0.000 s");
    assert_string_equal(format_seconds(buf, sizeof(buf), 12e-6), "12.0 us");
    assert_string_equal(format_seconds(buf, sizeof(buf), 0.25), "250.000 ms");
    assert_string_equal(format_seconds(buf, sizeof(buf), 125.5), "2 min 05.5 s");
}

static void check_ranks(const char *expected, const uint32_t *ranks, size_t n)
{
    char *text = format_ranks(ranks, n);
    assert_string_equal(text, expected);
    free(text);
}

static void test_ranks(void **state)
{
    check_ranks("", NULL, 0);
    check_ranks("5", (const uint32_t[]){ 5 }, 1);
    check_ranks("0,17,4096-4099", (const uint32_t[]){ 0, 17, 4096, 4097, 4098, 4099 }, 6);
    check_ranks("0,1,3-5", (const uint32_t[]){ 0, 1, 3, 4, 5 }, 5);
}

static void test_median(void **state)
{
    assert_true(isnan(median(NULL, 0)));
    assert_true(median((const double[]){ 3, 1, 2 }, 3) == 2);
    assert_true(median((const double[]){ 4, 1, 3, 2 }, 4) == 2.5);
}

static const struct cli_option table[] = { { "flag", NULL, "a flag" }, { "value", "V", "a value" }, { 0 } };
static const struct cli_usage usage = { "prism test", "For tests.", table };

/* getopt_long moves the pointers of argv, never what they point to. */
static int parse(const char **argv, const char **values, bool in_order, int *code)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return cli_parse(argc, (char **)argv, &usage, values, in_order, code);
}

static void test_options(void **state)
{
    const char *values[CLI_MAX_OPTIONS];
    int code = -1;
    const char *good[] = { "test", "operand", "--flag", "--value=-- x", NULL };
    assert_int_equal(parse(good, values, false, &code), 3);
    assert_string_equal(good[3], "operand");
    assert_string_equal(values[0], "");
    assert_string_equal(values[1], "-- x");
    const char *in_order[] = { "test", "--flag", "program", "--value", "7", NULL };
    assert_int_equal(parse(in_order, values, true, &code), 2);
    assert_null(values[1]);
    const char *missing[] = { "test", "--value", "--", "program", NULL };
    assert_int_equal(parse(missing, values, true, &code), -1);
    assert_int_equal(code, PRISM_EXIT_USAGE);
    const char *unknown[] = { "test", "--nothing", NULL };
    assert_int_equal(parse(unknown, values, false, &code), -1);
    assert_int_equal(code, PRISM_EXIT_USAGE);
}

static void test_losses(void **state)
{
    char path[] = "/tmp/prism-losses-XXXXXX";
    static const char output[] = "rank 513 iteration 0 loss 4.5 grad_norm 1.25 seconds 0.1\n"
                                 "[17] rank 0 iteration 1 loss 3.5\n"
                                 "rank 0 iteration 2 loss nan grad_norm 2\n"
                                 "rank 0 iteration x loss 3\nrank 0 done\nrank 0 iteration 4000000000 loss 1\n";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, output, sizeof(output) - 1) == (ssize_t)sizeof(output) - 1);
    close(fd);
    json_t *report = json_object();
    struct prism_error err = { 0 };
    assert_int_equal(report_add_losses(report, path, &err), 3);
    char *text = json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(text, "{\"losses\":{\"0\":[null,3.5,null],\"513\":[4.5]},"
                              "\"grad_norms\":{\"0\":[null,null,2.0],\"513\":[1.25]}}");
    free(text);
    unlink(path);
    assert_int_equal(report_add_losses(report, path, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_USAGE);
    json_decref(report);
}

/* A line takes memory up to its iteration: not any number of such lines. */
static void test_losses_are_bounded(void **state)
{
    char path[] = "/tmp/prism-cli-XXXXXX";
    int fd = mkstemp(path);
    json_t *report = json_object();
    struct prism_error err = { 0 };
    for (int i = 0; i < 40; i++)
        assert_true(dprintf(fd, "rank %d iteration 999999 loss 1\n", i) > 0);
    close(fd);
    assert_int_equal(report_add_losses(report, path, &err), 16);
    unlink(path);
    json_decref(report);
}

static void test_report_tolerates_what_is_missing(void **state)
{
    static const char *const reports[] = {
        "{}", "{\"world\":\"x\",\"sandbox\":3,\"phases\":[],\"iteration_seconds\":{\"0\":[null,1]},\"ops\":[{}]}",
        "{\"predicted_seconds\":[1,2],\"pacing_us\":{},\"peak_memory_bytes\":{\"0\":null},\"exit_code\":3}"
    };
    FILE *out = fopen("/dev/null", "w");
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        json_t *report = json_loads(reports[i], 0, NULL);
        assert_non_null(report);
        report_print(out, report);
        json_decref(report);
    }
    fclose(out);
}

static void test_groups_to_measure(void **state)
{
    int node_of[12], n;
    for (int r = 0; r < 12; r++)
        node_of[r] = r / 4;
    struct measure_world w = { .size = 12, .nodes = 3, .node_of = node_of };
    struct measure_group *groups = measure_groups(&w, &n);
    static const int expected[][2] = { { 2, 1 }, { 4, 1 }, { 2, 2 }, { 4, 2 }, { 8, 2 }, { 3, 3 }, { 6, 3 }, { 12, 3 } };
    assert_int_equal(n, sizeof(expected) / sizeof(expected[0]));
    for (int i = 0; i < n; i++) {
        assert_int_equal(groups[i].size, expected[i][0]);
        assert_int_equal(groups[i].nodes, expected[i][1]);
        assert_int_equal(groups[i].ranks[0], 0);
    }
    measure_groups_free(groups, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_for_people),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_losses_are_bounded),
        cmocka_unit_test(test_report_tolerates_what_is_missing),
        cmocka_unit_test(test_groups_to_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
