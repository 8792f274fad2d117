/* moe.c - the mixture-of-experts layer: route, exchange counts, exchange tokens, experts, exchange back,
 * combine.
 *
 * How many tokens go where depends on the data: the counts are exchanged by a small all-to-all and read on
 * the host, which then posts sends and receives of that size (also of size zero, so that every iteration
 * issues the same calls).
 */
#include "trainer.h"

void moe_stash(struct trainer *t, struct slab *slab, struct layer_stash *stash)
{
    size_t rows = (size_t)t->model.max_rows, experts = (size_t)t->options->experts,
           ranks = (size_t)t->layout.ep;
    stash->routing = slab_carve(slab, rows * experts * sizeof(real));
    stash->choice = slab_carve(slab, rows * (size_t)t->options->topk * sizeof(int));
    stash->slot = slab_carve(slab, rows * (size_t)t->options->topk * sizeof(int));
    stash->sent_counts = slab_carve(slab, experts * sizeof(int));
    stash->received_counts = slab_carve(slab, experts * sizeof(int));
    if (stash->sent_rows)
        return;
    stash->sent_rows = resource_host(2 * ranks, sizeof(int));
    stash->received_rows = stash->sent_rows + ranks;
}

/* Sum the counts by expert (of the layer, in rank order) into rows by rank. */
static int add_up(const int *counts, int *rows, int ranks, int experts_each)
{
    int total = 0;
    for (int rank = 0; rank < ranks; rank++) {
        rows[rank] = 0;
        for (int i = 0; i < experts_each; i++)
            rows[rank] += counts[rank * experts_each + i];
        total += rows[rank];
    }
    return total;
}

/* After a failed exchange the counts are whatever was in memory: report that failure, not a crash it leads
 * to. */
static void check_counts(struct trainer *t, const struct layer_stash *stash, const int *counts, int sent)
{
    int experts = (int)t->options->experts, copies = t->model.max_rows * (int)t->options->topk;
    bool sane =
        sent >= 0 && sent <= copies && stash->received >= 0 && stash->received <= copies * t->layout.ep;
    for (int i = 0; i < 2 * experts; i++)
        sane = sane && counts[i] >= 0 && counts[i] <= copies;
    if (sane)
        return;
    groups_check(&t->groups);
    die("the counts of tokens that the expert group exchanged make no sense");
}

/* Tell every rank of the expert group how many tokens its experts get from us; wait on the host for the
 * answer. */
static void exchange_counts(struct trainer *t, struct layer_stash *stash)
{
    const struct group *group = &t->groups.of[GROUP_EXPERT];
    int ranks = t->layout.ep, experts = (int)t->options->experts, each = experts / ranks;
    size_t bytes = (size_t)experts * sizeof(int);
    cudaStream_t expert = t->streams.expert;
    int *host = t->model.host_counts;
    trainer_order(t->streams.compute, t->events.expert_begin, expert);
    NCCL_CHECK(ncclAlltoAll(stash->sent_counts, stash->received_counts, (size_t)each, ncclInt32, group->comm,
                            expert));
    CUDA_CHECK(cudaMemcpyAsync(host, stash->sent_counts, bytes, cudaMemcpyDeviceToHost, expert));
    CUDA_CHECK(
        cudaMemcpyAsync(host + experts, stash->received_counts, bytes, cudaMemcpyDeviceToHost, expert));
    CUDA_CHECK(cudaEventRecord(t->events.counts_read, expert));
    CUDA_CHECK(cudaEventSynchronize(t->events.counts_read));
    int sent = add_up(host, stash->sent_rows, ranks, each);
    stash->received = add_up(host + experts, stash->received_rows, ranks, each);
    check_counts(t, stash, host, sent);
}

/* Send rows to every rank and receive from every rank, on the expert stream, between what the compute stream
 * did so far and what it does next. */
static void exchange_rows(struct trainer *t, const real *send, const int *send_rows, real *receive,
                          const int *receive_rows)
{
    ncclComm_t comm = t->groups.of[GROUP_EXPERT].comm;
    size_t hidden = (size_t)t->options->hidden;
    cudaStream_t expert = t->streams.expert;
    trainer_order(t->streams.compute, t->events.expert_begin, expert);
    NCCL_CHECK(ncclGroupStart());
    for (int peer = 0; peer < t->layout.ep; peer++) {
        size_t sent = (size_t)send_rows[peer] * hidden, received = (size_t)receive_rows[peer] * hidden;
        NCCL_CHECK(ncclSend(send, sent, NCCL_REAL, peer, comm, expert));
        NCCL_CHECK(ncclRecv(receive, received, NCCL_REAL, peer, comm, expert));
        send += sent;
        receive += received;
    }
    NCCL_CHECK(ncclGroupEnd());
    trainer_order(expert, t->events.expert_end, t->streams.compute);
}

static real *take(struct trainer *t, int rows, int columns)
{
    return pool_take(&t->model.pool, (size_t)(rows ? rows : 1) * (size_t)columns * sizeof(real));
}

/* Partial results of the experts become sums over the tensor group. Without tokens the sum is over one row of
 * zeros: all ranks of the group see the same counts, and issue the same call. */
static void sum_expert_rows(struct trainer *t, real *values, int rows)
{
    size_t hidden = (size_t)t->options->hidden;
    if (t->layout.tp > 1 && rows == 0)
        CUDA_CHECK(cudaMemsetAsync(values, 0, hidden * sizeof(real), t->streams.compute));
    group_sum(&t->groups.of[GROUP_TENSOR], values, (size_t)(rows ? rows : 1) * hidden, t->streams.compute);
}

static void run_experts(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                        real *out)
{
    const real *p = t->params.values;
    int ranks = t->layout.ep, ffn = (int)(t->options->ffn / t->options->tp);
    CUDA_CHECK(kernels_expert_forward(
        t->streams.compute,
        &(struct expert_forward){.tokens = stash->tokens,
                                 .w1 = p + layer->w1,
                                 .w2 = p + layer->w2,
                                 .counts = ranks > 1 ? stash->received_counts : stash->sent_counts,
                                 .before = stash->expert_before,
                                 .active = stash->expert_active,
                                 .out = out,
                                 .rows = stash->received,
                                 .sources = ranks,
                                 .experts = (int)t->options->experts / ranks,
                                 .hidden = (int)t->options->hidden,
                                 .ffn = ffn,
                                 .grid = t->grids.activation}));
    sum_expert_rows(t, out, stash->received);
}

void moe_forward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash, int rows)
{
    const struct options *o = t->options;
    int hidden = (int)o->hidden, copies = rows * (int)o->topk, ffn = (int)(o->ffn / o->tp);
    bool alone = t->layout.ep == 1;
    real *permuted = take(t, copies, hidden);
    CUDA_CHECK(kernels_route_forward(t->streams.compute,
                                     &(struct route_forward){.normed = stash->normed2,
                                                             .w = t->params.values + layer->router,
                                                             .probabilities = stash->routing,
                                                             .permuted = permuted,
                                                             .choice = stash->choice,
                                                             .slot = stash->slot,
                                                             .counts = stash->sent_counts,
                                                             .bias = o->uneven_routing,
                                                             .rows = rows,
                                                             .hidden = hidden,
                                                             .experts = (int)o->experts,
                                                             .topk = (int)o->topk}));
    stash->received = copies;
    stash->tokens = permuted;
    if (!alone) {
        exchange_counts(t, stash);
        stash->tokens = take(t, stash->received, hidden);
        exchange_rows(t, permuted, stash->sent_rows, stash->tokens, stash->received_rows);
    }
    stash->expert_before = take(t, stash->received, ffn);
    stash->expert_active = take(t, stash->received, ffn);
    real *out = take(t, stash->received, hidden);
    run_experts(t, layer, stash, out);
    stash->returned = out;
    if (!alone) {
        stash->returned = permuted; /* as many rows, and its contents have been sent */
        exchange_rows(t, out, stash->received_rows, stash->returned, stash->sent_rows);
        pool_give(&t->model.pool, out);
    }
    CUDA_CHECK(
        kernels_combine_forward(t->streams.compute, &(struct combine_forward){.x = stash->mid,
                                                                              .returned = stash->returned,
                                                                              .probabilities = stash->routing,
                                                                              .choice = stash->choice,
                                                                              .slot = stash->slot,
                                                                              .y = stash->out,
                                                                              .rows = rows,
                                                                              .hidden = hidden,
                                                                              .experts = (int)o->experts,
                                                                              .topk = (int)o->topk}));
}

/* dout: gradients at the experts' outputs; returns those at their inputs, in a pool block. */
static real *experts_backward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                              const real *dout)
{
    const real *p = t->params.values;
    real *g = t->params.gradients;
    int ranks = t->layout.ep, hidden = (int)t->options->hidden, ffn = (int)(t->options->ffn / t->options->tp);
    real *dbefore = take(t, stash->received, ffn), *dtokens = take(t, stash->received, hidden);
    CUDA_CHECK(kernels_expert_backward(
        t->streams.compute,
        &(struct expert_backward){.dout = dout,
                                  .tokens = stash->tokens,
                                  .before = stash->expert_before,
                                  .active = stash->expert_active,
                                  .w1 = p + layer->w1,
                                  .w2 = p + layer->w2,
                                  .counts = ranks > 1 ? stash->received_counts : stash->sent_counts,
                                  .dw1 = g + layer->w1,
                                  .dw2 = g + layer->w2,
                                  .dbefore = dbefore,
                                  .dtokens = dtokens,
                                  .rows = stash->received,
                                  .sources = ranks,
                                  .experts = (int)t->options->experts / ranks,
                                  .hidden = hidden,
                                  .ffn = ffn,
                                  .grid = t->grids.gradient}));
    pool_give(&t->model.pool, dbefore);
    sum_expert_rows(t, dtokens, stash->received);
    return dtokens;
}

static void route_backward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash,
                           int rows, const real *dpermuted, real *gradients)
{
    const struct options *o = t->options;
    const real *p = t->params.values;
    real *g = t->params.gradients, *dnormed = t->model.dnormed;
    CUDA_CHECK(
        kernels_route_backward(t->streams.compute, &(struct route_backward){.dpermuted = dpermuted,
                                                                            .dweight = t->model.dweight,
                                                                            .probabilities = stash->routing,
                                                                            .normed = stash->normed2,
                                                                            .w = p + layer->router,
                                                                            .choice = stash->choice,
                                                                            .slot = stash->slot,
                                                                            .dw = g + layer->router,
                                                                            .dnormed = dnormed,
                                                                            .rows = rows,
                                                                            .hidden = (int)o->hidden,
                                                                            .experts = (int)o->experts,
                                                                            .topk = (int)o->topk}));
    CUDA_CHECK(kernels_norm_backward(t->streams.compute, &(struct norm_backward){.dnormed = dnormed,
                                                                                 .x = stash->mid,
                                                                                 .stats = stash->stats2,
                                                                                 .gamma = p + layer->gamma2,
                                                                                 .dresidual = gradients,
                                                                                 .dx = gradients,
                                                                                 .dgamma = g + layer->gamma2,
                                                                                 .dbeta = g + layer->beta2,
                                                                                 .rows = rows,
                                                                                 .hidden = (int)o->hidden}));
}

static void give_back(struct trainer *t, struct layer_stash *stash)
{
    struct pool *pool = &t->model.pool;
    pool_give(pool, stash->tokens);
    pool_give(pool, stash->expert_before);
    pool_give(pool, stash->expert_active);
    pool_give(pool, stash->returned);
}

void moe_backward(struct trainer *t, const struct layer_params *layer, struct layer_stash *stash, int rows,
                  real *gradients)
{
    const struct options *o = t->options;
    int hidden = (int)o->hidden;
    bool alone = t->layout.ep == 1;
    real *dreturned = take(t, rows * (int)o->topk, hidden), *dout = dreturned;
    CUDA_CHECK(kernels_combine_backward(t->streams.compute,
                                        &(struct combine_backward){.dy = gradients,
                                                                   .returned = stash->returned,
                                                                   .probabilities = stash->routing,
                                                                   .choice = stash->choice,
                                                                   .slot = stash->slot,
                                                                   .dreturned = dreturned,
                                                                   .dweight = t->model.dweight,
                                                                   .rows = rows,
                                                                   .hidden = hidden,
                                                                   .experts = (int)o->experts,
                                                                   .topk = (int)o->topk}));
    if (!alone) {
        dout = take(t, stash->received, hidden);
        exchange_rows(t, dreturned, stash->sent_rows, dout, stash->received_rows);
    }
    real *dtokens = experts_backward(t, layer, stash, dout), *dpermuted = dtokens;
    if (!alone) {
        dpermuted = dreturned; /* as many rows, and its contents have been sent */
        exchange_rows(t, dtokens, stash->received_rows, dpermuted, stash->sent_rows);
        pool_give(&t->model.pool, dout);
    }
    route_backward(t, layer, stash, rows, dpermuted, gradients);
    pool_give(&t->model.pool, dreturned);
    pool_give(&t->model.pool, dtokens);
    give_back(t, stash);
}
