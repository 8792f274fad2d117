/* Conversions of the narrow formats, every bit pattern and the edges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <nccl.h>

#include "softgpu/nccl/reduce.h"
#include "softgpu/nccl/types.h"

/* Every pattern comes back from its value. */
static void test_round_trip(void **state)
{
    static const int types[] = {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
    for (size_t t = 0; t < 4; t++) {
        unsigned patterns = 1u << (8 * sgn_datatype_size(types[t]));
        for (unsigned p = 0; p < patterns; p++) {
            uint16_t in = (uint16_t)p, out = 0;
            double value = sgn_float_get(&in, types[t]);
            sgn_float_put(&out, types[t], value);
            if (isnan(value))
                assert_true(isnan(sgn_float_get(&out, types[t])));
            else if (!isinf(value) ||
                     types[t] != ncclFloat8e5m2) /* CUDA saturates: infinity becomes the largest */
                assert_int_equal(out, in);
        }
    }
}

/* Between two neighbours: to the nearer one, halfway to the even one. */
static void test_nearest(void **state)
{
    static const int types[] = {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
    for (size_t t = 0; t < 4; t++) {
        unsigned half = 1u << (8 * sgn_datatype_size(types[t]) - 1);
        for (unsigned p = 0; p + 1 < half; p++) {
            uint16_t low = (uint16_t)p, high = (uint16_t)(p + 1), out = 0;
            double a = sgn_float_get(&low, types[t]), b = sgn_float_get(&high, types[t]);
            if (!isfinite(a) || !isfinite(b))
                continue;
            sgn_float_put(&out, types[t], (a + b) / 2);
            assert_int_equal(out, p % 2 ? high : low);
            sgn_float_put(&out, types[t], a + (b - a) * 0.499);
            assert_int_equal(out, low);
            out = 0;
            sgn_float_put(&out, types[t], -(a + (b - a) * 0.501));
            assert_int_equal(out, high | half);
        }
    }
}

static void test_edges(void **state)
{
    uint16_t h = 0;
    sgn_float_put(&h, ncclFloat16, 65519);
    assert_int_equal(h, 0x7bff);
    sgn_float_put(&h, ncclFloat16, 65520);
    assert_int_equal(h, 0x7c00);
    h = 0;
    sgn_float_put(&h, ncclFloat8e4m3, 1e9);
    assert_int_equal(h, 0x7e); /* 448 */
    sgn_float_put(&h, ncclFloat8e5m2, -INFINITY);
    assert_int_equal(h, 0xfb); /* -57344 */
    sgn_float_put(&h, ncclFloat8e4m3, NAN);
    assert_int_equal(h & 0x7f, 0x7f);
}

static void test_integers_wrap(void **state)
{
    int8_t a[] = {127, -128, 5}, b[] = {1, -1, 7}, out[3];
    const void *in[] = {a, b};
    sgn_reduce(out, in, 2, 3, ncclInt8, ncclSum, 2);
    assert_int_equal(out[0], -128);
    assert_int_equal(out[1], 127);
    sgn_reduce(out, in, 2, 3, ncclInt8, ncclAvg, 2);
    assert_int_equal(out[2], 6);
    int64_t c = INT64_MAX, d = 2, product;
    const void *large[] = {&c, &d};
    sgn_reduce(&product, large, 2, 1, ncclInt64, ncclProd, 2);
    assert_int_equal(product, -2);
}

static void test_nan(void **state)
{
    float a[] = {NAN, 1, NAN}, b[] = {2, NAN, NAN}, out[3];
    const void *in[] = {a, b};
    sgn_reduce(out, in, 2, 3, ncclFloat32, ncclMax, 2);
    assert_true(out[0] == 2 && out[1] == 1 && isnan(out[2]));
    sgn_reduce(out, in, 2, 3, ncclFloat32, ncclMin, 2);
    assert_true(out[0] == 2 && out[1] == 1 && isnan(out[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_nearest), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_integers_wrap), cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
