/* reduce.c - one loop for each datatype and reduction, made by the macros of section 1. */
#include "coll/reduce.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "coll/number.h"
#include "coll/pairs.h"
#include "coll/share.h"
#include "coll/types.h"

/* Elements worked on at a time: as many as let the partial sums of a block, and what is read and written beside them, stay in a
 * core's level-2 cache, of which we take half of a small one. A step of fewer would be mostly its call. */
#define CACHE_BYTES   ((size_t)256 << 10)
#define LEAST_BLOCK   ((size_t)512)
#define LARGEST_BLOCK ((size_t)8192)
/* What a thread is worth waking for: elements times steps, a tenth of a millisecond of work. */
#define STEPS_A_THREAD ((uint64_t)256 << 10)

/* --- 1. The loops --- */

typedef void (*combine_fn)(void *to, const void *a, const void *b, size_t n);
typedef void (*premul_fn)(void *to, const void *a, const void *b, size_t n, const void *scalar);
typedef void (*scale_fn)(void *to, const void *in, size_t n, const void *scalar);
typedef void (*divide_fn)(void *acc, size_t n, int by);

struct kernels {
    combine_fn combine[COLL_REDOP_MIN + 1]; /* by redop: SUM, PROD, MAX, MIN; to may be a or b, here and below */
    premul_fn premul;                       /* to = a + b * scalar */
    scale_fn scale;                         /* to = in * scalar */
    divide_fn divide;                       /* integers only */
};

/* An element is written where the same element was read, or nowhere that is read: a loop may be made vector code. (Of clang that
 * would be a demand, with a warning where it is not met.) */
#ifdef __clang__
#define ELEMENTWISE
#else
#define ELEMENTWISE _Pragma("GCC ivdep")
#endif

#define COMBINE(NAME, T, EXPR)                                                                               \
    static void NAME(void *to_, const void *a_, const void *b_, size_t n)                                    \
    {                                                                                                        \
        T *to = to_;                                                                                         \
        const T *as = a_, *bs = b_;                                                                          \
        ELEMENTWISE                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const T a = as[i], b = bs[i];                                                                    \
            to[i] = (T)(EXPR);                                                                               \
        }                                                                                                    \
    }

#define PREMUL(NAME, T, SCALAR, EXPR)                                                                        \
    static void NAME(void *to_, const void *a_, const void *b_, size_t n, const void *scalar)                \
    {                                                                                                        \
        T *to = to_, raw;                                                                                    \
        const T *as = a_, *bs = b_;                                                                          \
        memcpy(&raw, scalar, sizeof raw);                                                                    \
        SCALAR;                                                                                              \
        ELEMENTWISE                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const T a = as[i], b = bs[i];                                                                    \
            to[i] = (T)(EXPR);                                                                               \
        }                                                                                                    \
    }

#define SCALE(NAME, T, SCALAR, EXPR)                                                                         \
    static void NAME(void *to_, const void *in_, size_t n, const void *scalar)                               \
    {                                                                                                        \
        T *to = to_, raw;                                                                                    \
        const T *in = in_;                                                                                   \
        memcpy(&raw, scalar, sizeof raw);                                                                    \
        SCALAR;                                                                                              \
        ELEMENTWISE                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const T b = in[i];                                                                               \
            to[i] = (T)(EXPR);                                                                               \
        }                                                                                                    \
    }

#define TABLE(N, DIVIDE)                                                                                     \
    static const struct kernels N##_kernels = {{[COLL_REDOP_SUM] = N##_sum,                                  \
                                                [COLL_REDOP_PROD] = N##_prod,                                \
                                                [COLL_REDOP_MAX] = N##_max,                                  \
                                                [COLL_REDOP_MIN] = N##_min},                                 \
                                               N##_premul,                                                   \
                                               N##_scale,                                                    \
                                               DIVIDE}

/* Integers: sums and products wrap, so they are made in the unsigned type (of at least int's width). */
#define INTEGER(N, T, U, D)                                                                                  \
    COMBINE(N##_sum, T, (U)a + (U)b)                                                                      \
    COMBINE(N##_prod, T, (U)a *(U)b)                                                                      \
    COMBINE(N##_max, T, a > b ? a : b)                                                                    \
    COMBINE(N##_min, T, a < b ? a : b)                                                                    \
    PREMUL(N##_premul, T, const U s = (U)raw, (U)a + (U)b * s)                                               \
    SCALE(N##_scale, T, const U s = (U)raw, (U)b * s)                                                       \
    static void N##_divide(void *acc_, size_t n, int by)                                                     \
    {                                                                                                        \
        T *acc = acc_;                                                                                       \
        for (size_t i = 0; i < n; i++)                                                                       \
            acc[i] = (T)((D)acc[i] / (D)by);                                                                 \
    }                                                                                                        \
    TABLE(N, N##_divide);

/* Floating point held as T: L loads as the wide type W, S rounds back; P rounds a product between. */
#define FLOATING(N, T, W, L, S, P)                                                                           \
    COMBINE(N##_sum, T, S(L(a) + L(b)))                                                                   \
    COMBINE(N##_prod, T, S(L(a) * L(b)))                                                                  \
    COMBINE(N##_max, T, L(a) > L(b) || L(b) != L(b) ? a : b)                                              \
    COMBINE(N##_min, T, L(a) < L(b) || L(b) != L(b) ? a : b)                                              \
    PREMUL(N##_premul, T, const W s = L(raw), S(L(a) + L(P(L(b) * s))))                                      \
    SCALE(N##_scale, T, const W s = L(raw), P(L(b) * s))                                                    \
    TABLE(N, NULL);

#define SAME(x)       (x)
#define E4M3_STORE(x) e4m3_store(through_fp16(x))
#define E5M2_STORE(x) e5m2_store(through_fp16(x))

INTEGER(i8, int8_t, uint32_t, int64_t)
INTEGER(u8, uint8_t, uint32_t, uint64_t)
INTEGER(i32, int32_t, uint32_t, int64_t)
INTEGER(u32, uint32_t, uint32_t, uint64_t)
INTEGER(i64, int64_t, uint64_t, int64_t)
INTEGER(u64, uint64_t, uint64_t, uint64_t)
FLOATING(f32, float, float, SAME, SAME, SAME)
FLOATING(f64, double, double, SAME, SAME, SAME)
FLOATING(f16, uint16_t, float, fp16_load, fp16_store, fp16_store)
FLOATING(bf16, uint16_t, float, bf16_load, bf16_store, bf16_store)
FLOATING(e4m3, uint8_t, float, e4m3_load, E4M3_STORE, E4M3_STORE)
FLOATING(e5m2, uint8_t, float, e5m2_load, E5M2_STORE, E5M2_STORE)

/* --- 2. Choosing one --- */

static const struct kernels *const table[COLL_DATATYPES] = {
    [COLL_INT8] = &i8_kernels,       [COLL_UINT8] = &u8_kernels,        [COLL_INT32] = &i32_kernels,
    [COLL_UINT32] = &u32_kernels,    [COLL_INT64] = &i64_kernels,       [COLL_UINT64] = &u64_kernels,
    [COLL_FLOAT16] = &f16_kernels,   [COLL_FLOAT32] = &f32_kernels,     [COLL_FLOAT64] = &f64_kernels,
    [COLL_BFLOAT16] = &bf16_kernels, [COLL_FLOAT8E4M3] = &e4m3_kernels, [COLL_FLOAT8E5M2] = &e5m2_kernels,
};

static const struct kernels *find(int datatype, int redop, struct prism_error *err)
{
    if (datatype < 0 || datatype >= COLL_DATATYPES) {
        prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "datatype %d is not one of NCCL's %d", datatype,
                        COLL_DATATYPES);
        return NULL;
    }
    if (redop < 0 || redop >= COLL_REDOPS) {
        prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                        "reduction %d is not sum, prod, max, min, avg or PreMulSum", redop);
        return NULL;
    }
    return table[datatype];
}

/* Averages and PreMulSums are sums. */
static combine_fn combiner(const struct kernels *k, int redop)
{
    return k->combine[redop == COLL_REDOP_AVG || redop == COLL_REDOP_PREMUL ? COLL_REDOP_SUM : redop];
}

struct reduction {
    const struct kernels *kernels;
    combine_fn combine;
    struct pairs pairs;
    char *out;
    const void *const *inputs;
    int n;
    size_t size, block;               /* bytes of an element, elements of a block */
    bool scaled, divide;              /* inputs times their factors; the sum, by n */
    const struct coll_premul *shared; /* the factor of all members; NULL: scalars' */
    const struct coll_premul *scalars;
};

/* Bytes from one buffer to the next: whole cache lines. */
static size_t stride(const struct reduction *r)
{
    return (r->block * r->size + 63) / 64 * 64;
}

/* The elements from `at` on of a step's side. */
static const void *side(const struct reduction *r, char *buffers, uint32_t place, uint64_t at)
{
    const struct pairs *p = &r->pairs;
    if (place < p->nleaves)
        return (const char *)r->inputs[p->leaves[place]] + at * r->size;
    return buffers + (place - p->nleaves) * stride(r);
}

static const void *factor(const struct reduction *r, uint32_t leaf)
{
    return r->shared ? &r->shared->bits : &r->scalars[r->pairs.leaves[leaf]].bits;
}

static void reduce_block(const struct reduction *r, char *buffers, uint64_t at, size_t len)
{
    const struct pairs *p = &r->pairs;
    char *out = r->out + at * r->size;
    for (uint32_t i = 0; i < p->nsteps; i++) {
        const struct pairs_step *s = &p->steps[i];
        void *to = i + 1 == p->nsteps ? out : buffers + (s->to - p->nleaves) * stride(r);
        const void *a = side(r, buffers, s->a, at);
        if (s->b == PAIRS_NONE)
            r->kernels->scale(to, a, len, factor(r, s->a));
        else if (r->scaled && s->b < p->nleaves)
            r->kernels->premul(to, a, side(r, buffers, s->b, at), len, factor(r, s->b));
        else
            r->combine(to, a, side(r, buffers, s->b, at), len);
    }
    if (!p->nsteps && out != side(r, buffers, 0, at))
        memcpy(out, side(r, buffers, 0, at), len * r->size);
    if (r->divide)
        r->kernels->divide(out, len, r->n);
}

/* Elements do not touch each other, so the bits are those of one thread. */
static void reduce_range(const void *reduction, uint64_t from, uint64_t to)
{
    const struct reduction *r = reduction;
    char *buffers = r->pairs.nbuffers ? aligned_alloc(64, r->pairs.nbuffers * stride(r)) : NULL;
    if (r->pairs.nbuffers && !buffers)
        abort();
    for (uint64_t at = from; at < to; at += r->block)
        reduce_block(r, buffers, at, to - at < r->block ? (size_t)(to - at) : r->block);
    free(buffers);
}

/* Members that bring the same: the same input and, where it counts, the same factor. */
static void plan(struct reduction *r, uint64_t count)
{
    struct pairs_key *keys = malloc((size_t)r->n * sizeof *keys);
    if (!keys)
        abort();
    for (int i = 0; i < r->n; i++) {
        keys[i] = (struct pairs_key){.input = (uintptr_t)r->inputs[i]};
        if (r->scaled && !r->shared)
            memcpy(&keys[i].factor, &r->scalars[i].bits, r->size);
    }
    pairs_build(&r->pairs, keys, (uint32_t)r->n, r->scaled);
    free(keys);
    size_t block = CACHE_BYTES / (r->pairs.nbuffers + 3) / r->size / 64 * 64; /* two read, one written */
    block = block < LEAST_BLOCK ? LEAST_BLOCK : block > LARGEST_BLOCK ? LARGEST_BLOCK : block;
    r->block = count < block && count ? (size_t)count : block;
}

int coll_reduce(void *out, const void *const *inputs, int n, uint64_t count, int datatype, int redop,
                const struct coll_premul *scalars, struct prism_error *err)
{
    const struct kernels *k = find(datatype, redop, err);
    if (!k)
        return -1;
    if (n < 1)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "a reduction of %d inputs", n);
    bool average = redop == COLL_REDOP_AVG, floating = coll_datatype_is_float(datatype);
    struct coll_premul share = coll_premul_from_double(1.0 / n, datatype);
    struct reduction r = {.kernels = k, .combine = combiner(k, redop), .out = out, .inputs = inputs, .n = n,
                          .size = coll_datatype_size(datatype), .scaled = redop == COLL_REDOP_PREMUL || (average && floating),
                          .divide = average && !floating, .shared = average ? &share : NULL, .scalars = scalars};
    plan(&r, count);
    coll_share(count, r.block, count * r.pairs.nsteps / STEPS_A_THREAD, reduce_range, &r);
    pairs_free(&r.pairs);
    return 0;
}

int coll_accumulate(void *acc, const void *in, uint64_t count, int datatype, int redop,
                    const struct coll_premul *scalar, struct prism_error *err)
{
    const struct kernels *k = find(datatype, redop, err);
    if (!k)
        return -1;
    if (redop == COLL_REDOP_PREMUL)
        k->premul(acc, acc, in, (size_t)count, &scalar->bits);
    else
        combiner(k, redop)(acc, acc, in, (size_t)count);
    return 0;
}

int coll_scale(void *out, const void *in, uint64_t count, int datatype, const struct coll_premul *scalar,
               struct prism_error *err)
{
    const struct kernels *k = find(datatype, COLL_REDOP_PREMUL, err);
    if (!k)
        return -1;
    k->scale(out, in, (size_t)count, &scalar->bits);
    return 0;
}

int coll_average(void *acc, uint64_t count, int datatype, int n, struct prism_error *err)
{
    const struct kernels *k = find(datatype, COLL_REDOP_AVG, err);
    if (!k)
        return -1;
    if (n < 1)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "an average of %d inputs", n);
    if (k->divide) {
        k->divide(acc, (size_t)count, n);
        return 0;
    }
    struct coll_premul share = coll_premul_from_double(1.0 / n, datatype);
    k->scale(acc, acc, (size_t)count, &share.bits);
    return 0;
}
