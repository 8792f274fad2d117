/* number.h - narrow floating-point formats to and from fp32, rounding to nearest even (internal to lib/coll).
 *
 * fp16: IEEE 754 binary16. bf16: the upper half of fp32. fp8: OCP 8-bit floating point specification 1.0 (2023), E4M3
 * without infinities (0x7f is NaN, 448 the largest) and E5M2; conversions saturate, as CUDA's __NV_SATFINITE.
 * Written as selects without branches or tables, so that compilers vectorise the loops that use them.
 */
#ifndef PRISM_COLL_NUMBER_H
#define PRISM_COLL_NUMBER_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float f32_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float bf16_load(uint16_t h)
{
    return f32_of((uint32_t)h << 16);
}

static inline uint16_t bf16_store(float f)
{
    uint32_t u = f32_bits(f);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

/* The exponent's bias grows by rebias. A subnormal's bits, put behind the exponent of the smallest normal number, make that
 * number plus the value: subtract it again. (No fp32 subnormals on the way: processors are slow at those.) */
static inline uint32_t widen(uint32_t shifted, uint32_t rebias, float smallest_normal)
{
    uint32_t small = f32_bits(f32_of(shifted + ((rebias + 1) << 23)) - smallest_normal);
    return shifted < (1u << 23) ? small : shifted + (rebias << 23);
}

static inline float fp16_load(uint16_t h)
{
    uint32_t u = widen((uint32_t)(h & 0x7fff) << 13, 112, 0x1p-14f);
    u |= (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    return f32_of(u | (uint32_t)(h & 0x8000) << 16);
}

/* Subnormal results: adding a power of two whose last place is the format's smallest step rounds to it. */
static inline uint32_t round_subnormal(float magnitude, float power)
{
    return f32_bits(magnitude + power) - f32_bits(power);
}

static inline uint32_t round_normal(uint32_t u, int drop, uint32_t rebias)
{
    return ((u + (1u << (drop - 1)) - 1 + ((u >> drop) & 1)) >> drop) - rebias;
}

static inline uint16_t fp16_store(float f)
{
    uint32_t bits = f32_bits(f), u = bits & 0x7fffffff;
    uint32_t small = round_subnormal(f32_of(u), 0x1p-1f);
    uint32_t code = u < 0x38800000 ? small : round_normal(u, 13, 112u << 10);
    code = u >= 0x477ff000 ? 0x7c00 : code; /* from 65520 on: infinity */
    code = u > 0x7f800000 ? 0x7fff : code;
    return (uint16_t)(code | ((bits >> 16) & 0x8000));
}

static inline float e4m3_load(uint8_t b)
{
    uint32_t u = widen((uint32_t)(b & 0x7f) << 20, 120, 0x1p-6f);
    u = (b & 0x7f) == 0x7f ? 0x7fc00000 : u;
    return f32_of(u | (uint32_t)(b & 0x80) << 24);
}

static inline uint8_t e4m3_store(float f)
{
    uint32_t bits = f32_bits(f), u = bits & 0x7fffffff;
    uint32_t small = round_subnormal(f32_of(u), 0x1p14f);
    uint32_t code = u < 0x3c800000 ? small : round_normal(u, 20, 120u << 3);
    code = u > 0x43e00000 ? 0x7e : code; /* above 448 */
    code = u > 0x7f800000 ? 0x7f : code;
    return (uint8_t)(code | ((bits >> 24) & 0x80));
}

static inline float e5m2_load(uint8_t b)
{
    return fp16_load((uint16_t)(b << 8));
}

static inline uint8_t e5m2_store(float f)
{
    uint32_t bits = f32_bits(f), u = bits & 0x7fffffff;
    uint32_t small = round_subnormal(f32_of(u), 0x1p7f);
    uint32_t code = u < 0x38800000 ? small : round_normal(u, 21, 112u << 2);
    code = u > 0x47600000 ? 0x7b : code; /* above 57344 */
    code = u > 0x7f800000 ? 0x7f : code;
    return (uint8_t)(code | ((bits >> 24) & 0x80));
}

/* fp8 arithmetic goes through fp16. */
static inline float through_fp16(float f)
{
    return fp16_load(fp16_store(f));
}

#endif
