/* train.c - a world of one over the fake device: it learns, it repeats itself, clipping and memory do what
 * they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "../data.h"
#include "../host_math.h"
#include "../trainer.h"
#include "fake_cuda.h"

enum { MOST = 64 };

static void train(int argc, char **argv, struct result *results)
{
    static struct options options;
    struct trainer t = {.options = &options};
    char error[256];
    assert_int_equal(options_parse(&options, argc, argv, error, sizeof error), 0);
    assert_true(options.iterations <= MOST);
    t.layout = layout_make(0, 1, 1, 1, 1);
    groups_create(&t.groups, &t.layout, NULL, false, 0);
    assert_null(kernels_open());
    trainer_create(&t);
    for (long i = 0; i < options.iterations; i++)
        results[i] = trainer_iterate(&t);
    trainer_destroy(&t);
    groups_destroy(&t.groups);
}

#define TRAIN(results, ...)                                                                                  \
    do {                                                                                                     \
        char *argv[] = {(char *)"train", __VA_ARGS__};                                                       \
        train(sizeof argv / sizeof *argv, argv, results);                                                    \
    } while (0)

static void test_learns(void **state)
{
    struct result r[MOST];
    TRAIN(r, (char *)"--iterations=60");
    assert_true(fabs(r[0].loss - log(64)) < 1.5);
    assert_true(r[59].loss < 0.75 * r[0].loss);
}

static void test_learns_on_the_grid(void **state)
{
    struct result exact[MOST], plain[MOST];
    TRAIN(exact, (char *)"--iterations=60", (char *)"--exact-sums");
    TRAIN(plain, (char *)"--iterations=60");
    assert_true(exact[59].loss < 0.75 * exact[0].loss);
    assert_true(fabs(exact[0].loss - plain[0].loss) < 0.01);
    assert_true(fabs(exact[0].norm - plain[0].norm) < 0.02 * plain[0].norm);
}

static void test_repeats_itself(void **state)
{
    struct result a[MOST], b[MOST];
    TRAIN(a, (char *)"--iterations=5", (char *)"--variable-seq", (char *)"--moe-every=1");
    TRAIN(b, (char *)"--iterations=5", (char *)"--variable-seq", (char *)"--moe-every=1");
    assert_memory_equal(a, b, 5 * sizeof *a);
}

/* Each grid of --exact-sums: values of as many ranks as the group has, up to the bound, in three orders. */
static void check_grid(struct grid grid, int ranks)
{
    real values[64], forward = 0, backward = 0, pairs[64];
    for (int i = 0; i < ranks; i++) {
        double noise = data_uniform(data_hash(1, (uint64_t)i));
        values[i] = (real)math_round_one(i % 5 ? noise : 4 * grid.bound * noise, grid);
        pairs[i] = values[i];
    }
    for (int i = 0; i < ranks; i++)
        forward += values[i];
    for (int i = ranks - 1; i >= 0; i--)
        backward += values[i];
    for (int step = 1; step < ranks; step *= 2)
        for (int i = 0; i + step < ranks; i += 2 * step)
            pairs[i] += pairs[i + step];
    assert_memory_equal(&forward, &backward, sizeof forward);
    assert_memory_equal(&forward, &pairs[0], sizeof forward);
}

static void test_sums_on_the_grid_have_no_order(void **state)
{
    struct options options;
    char error[256], *argv[] = {(char *)"train", (char *)"--exact-sums", (char *)"--tp=2"};
    assert_int_equal(options_parse(&options, 3, argv, error, sizeof error), 0);
    for (int dp = 1; dp <= 64; dp *= 2) {
        struct layout layout = layout_make(0, 2 * dp, 2, 1, 1);
        struct grids grids = trainer_grids(&options, &layout);
        check_grid(grids.activation, 2);
        check_grid(grids.gradient, 2);
        check_grid(grids.weight, dp);
        check_grid(grids.expert_weight, dp);
    }
}

static void test_clipping_launches_a_kernel_only_if_needed(void **state)
{
    struct result r[MOST];
    long before = fake_launches;
    TRAIN(r, (char *)"--iterations=3", (char *)"--clip=1e6");
    long without = fake_launches - before;
    before = fake_launches;
    TRAIN(r, (char *)"--iterations=3", (char *)"--clip=1e-6");
    assert_int_equal(fake_launches - before, without + 3);
}

static void test_memory_is_accounted(void **state)
{
    struct result r[MOST];
    size_t before = memory_peak();
    TRAIN(r, (char *)"--iterations=1", (char *)"--hidden=64");
    assert_true(memory_peak() >
                before + 4 * 2 * 64 * 64 * sizeof(real)); /* two layers' wqkv and more, four times */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_learns_on_the_grid),
        cmocka_unit_test(test_repeats_itself),
        cmocka_unit_test(test_sums_on_the_grid_have_no_order),
        cmocka_unit_test(test_clipping_launches_a_kernel_only_if_needed),
        cmocka_unit_test(test_memory_is_accounted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
