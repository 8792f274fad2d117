/* reduce.c - how fast the reductions are: GB/s of input for each datatype and reduction, and milliseconds for many members,
 * as a folded capture has them. Nothing is asserted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"
#include "coll/share.h"
#include "coll/types.h"
#include "common/clock.h"

enum { INPUTS = 8, BYTES = 4 << 20, REPEATS = 5, MEMBERS = 2048, DISTINCT = 64 };

/* Nanoseconds, the best of REPEATS; large reductions use threads. */
static double reduce(void *out, const void *const *inputs, int n, int datatype, int redop, const struct coll_premul *factors)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = clock_now_ns();
        coll_reduce(out, inputs, n, BYTES / coll_datatype_size(datatype), datatype, redop, factors, NULL);
        int64_t took = clock_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best;
}

/* Ordinary numbers: subnormal ones would measure the processor's slow path. */
static void fill(char *data, int datatype)
{
    size_t size = coll_datatype_size(datatype);
    for (size_t at = 0; at < BYTES; at += size) {
        struct coll_premul v = coll_premul_from_double(1 + rand() % 2, datatype);
        memcpy(data + at, &v.bits, size);
    }
}

/* n members that have ndistinct inputs between them, one after the other in turn. */
static void many(int n, int ndistinct, int datatype)
{
    const void *distinct[DISTINCT], *inputs[MEMBERS];
    void *out = malloc(BYTES);
    for (int i = 0; i < ndistinct; i++) {
        distinct[i] = malloc(BYTES);
        if (!distinct[i] || !out)
            abort();
        fill((char *)distinct[i], datatype);
    }
    for (int i = 0; i < n; i++)
        inputs[i] = distinct[i % ndistinct];
    printf("%d members, %d inputs of %d bytes, %s: sum %.2f ms, avg %.2f ms\n", n, ndistinct, BYTES, coll_datatype_name(datatype),
           reduce(out, inputs, n, datatype, COLL_REDOP_SUM, NULL) * 1e-6, reduce(out, inputs, n, datatype, COLL_REDOP_AVG, NULL) * 1e-6);
    for (int i = 0; i < ndistinct; i++)
        free((void *)distinct[i]);
    free(out);
}

int main(void)
{
    const void *inputs[INPUTS];
    struct coll_premul factors[INPUTS];
    void *out = malloc(BYTES);
    coll_share_begin(0);
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = malloc(BYTES);
        if (!inputs[i] || !out)
            abort();
    }
    printf("%-10s", "GB/s");
    for (int redop = 0; redop < COLL_REDOPS; redop++)
        printf(" %9s", coll_redop_name(redop));
    printf("\n");
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++) {
        printf("%-10s", coll_datatype_name(datatype));
        for (int i = 0; i < INPUTS; i++) {
            factors[i] = coll_premul_from_double(1, datatype);
            fill((char *)inputs[i], datatype);
        }
        for (int redop = 0; redop < COLL_REDOPS; redop++)
            printf(" %9.2f", (double)INPUTS * BYTES / reduce(out, inputs, INPUTS, datatype, redop, factors));
        printf("\n");
    }
    for (int i = 0; i < INPUTS; i++)
        free((void *)inputs[i]);
    free(out);
    many(MEMBERS, 8, COLL_BFLOAT16);
    many(MEMBERS, 8, COLL_FLOAT32);
    many(DISTINCT, DISTINCT, COLL_BFLOAT16);
    many(DISTINCT, DISTINCT, COLL_FLOAT32);
    coll_share_end();
    return 0;
}
