#include "params.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data.h"
#include "memory.h"
#include "resources.h"

enum split { SPLIT_NONE, SPLIT_COLUMNS, SPLIT_ROWS };

/* A matrix (or a stack of them, one an expert) as this rank holds it. columns is made of parts (3 for q, k,
 * v), each split on its own. */
struct tensor {
    size_t first;
    int rows, columns, parts, stack;
    enum split split;
    double value, deviation; /* start value: value + uniform noise of this deviation */
    uint64_t identity;       /* the same on every rank that holds a part of it */
};

static size_t count_of(const struct tensor *t)
{
    return (size_t)t->rows * (size_t)t->columns * (size_t)t->stack;
}

struct plan {
    struct params *params;
    const struct options *options;
    const struct layout *layout;
    struct tensor *tensors;
    bool *expert;
    int count;
};

enum { MAX_TENSORS_A_LAYER = 12, MAX_TENSORS_BESIDE = 5 };

static size_t add(struct plan *plan, struct tensor tensor, uint64_t kind)
{
    tensor.first = plan->params->count;
    tensor.parts = tensor.parts ? tensor.parts : 1;
    tensor.identity = kind;
    bool expert = tensor.stack > 0;
    tensor.stack = expert ? tensor.stack : 1;
    plan->params->count += (size_t)tensor.rows * (size_t)tensor.columns * (size_t)tensor.stack;
    plan->expert[plan->count] = expert;
    plan->tensors[plan->count++] = tensor;
    return tensor.first;
}

static int open_bucket(struct params *params, bool expert)
{
    params->buckets[params->bucket_count] = (struct bucket){.first = params->count, .expert = expert};
    return params->bucket_count++;
}

static void close_bucket(struct params *params, int bucket)
{
    params->buckets[bucket].count = params->count - params->buckets[bucket].first;
}

static void plan_mlp(struct plan *plan, struct layer_params *layer, uint64_t kind)
{
    const struct options *o = plan->options;
    int hidden = (int)o->hidden, ffn = (int)(o->ffn / o->tp), experts = (int)(o->experts / o->ep);
    double in = 1 / sqrt((double)o->hidden), out = 0.5 / sqrt((double)o->ffn);
    if (layer->moe) {
        layer->router =
            add(plan, (struct tensor){.rows = hidden, .columns = (int)o->experts, .deviation = in}, kind + 9);
        close_bucket(plan->params, layer->dense_bucket);
        layer->expert_bucket = open_bucket(plan->params, true);
        layer->w1 = add(
            plan,
            (struct tensor){
                .rows = hidden, .columns = ffn, .stack = experts, .split = SPLIT_COLUMNS, .deviation = in},
            kind + 10);
        layer->w2 =
            add(plan,
                (struct tensor){
                    .rows = ffn, .columns = hidden, .stack = experts, .split = SPLIT_ROWS, .deviation = out},
                kind + 11);
        close_bucket(plan->params, layer->expert_bucket);
        return;
    }
    layer->w1 =
        add(plan, (struct tensor){.rows = hidden, .columns = ffn, .split = SPLIT_COLUMNS, .deviation = in},
            kind + 12);
    layer->b1 = add(plan, (struct tensor){.rows = 1, .columns = ffn, .split = SPLIT_COLUMNS}, kind + 13);
    layer->w2 =
        add(plan, (struct tensor){.rows = ffn, .columns = hidden, .split = SPLIT_ROWS, .deviation = out},
            kind + 14);
    layer->b2 = add(plan, (struct tensor){.rows = 1, .columns = hidden}, kind + 15);
    close_bucket(plan->params, layer->dense_bucket);
}

static void plan_layer(struct plan *plan, struct layer_params *layer, int index)
{
    const struct options *o = plan->options;
    int hidden = (int)o->hidden, width = (int)(o->hidden / o->tp);
    struct tensor ones = {.rows = 1, .columns = hidden, .value = 1}, zeros = {.rows = 1, .columns = hidden};
    double deviation = 1 / sqrt((double)o->hidden);
    uint64_t kind = 100 + 100 * (uint64_t)index;
    layer->moe = o->moe_every > 0 && (index + 1) % o->moe_every == 0;
    layer->dense_bucket = open_bucket(plan->params, false);
    layer->expert_bucket = -1;
    layer->gamma1 = add(plan, ones, kind + 1);
    layer->beta1 = add(plan, zeros, kind + 2);
    layer->wqkv = add(
        plan,
        (struct tensor){
            .rows = hidden, .columns = 3 * width, .parts = 3, .split = SPLIT_COLUMNS, .deviation = deviation},
        kind + 3);
    layer->bqkv = add(
        plan, (struct tensor){.rows = 1, .columns = 3 * width, .parts = 3, .split = SPLIT_COLUMNS}, kind + 4);
    layer->wo = add(
        plan,
        (struct tensor){.rows = width, .columns = hidden, .split = SPLIT_ROWS, .deviation = 0.5 * deviation},
        kind + 5);
    layer->bo = add(plan, zeros, kind + 6);
    layer->gamma2 = add(plan, ones, kind + 7);
    layer->beta2 = add(plan, zeros, kind + 8);
    plan_mlp(plan, layer, kind);
}

static void plan_stage(struct plan *plan)
{
    const struct options *o = plan->options;
    struct params *params = plan->params;
    int hidden = (int)o->hidden, vocab = (int)(o->vocab / o->tp);
    params->embed_bucket = params->head_bucket = -1;
    if (plan->layout->pp_rank == 0) {
        params->embed_bucket = open_bucket(params, false);
        params->table =
            add(plan,
                (struct tensor){.rows = vocab, .columns = hidden, .split = SPLIT_ROWS, .deviation = 0.5}, 1);
        params->positions =
            add(plan, (struct tensor){.rows = (int)o->seq, .columns = hidden, .deviation = 0.1}, 2);
        close_bucket(params, params->embed_bucket);
    }
    for (int i = 0; i < params->layer_count; i++)
        plan_layer(plan, &params->layers[i], plan->layout->pp_rank * params->layer_count + i);
    if (plan->layout->pp_rank == plan->layout->pp - 1) {
        params->head_bucket = open_bucket(params, false);
        params->head_gamma = add(plan, (struct tensor){.rows = 1, .columns = hidden, .value = 1}, 3);
        params->head_beta = add(plan, (struct tensor){.rows = 1, .columns = hidden}, 4);
        params->head_w = add(plan,
                             (struct tensor){.rows = hidden,
                                             .columns = vocab,
                                             .split = SPLIT_COLUMNS,
                                             .deviation = 1 / sqrt((double)hidden)},
                             5);
        close_bucket(params, params->head_bucket);
    }
}

/* The start values of one matrix of a stack; places count rows and columns in the unsplit matrix. */
static void fill_matrix(const struct plan *plan, const struct tensor *t, uint64_t seed, real *values)
{
    int tp = t->split == SPLIT_NONE ? 1 : plan->layout->tp,
        tp_rank = t->split == SPLIT_NONE ? 0 : plan->layout->tp_rank;
    int width = t->columns / t->parts;
    uint64_t whole_columns = (uint64_t)t->columns * (uint64_t)(t->split == SPLIT_COLUMNS ? tp : 1);
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->columns; j++) {
            uint64_t row = (uint64_t)i, column = (uint64_t)j;
            if (t->split == SPLIT_ROWS)
                row += (uint64_t)tp_rank * (uint64_t)t->rows;
            if (t->split == SPLIT_COLUMNS)
                column = (uint64_t)((j / width) * width * tp + tp_rank * width + j % width);
            double noise = t->deviation > 0 ? data_uniform(data_hash(seed, row * whole_columns + column)) : 0;
            *values++ = (real)(t->value + sqrt(3) * t->deviation * noise);
        }
}

static void fill_tensor(const struct plan *plan, const struct tensor *t, bool expert, real *values)
{
    uint64_t seed = data_hash((uint64_t)plan->options->seed ^ 0x706172616du, t->identity);
    uint64_t first_expert = expert ? (uint64_t)plan->layout->ep_rank * (uint64_t)t->stack : 0;
    for (int i = 0; i < t->stack; i++)
        fill_matrix(plan, t, data_hash(seed, first_expert + (uint64_t)i),
                    values + (size_t)i * (size_t)t->rows * (size_t)t->columns);
}

/* Room on the host for one tensor at a time, which is filled there and copied. */
static void copy_values(const struct plan *plan)
{
    size_t largest = 0;
    for (int i = 0; i < plan->count; i++)
        largest = count_of(&plan->tensors[i]) > largest ? count_of(&plan->tensors[i]) : largest;
    real *host = malloc(largest * sizeof *host);
    if (!host)
        die("no host memory for a tensor of %zu values", largest);
    for (int i = 0; i < plan->count; i++) {
        const struct tensor *t = &plan->tensors[i];
        fill_tensor(plan, t, plan->expert[i], host);
        CUDA_CHECK(cudaMemcpy(plan->params->values + t->first, host, count_of(t) * sizeof *host,
                              cudaMemcpyHostToDevice));
    }
    free(host);
}

static void set_values(const struct plan *plan)
{
    struct params *params = plan->params;
    size_t bytes = params->count * sizeof(real);
    params->values = memory_allocate(bytes);
    params->gradients = memory_allocate(bytes);
    params->first = memory_allocate(bytes);
    params->second = memory_allocate(bytes);
    copy_values(plan);
    CUDA_CHECK(cudaMemset(params->first, 0, bytes));
    CUDA_CHECK(cudaMemset(params->second, 0, bytes));
}

/* Replicas of a parameter: only the first in its group counts it; with --equal-data each does (optimizer.c divides by their number),
 * so that all replicas do the same. */
static bool counts_in_norm(const struct plan *plan, int i)
{
    const struct layout *l = plan->layout;
    if (plan->tensors[i].split == SPLIT_NONE && l->tp_rank != 0)
        return false;
    if (plan->options->equal_data)
        return plan->expert[i] || l->ep_rank == 0;
    return (plan->expert[i] ? l->edp_rank : l->dp_rank) == 0;
}

static void set_segments(const struct plan *plan)
{
    struct params *params = plan->params;
    struct segment *segments = calloc((size_t)plan->count, sizeof *segments);
    if (!segments)
        die("out of host memory");
    for (int i = 0; i < plan->count; i++) {
        const struct tensor *t = &plan->tensors[i];
        struct segment *last = params->segment_count ? &segments[params->segment_count - 1] : NULL;
        size_t count = count_of(t);
        if (!counts_in_norm(plan, i))
            continue;
        params->segment_values += count;
        if (last && last->first + last->count == t->first)
            last->count += count;
        else
            segments[params->segment_count++] = (struct segment){t->first, count};
    }
    size_t bytes = (size_t)params->segment_count * sizeof *segments;
    params->segments = memory_allocate(bytes);
    if (bytes)
        CUDA_CHECK(cudaMemcpy(params->segments, segments, bytes, cudaMemcpyHostToDevice));
    free(segments);
}

void params_create(struct params *params, const struct options *options, const struct layout *layout)
{
    struct plan plan = {.params = params, .options = options, .layout = layout};
    memset(params, 0, sizeof *params);
    params->layer_count = (int)(options->layers / options->pp);
    size_t tensors = (size_t)params->layer_count * MAX_TENSORS_A_LAYER + MAX_TENSORS_BESIDE;
    params->layers = resource_host((size_t)params->layer_count, sizeof *params->layers);
    params->buckets = resource_host(2 * (size_t)params->layer_count + 2, sizeof *params->buckets);
    plan.tensors = calloc(tensors, sizeof *plan.tensors);
    plan.expert = calloc(tensors, sizeof *plan.expert);
    if (!plan.tensors || !plan.expert)
        die("out of host memory");
    plan_stage(&plan);
    set_values(&plan);
    set_segments(&plan);
    for (int i = 0; i < params->bucket_count; i++)
        params->buckets[i].complete = resource_event();
    free(plan.tensors);
    free(plan.expert);
}
