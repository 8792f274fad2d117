/* Number formats, and every datatype with every reduction against plain arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/number.h"
#include "coll/reduce.h"
#include "coll/share.h"
#include "coll/types.h"

/* --- number formats --- */

typedef float (*load_fn)(unsigned code);
typedef unsigned (*store_fn)(float f);

static float load_fp16(unsigned c)
{
    return fp16_load((uint16_t)c);
}
static float load_bf16(unsigned c)
{
    return bf16_load((uint16_t)c);
}
static float load_e4m3(unsigned c)
{
    return e4m3_load((uint8_t)c);
}
static float load_e5m2(unsigned c)
{
    return e5m2_load((uint8_t)c);
}
static unsigned store_fp16(float f)
{
    return fp16_store(f);
}
static unsigned store_bf16(float f)
{
    return bf16_store(f);
}
static unsigned store_e4m3(float f)
{
    return e4m3_store(f);
}
static unsigned store_e5m2(float f)
{
    return e5m2_store(f);
}

static const struct format {
    load_fn load;
    store_fn store;
    int exponent, mantissa; /* bits */
    unsigned largest;       /* code of the largest finite value */
    bool saturates;
} formats[] = {{load_fp16, store_fp16, 5, 10, 0x7bff, false},
               {load_bf16, store_bf16, 8, 7, 0x7f7f, false},
               {load_e4m3, store_e4m3, 4, 3, 0x7e, true},
               {load_e5m2, store_e5m2, 5, 2, 0x7b, true}};

/* By definition: sign, exponent with bias, mantissa. */
static double value_of(const struct format *f, unsigned code)
{
    int bias = (1 << (f->exponent - 1)) - 1;
    int e = (int)(code >> f->mantissa) & ((1 << f->exponent) - 1);
    int m = (int)(code & ((1u << f->mantissa) - 1));
    double v = e ? ldexp(1 + ldexp(m, -f->mantissa), e - bias) : ldexp(m, 1 - bias - f->mantissa);
    return code >> (f->exponent + f->mantissa) ? -v : v;
}

static void loads_every_code(void **state)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        unsigned sign = 1u << (f->exponent + f->mantissa);
        for (unsigned code = 0; code < 2 * sign; code++) {
            float v = f->load(code);
            if ((code & (sign - 1)) <= f->largest) {
                assert_true((double)v == value_of(f, code));
                assert_int_equal(f->store(v), code);
            } else {
                assert_false(isfinite(v));
                if (isnan(v))
                    assert_true(isnan(f->load(f->store(v))));
            }
        }
    }
}

/* Halfway points and their neighbours between any two codes, both signs. */
static void rounds_to_nearest_even(void **state)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        unsigned sign = 1u << (f->exponent + f->mantissa);
        for (unsigned code = 0; code < f->largest; code++) {
            float low = f->load(code), high = f->load(code + 1);
            float middle = (float)(((double)low + (double)high) / 2);
            unsigned even = code & 1 ? code + 1 : code;
            assert_int_equal(f->store(middle), even);
            assert_int_equal(f->store(-middle), even | sign);
            assert_int_equal(f->store(nextafterf(middle, INFINITY)), code + 1);
            assert_int_equal(f->store(nextafterf(middle, 0)), code);
        }
        float top = f->load(f->largest);
        unsigned beyond = f->saturates ? f->largest : f->largest + 1;
        assert_int_equal(f->store(INFINITY), beyond);
        assert_int_equal(f->store(top * 1.5f), beyond);
        assert_int_equal(f->store(-INFINITY), beyond | sign);
        assert_true(isnan(f->load(f->store(NAN))));
    }
}

/* --- reductions --- */

static void put(void *array, size_t i, int datatype, double v)
{
    struct coll_premul bits = coll_premul_from_double(v, datatype);
    memcpy((char *)array + i * coll_datatype_size(datatype), &bits.bits, coll_datatype_size(datatype));
}

static double get(const void *array, size_t i, int datatype)
{
    const char *p = (const char *)array + i * coll_datatype_size(datatype);
    switch (datatype) {
    case COLL_INT8:
        return *(const int8_t *)p;
    case COLL_UINT8:
        return *(const uint8_t *)p;
    case COLL_INT32:
        return *(const int32_t *)p;
    case COLL_UINT32:
        return *(const uint32_t *)p;
    case COLL_INT64:
        return (double)*(const int64_t *)p;
    case COLL_UINT64:
        return (double)*(const uint64_t *)p;
    case COLL_FLOAT16:
        return (double)fp16_load(*(const uint16_t *)p);
    case COLL_FLOAT32:
        return (double)*(const float *)p;
    case COLL_FLOAT64:
        return *(const double *)p;
    case COLL_BFLOAT16:
        return (double)bf16_load(*(const uint16_t *)p);
    case COLL_FLOAT8E4M3:
        return (double)e4m3_load(*(const uint8_t *)p);
    default:
        return (double)e5m2_load(*(const uint8_t *)p);
    }
}

static double expected_of(int redop, bool is_float, double (*v)[4], int n, size_t i, const double *factors)
{
    double r = redop == COLL_REDOP_PREMUL ? v[i][0] * factors[0] : v[i][0];
    for (int k = 1; k < n; k++) {
        double x = v[i][k];
        if (redop == COLL_REDOP_PREMUL)
            r += x * factors[k];
        else if (redop == COLL_REDOP_PROD)
            r *= x;
        else if (redop == COLL_REDOP_MAX)
            r = fmax(r, x);
        else if (redop == COLL_REDOP_MIN)
            r = fmin(r, x);
        else
            r += x;
    }
    if (redop == COLL_REDOP_AVG)
        r = is_float ? r / n : trunc(r / n);
    return r;
}

enum { LENGTH = 20011 }; /* more than two blocks and no multiple of anything */

static void every_datatype_and_reduction(void **state)
{
    static double v[LENGTH][4];
    static const double factors[] = {2, 1, 4, 1};
    srand(3);
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++) {
        size_t size = coll_datatype_size(datatype);
        bool is_signed = datatype != COLL_UINT8 && datatype != COLL_UINT32 && datatype != COLL_UINT64;
        void *inputs[4], *out = malloc(LENGTH * size);
        struct coll_premul scalars[4];
        for (int k = 0; k < 4; k++) {
            inputs[k] = malloc(LENGTH * size);
            scalars[k] = coll_premul_from_double(factors[k], datatype);
            for (size_t i = 0; i < LENGTH; i++) {
                v[i][k] = rand() % 3 + (is_signed ? -1 : 0); /* sums of these are exact in every format */
                put(inputs[k], i, datatype, v[i][k]);
            }
        }
        for (int redop = 0; redop < COLL_REDOPS; redop++)
            for (int n = 1; n <= 4; n *= 2) {
                assert_int_equal(
                    coll_reduce(out, (const void *const *)inputs, n, LENGTH, datatype, redop, scalars, NULL),
                    0);
                for (size_t i = 0; i < LENGTH; i++)
                    if (get(out, i, datatype) !=
                        expected_of(redop, coll_datatype_is_float(datatype), v, n, i, factors))
                        fail_msg("%s %s of %d: element %zu", coll_datatype_name(datatype),
                                 coll_redop_name(redop), n, i);
            }
        for (int k = 0; k < 4; k++)
            free(inputs[k]);
        free(out);
    }
}

/* Partial sums: accumulate in pieces gives what reduce gives at once of three, in place too. */
static void accumulates(void **state)
{
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++)
        for (int redop = 0; redop < COLL_REDOPS; redop++) {
            uint64_t a[64], b[64], c[64], whole[64];
            size_t count = sizeof a / coll_datatype_size(datatype);
            struct coll_premul scalars[3];
            srand(4);
            for (int k = 0; k < 3; k++)
                scalars[k] = coll_premul_from_double(k + 1, datatype);
            for (size_t i = 0; i < count; i++) {
                put(a, i, datatype, rand() % 4);
                put(b, i, datatype, rand() % 4);
                put(c, i, datatype, rand() % 4);
            }
            const void *inputs[] = {a, b, c};
            assert_int_equal(coll_reduce(whole, inputs, 3, count, datatype,
                                         redop == COLL_REDOP_AVG ? COLL_REDOP_SUM : redop, scalars, NULL),
                             0);
            if (redop == COLL_REDOP_PREMUL)
                assert_int_equal(coll_scale(a, a, count, datatype, &scalars[0], NULL), 0);
            assert_int_equal(coll_accumulate(a, b, count, datatype, redop, &scalars[1], NULL), 0);
            assert_int_equal(coll_accumulate(a, c, count, datatype, redop, &scalars[2], NULL), 0);
            assert_memory_equal(a, whole, sizeof a);
        }
}

static void integers_wrap_and_divide(void **state)
{
    int8_t a[] = {100, -100, -7}, b[] = {100, -100, 0}, out[3];
    const void *inputs[] = {a, b};
    coll_reduce(out, inputs, 2, 3, COLL_INT8, COLL_REDOP_SUM, NULL, NULL);
    assert_int_equal(out[0], -56);
    assert_int_equal(out[1], 56);
    coll_reduce(out, inputs, 2, 3, COLL_INT8, COLL_REDOP_AVG, NULL, NULL);
    assert_int_equal(out[2], -3); /* towards zero */
    int64_t big = INT64_MAX, one = 1, sum;
    const void *wide[] = {&big, &one};
    coll_reduce(&sum, wide, 2, 1, COLL_INT64, COLL_REDOP_SUM, NULL, NULL);
    assert_true(sum == INT64_MIN);
    uint8_t bytes[] = {200};
    assert_int_equal(coll_average(bytes, 1, COLL_UINT8, 3, NULL), 0);
    assert_int_equal(bytes[0], 66);
}

static void rounds_after_each_step(void **state)
{
    /* bf16 has 8 bits: 256 + 1 = 256 (to even), twice; summed at once it would be 258. */
    uint16_t big = bf16_store(256), one = bf16_store(1), out;
    const void *inputs[] = {&big, &one, &one};
    coll_reduce(&out, inputs, 3, 1, COLL_BFLOAT16, COLL_REDOP_SUM, NULL, NULL);
    assert_true(bf16_load(out) == 256);
    float nan = NAN, two = 2, result;
    const void *some[] = {&nan, &two};
    coll_reduce(&result, some, 2, 1, COLL_FLOAT32, COLL_REDOP_MAX, NULL, NULL);
    assert_true(result == 2);
    coll_reduce(&result, some, 2, 1, COLL_FLOAT32, COLL_REDOP_SUM, NULL, NULL);
    assert_true(isnan(result));
}

/* The definition, an element at a time: pairs of neighbours, an odd last one carried up. terms: n of them, overwritten. */
static struct coll_premul in_pairs(struct coll_premul *terms, int n, int datatype, int redop)
{
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n; i += 2) {
            terms[i / 2] = terms[i];
            if (i + 1 < n)
                assert_int_equal(coll_accumulate(&terms[i / 2], &terms[i + 1], 1, datatype, redop, NULL, NULL), 0);
        }
    return terms[0];
}

/* Elements of a reduction from its definition: each input times its factor and rounded, summed in pairs, an integer's average
 * divided at the end. */
static void define(void *out, const void *const *inputs, int n, size_t count, int datatype, int redop,
                   const struct coll_premul *scalars)
{
    size_t size = coll_datatype_size(datatype);
    bool share = redop == COLL_REDOP_AVG && coll_datatype_is_float(datatype);
    struct coll_premul nth = coll_premul_from_double(1.0 / n, datatype), *terms = malloc((size_t)n * sizeof *terms);
    assert_non_null(terms);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < n; k++) {
            memcpy(&terms[k], (const char *)inputs[k] + i * size, size);
            if (share || redop == COLL_REDOP_PREMUL)
                assert_int_equal(coll_scale(&terms[k], &terms[k], 1, datatype, share ? &nth : &scalars[k], NULL), 0);
        }
        bool sum = redop == COLL_REDOP_AVG || redop == COLL_REDOP_PREMUL;
        struct coll_premul result = in_pairs(terms, n, datatype, sum ? COLL_REDOP_SUM : redop);
        if (redop == COLL_REDOP_AVG && !share)
            assert_int_equal(coll_average(&result, 1, datatype, n, NULL), 0);
        memcpy((char *)out + i * size, &result.bits, size);
    }
    free(terms);
}

/* Who brings which of ndistinct inputs. */
static int pick(int pattern, int member, int n, int ndistinct)
{
    switch (pattern) {
    case 0: /* in turn, as replicas of a folded capture */
        return member % ndistinct;
    case 1: /* blocks of equal members */
        return member * ndistinct / n;
    case 2: /* in turn, but for one member of its own (a sandbox rank) */
        return member == n / 3 ? ndistinct - 1 : member % (ndistinct > 1 ? ndistinct - 1 : 1);
    default:
        return rand() % ndistinct;
    }
}

enum { SHORT = 37, MOST = 600 };

/* n members with ndistinct inputs between them: as one buffer each, as copies, and as defined. */
static void compare_shared(int n, int ndistinct, int pattern, int datatype, int redop)
{
    size_t size = coll_datatype_size(datatype), bytes = SHORT * size;
    char *distinct = malloc((size_t)ndistinct * bytes), *copies = malloc((size_t)n * bytes), *out = malloc(3 * bytes);
    const void *shared[MOST], *own[MOST];
    struct coll_premul scalars[MOST];
    assert_true(distinct && copies && out);
    for (size_t i = 0; i < (size_t)ndistinct * SHORT; i++)
        put(distinct, i, datatype, (rand() % 2001) * 0.00173 + (coll_datatype_is_float(datatype) ? -1.5 : 0));
    for (int k = 0; k < n; k++) {
        int which = pick(pattern, k, n, ndistinct);
        shared[k] = distinct + (size_t)which * bytes;
        own[k] = memcpy(copies + (size_t)k * bytes, shared[k], bytes);
        scalars[k] = coll_premul_from_double(pattern == 3 && rand() % 2 ? 0.37 : which + 1.3, datatype);
    }
    assert_int_equal(coll_reduce(out, shared, n, SHORT, datatype, redop, scalars, NULL), 0);
    assert_int_equal(coll_reduce(out + bytes, own, n, SHORT, datatype, redop, scalars, NULL), 0);
    define(out + 2 * bytes, shared, n, SHORT, datatype, redop, scalars);
    if (memcmp(out, out + bytes, bytes) || memcmp(out, out + 2 * bytes, bytes))
        fail_msg("%s %s of %d members, %d inputs, pattern %d: %s", coll_datatype_name(datatype), coll_redop_name(redop), n, ndistinct,
                 pattern, memcmp(out, out + bytes, bytes) ? "copies give other bits" : "not the defined bits");
    free(distinct);
    free(copies);
    free(out);
}

static void shared_inputs_give_the_bits_of_pairs(void **state)
{
    (void)state;
    srand(5);
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++)
        for (int redop = 0; redop < COLL_REDOPS; redop++) {
            for (int n = 1; n <= 40; n++)
                compare_shared(n, 1 + rand() % n, rand() % 4, datatype, redop);
            compare_shared(257, 1 + rand() % 9, rand() % 3, datatype, redop);
            compare_shared(MOST, 1 + rand() % 40, 3, datatype, redop);
        }
}

/* One after the other, 512 ones in bf16 stop at 256. */
static void sums_of_many_grow(void **state)
{
    uint16_t one = bf16_store(1), out;
    const void *inputs[512];
    (void)state;
    for (int i = 0; i < 512; i++)
        inputs[i] = &one;
    coll_reduce(&out, inputs, 512, 1, COLL_BFLOAT16, COLL_REDOP_SUM, NULL, NULL);
    assert_true(bf16_load(out) == 512);
    coll_reduce(&out, inputs, 512, 1, COLL_BFLOAT16, COLL_REDOP_AVG, NULL, NULL);
    assert_true(bf16_load(out) == 1);
}

/* Enough work for several threads: the bits of pieces too small for that. The result may take an input's place. */
static void threads_change_no_bit(void **state)
{
    enum { N = 40, PIECE = 100003 };
    const uint64_t count = 1500007;
    float *data = malloc((count + N) * sizeof *data), *out = malloc(count * sizeof *out), *one = malloc(count * sizeof *one);
    const void *inputs[N], *parts[N];
    (void)state;
    assert_true(data && out && one);
    for (uint64_t i = 0; i < count + N; i++)
        data[i] = (float)((i * 2654435761u) % 100003) * 1e-3f - 50;
    coll_share_begin(4);
    for (int redop = COLL_REDOP_SUM; redop <= COLL_REDOP_AVG; redop += COLL_REDOP_AVG - COLL_REDOP_SUM) {
        memcpy(out, data, count * sizeof *out);
        for (int i = 0; i < N; i++)
            inputs[i] = i ? data + i : out;
        assert_int_equal(coll_reduce(out, inputs, N, count, COLL_FLOAT32, redop, NULL, NULL), 0);
        for (uint64_t at = 0; at < count; at += PIECE) {
            for (int i = 0; i < N; i++)
                parts[i] = data + i + at;
            assert_int_equal(coll_reduce(one + at, parts, N, count - at < PIECE ? count - at : PIECE, COLL_FLOAT32, redop, NULL, NULL), 0);
        }
        assert_memory_equal(out, one, count * sizeof *one);
    }
    coll_share_end();
    free(data);
    free(out);
    free(one);
}

static void refuses_the_unknown(void **state)
{
    struct prism_error err = {0};
    float x = 1;
    const void *inputs[] = {&x};
    assert_int_equal(coll_reduce(&x, inputs, 1, 1, 12, 0, NULL, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_UNSUPPORTED);
    assert_int_equal(coll_reduce(&x, inputs, 1, 1, COLL_FLOAT32, COLL_REDOPS, NULL, NULL), -1);
    assert_int_equal(coll_reduce(&x, inputs, 0, 1, COLL_FLOAT32, 0, NULL, NULL), -1);
    assert_int_equal(coll_accumulate(&x, &x, 1, -1, 0, NULL, NULL), -1);
    assert_int_equal(coll_average(&x, 1, COLL_FLOAT32, 0, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_every_code),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(every_datatype_and_reduction),
        cmocka_unit_test(accumulates),
        cmocka_unit_test(integers_wrap_and_divide),
        cmocka_unit_test(rounds_after_each_step),
        cmocka_unit_test(shared_inputs_give_the_bits_of_pairs),
        cmocka_unit_test(sums_of_many_grow),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(refuses_the_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
