/* options.c - the command line: defaults, every kind of bad value, and the places of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../layout.h"
#include "../options.h"

static char error[256];

static int parse(struct options *options, const char *first, const char *second)
{
    char *argv[] = {(char *)"moetrain", (char *)first, (char *)second};
    error[0] = '\0';
    return options_parse(options, 1 + (first != NULL) + (second != NULL), argv, error, sizeof error);
}

static void test_defaults_and_forms(void **state)
{
    struct options o;
    assert_int_equal(parse(&o, NULL, NULL), 0);
    assert_int_equal(o.hidden, 32);
    assert_int_equal(o.slow_rank, -1);
    assert_true(options_prints_rank(&o, 0));
    assert_false(options_prints_rank(&o, 1));
    assert_int_equal(parse(&o, "--layers", "6"), 0);
    assert_int_equal(o.layers, 6);
    assert_int_equal(parse(&o, "--lr=1e-4", "--exact-sums"), 0);
    assert_true(o.lr == 1e-4 && o.exact_sums);
    assert_int_equal(parse(&o, "--help", NULL), 1);
}

static void test_bad_values_name_the_option(void **state)
{
    static const char *const bad[][3] = {
        {"--layers=x", NULL, "--layers"},
        {"--layers", NULL, "--layers"},
        {"--layers=0", NULL, "--layers"},
        {"--layers=3x", NULL, "--layers"},
        {"--lr=nan", NULL, "--lr"},
        {"--lr=", NULL, "--lr"},
        {"--tp=-1", NULL, "--tp"},
        {"--exact-sums=1", NULL, "--exact-sums"},
        {"--nonsense", NULL, "--nonsense"},
        {"stray", NULL, "stray"},
        {"--tp=3", NULL, "--tp"},
        {"--topk=5", NULL, "--topk"},
        {"--ep=3", NULL, "--ep"},
        {"--pp=3", NULL, "--pp"},
        {"--print-ranks=", NULL, "--print-ranks"},
        {"--print-ranks=1,", NULL, "--print-ranks"},
        {"--print-ranks=3-1", NULL, "--print-ranks"},
        {"--print-ranks", "-1", "--print-ranks"},
        {"--iterations=99999999999999999999", NULL, "--iterations"},
    };
    struct options o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(&o, bad[i][0], bad[i][1]), -1);
        assert_non_null(strstr(error, bad[i][2]));
    }
}

static void test_world(void **state)
{
    struct options o;
    assert_int_equal(parse(&o, "--tp=2", "--pp=2"), 0);
    assert_int_equal(options_check_world(&o, 8, error, sizeof error), 0);
    assert_int_equal(options_check_world(&o, 6, error, sizeof error), -1);
    assert_non_null(strstr(error, "--tp times --pp (4)"));
    assert_int_equal(parse(&o, "--ep=4", NULL), 0);
    assert_int_equal(options_check_world(&o, 6, error, sizeof error), -1);
    assert_non_null(strstr(error, "--ep"));
    assert_int_equal(parse(&o, "--crash-rank=4", NULL), 0);
    assert_int_equal(options_check_world(&o, 4, error, sizeof error), -1);
    assert_non_null(strstr(error, "--crash-rank"));
}

static void test_print_ranks(void **state)
{
    struct options o;
    assert_int_equal(parse(&o, "--print-ranks=1,4-6", NULL), 0);
    for (int rank = 0; rank < 9; rank++)
        assert_int_equal(options_prints_rank(&o, rank), rank == 1 || (rank >= 4 && rank <= 6));
    assert_int_equal(parse(&o, "--print-ranks=all", NULL), 0);
    assert_true(options_prints_rank(&o, 12345));
}

static void test_options_from_a_file(void **state)
{
    struct options o;
    char path[] = "/tmp/moetrain-options-XXXXXX", argument[64];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs("# a comment\n\n tp = 4 # another\nheads=4\nlr= 1e-4\nexact-sums\nprint-ranks = 0,2\n", file);
    fclose(file);
    snprintf(argument, sizeof argument, "--options=%s", path);
    assert_int_equal(parse(&o, argument, "--layers=6"), 0);
    assert_true(o.tp == 4 && o.layers == 6 && o.lr == 1e-4 && o.exact_sums);
    assert_true(options_prints_rank(&o, 2) && !options_prints_rank(&o, 1));
    assert_int_equal(parse(&o, "--tp=2", argument), 0);
    assert_int_equal(o.tp, 4); /* the last one counts */
    static const char *const bad[][2] = {
        {"layers = x", "--layers"}, {"nonsense = 1", "--nonsense"}, {"options = other", "--options"}, {"layers", "--layers"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file = fopen(path, "w");
        fputs(bad[i][0], file);
        fclose(file);
        assert_int_equal(parse(&o, argument, NULL), -1);
        assert_non_null(strstr(error, bad[i][1]));
    }
    unlink(path);
    assert_int_equal(parse(&o, argument, NULL), -1);
    assert_non_null(strstr(error, path));
}

static void test_layout_is_a_bijection(void **state)
{
    for (int rank = 0; rank < 24; rank++) {
        struct layout l = layout_make(rank, 24, 2, 3, 2);
        assert_int_equal(l.dp, 4);
        assert_int_equal(l.edp, 2);
        assert_int_equal(layout_rank_of(&l, l.pp_rank, l.dp_rank, l.tp_rank), rank);
        assert_int_equal(l.edp_rank * l.ep + l.ep_rank, l.dp_rank);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_forms),
        cmocka_unit_test(test_bad_values_name_the_option),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_print_ranks),
        cmocka_unit_test(test_options_from_a_file),
        cmocka_unit_test(test_layout_is_a_bijection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
