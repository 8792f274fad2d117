#include "trainer.h"

#include <math.h>

void optimizer_create(struct trainer *t)
{
    t->streams.reduce = resource_stream();
    t->events.reduced = resource_event();
    t->events.sums_read = resource_event();
    t->sums = memory_allocate(2 * sizeof *t->sums);
    t->host_sums = resource_pinned(2 * sizeof *t->host_sums);
}

void optimizer_reduce(struct trainer *t, int index)
{
    const struct bucket *bucket = &t->params.buckets[index];
    const struct group *group = &t->groups.of[bucket->expert ? GROUP_EXPERT_DATA : GROUP_DATA];
    struct grid grid = bucket->expert ? t->grids.expert_weight : t->grids.weight;
    real *gradients = t->params.gradients + bucket->first;
    if (group->size < 2)
        return;
    trainer_order(t->streams.compute, bucket->complete, t->streams.reduce);
    if (grid.scale != 0)
        CUDA_CHECK(kernels_round(t->streams.reduce, gradients, bucket->count, grid));
    group_sum(group, gradients, bucket->count, t->streams.reduce);
}

/* The loss has been added up by the last stage; add the norm, sum both over the world, and read them. */
static struct result read_sums(struct trainer *t, double tokens)
{
    cudaStream_t compute = t->streams.compute;
    CUDA_CHECK(kernels_sum_squares(compute, &(struct sum_squares){.values = t->params.gradients,
                                                                  .segments = t->params.segments,
                                                                  .out = t->sums + 1,
                                                                  .values_covered = t->params.segment_values,
                                                                  .segment_count = t->params.segment_count,
                                                                  .grid = t->grids.norm}));
    group_sum_doubles(&t->groups.of[GROUP_WORLD], t->sums, 2, compute);
    CUDA_CHECK(cudaMemcpyAsync(t->host_sums, t->sums, 2 * sizeof *t->sums, cudaMemcpyDeviceToHost, compute));
    CUDA_CHECK(cudaEventRecord(t->events.sums_read, compute));
    CUDA_CHECK(cudaEventSynchronize(t->events.sums_read));
    double counted = t->options->equal_data ? t->layout.edp : 1; /* params.c, counts_in_norm */
    return (struct result){.loss = t->host_sums[0] / tokens, .norm = sqrt(t->host_sums[1] / counted) / tokens};
}

struct result optimizer_step(struct trainer *t, double tokens)
{
    const struct options *o = t->options;
    struct params *p = &t->params;
    trainer_order(t->streams.reduce, t->events.reduced, t->streams.compute);
    struct result result = read_sums(t, tokens);
    if (o->clip > 0 && result.norm > o->clip)
        CUDA_CHECK(kernels_scale(t->streams.compute, p->gradients, p->count, o->clip / result.norm));
    CUDA_CHECK(kernels_adam(t->streams.compute, &(struct adam){.values = p->values,
                                                               .gradients = p->gradients,
                                                               .first = p->first,
                                                               .second = p->second,
                                                               .count = p->count,
                                                               .rate = o->lr,
                                                               .beta1 = 0.9,
                                                               .beta2 = 0.99,
                                                               .epsilon = 1e-8,
                                                               .gradient_scale = 1 / tokens,
                                                               .step = t->iteration + 1}));
    return result;
}
