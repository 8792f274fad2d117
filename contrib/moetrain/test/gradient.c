/* gradient.c - the backward pass against central finite differences, for every parameter of tiny models.
 * Everything is compiled in double precision here (MOETRAIN_DOUBLE), over the fake device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "../trainer.h"

/* Sum of the losses of an iteration's tokens; leaves the gradients in params.gradients. */
static double run(struct trainer *t)
{
    model_begin_iteration(t);
    pipeline_run(t);
    return t->sums[0];
}

static void check_gradients(int argc, char **argv)
{
    const double step = 1e-5;
    struct options options;
    char error[256];
    struct trainer t = {.options = &options};
    assert_int_equal(options_parse(&options, argc, argv, error, sizeof error), 0);
    t.layout = layout_make(0, 1, 1, 1, 1);
    groups_create(&t.groups, &t.layout, NULL, false, 0);
    assert_null(kernels_open());
    trainer_create(&t);
    run(&t);
    double *gradients = test_malloc(t.params.count * sizeof *gradients), largest = 0;
    for (size_t i = 0; i < t.params.count; i++)
        gradients[i] = t.params.gradients[i];
    for (size_t i = 0; i < t.params.count; i++) {
        double value = t.params.values[i];
        t.params.values[i] = value + step;
        double above = run(&t);
        t.params.values[i] = value - step;
        double difference = (above - run(&t)) / (2 * step);
        t.params.values[i] = value;
        largest = fabs(gradients[i]) > largest ? fabs(gradients[i]) : largest;
        if (fabs(difference - gradients[i]) > 1e-6 * (1 + fabs(gradients[i])))
            fail_msg("parameter %zu: gradient %.9g, finite difference %.9g", i, gradients[i], difference);
    }
    assert_true(largest > 0.1);
    test_free(gradients);
    trainer_destroy(&t);
    groups_destroy(&t.groups);
}

#define CHECK(...)                                                                                           \
    char *argv[] = {(char *)"gradient", __VA_ARGS__};                                                        \
    check_gradients(sizeof argv / sizeof *argv, argv)

#define TINY                                                                                                 \
    (char *)"--hidden=6", (char *)"--heads=2", (char *)"--ffn=5", (char *)"--vocab=7", (char *)"--seq=4",    \
        (char *)"--micro-batch=2", (char *)"--micro-batches=2"

static void test_dense(void **state)
{
    CHECK(TINY, (char *)"--moe-every=0");
}

static void test_experts(void **state)
{
    CHECK(TINY, (char *)"--moe-every=2", (char *)"--experts=3", (char *)"--topk=2");
}

static void test_top1_uneven_variable(void **state)
{
    CHECK(TINY, (char *)"--moe-every=1", (char *)"--layers=1", (char *)"--topk=1",
          (char *)"--uneven-routing=1", (char *)"--variable-seq");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_top1_uneven_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
