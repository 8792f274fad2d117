/* reduce.c - one loop for each datatype and reduction, made by the macros of section 1. */
#include "coll/reduce.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "coll/number.h"
#include "coll/types.h"

/* Elements worked on at a time, so that the accumulator stays in the cache while all inputs pass. */
#define BLOCK 8192
/* What a thread is worth starting for: elements times inputs, some milliseconds of work. */
#define STEPS_A_THREAD ((uint64_t)16 << 20)
#define THREADS        16u

/* --- 1. The loops --- */

typedef void (*accumulate_fn)(void *acc, const void *in, size_t n);
typedef void (*premul_fn)(void *acc, const void *in, size_t n, const void *scalar);
typedef void (*divide_fn)(void *acc, size_t n, int by);

struct kernels {
    accumulate_fn accumulate[COLL_REDOP_MIN + 1]; /* by redop: SUM, PROD, MAX, MIN */
    premul_fn premul;                             /* acc += in * scalar */
    premul_fn scale;                              /* acc = in * scalar; acc may be in */
    divide_fn divide;                             /* integers only */
};

#define ACCUMULATE(NAME, T, EXPR)                                                                            \
    static void NAME(void *acc_, const void *in_, size_t n)                                                  \
    {                                                                                                        \
        T *restrict acc = acc_;                                                                              \
        const T *restrict in = in_;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const T a = acc[i], b = in[i];                                                                   \
            acc[i] = (T)(EXPR);                                                                              \
        }                                                                                                    \
    }

#define PREMUL(NAME, T, SCALAR, EXPR)                                                                        \
    static void NAME(void *acc_, const void *in_, size_t n, const void *scalar)                              \
    {                                                                                                        \
        T *acc = acc_, raw;                                                                                  \
        const T *in = in_;                                                                                   \
        memcpy(&raw, scalar, sizeof raw);                                                                    \
        SCALAR;                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const T a = acc[i], b = in[i];                                                                   \
            (void)a;                                                                                         \
            acc[i] = (T)(EXPR);                                                                              \
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
    ACCUMULATE(N##_sum, T, (U)a + (U)b)                                                                      \
    ACCUMULATE(N##_prod, T, (U)a *(U)b)                                                                      \
    ACCUMULATE(N##_max, T, a > b ? a : b)                                                                    \
    ACCUMULATE(N##_min, T, a < b ? a : b)                                                                    \
    PREMUL(N##_premul, T, const U s = (U)raw, (U)a + (U)b * s)                                               \
    PREMUL(N##_scale, T, const U s = (U)raw, (U)b * s)                                                       \
    static void N##_divide(void *acc_, size_t n, int by)                                                     \
    {                                                                                                        \
        T *acc = acc_;                                                                                       \
        for (size_t i = 0; i < n; i++)                                                                       \
            acc[i] = (T)((D)acc[i] / (D)by);                                                                 \
    }                                                                                                        \
    TABLE(N, N##_divide);

/* Floating point held as T: L loads as the wide type W, S rounds back; P rounds a product between. */
#define FLOATING(N, T, W, L, S, P)                                                                           \
    ACCUMULATE(N##_sum, T, S(L(a) + L(b)))                                                                   \
    ACCUMULATE(N##_prod, T, S(L(a) * L(b)))                                                                  \
    ACCUMULATE(N##_max, T, L(a) > L(b) || L(b) != L(b) ? a : b)                                              \
    ACCUMULATE(N##_min, T, L(a) < L(b) || L(b) != L(b) ? a : b)                                              \
    PREMUL(N##_premul, T, const W s = L(raw), S(L(a) + L(P(L(b) * s))))                                      \
    PREMUL(N##_scale, T, const W s = L(raw), P(L(b) * s))                                                    \
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

struct coll_premul coll_premul_from_double(double value, int datatype)
{
    struct coll_premul p = {0};
    float f = (float)value;
    int64_t integer = coll_datatype_is_float(datatype) ? 0 : (int64_t)value;
    switch (datatype) {
    case COLL_FLOAT16:
        p.bits = fp16_store(f);
        break;
    case COLL_BFLOAT16:
        p.bits = bf16_store(f);
        break;
    case COLL_FLOAT8E4M3:
        p.bits = e4m3_store(f);
        break;
    case COLL_FLOAT8E5M2:
        p.bits = e5m2_store(f);
        break;
    case COLL_FLOAT32:
        p.bits = f32_bits(f);
        break;
    case COLL_FLOAT64:
        memcpy(&p.bits, &value, sizeof value);
        break;
    default:
        memcpy(&p.bits, &integer, coll_datatype_size(datatype));
    }
    return p;
}

/* One input's share of a block. */
static void step(const struct kernels *k, int redop, void *acc, const void *in, size_t n,
                 const struct coll_premul *scalar)
{
    if (redop == COLL_REDOP_PREMUL)
        k->premul(acc, in, n, &scalar->bits);
    else
        k->accumulate[redop == COLL_REDOP_AVG ? COLL_REDOP_SUM : redop](acc, in, n);
}

struct reduction {
    const struct kernels *kernels;
    char *out;
    const void *const *inputs;
    int n, redop;
    size_t size; /* of an element */
    bool average, floating;
    const struct coll_premul *scalars;
    struct coll_premul share; /* 1/n */
};

/* Elements of one thread. */
struct range {
    const struct reduction *reduction;
    uint64_t from, to;
    pthread_t thread;
};

static void reduce_range(const struct reduction *r, uint64_t from, uint64_t to)
{
    const struct kernels *k = r->kernels;
    for (uint64_t at = from; at < to; at += BLOCK) {
        size_t len = to - at < BLOCK ? (size_t)(to - at) : BLOCK;
        char *acc = r->out + at * r->size;
        const char *first = (const char *)r->inputs[0] + at * r->size;
        if (r->redop == COLL_REDOP_PREMUL)
            k->scale(acc, first, len, r->average ? &r->share.bits : &r->scalars[0].bits);
        else if (acc != first)
            memcpy(acc, first, len * r->size);
        for (int i = 1; i < r->n; i++)
            step(k, r->redop, acc, (const char *)r->inputs[i] + at * r->size, len,
                 r->average   ? &r->share
                 : r->scalars ? &r->scalars[i]
                              : NULL);
        if (r->average && !r->floating)
            k->divide(acc, len, r->n);
    }
}

static void *reduce_in_thread(void *range)
{
    const struct range *r = range;
    reduce_range(r->reduction, r->from, r->to);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

/* Elements do not touch each other, so the bits are those of one thread. */
static void reduce_all(const struct reduction *r, uint64_t count)
{
    struct range ranges[THREADS];
    sigset_t all, before;
    uint64_t work = count * (uint64_t)r->n / STEPS_A_THREAD, blocks = (count + BLOCK - 1) / BLOCK;
    unsigned most = work > 1 ? processors() : 1, n = work < most ? (unsigned)work : most, started = 0;
    n = n > THREADS ? THREADS : n;
    if (n > 1) {
        uint64_t each = (blocks + n - 1) / n * BLOCK;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
        for (; started + 1 < n && (started + 1) * each < count; started++) {
            struct range *g = &ranges[started];
            *g = (struct range){.reduction = r, .from = started * each, .to = (started + 1) * each};
            if (pthread_create(&g->thread, NULL, reduce_in_thread, g))
                break;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        reduce_range(r, started * each, count);
    } else {
        reduce_range(r, 0, count);
    }
    while (started)
        pthread_join(ranges[--started].thread, NULL);
}

int coll_reduce(void *out, const void *const *inputs, int n, uint64_t count, int datatype, int redop,
                const struct coll_premul *scalars, struct prism_error *err)
{
    const struct kernels *k = find(datatype, redop, err);
    if (!k)
        return -1;
    if (n < 1)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "a reduction of %d inputs", n);
    struct reduction r = {.kernels = k, .out = out, .inputs = inputs, .n = n, .redop = redop, .size = coll_datatype_size(datatype),
                          .average = redop == COLL_REDOP_AVG, .floating = coll_datatype_is_float(datatype), .scalars = scalars,
                          .share = coll_premul_from_double(1.0 / n, datatype)};
    if (r.average && r.floating)
        r.redop = COLL_REDOP_PREMUL;
    reduce_all(&r, count);
    return 0;
}

int coll_accumulate(void *acc, const void *in, uint64_t count, int datatype, int redop,
                    const struct coll_premul *scalar, struct prism_error *err)
{
    const struct kernels *k = find(datatype, redop, err);
    if (!k)
        return -1;
    step(k, redop, acc, in, (size_t)count, scalar);
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
