#include "trainer.h"

#include "data.h"

/* Sizes that many functions need. */
struct shape {
    int batch, length, rows, hidden, heads, head_size, width, ffn, vocab;
};

static struct shape shape_of(const struct trainer *t, int length)
{
    const struct options *o = t->options;
    struct shape s = {.batch = (int)o->micro_batch, .length = length, .hidden = (int)o->hidden};
    s.rows = s.batch * length;
    s.heads = (int)(o->heads / o->tp);
    s.head_size = (int)(o->hidden / o->heads);
    s.width = s.heads * s.head_size;
    s.ffn = (int)(o->ffn / o->tp);
    s.vocab = (int)(o->vocab / o->tp);
    return s;
}

static real *carve(struct slab *slab, size_t rows, size_t columns)
{
    return slab_carve(slab, rows * columns * sizeof(real));
}

static void carve_layer(struct trainer *t, struct slab *slab, const struct layer_params *layer,
                        struct layer_stash *stash)
{
    struct shape s = shape_of(t, (int)t->options->seq);
    size_t rows = (size_t)s.rows, hidden = (size_t)s.hidden, width = (size_t)s.width;
    stash->normed1 = carve(slab, rows, hidden);
    stash->stats1 = carve(slab, rows, 2);
    stash->qkv = carve(slab, rows, 3 * width);
    stash->probabilities = carve(slab, rows * (size_t)s.heads, (size_t)s.length);
    stash->context = carve(slab, rows, width);
    stash->mid = carve(slab, rows, hidden);
    stash->normed2 = carve(slab, rows, hidden);
    stash->stats2 = carve(slab, rows, 2);
    stash->out = carve(slab, rows, hidden);
    if (layer->moe) {
        moe_stash(t, slab, stash);
        return;
    }
    stash->before = carve(slab, rows, (size_t)s.ffn);
    stash->active = carve(slab, rows, (size_t)s.ffn);
}

static void carve_head(struct trainer *t, struct slab *slab)
{
    struct shape s = shape_of(t, (int)t->options->seq);
    struct head_stash *head = &t->model.head;
    head->normed = carve(slab, (size_t)s.rows, (size_t)s.hidden);
    head->stats = carve(slab, (size_t)s.rows, 2);
    head->logits = carve(slab, (size_t)s.rows, (size_t)s.vocab);
    head->row_max = carve(slab, (size_t)s.rows, 1);
    head->sums = carve(slab, 2 * (size_t)s.rows, 1);
}

static void carve_scratch(struct trainer *t, struct slab *slab)
{
    struct shape s = shape_of(t, (int)t->options->seq);
    struct model *m = &t->model;
    size_t rows = (size_t)s.rows, hidden = (size_t)s.hidden,
           tokens = (size_t)t->options->micro_batches * rows;
    for (int i = 0; i < GRADIENT_SLOTS; i++)
        m->gradients[i] = carve(slab, rows, hidden);
    m->partial = carve(slab, rows, hidden);
    m->dnormed = carve(slab, rows, hidden);
    m->dwide = carve(slab, rows, (size_t)s.ffn);
    m->dcontext = carve(slab, rows, (size_t)s.width);
    m->dqkv = carve(slab, rows, 3 * (size_t)s.width);
    m->dweight = carve(slab, rows, (size_t)t->options->topk);
    m->tokens = slab_carve(slab, tokens * sizeof(int));
    m->targets = slab_carve(slab, tokens * sizeof(int));
    for (int i = 0; i < m->inputs_count; i++)
        m->inputs[i] = carve(slab, rows, hidden);
}

static void carve_all(struct trainer *t, struct slab *slab)
{
    carve_scratch(t, slab);
    for (int slot = 0; slot < t->model.in_flight; slot++)
        for (int i = 0; i < t->params.layer_count; i++)
            carve_layer(t, slab, &t->params.layers[i], &t->model.stash[slot * t->params.layer_count + i]);
    if (trainer_is_last_stage(t))
        carve_head(t, slab);
}

void model_create(struct trainer *t)
{
    const struct options *o = t->options;
    struct model *m = &t->model;
    struct slab slab = {NULL, 0};
    int ahead = t->layout.pp - t->layout.pp_rank;
    m->pool.grain = (size_t)o->pool_grain;
    m->max_rows = (int)(o->micro_batch * o->seq);
    m->in_flight = o->micro_batches < ahead ? (int)o->micro_batches : ahead;
    m->inputs_count = m->in_flight + 1;
    m->inputs = resource_host((size_t)m->inputs_count, sizeof *m->inputs);
    m->stash = resource_host((size_t)(m->in_flight * t->params.layer_count), sizeof *m->stash);
    m->lengths = resource_host((size_t)o->micro_batches, sizeof *m->lengths);
    carve_all(t, &slab);
    slab.base = memory_allocate(slab.used);
    slab.used = 0;
    carve_all(t, &slab);
    size_t tokens = (size_t)o->micro_batches * (size_t)m->max_rows * sizeof(int);
    m->host_tokens = resource_pinned(tokens);
    m->host_targets = resource_pinned(tokens);
    m->host_counts = resource_pinned(2 * (size_t)o->experts * sizeof(int));
    t->streams.expert = resource_stream();
    t->events.expert_begin = resource_event();
    t->events.expert_end = resource_event();
    t->events.counts_read = resource_event();
}

void model_begin_iteration(struct trainer *t)
{
    const struct options *o = t->options;
    struct model *m = &t->model;
    size_t bytes = (size_t)o->micro_batches * (size_t)m->max_rows * sizeof(int);
    for (int i = 0; i < o->micro_batches; i++) {
        long place = data_place(o, i, t->layout.dp_rank, t->layout.dp);
        int *tokens = m->host_tokens + (size_t)i * (size_t)m->max_rows;
        m->lengths[i] = data_length(o, t->iteration, place);
        data_fill(o, t->iteration, place, tokens, m->host_targets + (size_t)i * (size_t)m->max_rows);
    }
    if (trainer_is_first_stage(t))
        CUDA_CHECK(
            cudaMemcpyAsync(m->tokens, m->host_tokens, bytes, cudaMemcpyHostToDevice, t->streams.compute));
    if (trainer_is_last_stage(t))
        CUDA_CHECK(
            cudaMemcpyAsync(m->targets, m->host_targets, bytes, cudaMemcpyHostToDevice, t->streams.compute));
    CUDA_CHECK(cudaMemsetAsync(t->params.gradients, 0, t->params.count * sizeof(real), t->streams.compute));
    CUDA_CHECK(cudaMemsetAsync(t->sums, 0, 2 * sizeof *t->sums, t->streams.compute));
}

int model_rows(const struct trainer *t, int micro_batch)
{
    return (int)t->options->micro_batch * t->model.lengths[micro_batch];
}

struct layer_stash *model_stash(struct trainer *t, int micro_batch)
{
    return &t->model.stash[micro_batch % t->model.in_flight * t->params.layer_count];
}

/* A partial sum of the tensor group becomes the sum. */
static void sum_partial(struct trainer *t, real *values, size_t count)
{
    group_sum(&t->groups.of[GROUP_TENSOR], values, count, t->streams.compute);
}

/* From stash->x to mid and its normalised form. */
static void attention_forward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                              struct shape s)
{
    const real *p = t->params.values;
    cudaStream_t compute = t->streams.compute;
    real *partial = t->model.partial;
    size_t values = (size_t)s.rows * (size_t)s.hidden;
    CUDA_CHECK(kernels_norm_linear(compute, &(struct norm_linear){.x = stash->x,
                                                                  .gamma = p + layer->gamma1,
                                                                  .beta = p + layer->beta1,
                                                                  .w = p + layer->wqkv,
                                                                  .bias = p + layer->bqkv,
                                                                  .normed = stash->normed1,
                                                                  .stats = stash->stats1,
                                                                  .out = stash->qkv,
                                                                  .rows = s.rows,
                                                                  .inputs = s.hidden,
                                                                  .outputs = 3 * s.width}));
    CUDA_CHECK(
        kernels_attention_forward(compute, &(struct attention_forward){.qkv = stash->qkv,
                                                                       .wo = p + layer->wo,
                                                                       .probabilities = stash->probabilities,
                                                                       .context = stash->context,
                                                                       .out = partial,
                                                                       .batch = s.batch,
                                                                       .length = s.length,
                                                                       .heads = s.heads,
                                                                       .head_size = s.head_size,
                                                                       .hidden = s.hidden,
                                                                       .grid = t->grids.activation}));
    sum_partial(t, partial, values);
    CUDA_CHECK(kernels_residual_norm(compute, &(struct residual_norm){.x = stash->x,
                                                                      .add = partial,
                                                                      .bias = p + layer->bo,
                                                                      .gamma = p + layer->gamma2,
                                                                      .beta = p + layer->beta2,
                                                                      .y = stash->mid,
                                                                      .normed = stash->normed2,
                                                                      .stats = stash->stats2,
                                                                      .rows = s.rows,
                                                                      .hidden = s.hidden}));
}

/* The dense second half of a layer: from mid to out. */
static void mlp_forward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                        struct shape s)
{
    const real *p = t->params.values;
    cudaStream_t compute = t->streams.compute;
    real *partial = t->model.partial;
    size_t values = (size_t)s.rows * (size_t)s.hidden;
    CUDA_CHECK(kernels_mlp_forward(compute, &(struct mlp_forward){.normed = stash->normed2,
                                                                  .w1 = p + layer->w1,
                                                                  .b1 = p + layer->b1,
                                                                  .w2 = p + layer->w2,
                                                                  .before = stash->before,
                                                                  .active = stash->active,
                                                                  .out = partial,
                                                                  .rows = s.rows,
                                                                  .hidden = s.hidden,
                                                                  .ffn = s.ffn,
                                                                  .grid = t->grids.activation}));
    sum_partial(t, partial, values);
    CUDA_CHECK(kernels_residual_norm(compute, &(struct residual_norm){.x = stash->mid,
                                                                      .add = partial,
                                                                      .bias = p + layer->b2,
                                                                      .y = stash->out,
                                                                      .rows = s.rows,
                                                                      .hidden = s.hidden}));
}

static void mlp_backward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                         struct shape s, real *gradients)
{
    const real *p = t->params.values;
    real *g = t->params.gradients, *dnormed = t->model.dnormed;
    CUDA_CHECK(kernels_mlp_backward(t->streams.compute, &(struct mlp_backward){.dout = gradients,
                                                                               .normed = stash->normed2,
                                                                               .before = stash->before,
                                                                               .active = stash->active,
                                                                               .w1 = p + layer->w1,
                                                                               .w2 = p + layer->w2,
                                                                               .dw1 = g + layer->w1,
                                                                               .db1 = g + layer->b1,
                                                                               .dw2 = g + layer->w2,
                                                                               .dbefore = t->model.dwide,
                                                                               .dnormed = dnormed,
                                                                               .rows = s.rows,
                                                                               .hidden = s.hidden,
                                                                               .ffn = s.ffn,
                                                                               .grid = t->grids.gradient}));
    sum_partial(t, dnormed, (size_t)s.rows * (size_t)s.hidden);
    CUDA_CHECK(kernels_norm_backward(t->streams.compute, &(struct norm_backward){.dnormed = dnormed,
                                                                                 .x = stash->mid,
                                                                                 .stats = stash->stats2,
                                                                                 .gamma = p + layer->gamma2,
                                                                                 .dresidual = gradients,
                                                                                 .dx = gradients,
                                                                                 .dgamma = g + layer->gamma2,
                                                                                 .dbeta = g + layer->beta2,
                                                                                 .dbias = g + layer->b2,
                                                                                 .rows = s.rows,
                                                                                 .hidden = s.hidden}));
}

static void attention_backward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                               struct shape s, real *gradients)
{
    const real *p = t->params.values;
    real *g = t->params.gradients, *dnormed = t->model.dnormed;
    CUDA_CHECK(kernels_attention_backward(t->streams.compute,
                                          &(struct attention_backward){.dout = gradients,
                                                                       .context = stash->context,
                                                                       .probabilities = stash->probabilities,
                                                                       .qkv = stash->qkv,
                                                                       .normed = stash->normed1,
                                                                       .wo = p + layer->wo,
                                                                       .wqkv = p + layer->wqkv,
                                                                       .dwo = g + layer->wo,
                                                                       .dwqkv = g + layer->wqkv,
                                                                       .dbqkv = g + layer->bqkv,
                                                                       .dcontext = t->model.dcontext,
                                                                       .dqkv = t->model.dqkv,
                                                                       .dnormed = dnormed,
                                                                       .batch = s.batch,
                                                                       .length = s.length,
                                                                       .heads = s.heads,
                                                                       .head_size = s.head_size,
                                                                       .hidden = s.hidden,
                                                                       .grid = t->grids.gradient}));
    sum_partial(t, dnormed, (size_t)s.rows * (size_t)s.hidden);
    CUDA_CHECK(kernels_norm_backward(t->streams.compute, &(struct norm_backward){.dnormed = dnormed,
                                                                                 .x = stash->x,
                                                                                 .stats = stash->stats1,
                                                                                 .gamma = p + layer->gamma1,
                                                                                 .dresidual = gradients,
                                                                                 .dx = gradients,
                                                                                 .dgamma = g + layer->gamma1,
                                                                                 .dbeta = g + layer->beta1,
                                                                                 .dbias = g + layer->bo,
                                                                                 .rows = s.rows,
                                                                                 .hidden = s.hidden}));
}

static void embed_forward(struct trainer *t, int micro_batch, struct shape s, real *out)
{
    CUDA_CHECK(kernels_embed_forward(
        t->streams.compute,
        &(struct embed_forward){.tokens = t->model.tokens + (size_t)micro_batch * (size_t)t->model.max_rows,
                                .table = t->params.values + t->params.table,
                                .positions = t->params.values + t->params.positions,
                                .out = out,
                                .rows = s.rows,
                                .length = s.length,
                                .hidden = s.hidden,
                                .vocab_first = t->layout.tp_rank * s.vocab,
                                .vocab_count = s.vocab}));
    sum_partial(t, out, (size_t)s.rows * (size_t)s.hidden);
}

static void embed_backward(struct trainer *t, int micro_batch, struct shape s, const real *gradients)
{
    CUDA_CHECK(kernels_embed_backward(
        t->streams.compute,
        &(struct embed_backward){.tokens = t->model.tokens + (size_t)micro_batch * (size_t)t->model.max_rows,
                                 .dout = gradients,
                                 .dtable = t->params.gradients + t->params.table,
                                 .dpositions = t->params.gradients + t->params.positions,
                                 .rows = s.rows,
                                 .length = s.length,
                                 .hidden = s.hidden,
                                 .vocab_first = t->layout.tp_rank * s.vocab,
                                 .vocab_count = s.vocab}));
}

static void head_forward(struct trainer *t, int micro_batch, struct shape s, const real *x)
{
    const struct head_stash *head = &t->model.head;
    const real *p = t->params.values;
    CUDA_CHECK(
        kernels_norm_linear(t->streams.compute, &(struct norm_linear){.x = x,
                                                                      .gamma = p + t->params.head_gamma,
                                                                      .beta = p + t->params.head_beta,
                                                                      .w = p + t->params.head_w,
                                                                      .normed = head->normed,
                                                                      .stats = head->stats,
                                                                      .out = head->logits,
                                                                      .row_max = head->row_max,
                                                                      .rows = s.rows,
                                                                      .inputs = s.hidden,
                                                                      .outputs = s.vocab}));
    group_max(&t->groups.of[GROUP_TENSOR], head->row_max, (size_t)s.rows, t->streams.compute);
    CUDA_CHECK(kernels_head_sums(
        t->streams.compute,
        &(struct head_sums){.logits = head->logits,
                            .row_max = head->row_max,
                            .targets = t->model.targets + (size_t)micro_batch * (size_t)t->model.max_rows,
                            .sums = head->sums,
                            .rows = s.rows,
                            .vocab_first = t->layout.tp_rank * s.vocab,
                            .vocab_count = s.vocab,
                            .grid = t->grids.activation}));
    sum_partial(t, head->sums, 2 * (size_t)s.rows);
}

static void head_backward(struct trainer *t, int micro_batch, struct shape s, const real *x, real *gradients)
{
    const struct head_stash *head = &t->model.head;
    real *g = t->params.gradients;
    CUDA_CHECK(kernels_head_backward(
        t->streams.compute,
        &(struct head_backward){.logits = head->logits,
                                .row_max = head->row_max,
                                .sums = head->sums,
                                .normed = head->normed,
                                .w = t->params.values + t->params.head_w,
                                .targets = t->model.targets + (size_t)micro_batch * (size_t)t->model.max_rows,
                                .dw = g + t->params.head_w,
                                .dnormed = t->model.dnormed,
                                .loss = t->layout.tp_rank == 0 ? t->sums : NULL,
                                .rows = s.rows,
                                .hidden = s.hidden,
                                .vocab_first = t->layout.tp_rank * s.vocab,
                                .vocab_count = s.vocab,
                                .grid = t->grids.gradient,
                                .loss_grid = t->grids.norm}));
    sum_partial(t, t->model.dnormed, (size_t)s.rows * (size_t)s.hidden);
    CUDA_CHECK(kernels_norm_backward(t->streams.compute,
                                     &(struct norm_backward){.dnormed = t->model.dnormed,
                                                             .x = x,
                                                             .stats = head->stats,
                                                             .gamma = t->params.values + t->params.head_gamma,
                                                             .dx = gradients,
                                                             .dgamma = g + t->params.head_gamma,
                                                             .dbeta = g + t->params.head_beta,
                                                             .rows = s.rows,
                                                             .hidden = s.hidden}));
}

void model_forward(struct trainer *t, int micro_batch)
{
    struct shape s = shape_of(t, t->model.lengths[micro_batch]);
    struct layer_stash *stash = model_stash(t, micro_batch);
    real *input = t->model.inputs[micro_batch % t->model.inputs_count];
    const real *x = input;
    if (trainer_is_first_stage(t))
        embed_forward(t, micro_batch, s, input);
    for (int i = 0; i < t->params.layer_count; i++) {
        const struct layer_params *layer = &t->params.layers[i];
        stash[i].x = x;
        attention_forward(t, layer, &stash[i], s);
        if (layer->moe)
            moe_forward(t, layer, &stash[i], s.rows);
        else
            mlp_forward(t, layer, &stash[i], s);
        x = stash[i].out;
    }
    if (trainer_is_last_stage(t))
        head_forward(t, micro_batch, s, x);
}

void model_backward(struct trainer *t, int micro_batch, real *gradients, bool last)
{
    struct shape s = shape_of(t, t->model.lengths[micro_batch]);
    struct layer_stash *stash = model_stash(t, micro_batch);
    if (trainer_is_last_stage(t)) {
        head_backward(t, micro_batch, s, stash[t->params.layer_count - 1].out, gradients);
        if (last)
            optimizer_reduce(t, t->params.head_bucket);
    }
    for (int i = t->params.layer_count - 1; i >= 0; i--) {
        const struct layer_params *layer = &t->params.layers[i];
        if (layer->moe)
            moe_backward(t, layer, &stash[i], s.rows, gradients);
        else
            mlp_backward(t, layer, &stash[i], s, gradients);
        if (last && layer->moe)
            optimizer_reduce(t, layer->expert_bucket);
        attention_backward(t, layer, &stash[i], s, gradients);
        if (last)
            optimizer_reduce(t, layer->dense_bucket);
    }
    if (trainer_is_first_stage(t)) {
        embed_backward(t, micro_batch, s, gradients);
        if (last)
            optimizer_reduce(t, t->params.embed_bucket);
    }
}
