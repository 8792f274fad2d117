/* Parsers of option values: what they take, what they refuse and say, and that random text never hurts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parse.h"

static void assert_says(const struct prism_error *err, const char *part)
{
    if (!strstr(err->text, part))
        fail_msg("'%s' does not say '%s'", err->text, part);
    assert_null(strchr(err->text, '\n'));
    assert_int_equal(err->code, PRISM_EXIT_USAGE);
}

static void refuses_number(const char *text, uint64_t least, uint64_t most, const char *says)
{
    struct prism_error err = {0};
    uint64_t v = 77;
    assert_int_equal(parse_number(text, least, most, &v, &err), -1);
    assert_int_equal(v, 77);
    assert_says(&err, says);
}

static void test_number(void **state)
{
    uint64_t v;
    assert_int_equal(parse_number("0", 0, 10, &v, NULL), 0);
    assert_int_equal(v, 0);
    assert_int_equal(parse_number("0010", 0, 10, &v, NULL), 0);
    assert_int_equal(v, 10);
    refuses_number("11", 0, 10, "11 is out of range: 0 to 10 is allowed");
    refuses_number("0", 1, 10, "out of range");
    refuses_number("99999999999999999999999999", 0, PARSE_WORLD_MAX, "out of range");
    const char *bad[] = {"", " ", "-1", "+1", "1 ", " 1", "0x10", "1e3", "1.5", "8k", "1\n", "eight"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses_number(bad[i], 0, 100, "is not a number");
}

static void test_ranks(void **state)
{
    struct parse_ranks r;
    assert_int_equal(parse_ranks("4096-4099,17,0", &r, NULL), 0);
    assert_int_equal(r.nranges, 3);
    assert_int_equal(r.count, 6);
    assert_int_equal(r.highest, 4099);
    assert_int_equal(r.ranges[0].first, 0);
    assert_int_equal(r.ranges[1].first, 17);
    assert_int_equal(r.ranges[2].last, 4099);
    parse_ranks_clear(&r);
    assert_int_equal(parse_ranks("5-5", &r, NULL), 0);
    assert_int_equal(r.count, 1);
    parse_ranks_clear(&r);
    assert_int_equal(parse_ranks("0-9999999", &r, NULL), 0);
    assert_int_equal(r.count, PARSE_WORLD_MAX);
    parse_ranks_clear(&r);
    parse_ranks_clear(&r);
}

static void test_ranks_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "empty"}, {",", "neither a rank nor a range"}, {"1,", "neither"}, {",1", "neither"}, {"1,,2", "neither"},
               {"a", "'a' is neither"}, {"1-", "neither"}, {"-1", "neither"}, {"1-2-3", "neither"}, {"1 ,2", "neither"},
               {"0x1", "neither"}, {"9-4", "9-4 runs backwards"}, {"1,1", "rank 1 is listed twice"},
               {"0-5,3", "rank 3 is listed twice"}, {"7,0-9", "rank 7 is listed twice"}, {"10000000", "ranks go from 0 to 9999999"},
               {"0-99999999999999999999999", "ranks go from"}, {"1;2", "neither"}, {"\x01\x02", "'?\?'"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct prism_error err = {0};
        struct parse_ranks r;
        assert_int_equal(parse_ranks(bad[i].text, &r, &err), -1);
        assert_says(&err, bad[i].says);
    }
}

static void test_choice(void **state)
{
    static const char *const phases[] = {"auto", "capture", "emulate", NULL};
    struct prism_error err = {0};
    size_t i = 9;
    assert_int_equal(parse_choice("emulate", phases, &i, NULL), 0);
    assert_int_equal(i, 2);
    assert_int_equal(parse_choice("Emulate", phases, &i, &err), -1);
    assert_says(&err, "'Emulate' is unknown: one of auto, capture, emulate is allowed");
}

static void test_layout(void **state)
{
    struct parse_layout l;
    assert_int_equal(parse_layout("tp:8,dp:64,pp:16", &l, NULL), 0);
    assert_int_equal(l.ndimensions, 3);
    assert_int_equal(l.product, 8192);
    assert_string_equal(l.dimension[1].name, "dp");
    assert_int_equal(l.dimension[2].size, 16);
    assert_int_equal(parse_fold("dp", &l, NULL), 0);
    assert_int_equal(parse_fold("dp,pp", &l, NULL), 0);
    struct prism_error err = {0};
    assert_int_equal(parse_fold("ep", &l, &err), -1);
    assert_says(&err, "no dimension 'ep'");
    const char *bad[] = {"", "tp", "tp:", ":8", "tp:0", "tp:8,", "tp:8,tp:2", "8:tp", "tp=8", "tp:8;dp:2", "tp:-1",
                         "tp:10000000,dp:2", "averyveryverylongname:2", "a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct prism_error e = {0};
        assert_int_equal(parse_layout(bad[i], &l, &e), -1);
        assert_true(e.text[0]);
    }
    const char *folds[] = {"", ",", "dp,", "dp,dp", "dp:2", " dp"};
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        assert_int_equal(parse_fold(folds[i], NULL, NULL), -1);
}

static void test_slurm_gpus(void **state)
{
    char type[16];
    assert_int_equal(parse_slurm_gpus(NULL, false, type, sizeof type), 0);
    assert_int_equal(parse_slurm_gpus("8", false, type, sizeof type), 8);
    assert_string_equal(type, "");
    assert_int_equal(parse_slurm_gpus("h200:4", false, type, sizeof type), 4);
    assert_string_equal(type, "h200");
    assert_int_equal(parse_slurm_gpus("gres:gpu:2", true, type, sizeof type), 2);
    assert_int_equal(parse_slurm_gpus("gres/gpu:h200:2", true, type, sizeof type), 2);
    assert_string_equal(type, "h200");
    assert_int_equal(parse_slurm_gpus("gpu", true, type, sizeof type), 1);
    assert_int_equal(parse_slurm_gpus("gpu:a100", true, type, sizeof type), 1);
    assert_string_equal(type, "a100");
    assert_int_equal(parse_slurm_gpus("nvme:3,gpu:8", true, type, sizeof type), 8);
    assert_int_equal(parse_slurm_gpus("gpus:3", true, type, sizeof type), 0);
    assert_int_equal(parse_slurm_gpus("none", true, type, sizeof type), 0);
    char *rest = parse_slurm_gres_rest("gres:gpu:8,nvme:1,gpu:a:2,fpga");
    assert_string_equal(rest, "nvme:1,fpga");
    free(rest);
    assert_null(parse_slurm_gres_rest("gpu:8"));
}

/* Random text out of the characters that matter: a parser answers yes or no, with a message when no, and what it says yes
 * to keeps its promises. The sanitizer builds watch the memory. */
static void test_random(void **state)
{
    static const char alphabet[] = "0123456789,,--::gputpdb =/\xff.\n";
    unsigned seed = 12345;
    for (int round = 0; round < 100000; round++) {
        char text[24], type[8];
        size_t len = (size_t)rand_r(&seed) % sizeof text;
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof alphabet - 1)];
        text[len < sizeof text ? len : sizeof text - 1] = 0;
        struct prism_error err = {0};
        struct parse_ranks r;
        if (!parse_ranks(text, &r, &err)) {
            uint64_t count = 0;
            for (size_t i = 0; i < r.nranges; i++) {
                assert_true(r.ranges[i].first <= r.ranges[i].last && (!i || r.ranges[i - 1].last < r.ranges[i].first));
                count += r.ranges[i].last - r.ranges[i].first + 1;
            }
            assert_true(count == r.count && r.highest < PARSE_WORLD_MAX);
            parse_ranks_clear(&r);
        } else
            assert_true(err.text[0] && !strchr(err.text, '\n'));
        struct parse_layout l;
        if (!parse_layout(text, &l, NULL))
            assert_true(l.ndimensions >= 1 && l.product >= 1 && l.product <= PARSE_WORLD_MAX);
        parse_fold(text, NULL, NULL);
        parse_slurm_gpus(text, round & 1, type, sizeof type);
        free(parse_slurm_gres_rest(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number), cmocka_unit_test(test_ranks),      cmocka_unit_test(test_ranks_refused),
        cmocka_unit_test(test_choice), cmocka_unit_test(test_layout),     cmocka_unit_test(test_slurm_gpus),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("spank_parse", tests, NULL, NULL);
}
