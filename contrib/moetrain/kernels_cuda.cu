// kernels_cuda.cu - the kernels for real GPUs: how they are launched. Not fast.
#include "kernels_cuda.cuh"

extern "C" {

const char *kernels_open(void)
{
    return NULL;
}

int kernels_scale_cost(double factor)
{
    return -1;
}

cudaError_t kernels_embed_forward(cudaStream_t stream, const embed_forward *a)
{
    LAUNCH(embed, stream, (size_t)a->rows * a->hidden, *a);
    return cudaGetLastError();
}

cudaError_t kernels_embed_backward(cudaStream_t stream, const embed_backward *a)
{
    LAUNCH(embed_back, stream, (size_t)a->hidden, *a);
    return cudaGetLastError();
}

cudaError_t kernels_norm_linear(cudaStream_t stream, const norm_linear *a)
{
    LAUNCH(layer_norm, stream, (size_t)a->rows, a->normed, a->stats, a->x, a->gamma, a->beta, a->rows,
           a->inputs);
    LAUNCH(multiply, stream, (size_t)a->rows * a->outputs, a->out, a->normed, a->w, a->bias, a->rows,
           a->outputs, a->inputs, false, no_grid);
    if (a->row_max)
        LAUNCH(largest_of_rows, stream, (size_t)a->rows, a->row_max, a->out, a->rows, a->outputs);
    return cudaGetLastError();
}

cudaError_t kernels_attention_forward(cudaStream_t stream, const attention_forward *a)
{
    int rows = a->batch * a->length;
    LAUNCH(attend, stream, (size_t)rows * a->heads, *a);
    LAUNCH(multiply, stream, (size_t)rows * a->hidden, a->out, a->context, a->wo, NULL, rows, a->hidden,
           a->heads * a->head_size, false, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_attention_backward(cudaStream_t stream, const attention_backward *a)
{
    int rows = a->batch * a->length, width = a->heads * a->head_size;
    LAUNCH(multiply, stream, (size_t)rows * width, a->dcontext, a->dout, a->wo, NULL, rows, width, a->hidden,
           true, no_grid);
    LAUNCH(add_outer, stream, (size_t)width * a->hidden, a->dwo, a->context, a->dout, width, a->hidden, rows);
    LAUNCH(attend_backward, stream, (size_t)rows * a->heads, *a);
    LAUNCH(add_outer, stream, (size_t)a->hidden * 3 * width, a->dwqkv, a->normed, a->dqkv, a->hidden,
           3 * width, rows);
    LAUNCH(add_columns, stream, (size_t)3 * width, a->dbqkv, a->dqkv, rows, 3 * width);
    LAUNCH(multiply, stream, (size_t)rows * a->hidden, a->dnormed, a->dqkv, a->wqkv, NULL, rows, a->hidden,
           3 * width, true, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_residual_norm(cudaStream_t stream, const residual_norm *a)
{
    LAUNCH(add_residual, stream, (size_t)a->rows * a->hidden, *a);
    if (a->normed)
        LAUNCH(layer_norm, stream, (size_t)a->rows, a->normed, a->stats, a->y, a->gamma, a->beta, a->rows,
               a->hidden);
    return cudaGetLastError();
}

cudaError_t kernels_norm_backward(cudaStream_t stream, const norm_backward *a)
{
    if (a->dresidual && a->dbias)
        LAUNCH(add_columns, stream, (size_t)a->hidden, a->dbias, a->dresidual, a->rows, a->hidden);
    LAUNCH(norm_columns, stream, (size_t)a->hidden, *a);
    LAUNCH(norm_rows, stream, (size_t)a->rows, *a); // last: dx may be dresidual
    return cudaGetLastError();
}

cudaError_t kernels_mlp_forward(cudaStream_t stream, const mlp_forward *a)
{
    size_t wide = (size_t)a->rows * a->ffn;
    LAUNCH(multiply, stream, wide, a->before, a->normed, a->w1, a->b1, a->rows, a->ffn, a->hidden, false,
           no_grid);
    LAUNCH(gelu, stream, wide, a->active, a->before, wide);
    LAUNCH(multiply, stream, (size_t)a->rows * a->hidden, a->out, a->active, a->w2, NULL, a->rows, a->hidden,
           a->ffn, false, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_mlp_backward(cudaStream_t stream, const mlp_backward *a)
{
    size_t wide = (size_t)a->rows * a->ffn, weights = (size_t)a->hidden * a->ffn;
    LAUNCH(multiply, stream, wide, a->dbefore, a->dout, a->w2, NULL, a->rows, a->ffn, a->hidden, true,
           no_grid);
    LAUNCH(add_outer, stream, weights, a->dw2, a->active, a->dout, a->ffn, a->hidden, a->rows);
    LAUNCH(gelu_backward, stream, wide, a->dbefore, a->before, wide);
    LAUNCH(add_outer, stream, weights, a->dw1, a->normed, a->dbefore, a->hidden, a->ffn, a->rows);
    LAUNCH(add_columns, stream, (size_t)a->ffn, a->db1, a->dbefore, a->rows, a->ffn);
    LAUNCH(multiply, stream, (size_t)a->rows * a->hidden, a->dnormed, a->dbefore, a->w1, NULL, a->rows,
           a->hidden, a->ffn, true, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_route_forward(cudaStream_t stream, const route_forward *a)
{
    LAUNCH(multiply, stream, (size_t)a->rows * a->experts, a->probabilities, a->normed, a->w, NULL, a->rows,
           a->experts, a->hidden, false, no_grid);
    LAUNCH(choose, stream, (size_t)a->rows, *a);
    number_slots<<<1, (unsigned)a->experts, 0, stream>>>(*a); // --experts is at most 1024
    LAUNCH(permute, stream, (size_t)a->rows * a->topk * a->hidden, *a);
    return cudaGetLastError();
}

cudaError_t kernels_route_backward(cudaStream_t stream, const route_backward *a)
{
    LAUNCH(route_weights, stream, (size_t)a->hidden * a->experts, *a);
    LAUNCH(route_inputs, stream, (size_t)a->rows * a->hidden, *a);
    return cudaGetLastError();
}

cudaError_t kernels_expert_forward(cudaStream_t stream, const expert_forward *a)
{
    size_t wide = (size_t)a->rows * a->ffn;
    LAUNCH(expert_multiply, stream, wide, a->before, a->tokens, a->w1, a->counts, a->sources, a->experts,
           a->rows, a->ffn, a->hidden, false, no_grid);
    LAUNCH(gelu, stream, wide, a->active, a->before, wide);
    LAUNCH(expert_multiply, stream, (size_t)a->rows * a->hidden, a->out, a->active, a->w2, a->counts,
           a->sources, a->experts, a->rows, a->hidden, a->ffn, false, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_expert_backward(cudaStream_t stream, const expert_backward *a)
{
    size_t wide = (size_t)a->rows * a->ffn, weights = (size_t)a->experts * a->hidden * a->ffn;
    LAUNCH(expert_multiply, stream, wide, a->dbefore, a->dout, a->w2, a->counts, a->sources, a->experts,
           a->rows, a->ffn, a->hidden, true, no_grid);
    LAUNCH(expert_outer, stream, weights, a->dw2, a->active, a->dout, a->counts, a->sources, a->experts,
           a->ffn, a->hidden);
    LAUNCH(gelu_backward, stream, wide, a->dbefore, a->before, wide);
    LAUNCH(expert_outer, stream, weights, a->dw1, a->tokens, a->dbefore, a->counts, a->sources, a->experts,
           a->hidden, a->ffn);
    LAUNCH(expert_multiply, stream, (size_t)a->rows * a->hidden, a->dtokens, a->dbefore, a->w1, a->counts,
           a->sources, a->experts, a->rows, a->hidden, a->ffn, true, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_combine_forward(cudaStream_t stream, const combine_forward *a)
{
    LAUNCH(combine, stream, (size_t)a->rows * a->hidden, *a);
    return cudaGetLastError();
}

cudaError_t kernels_combine_backward(cudaStream_t stream, const combine_backward *a)
{
    LAUNCH(uncombine, stream, (size_t)a->rows * a->topk, *a);
    return cudaGetLastError();
}

cudaError_t kernels_head_sums(cudaStream_t stream, const head_sums *a)
{
    LAUNCH(sums_of_head, stream, (size_t)a->rows, *a);
    return cudaGetLastError();
}

cudaError_t kernels_head_backward(cudaStream_t stream, const head_backward *a)
{
    if (a->loss)
        loss_of_head<<<1, 1, 0, stream>>>(*a);
    LAUNCH(gradient_of_head, stream, (size_t)a->rows * a->vocab_count, *a);
    LAUNCH(add_outer, stream, (size_t)a->hidden * a->vocab_count, a->dw, a->normed, a->logits, a->hidden,
           a->vocab_count, a->rows);
    LAUNCH(multiply, stream, (size_t)a->rows * a->hidden, a->dnormed, a->logits, a->w, NULL, a->rows,
           a->hidden, a->vocab_count, true, a->grid);
    return cudaGetLastError();
}

cudaError_t kernels_round(cudaStream_t stream, real *values, size_t count, struct grid grid)
{
    LAUNCH(round_all, stream, count, values, count, grid);
    return cudaGetLastError();
}

cudaError_t kernels_scale(cudaStream_t stream, real *values, size_t count, double factor)
{
    LAUNCH(scale_all, stream, count, values, count, factor);
    return cudaGetLastError();
}

cudaError_t kernels_sum_squares(cudaStream_t stream, const sum_squares *a)
{
    squares<<<1, threads, 0, stream>>>(*a);
    return cudaGetLastError();
}

cudaError_t kernels_adam(cudaStream_t stream, const adam *a)
{
    LAUNCH(adam_step, stream, a->count, *a, 1 - pow(a->beta1, (double)a->step),
           1 - pow(a->beta2, (double)a->step));
    return cudaGetLastError();
}

cudaError_t kernels_delay(cudaStream_t stream, double microseconds)
{
    spin<<<1, 1, 0, stream>>>((unsigned long long)(microseconds * 1000));
    return cudaGetLastError();
}

} // extern "C"
