/* reduce.h - arithmetic of the reductions, element by element, for every datatype of NCCL.
 *
 * Order. An all-reduce of n ranks cuts the elements into n chunks of ceil(count / n); chunk c is summed in
 * the order in which it travels the ring: rank c + 1 first, then c + 2, ..., rank c last (all modulo n). A
 * reduce-scatter does the same with one chunk a rank, a reduce starts after the root and ends there. The
 * partial result is rounded to the datatype after every step, as it is when it crosses a link. Integers wrap;
 * 8-bit floats saturate to the largest finite value (as CUDA's conversions do by default). Minimum and
 * maximum ignore NaN like fmin and fmax.
 */
#ifndef SOFTGPU_NCCL_REDUCE_H
#define SOFTGPU_NCCL_REDUCE_H

#include <stddef.h>

/* out[i] = in[0][i] op in[1][i] op ... op in[n-1][i], folded in this order. redop: ncclSum to ncclAvg or
 * SGN_PREMULSUM (the inputs of which are already scaled; so are those of ncclAvg for floating-point types,
 * while integers are divided by ranks here). out may be one of the inputs only if it is in[0]. */
void sgn_reduce(void *out, const void *const *in, int n, size_t count, int datatype, int redop, int ranks);

/* out[i] = in[i] * *scalar, both of datatype. */
void sgn_scale(void *out, const void *in, size_t count, int datatype, const void *scalar);

/* *scalar = 1 / ranks in a floating-point datatype. */
void sgn_inverse(void *scalar, int datatype, int ranks);

/* One element of a floating-point datatype to and from double (rounded to nearest even). */
double sgn_float_get(const void *element, int datatype);
void sgn_float_put(void *element, int datatype, double value);

#endif
