#include "host_math.h"

#include <math.h>
#include <string.h>

static const double norm_epsilon = 1e-5;

void math_multiply(real *c, const real *a, const real *b, const real *bias, int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        real *row = c + (size_t)i * n;
        if (bias)
            memcpy(row, bias, sizeof(real) * (size_t)n);
        else
            memset(row, 0, sizeof(real) * (size_t)n);
        for (int j = 0; j < k; j++) {
            real factor = a[(size_t)i * k + j];
            const real *other = b + (size_t)j * n;
            for (int l = 0; l < n; l++)
                row[l] += factor * other[l];
        }
    }
}

static real dot(const real *a, const real *b, int count)
{
    real sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

void math_multiply_transposed(real *c, const real *a, const real *b, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[(size_t)i * n + j] = dot(a + (size_t)i * k, b + (size_t)j * k, k);
}

void math_add_outer(real *c, const real *a, const real *b, int m, int n, int k)
{
    for (int i = 0; i < k; i++)
        for (int j = 0; j < m; j++) {
            real factor = a[(size_t)i * m + j];
            real *row = c + (size_t)j * n;
            for (int l = 0; l < n; l++)
                row[l] += factor * b[(size_t)i * n + l];
        }
}

void math_add_columns(real *sums, const real *a, int m, int n)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            sums[j] += a[(size_t)i * n + j];
}

void math_layer_norm(real *out, real *stats, const real *x, const real *gamma, const real *beta, int rows,
                     int columns)
{
    for (int i = 0; i < rows; i++, x += columns, out += columns) {
        double mean = 0, variance = 0;
        for (int j = 0; j < columns; j++)
            mean += x[j];
        mean /= columns;
        for (int j = 0; j < columns; j++)
            variance += (x[j] - mean) * (x[j] - mean);
        double inverse = 1 / sqrt(variance / columns + norm_epsilon);
        for (int j = 0; j < columns; j++)
            out[j] = (real)((x[j] - mean) * inverse) * gamma[j] + beta[j];
        stats[2 * i] = (real)mean;
        stats[2 * i + 1] = (real)inverse;
    }
}

/* dx = inverse * (g - mean(g) - hat * mean(g * hat)), g = dnormed * gamma, hat = (x - mean) * inverse */
static void norm_backward_row(const struct norm_backward *a, int row)
{
    size_t first = (size_t)row * (size_t)a->hidden;
    const real *dnormed = a->dnormed + first, *x = a->x + first;
    real mean = a->stats[2 * row], inverse = a->stats[2 * row + 1];
    double sum = 0, sum_hat = 0;
    for (int j = 0; j < a->hidden; j++) {
        real hat = (x[j] - mean) * inverse;
        sum += dnormed[j] * a->gamma[j];
        sum_hat += dnormed[j] * a->gamma[j] * hat;
        a->dgamma[j] += dnormed[j] * hat;
        a->dbeta[j] += dnormed[j];
    }
    sum /= a->hidden;
    sum_hat /= a->hidden;
    for (int j = 0; j < a->hidden; j++) {
        real hat = (x[j] - mean) * inverse;
        real through = inverse * (real)(dnormed[j] * a->gamma[j] - sum - hat * sum_hat);
        a->dx[first + (size_t)j] = a->dresidual ? a->dresidual[first + (size_t)j] + through : through;
    }
}

void math_layer_norm_backward(const struct norm_backward *a)
{
    if (a->dresidual && a->dbias)
        math_add_columns(a->dbias, a->dresidual, a->rows, a->hidden);
    for (int i = 0; i < a->rows; i++)
        norm_backward_row(a, i);
}

static const double gelu_slope = 0.79788456080286535588; /* sqrt(2 / pi) */

void math_gelu(real *out, const real *before, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        real x = before[i];
        out[i] = (real)0.5 * x * (1 + (real)tanh(gelu_slope * (x + 0.044715 * x * x * x)));
    }
}

void math_gelu_backward(real *dvalue, const real *before, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = before[i], t = tanh(gelu_slope * (x + 0.044715 * x * x * x));
        double slope = gelu_slope * (1 + 3 * 0.044715 * x * x);
        dvalue[i] *= (real)(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
    }
}

void math_softmax(real *values, int count)
{
    real largest = values[0];
    double sum = 0;
    for (int i = 1; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    for (int i = 0; i < count; i++)
        sum += values[i] = (real)exp((double)(values[i] - largest));
    for (int i = 0; i < count; i++)
        values[i] = (real)(values[i] / sum);
}

/* The rows of one head: query i of sequence b is at base + i * stride; keys and values follow at +width, +2
 * width. */
struct head {
    size_t base, stride, width;
    size_t probabilities; /* of its first query */
    size_t context, context_stride;
};

static struct head head_at(int batch, int head, int length, int heads, int size)
{
    size_t width = (size_t)heads * (size_t)size, row = (size_t)batch * (size_t)length;
    struct head h = {.stride = 3 * width, .width = width, .context_stride = width};
    h.base = row * h.stride + (size_t)head * (size_t)size;
    h.context = row * width + (size_t)head * (size_t)size;
    h.probabilities = ((size_t)batch * (size_t)heads + (size_t)head) * (size_t)length * (size_t)length;
    return h;
}

static void attention_head(const struct attention_forward *a, struct head h)
{
    real scale = (real)(1 / sqrt(a->head_size));
    for (int i = 0; i < a->length; i++) {
        real *p = a->probabilities + h.probabilities + (size_t)i * (size_t)a->length;
        const real *query = a->qkv + h.base + (size_t)i * h.stride;
        real *context = a->context + h.context + (size_t)i * h.context_stride;
        for (int j = 0; j <= i; j++)
            p[j] = scale * dot(query, a->qkv + h.base + (size_t)j * h.stride + h.width, a->head_size);
        math_softmax(p, i + 1);
        for (int j = i + 1; j < a->length; j++)
            p[j] = 0;
        for (int c = 0; c < a->head_size; c++)
            context[c] = 0;
        for (int j = 0; j <= i; j++)
            for (int c = 0; c < a->head_size; c++)
                context[c] += p[j] * a->qkv[h.base + (size_t)j * h.stride + 2 * h.width + (size_t)c];
    }
}

void math_attention(const struct attention_forward *a)
{
    for (int b = 0; b < a->batch; b++)
        for (int head = 0; head < a->heads; head++)
            attention_head(a, head_at(b, head, a->length, a->heads, a->head_size));
}

static void attention_head_backward(const struct attention_backward *a, struct head h)
{
    real scale = (real)(1 / sqrt(a->head_size));
    for (int i = 0; i < a->length; i++) {
        const real *p = a->probabilities + h.probabilities + (size_t)i * (size_t)a->length;
        const real *dcontext = a->dcontext + h.context + (size_t)i * h.context_stride;
        size_t query = h.base + (size_t)i * h.stride;
        real total = 0;
        for (int j = 0; j <= i; j++)
            total += p[j] * dot(dcontext, a->qkv + h.base + (size_t)j * h.stride + 2 * h.width, a->head_size);
        for (int j = 0; j <= i; j++) {
            size_t key = h.base + (size_t)j * h.stride + h.width, value = key + h.width;
            real dscore = scale * p[j] * (dot(dcontext, a->qkv + value, a->head_size) - total);
            for (int c = 0; c < a->head_size; c++) {
                a->dqkv[query + (size_t)c] += dscore * a->qkv[key + (size_t)c];
                a->dqkv[key + (size_t)c] += dscore * a->qkv[query + (size_t)c];
                a->dqkv[value + (size_t)c] += p[j] * dcontext[c];
            }
        }
    }
}

void math_attention_backward(const struct attention_backward *a)
{
    size_t values = 3u * (size_t)a->batch * (size_t)a->length * (size_t)a->heads * (size_t)a->head_size;
    memset(a->dqkv, 0, values * sizeof(real));
    for (int b = 0; b < a->batch; b++)
        for (int head = 0; head < a->heads; head++)
            attention_head_backward(a, head_at(b, head, a->length, a->heads, a->head_size));
}

double math_round_one(double value, struct grid grid)
{
    if (grid.scale == 0)
        return value;
    if (value > grid.bound)
        value = grid.bound;
    if (value < -grid.bound)
        value = -grid.bound;
    return rint(value * grid.scale) / grid.scale +
           0.0; /* + 0.0: no negative zero, whose sum depends on the order */
}

void math_round(real *values, size_t count, struct grid grid)
{
    if (grid.scale == 0)
        return;
    for (size_t i = 0; i < count; i++)
        values[i] = (real)math_round_one(values[i], grid);
}
