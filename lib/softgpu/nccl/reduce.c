#include "softgpu/nccl/reduce.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "softgpu/nccl/types.h"

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#define BLOCK_BYTES 16384 /* fold a block over all ranks while it is in the first-level cache */

/* --- narrow floating-point formats: sign, `exponent` bits biased by 2^(exponent-1)-1, `mantissa` bits --- */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static float bf16_get(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static uint16_t bf16_put(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* keep a NaN one */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Scaling by a power of two moves the exponent, subnormals included. */
static float fp16_get(uint16_t h)
{
    uint32_t magnitude = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
    if (magnitude >= 0x7c00)
        return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

static uint16_t fp16_put(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* subnormal: let the adder round to a multiple of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000));
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((magnitude - 0x38000000) >> 13));
}

/* 8-bit formats of the OCP specification: e4m3 has no infinity and one NaN pattern (S.1111.111), e5m2 is
 * IEEE-like. */
static float fp8_get(uint8_t b, int mantissa, int bias)
{
    int exponent_bits = 7 - mantissa, exponent = (b & 0x7f) >> mantissa, fraction = b & ((1 << mantissa) - 1);
    float value;
    if (exponent == (1 << exponent_bits) - 1 && mantissa == 2)
        value = fraction ? NAN : INFINITY;
    else if ((b & 0x7f) == 0x7f && mantissa == 3)
        value = NAN;
    else if (exponent == 0)
        value = ldexpf((float)fraction, 1 - bias - mantissa);
    else
        value = ldexpf((float)(fraction | 1 << mantissa), exponent - bias - mantissa);
    return b & 0x80 ? -value : value;
}

static uint8_t fp8_put(float f, int mantissa, int bias, uint8_t largest)
{
    uint8_t sign = bits_of(f) >> 31 ? 0x80 : 0;
    float magnitude = fabsf(f);
    if (isnan(f))
        return sign | 0x7f;
    if (magnitude == 0)
        return sign;
    if (magnitude >= fp8_get(largest, mantissa, bias))
        return sign | largest;
    int exponent;
    frexpf(magnitude, &exponent); /* magnitude = 0.5..1 * 2^exponent */
    int unit = exponent - 1 - mantissa, least = 1 - bias - mantissa;
    if (unit < least)
        unit = least;
    int steps =
        (int)rintf(ldexpf(magnitude, -unit)); /* may round up into the next exponent: the carry is right */
    return sign | (uint8_t)(((unit - least) << mantissa) + steps);
}

static float e4m3_get(uint8_t b)
{
    return fp8_get(b, 3, 7);
}

static uint8_t e4m3_put(float f)
{
    return fp8_put(f, 3, 7, 0x7e);
}

static float e5m2_get(uint8_t b)
{
    return fp8_get(b, 2, 15);
}

static uint8_t e5m2_put(float f)
{
    return fp8_put(f, 2, 15, 0x7b);
}

/* --- one step: acc[i] = acc[i] op in[i] --- */

typedef void (*step_fn)(void *acc, const void *in, size_t n);

#define STEP(name, type, wide, get, put, expression)                                                         \
    static void name(void *acc, const void *in, size_t n)                                                    \
    {                                                                                                        \
        type *x = acc;                                                                                       \
        const type *y = in;                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                     \
            wide a = get(x[i]), b = get(y[i]);                                                               \
            x[i] = (type)put(expression);                                                                    \
        }                                                                                                    \
    }

/* wide is unsigned for sums and products, so that overflow wraps; narrow is the signed or unsigned type to
 * compare in. */
#define STEPS(name, type, modular, compared, get, put)                                                       \
    STEP(name##_sum, type, modular, get, put, a + b)                                                         \
    STEP(name##_prod, type, modular, get, put, a *b)                                                         \
    STEP(name##_max, type, compared, get, put, (b > a || a != a ? b : a))                                    \
    STEP(name##_min, type, compared, get, put, (b < a || a != a ? b : a))

#define SAME(x) (x)

STEPS(int8, int8_t, uint32_t, int8_t, SAME, SAME)
STEPS(uint8, uint8_t, uint32_t, uint8_t, SAME, SAME)
STEPS(int32, int32_t, uint32_t, int32_t, SAME, SAME)
STEPS(uint32, uint32_t, uint32_t, uint32_t, SAME, SAME)
STEPS(int64, int64_t, uint64_t, int64_t, SAME, SAME)
STEPS(uint64, uint64_t, uint64_t, uint64_t, SAME, SAME)
STEPS(fp16, uint16_t, float, float, fp16_get, fp16_put)
STEPS(fp32, float, float, float, SAME, SAME)
STEPS(fp64, double, double, double, SAME, SAME)
STEPS(bf16, uint16_t, float, float, bf16_get, bf16_put)
STEPS(e4m3, uint8_t, float, float, e4m3_get, e4m3_put)
STEPS(e5m2, uint8_t, float, float, e5m2_get, e5m2_put)

#define ROW(name)                                                                                            \
    {                                                                                                        \
        name##_sum, name##_prod, name##_max, name##_min                                                      \
    }
static const step_fn steps[][4] = {
    [ncclInt8] = ROW(int8),     [ncclUint8] = ROW(uint8),     [ncclInt32] = ROW(int32),
    [ncclUint32] = ROW(uint32), [ncclInt64] = ROW(int64),     [ncclUint64] = ROW(uint64),
    [ncclFloat16] = ROW(fp16),  [ncclFloat32] = ROW(fp32),    [ncclFloat64] = ROW(fp64),
    [ncclBfloat16] = ROW(bf16), [ncclFloat8e4m3] = ROW(e4m3), [ncclFloat8e5m2] = ROW(e5m2),
};

static void divide(void *data, size_t n, int datatype, int ranks)
{
#define DIVIDE(type)                                                                                         \
    for (size_t i = 0; i < n; i++)                                                                           \
        ((type *)data)[i] = (type)(((type *)data)[i] / (type)ranks);                                         \
    break
    switch (datatype) {
    case ncclInt8: /* ranks may not fit the type: divide as int */
        for (size_t i = 0; i < n; i++)
            ((int8_t *)data)[i] = (int8_t)(((int8_t *)data)[i] / ranks);
        break;
    case ncclUint8:
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)data)[i] = (uint8_t)(((uint8_t *)data)[i] / ranks);
        break;
    case ncclInt32:
        DIVIDE(int32_t);
    case ncclUint32:
        DIVIDE(uint32_t);
    case ncclInt64:
        DIVIDE(int64_t);
    case ncclUint64:
        DIVIDE(uint64_t);
    default:
        break;
    }
#undef DIVIDE
}

void sgn_reduce(void *out, const void *const *in, int n, size_t count, int datatype, int redop, int ranks)
{
    size_t size = sgn_datatype_size(datatype), block = BLOCK_BYTES / size;
    bool sums = redop == ncclAvg || redop == SGN_PREMULSUM;
    step_fn step = steps[datatype][sums ? ncclSum : redop];
    for (size_t first = 0; first < count; first += block) {
        size_t elements = count - first < block ? count - first : block;
        char *acc = (char *)out + first * size;
        if (acc != (const char *)in[0] + first * size)
            memcpy(acc, (const char *)in[0] + first * size, elements * size);
        for (int r = 1; r < n; r++)
            step(acc, (const char *)in[r] + first * size, elements);
        if (redop == ncclAvg && !sgn_datatype_is_float(datatype))
            divide(acc, elements, datatype, ranks);
    }
}

void sgn_scale(void *out, const void *in, size_t count, int datatype, const void *scalar)
{
    size_t size = sgn_datatype_size(datatype), block = BLOCK_BYTES / size;
    char factors[BLOCK_BYTES] __attribute__((aligned(16)));
    size_t filled = count < block ? count : block;
    for (size_t i = 0; i < filled; i++)
        memcpy(factors + i * size, scalar, size);
    for (size_t first = 0; first < count; first += block) {
        size_t elements = count - first < block ? count - first : block;
        char *to = (char *)out + first * size;
        if (out != in)
            memcpy(to, (const char *)in + first * size, elements * size);
        steps[datatype][ncclProd](to, factors, elements);
    }
}

double sgn_float_get(const void *element, int datatype)
{
    switch (datatype) {
    case ncclFloat16:
        return fp16_get(*(const uint16_t *)element);
    case ncclBfloat16:
        return bf16_get(*(const uint16_t *)element);
    case ncclFloat8e4m3:
        return e4m3_get(*(const uint8_t *)element);
    case ncclFloat8e5m2:
        return e5m2_get(*(const uint8_t *)element);
    case ncclFloat32:
        return *(const float *)element;
    default:
        return *(const double *)element;
    }
}

void sgn_float_put(void *element, int datatype, double value)
{
    switch (datatype) {
    case ncclFloat16:
        *(uint16_t *)element = fp16_put((float)value);
        break;
    case ncclBfloat16:
        *(uint16_t *)element = bf16_put((float)value);
        break;
    case ncclFloat8e4m3:
        *(uint8_t *)element = e4m3_put((float)value);
        break;
    case ncclFloat8e5m2:
        *(uint8_t *)element = e5m2_put((float)value);
        break;
    case ncclFloat32:
        *(float *)element = (float)value;
        break;
    default:
        *(double *)element = value;
        break;
    }
}

void sgn_inverse(void *scalar, int datatype, int ranks)
{
    sgn_float_put(scalar, datatype, 1.0 / ranks);
}
