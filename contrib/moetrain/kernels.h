/* kernels.h - the device work of moetrain, behind one interface with two backends:
 *   kernels_host.c   host functions launched on a software GPU (softgpuLaunchHostFunc, found with dlsym)
 *   kernels_cuda.cu  plain CUDA kernels
 *
 * 1. Conventions
 *    Every function enqueues work on a stream and returns at once; a cudaError_t says whether the launch was
 *    accepted. Pointers are device memory. Matrices are row-major; a weight is [inputs][outputs], so y = x w
 * + b. rows counts tokens (batch * length). Gradients called d<weight> are added to, other results are
 * overwritten. All kernels are deterministic: sums run in a fixed order.
 * 2. Grids
 *    struct grid rounds a result that is about to enter a reduction between ranks to multiples of 1/scale,
 * within
 *    +-bound, so that the sum of all ranks is exact in every order; scale 0 leaves values alone.
 * 3. Tensor parallelism
 *    "partial" results are this rank's part of a sum over the tensor group: the caller all-reduces them.
 */
#ifndef MOETRAIN_KERNELS_H
#define MOETRAIN_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The gradient check compiles everything in double precision. */
#ifdef MOETRAIN_DOUBLE
typedef double real;
#else
typedef float real;
#endif

struct grid {
    double scale, bound;
};

/* Look up what the backend needs. NULL if all is well, otherwise what is missing and what to do. */
const char *kernels_open(void);

/* Multiply the modelled cost of all kernels from now on. Returns 0, or -1 if the backend does not model
 * costs. */
int kernels_scale_cost(double factor);

/* Embedding of tokens, whose table is split by rows over the tensor group: this rank holds vocab_count rows
 * from vocab_first. The owner of a token's row also adds the position; the others contribute zeros (partial).
 */
struct embed_forward {
    const int *tokens;
    const real *table, *positions;
    real *out;
    int rows, length, hidden, vocab_first, vocab_count;
};
cudaError_t kernels_embed_forward(cudaStream_t stream, const struct embed_forward *args);

struct embed_backward {
    const int *tokens;
    const real *dout;
    real *dtable, *dpositions;
    int rows, length, hidden, vocab_first, vocab_count;
};
cudaError_t kernels_embed_backward(cudaStream_t stream, const struct embed_backward *args);

/* normed = layer_norm(x); out = normed w + bias. stats gets mean and 1/deviation of every row. bias may be
 * NULL. row_max, unless NULL, gets the largest output of every row. */
struct norm_linear {
    const real *x, *gamma, *beta, *w, *bias;
    real *normed, *stats, *out, *row_max;
    int rows, inputs, outputs;
};
cudaError_t kernels_norm_linear(cudaStream_t stream, const struct norm_linear *args);

/* Causal attention over qkv [rows][3][heads * head_size], then the output projection wo [heads *
 * head_size][hidden] (partial). probabilities is [batch][heads][length][length]. */
struct attention_forward {
    const real *qkv, *wo;
    real *probabilities, *context, *out;
    int batch, length, heads, head_size, hidden;
    struct grid grid;
};
cudaError_t kernels_attention_forward(cudaStream_t stream, const struct attention_forward *args);

/* Backward of norm_linear and attention_forward, up to the normalised input (dnormed, partial). dcontext and
 * dqkv are scratch. */
struct attention_backward {
    const real *dout, *context, *probabilities, *qkv, *normed, *wo, *wqkv;
    real *dwo, *dwqkv, *dbqkv, *dcontext, *dqkv, *dnormed;
    int batch, length, heads, head_size, hidden;
    struct grid grid;
};
cudaError_t kernels_attention_backward(cudaStream_t stream, const struct attention_backward *args);

/* y = x + add + bias, then normed = layer_norm(y). bias may be NULL; normed NULL leaves the norm out. */
struct residual_norm {
    const real *x, *add, *bias, *gamma, *beta;
    real *y, *normed, *stats;
    int rows, hidden;
};
cudaError_t kernels_residual_norm(cudaStream_t stream, const struct residual_norm *args);

/* dx = dresidual + backward of layer_norm at x. dresidual may be NULL; then dbias is not touched, else,
 * unless NULL, the column sums of dresidual are added to it (the bias of the residual that dx goes through).
 */
struct norm_backward {
    const real *dnormed, *x, *stats, *gamma, *dresidual;
    real *dx, *dgamma, *dbeta, *dbias;
    int rows, hidden;
};
cudaError_t kernels_norm_backward(cudaStream_t stream, const struct norm_backward *args);

/* before = normed w1 + b1; active = gelu(before); out = active w2 (partial). */
struct mlp_forward {
    const real *normed, *w1, *b1, *w2;
    real *before, *active, *out;
    int rows, hidden, ffn;
    struct grid grid;
};
cudaError_t kernels_mlp_forward(cudaStream_t stream, const struct mlp_forward *args);

struct mlp_backward {
    const real *dout, *normed, *before, *active, *w1, *w2;
    real *dw1, *db1, *dw2, *dbefore, *dnormed; /* dbefore [rows][ffn] is scratch; dnormed is partial */
    int rows, hidden, ffn;
    struct grid grid;
};
cudaError_t kernels_mlp_backward(cudaStream_t stream, const struct mlp_backward *args);

/* Router: probabilities = softmax(normed w + bias * (1 - e / experts)); choice gets the topk most probable
 * experts of a row (the lower number wins a tie), counts the rows sent to each expert, slot the place of
 * (row, k) in permuted, which holds a copy of the row for each choice, sorted by expert, then row. */
struct route_forward {
    const real *normed, *w;
    real *probabilities, *permuted;
    int *choice, *slot, *counts;
    double bias;
    int rows, hidden, experts, topk;
};
cudaError_t kernels_route_forward(cudaStream_t stream, const struct route_forward *args);

/* dnormed = sum of a row's permuted gradients + gradient through the router; dweight is from
 * combine_backward. */
struct route_backward {
    const real *dpermuted, *dweight, *probabilities, *normed, *w;
    const int *choice, *slot;
    real *dw, *dnormed;
    int rows, hidden, experts, topk;
};
cudaError_t kernels_route_backward(cudaStream_t stream, const struct route_backward *args);

/* The experts of this rank on the tokens that came from sources ranks. tokens is sorted by source, then
 * expert; counts is [sources][experts]. w1 [experts][hidden][ffn], w2 [experts][ffn][hidden], no biases. out
 * is partial. */
struct expert_forward {
    const real *tokens, *w1, *w2;
    const int *counts;
    real *before, *active, *out;
    int rows, sources, experts, hidden, ffn;
    struct grid grid;
};
cudaError_t kernels_expert_forward(cudaStream_t stream, const struct expert_forward *args);

struct expert_backward {
    const real *dout, *tokens, *before, *active, *w1, *w2;
    const int *counts;
    real *dw1, *dw2, *dbefore, *dtokens; /* dbefore [rows][ffn] is scratch; dtokens is partial */
    int rows, sources, experts, hidden, ffn;
    struct grid grid;
};
cudaError_t kernels_expert_backward(cudaStream_t stream, const struct expert_backward *args);

/* y = x + sum over k of probability(choice k) * returned[slot k] */
struct combine_forward {
    const real *x, *returned, *probabilities;
    const int *choice, *slot;
    real *y;
    int rows, hidden, experts, topk;
};
cudaError_t kernels_combine_forward(cudaStream_t stream, const struct combine_forward *args);

/* dreturned in permuted order; dweight[row][k] = derivative by the probability of choice k. */
struct combine_backward {
    const real *dy, *returned, *probabilities;
    const int *choice, *slot;
    real *dreturned, *dweight;
    int rows, hidden, experts, topk;
};
cudaError_t kernels_combine_backward(cudaStream_t stream, const struct combine_backward *args);

/* Vocabulary-parallel cross-entropy. row_max is the largest logit over the whole vocabulary. sums [2][rows]
 * gets this rank's sum of exp(logit - row_max) and the target's logit - row_max where this rank holds it
 * (partial). */
struct head_sums {
    const real *logits, *row_max;
    const int *targets;
    real *sums;
    int rows, vocab_first, vocab_count;
    struct grid grid;
};
cudaError_t kernels_head_sums(cudaStream_t stream, const struct head_sums *args);

/* sums are complete. Adds the sum of the rows' losses (rounded to loss_grid) to loss, unless it is NULL;
 * turns logits into their gradients (of the sum over rows); dw += normed^T dlogits; dnormed = dlogits w^T
 * (partial). */
struct head_backward {
    real *logits;
    const real *row_max, *sums, *normed, *w;
    const int *targets;
    real *dw, *dnormed;
    double *loss;
    int rows, hidden, vocab_first, vocab_count;
    struct grid grid, loss_grid;
};
cudaError_t kernels_head_backward(cudaStream_t stream, const struct head_backward *args);

/* values = rounded to the grid */
cudaError_t kernels_round(cudaStream_t stream, real *values, size_t count, struct grid grid);

/* values *= factor */
cudaError_t kernels_scale(cudaStream_t stream, real *values, size_t count, double factor);

/* out = sum of squares over segments of values (rounded to the grid); the sum is formed in double precision.
 */
struct segment {
    size_t first, count;
};
struct sum_squares {
    const real *values;
    const struct segment *segments; /* device memory */
    double *out;
    size_t values_covered; /* sum of the counts */
    int segment_count;
    struct grid grid;
};
cudaError_t kernels_sum_squares(cudaStream_t stream, const struct sum_squares *args);

/* One step of Adam (Kingma and Ba 2015, algorithm 1) on gradients * gradient_scale; step counts from 1. */
struct adam {
    real *values, *gradients, *first, *second;
    size_t count;
    double rate, beta1, beta2, epsilon, gradient_scale;
    long step;
};
cudaError_t kernels_adam(cudaStream_t stream, const struct adam *args);

/* Does nothing for about the given time (scaled like any cost). */
cudaError_t kernels_delay(cudaStream_t stream, double microseconds);

#ifdef __cplusplus
}
#endif
#endif
