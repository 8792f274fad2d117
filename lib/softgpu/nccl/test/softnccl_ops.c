/* Every operation with every datatype and reduction on 1 to 5 ranks, against a reference that is written
 * apart from the library: values are doubles, each step of the ring is rounded by searching the datatype's
 * grid. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

#define COUNT 37 /* elements a rank: not a multiple of the ranks */

struct format {
    size_t size;
    int mantissa, least; /* floating point: bits of fraction, exponent of the smallest step */
    double largest;
    bool is_float, is_signed;
};

static const struct format formats[ncclNumTypes] = {
    [ncclInt8] = {.size = 1, .is_signed = true},
    [ncclUint8] = {.size = 1},
    [ncclInt32] = {.size = 4, .is_signed = true},
    [ncclUint32] = {.size = 4},
    [ncclInt64] = {.size = 8, .is_signed = true},
    [ncclUint64] = {.size = 8},
    [ncclFloat16] = {.size = 2, .mantissa = 10, .least = -24, .largest = 65504, .is_float = true},
    [ncclFloat32] = {.size = 4, .mantissa = 23, .least = -149, .largest = 3e38, .is_float = true},
    [ncclFloat64] = {.size = 8, .mantissa = 52, .least = -1074, .largest = 1e308, .is_float = true},
    [ncclBfloat16] = {.size = 2, .mantissa = 7, .least = -133, .largest = 3e38, .is_float = true},
    [ncclFloat8e4m3] = {.size = 1, .mantissa = 3, .least = -9, .largest = 448, .is_float = true},
    [ncclFloat8e5m2] = {.size = 1, .mantissa = 2, .least = -16, .largest = 57344, .is_float = true},
};

/* Nearest value of the format, ties to even. */
static double quantize(double x, int type)
{
    const struct format *f = &formats[type];
    int exponent;
    if (x == 0)
        return x;
    frexp(x, &exponent);
    int step = exponent - 1 - f->mantissa < f->least ? f->least : exponent - 1 - f->mantissa;
    double q = ldexp(rint(ldexp(x, -step)), step);
    return fabs(q) > f->largest && f->size == 1 ? copysign(f->largest, q) : q;
}

/* Bits of a value that the format has. */
static void encode(double x, int type, void *to)
{
    const struct format *f = &formats[type];
    if (type == ncclFloat32) {
        *(float *)to = (float)x;
    } else if (type == ncclFloat64) {
        *(double *)to = x;
    } else {
        int exponent;
        frexp(x, &exponent);
        int step = x == 0 || exponent - 1 - f->mantissa < f->least ? f->least : exponent - 1 - f->mantissa;
        unsigned bits = ((unsigned)(step - f->least) << f->mantissa) + (unsigned)ldexp(fabs(x), -step);
        bits |= (signbit(x) ? 1u : 0u) << (f->size * 8 - 1);
        memcpy(to, &bits, f->size);
    }
}

union value {
    double real;
    uint64_t integer; /* wraps at the format's size */
};

static union value wrap(uint64_t integer, int type)
{
    const struct format *f = &formats[type];
    unsigned unused = 64 - (unsigned)f->size * 8;
    union value v;
    if (f->is_signed)
        v.integer = (uint64_t)((int64_t)(integer << unused) >> unused);
    else
        v.integer = integer << unused >> unused;
    return v;
}

static union value input(int rank, size_t i, int salt, int type)
{
    uint64_t x = (uint64_t)rank * 7919 + i * 104729 + (uint64_t)salt * 1299709 + 12345;
    x ^= x >> 7;
    x *= 0x9e3779b97f4a7c15ull;
    int small = (int)(x >> 40) % 17 - 8;
    if (!formats[type].is_float)
        return wrap((uint64_t)(int64_t)(small * 11), type);
    return (union value){.real = quantize(small / 4.0, type)};
}

static void put(union value v, int type, void *to)
{
    if (formats[type].is_float)
        encode(v.real, type, to);
    else
        memcpy(to, &v.integer, formats[type].size);
}

enum reduction { SUM, PROD, MAX, MIN, AVG, PREMUL_HOST, PREMUL_DEVICE, REDUCTIONS };

static union value combine(union value a, union value b, int type, enum reduction reduction)
{
    const struct format *f = &formats[type];
    if (f->is_float) {
        double r = reduction == PROD  ? a.real * b.real
                   : reduction == MAX ? fmax(a.real, b.real)
                   : reduction == MIN ? fmin(a.real, b.real)
                                      : a.real + b.real;
        return (union value){.real = quantize(r, type)};
    }
    bool less = f->is_signed ? (int64_t)a.integer < (int64_t)b.integer : a.integer < b.integer;
    switch (reduction) {
    case PROD:
        return wrap(a.integer * b.integer, type);
    case MAX:
        return less ? b : a;
    case MIN:
        return less ? a : b;
    default:
        return wrap(a.integer + b.integer, type);
    }
}

static union value scaled(union value v, int type, enum reduction reduction, int rank, int ranks)
{
    bool is_float = formats[type].is_float;
    if (reduction == AVG && is_float)
        return (union value){.real = quantize(v.real * quantize(1.0 / ranks, type), type)};
    if (reduction != PREMUL_HOST && reduction != PREMUL_DEVICE)
        return v;
    if (is_float)
        return (union value){.real = quantize(v.real * (rank % 2 ? 0.5 : 2), type)};
    return wrap(v.integer * (uint64_t)(rank + 2), type);
}

/* Element i of the sum over ranks, in the order of the ring that ends at `last`. */
static union value reference(int ranks, size_t i, int salt, int type, enum reduction reduction, int last)
{
    int first = (last + 1) % ranks;
    union value sum = scaled(input(first, i, salt, type), type, reduction, first, ranks);
    for (int k = 1; k < ranks; k++) {
        int rank = (first + k) % ranks;
        sum = combine(sum, scaled(input(rank, i, salt, type), type, reduction, rank, ranks), type, reduction);
    }
    if (reduction == AVG && !formats[type].is_float) {
        if (formats[type].is_signed)
            sum = wrap((uint64_t)((int64_t)sum.integer / ranks), type);
        else
            sum.integer /= (uint64_t)ranks;
    }
    return sum;
}

struct context {
    struct rank *rank;
    ncclComm_t comm;
    cudaStream_t stream;
    unsigned char *in, *out, *expected, *host;
    int type, salt;
    size_t size;
};

static void fill(struct context *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(input(c->rank->rank, i, c->salt, c->type), c->type, c->host + i * c->size);
    CUDA(cudaMemcpy(c->in, c->host, count * c->size, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(c->out, 0x5a, (size_t)c->rank->ranks * COUNT * 8));
}

static void compare(struct context *c, size_t count, const char *what, int reduction)
{
    CUDA(cudaStreamSynchronize(c->stream));
    CUDA(cudaMemcpy(c->host, c->out, count * c->size, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        if (memcmp(c->host + i * c->size, c->expected + i * c->size, c->size)) {
            uint64_t is = 0, should = 0;
            memcpy(&is, c->host + i * c->size, c->size);
            memcpy(&should, c->expected + i * c->size, c->size);
            fprintf(stderr, "%s type %d reduction %d ranks %d: element %zu is %llx, should be %llx\n", what,
                    c->type, reduction, c->rank->ranks, i, (unsigned long long)is,
                    (unsigned long long)should);
            CHECK(!"results differ");
        }
    c->salt++;
}

static ncclRedOp_t make_redop(struct context *c, enum reduction reduction, void *device_scalar)
{
    static const ncclRedOp_t plain[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    unsigned char scalar[8];
    ncclRedOp_t op;
    if (reduction <= AVG)
        return plain[reduction];
    if (formats[c->type].is_float)
        encode(c->rank->rank % 2 ? 0.5 : 2, c->type, scalar);
    else
        put((union value){.integer = (uint64_t)c->rank->rank + 2}, c->type, scalar);
    CUDA(cudaMemcpy(device_scalar, scalar, c->size, cudaMemcpyHostToDevice));
    bool host = reduction == PREMUL_HOST;
    NCCL(ncclRedOpCreatePreMulSum(&op, host ? scalar : device_scalar, (ncclDataType_t)c->type,
                                  host ? ncclScalarHostImmediate : ncclScalarDevice, c->comm));
    return op;
}

static void reductions(struct context *c, void *device_scalar)
{
    int n = c->rank->ranks, me = c->rank->rank, root = n - 1;
    ncclDataType_t type = (ncclDataType_t)c->type;
    for (enum reduction reduction = 0; reduction < REDUCTIONS; reduction++) {
        ncclRedOp_t op = make_redop(c, reduction, device_scalar);
        int chunk = (COUNT + n - 1) / n;
        fill(c, COUNT);
        for (int i = 0; i < COUNT; i++)
            put(reference(n, (size_t)i, c->salt, c->type, reduction, i / chunk), c->type,
                c->expected + (size_t)i * c->size);
        NCCL(ncclAllReduce(c->in, c->out, COUNT, type, op, c->comm, c->stream));
        compare(c, COUNT, "all-reduce", reduction);
        fill(c, COUNT);
        for (int i = 0; i < COUNT; i++)
            put(reference(n, (size_t)i, c->salt, c->type, reduction, root), c->type,
                c->expected + (size_t)i * c->size);
        NCCL(ncclReduce(c->in, c->out, COUNT, type, op, root, c->comm, c->stream));
        compare(c, me == root ? COUNT : 0, "reduce", reduction);
        fill(c, (size_t)n * COUNT);
        for (int i = 0; i < COUNT; i++)
            put(reference(n, (size_t)(me * COUNT + i), c->salt, c->type, reduction, me), c->type,
                c->expected + (size_t)i * c->size);
        NCCL(ncclReduceScatter(c->in, c->out, COUNT, type, op, c->comm, c->stream));
        compare(c, COUNT, "reduce-scatter", reduction);
        if (reduction > AVG)
            NCCL(ncclRedOpDestroy(op, c->comm));
    }
}

/* expected[part of rank r] = what `from` elements on of rank r's input. */
static void expect_parts(struct context *c, size_t from)
{
    for (int r = 0; r < c->rank->ranks; r++)
        for (size_t i = 0; i < COUNT; i++)
            put(input(r, from + i, c->salt, c->type), c->type,
                c->expected + ((size_t)r * COUNT + i) * c->size);
}

static void expect_from(struct context *c, int rank, size_t from)
{
    for (size_t i = 0; i < COUNT; i++)
        put(input(rank, from + i, c->salt, c->type), c->type, c->expected + i * c->size);
}

static void movements(struct context *c)
{
    int n = c->rank->ranks, me = c->rank->rank, root = n / 2;
    ncclDataType_t type = (ncclDataType_t)c->type;
    fill(c, COUNT);
    expect_parts(c, 0);
    NCCL(ncclAllGather(c->in, c->out, COUNT, type, c->comm, c->stream));
    compare(c, (size_t)n * COUNT, "all-gather", -1);
    fill(c, COUNT);
    expect_from(c, root, 0);
    NCCL(ncclBroadcast(c->in, c->out, COUNT, type, root, c->comm, c->stream));
    compare(c, COUNT, "broadcast", -1);
    fill(c, COUNT);
    expect_from(c, root, 0);
    NCCL(ncclBcast(c->in, COUNT, type, root, c->comm, c->stream));
    CUDA(cudaMemcpyAsync(c->out, c->in, COUNT * c->size, cudaMemcpyDeviceToDevice, c->stream));
    compare(c, COUNT, "bcast", -1);
    fill(c, (size_t)n * COUNT);
    expect_parts(c, (size_t)me * COUNT);
    NCCL(ncclAlltoAll(c->in, c->out, COUNT, type, c->comm, c->stream));
    compare(c, (size_t)n * COUNT, "all-to-all", -1);
    fill(c, COUNT);
    expect_parts(c, 0);
    NCCL(ncclGather(c->in, c->out, COUNT, type, root, c->comm, c->stream));
    compare(c, me == root ? (size_t)n * COUNT : 0, "gather", -1);
    fill(c, (size_t)n * COUNT);
    expect_from(c, root, (size_t)me * COUNT);
    NCCL(ncclScatter(c->in, c->out, COUNT, type, root, c->comm, c->stream));
    compare(c, COUNT, "scatter", -1);
    fill(c, COUNT);
    expect_from(c, (me + n - 1) % n, 0);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(c->in, COUNT, type, (me + 1) % n, c->comm, c->stream));
    NCCL(ncclRecv(c->out, COUNT, type, (me + n - 1) % n, c->comm, c->stream));
    NCCL(ncclGroupEnd());
    compare(c, COUNT, "send and receive", -1);
}

static void every_operation(struct rank *rank)
{
    struct context c = {.rank = rank, .comm = make_comm(rank)};
    size_t bytes = (size_t)rank->ranks * COUNT * 8;
    void *scalar = device_buffer(NULL, 8);
    c.in = device_buffer(NULL, bytes);
    c.out = device_buffer(NULL, bytes);
    c.expected = malloc(bytes);
    c.host = malloc(bytes);
    CUDA(cudaStreamCreate(&c.stream));
    for (c.type = 0; c.type < ncclNumTypes; c.type++) {
        c.size = formats[c.type].size;
        reductions(&c, scalar);
        movements(&c);
    }
    NCCL(ncclCommDestroy(c.comm));
    free(c.expected);
    free(c.host);
}

static void test_every_operation(void **state)
{
    for (int ranks = 1; ranks <= 5; ranks++)
        run_ranks(ranks, every_operation, NULL, (struct options){.time_scale = "0.0001"});
}

static void test_over_tcp(void **state)
{
    run_ranks(3, every_operation, NULL, (struct options){.time_scale = "0.0001", .tcp = true});
}

/* Larger than one block of the reduction and than socket buffers. */
static void large(struct rank *rank)
{
    size_t count = 1000003;
    ncclComm_t comm = make_comm(rank);
    float *host = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        host[i] = (float)((i * 31 + (size_t)rank->rank) % 1000);
    float *buffer = device_buffer(host, count * sizeof(float));
    NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    CUDA(cudaMemcpy(host, buffer, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        float expected = 0;
        for (int r = 0; r < rank->ranks; r++)
            expected += (float)((i * 31 + (size_t)r) % 1000);
        CHECK(host[i] == expected);
    }
    NCCL(ncclCommDestroy(comm));
    free(host);
}

static void test_large(void **state)
{
    run_ranks(3, large, NULL, (struct options){.time_scale = "0.001"});
    run_ranks(3, large, NULL, (struct options){.time_scale = "0.001", .tcp = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation),
        cmocka_unit_test(test_over_tcp),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
