/* train.c - a world of one over the fake device: it learns, it repeats itself, clipping and memory do what
 * they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

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
        cmocka_unit_test(test_clipping_launches_a_kernel_only_if_needed),
        cmocka_unit_test(test_memory_is_accounted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
