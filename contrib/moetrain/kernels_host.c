/* kernels_host.c - the kernels as host functions on a software GPU. A launch carries what the kernel would
 * cost on a device: its floating-point operations and the bytes that it must move at least once. */
#include "kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "host_math.h"
#include "softgpu/softgpu.h"

typedef int (*launch_fn)(void *, void (*)(void *), const void *, size_t, const struct softgpuCost *);

static launch_fn launch_on_device;
static double cost_factor = 1;

const char *kernels_open(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "softgpuLaunchHostFunc");
    if (!symbol) /* the runtime may have loaded the driver with local symbols */
        symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "softgpuLaunchHostFunc");
    memcpy(&launch_on_device, &symbol, sizeof symbol);
    return symbol ? NULL
                  : "this moetrain is built for software GPUs, and libcuda.so.1 has no "
                    "softgpuLaunchHostFunc: put "
                    "lib/softgpu first in LD_LIBRARY_PATH, or build moetrain-cuda for real GPUs";
}

int kernels_scale_cost(double factor)
{
    cost_factor *= factor;
    return 0;
}

/* flops, and bytes as a number of values */
static cudaError_t launch(cudaStream_t stream, void (*function)(void *), const void *args, size_t size,
                          double flops, double values)
{
    struct softgpuCost cost = {flops * cost_factor, values * (double)sizeof(real) * cost_factor};
    return launch_on_device(stream, function, args, size, &cost) == 0 ? cudaSuccess : cudaErrorLaunchFailure;
}

/* KERNEL(name, flops, values) body: the launcher and the function that runs on the stream; both see args as
 * a. */
#define KERNEL(name, flops, values)                                                                          \
    static void name##_body(const struct name *a);                                                           \
    static void run_##name(void *args)                                                                       \
    {                                                                                                        \
        name##_body(args);                                                                                   \
    }                                                                                                        \
    cudaError_t kernels_##name(cudaStream_t stream, const struct name *a)                                    \
    {                                                                                                        \
        return launch(stream, run_##name, a, sizeof *a, flops, values);                                      \
    }                                                                                                        \
    static void name##_body(const struct name *a)

static double product(double a, double b)
{
    return a * b;
}

KERNEL(embed_forward, product(a->rows, a->hidden), 3 * product(a->rows, a->hidden))
{
    for (int i = 0; i < a->rows; i++) {
        int row = a->tokens[i] - a->vocab_first;
        real *out = a->out + (size_t)i * (size_t)a->hidden;
        if (row < 0 || row >= a->vocab_count) {
            memset(out, 0, sizeof(real) * (size_t)a->hidden);
            continue;
        }
        for (int j = 0; j < a->hidden; j++)
            out[j] = a->table[(size_t)row * (size_t)a->hidden + (size_t)j] +
                     a->positions[(size_t)(i % a->length) * (size_t)a->hidden + (size_t)j];
    }
}

KERNEL(embed_backward, 2 * product(a->rows, a->hidden), 4 * product(a->rows, a->hidden))
{
    for (int i = 0; i < a->rows; i++) {
        int row = a->tokens[i] - a->vocab_first;
        const real *dout = a->dout + (size_t)i * (size_t)a->hidden;
        math_add_columns(a->dpositions + (size_t)(i % a->length) * (size_t)a->hidden, dout, 1, a->hidden);
        if (row >= 0 && row < a->vocab_count)
            math_add_columns(a->dtable + (size_t)row * (size_t)a->hidden, dout, 1, a->hidden);
    }
}

KERNEL(norm_linear, 2 * product(a->rows, a->inputs) * a->outputs,
       2 * product(a->rows, a->inputs) + product(a->inputs, a->outputs) + product(a->rows, a->outputs))
{
    math_layer_norm(a->normed, a->stats, a->x, a->gamma, a->beta, a->rows, a->inputs);
    math_multiply(a->out, a->normed, a->w, a->bias, a->rows, a->outputs, a->inputs);
    for (int i = 0; a->row_max && i < a->rows; i++) {
        const real *row = a->out + (size_t)i * (size_t)a->outputs;
        real largest = row[0];
        for (int j = 1; j < a->outputs; j++)
            largest = row[j] > largest ? row[j] : largest;
        a->row_max[i] = largest;
    }
}

/* Attention touches half of length * length scores; a score costs a dot product and an accumulation of a
 * value. */
static double attention_flops(int batch, int length, int heads, int head_size, int hidden)
{
    double width = product(heads, head_size), tokens = product(batch, length);
    return 2 * tokens * length * width + 2 * tokens * width * hidden;
}

static double attention_values(int batch, int length, int heads, int head_size, int hidden)
{
    double width = product(heads, head_size), tokens = product(batch, length);
    return tokens * (4 * width + hidden) + tokens * length * heads + width * hidden;
}

KERNEL(attention_forward, attention_flops(a->batch, a->length, a->heads, a->head_size, a->hidden),
       attention_values(a->batch, a->length, a->heads, a->head_size, a->hidden))
{
    int rows = a->batch * a->length;
    math_attention(a);
    math_multiply(a->out, a->context, a->wo, NULL, rows, a->hidden, a->heads * a->head_size);
    math_round(a->out, (size_t)rows * (size_t)a->hidden, a->grid);
}

/* Backward forms two products for each of forward's, here with the projections of q, k and v as well. */
KERNEL(attention_backward,
       2 * attention_flops(a->batch, a->length, a->heads, a->head_size, a->hidden) +
           12 * product(a->batch, a->length) * product(a->heads, a->head_size) * a->hidden,
       2 * attention_values(a->batch, a->length, a->heads, a->head_size, a->hidden) +
           6 * product(a->heads, a->head_size) * a->hidden)
{
    int rows = a->batch * a->length, width = a->heads * a->head_size;
    math_multiply_transposed(a->dcontext, a->dout, a->wo, rows, width, a->hidden);
    math_add_outer(a->dwo, a->context, a->dout, width, a->hidden, rows);
    math_attention_backward(a);
    math_add_outer(a->dwqkv, a->normed, a->dqkv, a->hidden, 3 * width, rows);
    math_add_columns(a->dbqkv, a->dqkv, rows, 3 * width);
    math_multiply_transposed(a->dnormed, a->dqkv, a->wqkv, rows, a->hidden, 3 * width);
    math_round(a->dnormed, (size_t)rows * (size_t)a->hidden, a->grid);
}

KERNEL(residual_norm, 10 * product(a->rows, a->hidden), 4 * product(a->rows, a->hidden))
{
    for (int i = 0; i < a->rows; i++)
        for (int j = 0; j < a->hidden; j++) {
            size_t at = (size_t)i * (size_t)a->hidden + (size_t)j;
            a->y[at] = a->x[at] + a->add[at] + (a->bias ? a->bias[j] : 0);
        }
    if (a->normed)
        math_layer_norm(a->normed, a->stats, a->y, a->gamma, a->beta, a->rows, a->hidden);
}

KERNEL(norm_backward, 16 * product(a->rows, a->hidden), 4 * product(a->rows, a->hidden))
{
    math_layer_norm_backward(a);
}

KERNEL(mlp_forward, 4 * product(a->rows, a->hidden) * a->ffn,
       2 * product(a->rows, a->hidden) + 2 * product(a->rows, a->ffn) + 2 * product(a->hidden, a->ffn))
{
    math_multiply(a->before, a->normed, a->w1, a->b1, a->rows, a->ffn, a->hidden);
    math_gelu(a->active, a->before, (size_t)a->rows * (size_t)a->ffn);
    math_multiply(a->out, a->active, a->w2, NULL, a->rows, a->hidden, a->ffn);
    math_round(a->out, (size_t)a->rows * (size_t)a->hidden, a->grid);
}

KERNEL(mlp_backward, 8 * product(a->rows, a->hidden) * a->ffn,
       3 * product(a->rows, a->hidden) + 4 * product(a->rows, a->ffn) + 4 * product(a->hidden, a->ffn))
{
    math_multiply_transposed(a->dbefore, a->dout, a->w2, a->rows, a->ffn, a->hidden);
    math_add_outer(a->dw2, a->active, a->dout, a->ffn, a->hidden, a->rows);
    math_gelu_backward(a->dbefore, a->before, (size_t)a->rows * (size_t)a->ffn);
    math_add_outer(a->dw1, a->normed, a->dbefore, a->hidden, a->ffn, a->rows);
    math_add_columns(a->db1, a->dbefore, a->rows, a->ffn);
    math_multiply_transposed(a->dnormed, a->dbefore, a->w1, a->rows, a->hidden, a->ffn);
    math_round(a->dnormed, (size_t)a->rows * (size_t)a->hidden, a->grid);
}

/* The topk largest probabilities of a row; the lower expert wins a tie. */
static void choose(const real *probabilities, int experts, int topk, int *choice)
{
    for (int k = 0; k < topk; k++) {
        int best = -1;
        for (int e = 0; e < experts; e++) {
            int taken = 0;
            for (int i = 0; i < k; i++)
                taken |= choice[i] == e;
            if (!taken && (best < 0 || probabilities[e] > probabilities[best]))
                best = e;
        }
        choice[k] = best;
    }
}

KERNEL(route_forward, 2 * product(a->rows, a->hidden) * a->experts,
       product(a->rows, a->hidden) * (1 + a->topk) + product(a->hidden + a->rows, a->experts))
{
    math_multiply(a->probabilities, a->normed, a->w, NULL, a->rows, a->experts, a->hidden);
    memset(a->counts, 0, sizeof(int) * (size_t)a->experts);
    for (int i = 0; i < a->rows; i++) {
        real *row = a->probabilities + (size_t)i * (size_t)a->experts;
        for (int e = 0; e < a->experts; e++)
            row[e] += (real)(a->bias * (1 - (double)e / a->experts));
        math_softmax(row, a->experts);
        choose(row, a->experts, a->topk, a->choice + (size_t)i * (size_t)a->topk);
        for (int k = 0; k < a->topk; k++)
            a->counts[a->choice[(size_t)i * (size_t)a->topk + (size_t)k]]++;
    }
    int slot = 0;
    for (int e = 0; e < a->experts; e++)
        for (int i = 0; i < a->rows * a->topk; i++)
            if (a->choice[i] == e) {
                a->slot[i] = slot;
                memcpy(a->permuted + (size_t)slot++ * (size_t)a->hidden,
                       a->normed + (size_t)(i / a->topk) * (size_t)a->hidden,
                       sizeof(real) * (size_t)a->hidden);
            }
}

/* Derivative of the loss by a row's router outputs: p_e (d_e - sum_k p_k d_k), d_e zero where e was not
 * chosen. */
static void route_backward_row(const struct route_backward *a, int row, real *dlogits)
{
    const real *p = a->probabilities + (size_t)row * (size_t)a->experts;
    size_t first = (size_t)row * (size_t)a->topk;
    real total = 0;
    for (int k = 0; k < a->topk; k++)
        total += p[a->choice[first + (size_t)k]] * a->dweight[first + (size_t)k];
    for (int e = 0; e < a->experts; e++)
        dlogits[e] = -p[e] * total;
    for (int k = 0; k < a->topk; k++) {
        int e = a->choice[first + (size_t)k];
        dlogits[e] += p[e] * a->dweight[first + (size_t)k];
    }
}

KERNEL(route_backward, 4 * product(a->rows, a->hidden) * a->experts,
       product(a->rows, a->hidden) * (2 + a->topk) + 2 * product(a->hidden + a->rows, a->experts))
{
    for (int i = 0; i < a->rows; i++) {
        real dlogits[1024]; /* --experts is at most 1024 */
        real *dnormed = a->dnormed + (size_t)i * (size_t)a->hidden;
        route_backward_row(a, i, dlogits);
        math_add_outer(a->dw, a->normed + (size_t)i * (size_t)a->hidden, dlogits, a->hidden, a->experts, 1);
        math_multiply_transposed(dnormed, dlogits, a->w, 1, a->hidden, a->experts);
        for (int k = 0; k < a->topk; k++)
            math_add_columns(dnormed, a->dpermuted + (size_t)a->slot[i * a->topk + k] * (size_t)a->hidden, 1,
                             a->hidden);
    }
}

KERNEL(expert_forward, 4 * product(a->rows, a->hidden) * a->ffn,
       2 * product(a->rows, a->hidden + a->ffn) + 2 * product(a->hidden, a->ffn) * a->experts)
{
    size_t weight = (size_t)a->hidden * (size_t)a->ffn, row = 0;
    for (int i = 0; i < a->sources * a->experts; i++) {
        size_t expert = (size_t)(i % a->experts);
        int rows = a->counts[i];
        real *before = a->before + row * (size_t)a->ffn, *active = a->active + row * (size_t)a->ffn;
        math_multiply(before, a->tokens + row * (size_t)a->hidden, a->w1 + expert * weight, NULL, rows,
                      a->ffn, a->hidden);
        math_gelu(active, before, (size_t)rows * (size_t)a->ffn);
        math_multiply(a->out + row * (size_t)a->hidden, active, a->w2 + expert * weight, NULL, rows,
                      a->hidden, a->ffn);
        row += (size_t)rows;
    }
    math_round(a->out, row * (size_t)a->hidden, a->grid);
}

KERNEL(expert_backward, 8 * product(a->rows, a->hidden) * a->ffn,
       product(a->rows, 3 * a->hidden + 4 * a->ffn) + 4 * product(a->hidden, a->ffn) * a->experts)
{
    size_t weight = (size_t)a->hidden * (size_t)a->ffn, row = 0;
    for (int i = 0; i < a->sources * a->experts; i++) {
        size_t expert = (size_t)(i % a->experts), wide = row * (size_t)a->ffn,
               narrow = row * (size_t)a->hidden;
        int rows = a->counts[i];
        math_multiply_transposed(a->dbefore + wide, a->dout + narrow, a->w2 + expert * weight, rows, a->ffn,
                                 a->hidden);
        math_add_outer(a->dw2 + expert * weight, a->active + wide, a->dout + narrow, a->ffn, a->hidden, rows);
        math_gelu_backward(a->dbefore + wide, a->before + wide, (size_t)rows * (size_t)a->ffn);
        math_add_outer(a->dw1 + expert * weight, a->tokens + narrow, a->dbefore + wide, a->hidden, a->ffn,
                       rows);
        math_multiply_transposed(a->dtokens + narrow, a->dbefore + wide, a->w1 + expert * weight, rows,
                                 a->hidden, a->ffn);
        row += (size_t)rows;
    }
    math_round(a->dtokens, row * (size_t)a->hidden, a->grid);
}

KERNEL(combine_forward, 2 * product(a->rows, a->hidden) * a->topk,
       product(a->rows, a->hidden) * (2 + a->topk))
{
    for (int i = 0; i < a->rows; i++) {
        real *y = a->y + (size_t)i * (size_t)a->hidden;
        memcpy(y, a->x + (size_t)i * (size_t)a->hidden, sizeof(real) * (size_t)a->hidden);
        for (int k = 0; k < a->topk; k++) {
            real weight = a->probabilities[i * a->experts + a->choice[i * a->topk + k]];
            const real *returned = a->returned + (size_t)a->slot[i * a->topk + k] * (size_t)a->hidden;
            for (int j = 0; j < a->hidden; j++)
                y[j] += weight * returned[j];
        }
    }
}

KERNEL(combine_backward, 3 * product(a->rows, a->hidden) * a->topk,
       product(a->rows, a->hidden) * (1 + 2 * a->topk))
{
    for (int i = 0; i < a->rows; i++)
        for (int k = 0; k < a->topk; k++) {
            const real *dy = a->dy + (size_t)i * (size_t)a->hidden;
            real weight = a->probabilities[i * a->experts + a->choice[i * a->topk + k]], sum = 0;
            size_t slot = (size_t)a->slot[i * a->topk + k] * (size_t)a->hidden;
            for (int j = 0; j < a->hidden; j++) {
                sum += dy[j] * a->returned[slot + (size_t)j];
                a->dreturned[slot + (size_t)j] = weight * dy[j];
            }
            a->dweight[i * a->topk + k] = sum;
        }
}

KERNEL(head_sums, 4 * product(a->rows, a->vocab_count), product(a->rows, a->vocab_count))
{
    for (int i = 0; i < a->rows; i++) {
        const real *logits = a->logits + (size_t)i * (size_t)a->vocab_count;
        int target = a->targets[i] - a->vocab_first;
        double sum = 0;
        for (int j = 0; j < a->vocab_count; j++)
            sum += exp((double)(logits[j] - a->row_max[i]));
        a->sums[i] = (real)sum;
        a->sums[a->rows + i] = target >= 0 && target < a->vocab_count ? logits[target] - a->row_max[i] : 0;
    }
    math_round(a->sums, 2 * (size_t)a->rows, a->grid);
}

KERNEL(head_backward, 4 * product(a->rows, a->hidden) * a->vocab_count,
       2 * product(a->rows, a->hidden + a->vocab_count) + 3 * product(a->hidden, a->vocab_count))
{
    double loss = 0;
    for (int i = 0; i < a->rows; i++) {
        real *logits = a->logits + (size_t)i * (size_t)a->vocab_count;
        int target = a->targets[i] - a->vocab_first;
        loss += log(a->sums[i]) - a->sums[a->rows + i];
        for (int j = 0; j < a->vocab_count; j++)
            logits[j] = (real)(exp((double)(logits[j] - a->row_max[i])) / a->sums[i]);
        if (target >= 0 && target < a->vocab_count)
            logits[target] -= 1;
    }
    if (a->loss)
        *a->loss += math_round_one(loss, a->loss_grid);
    math_add_outer(a->dw, a->normed, a->logits, a->hidden, a->vocab_count, a->rows);
    math_multiply_transposed(a->dnormed, a->logits, a->w, a->rows, a->hidden, a->vocab_count);
    math_round(a->dnormed, (size_t)a->rows * (size_t)a->hidden, a->grid);
}

struct round {
    real *values;
    size_t count;
    struct grid grid;
};

static void run_round(void *args)
{
    const struct round *a = args;
    math_round(a->values, a->count, a->grid);
}

cudaError_t kernels_round(cudaStream_t stream, real *values, size_t count, struct grid grid)
{
    struct round args = {values, count, grid};
    return launch(stream, run_round, &args, sizeof args, 4 * (double)count, 2 * (double)count);
}

struct scale {
    real *values;
    size_t count;
    double factor;
};

static void run_scale(void *args)
{
    const struct scale *a = args;
    for (size_t i = 0; i < a->count; i++)
        a->values[i] = (real)(a->values[i] * a->factor);
}

cudaError_t kernels_scale(cudaStream_t stream, real *values, size_t count, double factor)
{
    struct scale args = {values, count, factor};
    return launch(stream, run_scale, &args, sizeof args, (double)count, 2 * (double)count);
}

KERNEL(sum_squares, 2 * (double)a->values_covered, (double)a->values_covered)
{
    double sum = 0;
    for (int s = 0; s < a->segment_count; s++)
        for (size_t i = 0; i < a->segments[s].count; i++) {
            double value = a->values[a->segments[s].first + i];
            sum += value * value;
        }
    *a->out = math_round_one(sum, a->grid);
}

KERNEL(adam, 12 * (double)a->count, 7 * (double)a->count)
{
    double correct1 = 1 - pow(a->beta1, (double)a->step), correct2 = 1 - pow(a->beta2, (double)a->step);
    for (size_t i = 0; i < a->count; i++) {
        double gradient = a->gradients[i] * a->gradient_scale;
        double first = a->beta1 * a->first[i] + (1 - a->beta1) * gradient;
        double second = a->beta2 * a->second[i] + (1 - a->beta2) * gradient * gradient;
        a->first[i] = (real)first;
        a->second[i] = (real)second;
        a->values[i] -= (real)(a->rate * (first / correct1) / (sqrt(second / correct2) + a->epsilon));
    }
}

static void run_delay(void *args)
{
}

/* A software GPU does about 50 MFLOP/s by default; its profile may say otherwise, "about" is enough here. */
cudaError_t kernels_delay(cudaStream_t stream, double microseconds)
{
    return launch(stream, run_delay, &microseconds, sizeof microseconds, microseconds * 50, 0);
}
