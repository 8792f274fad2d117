/* host_math.h - the arithmetic of kernels_host.c on row-major matrices in plain loops whose inner one
 * vectorises. */
#ifndef MOETRAIN_HOST_MATH_H
#define MOETRAIN_HOST_MATH_H

#include "kernels.h"

/* c[m][n] = a[m][k] b[k][n] + bias (which may be NULL) */
void math_multiply(real *c, const real *a, const real *b, const real *bias, int m, int n, int k);

/* c[m][n] = a[m][k] b[n][k]^T */
void math_multiply_transposed(real *c, const real *a, const real *b, int m, int n, int k);

/* c[m][n] += a[k][m]^T b[k][n] */
void math_add_outer(real *c, const real *a, const real *b, int m, int n, int k);

/* sums[n] += column sums of a[m][n] */
void math_add_columns(real *sums, const real *a, int m, int n);

void math_layer_norm(real *out, real *stats, const real *x, const real *gamma, const real *beta, int rows,
                     int columns);
void math_layer_norm_backward(const struct norm_backward *args);

/* The tanh form of GELU (Hendrycks and Gimpel 2016), and in place dvalue *= its derivative at before. */
void math_gelu(real *out, const real *before, size_t count);
void math_gelu_backward(real *dvalue, const real *before, size_t count);

void math_attention(const struct attention_forward *args);
void math_attention_backward(const struct attention_backward *args);

/* In place softmax of count values. */
void math_softmax(real *values, int count);

double math_round_one(double value, struct grid grid);
void math_round(real *values, size_t count, struct grid grid);

#endif
