/* reduce.h - reductions on host memory, with NCCL's arithmetic.
 *
 * Order: pairs of neighbours in rank order, then pairs of pairs: (x0 + x1) + (x2 + x3), an odd last one carried up (pairs.h). The
 * result does not depend on threads, nor on whether inputs that are equal are one buffer or several; those that are one buffer
 * are added up once: 2,048 members with 8 inputs between them, as a folded capture has, cost 15 additions an element.
 * Rounding errors grow with log2(n), as with NCCL's trees, not with n: in bf16 a sum of equal terms one after the other stops
 * growing at 256 of them, here it is exact doublings. NCCL's rings start at another rank for every chunk, one after the other,
 * and its trees associate by node, so last bits of floating-point results may differ from a GPU's; integers and
 * floating-point values whose sums are exact are equal in every bit.
 *
 * Precision: each partial sum is rounded to the datatype, to nearest even, as NCCL's ring kernels do
 * (src/device/reduce_kernel.h): bf16 and fp16 add in their own precision (computed in fp32 and rounded, which is the
 * same), fp8 adds in fp16 and is then rounded to fp8, saturating at the largest finite value. Integers wrap.
 * MIN and MAX prefer the number to a NaN.
 *
 * AVG over n (src/enqueue.cc, hostToDevRedOp): floating point: each input times 1/n, rounded to the datatype, then
 * summed; integers: the sum, divided by n towards zero. PREMUL: each input times its rank's own scalar, then summed.
 * (The newest reduce_kernel.h can also divide fp16 and bf16 after the sum; whether and since when AVG uses that is not
 * checked here. None of this has been compared with a real GPU's bits.)
 *
 * Buffers must be aligned to the datatype's size.
 */
#ifndef PRISM_COLL_REDUCE_H
#define PRISM_COLL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A PreMulSum factor: the bits of one element of the datatype, in the low bytes. */
struct coll_premul {
    uint64_t bits;
};

/* The factor's bits of a number, and 1/n as AVG uses it. 0 for an unknown datatype. */
struct coll_premul coll_premul_from_double(double value, int datatype);

/* out = inputs[0] op inputs[1] op ...: n >= 1 inputs of count elements. AVG divides by n. scalars: one a input, read for
 * PREMUL only. Inputs may be one buffer several times. out may be an input; it must not overlap one otherwise. Much work (count
 * times additions) is shared with those that help (share.h); the bits are the same. Takes
 * some 100 bytes a member, and 256 KiB a thread for partial sums (n / 2 blocks of 512 elements at worst, where many are used
 * again); aborts without memory. -1 with err: unknown datatype or redop, n < 1. */
int coll_reduce(void *out, const void *const *inputs, int n, uint64_t count, int datatype, int redop,
                const struct coll_premul *scalars, struct prism_error *err);

/* For partial results: acc = acc op in (in times *scalar first for PREMUL), so one after the other and not in coll_reduce's order.
 * AVG accumulates the plain sum: finish with coll_average. acc and in must not overlap. */
int coll_accumulate(void *acc, const void *in, uint64_t count, int datatype, int redop,
                    const struct coll_premul *scalar, struct prism_error *err);
/* out = in times *scalar, the first step of a PREMUL. out may be in. */
int coll_scale(void *out, const void *in, uint64_t count, int datatype, const struct coll_premul *scalar,
               struct prism_error *err);
/* acc = acc / n, in place; floating point: times 1/n. (Not AVG's own order for floating point: see above.) */
int coll_average(void *acc, uint64_t count, int datatype, int n, struct prism_error *err);

#endif
