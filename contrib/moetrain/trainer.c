#include "trainer.h"

#include <math.h>

#include "data.h"

void trainer_order(cudaStream_t earlier, cudaEvent_t event, cudaStream_t later)
{
    CUDA_CHECK(cudaEventRecord(event, earlier));
    CUDA_CHECK(cudaStreamWaitEvent(later, event, 0));
}

static struct grid make_grid(int step, int range, int ranks)
{
    return (struct grid){ldexp(1, step), ldexp(1, range) / ranks};
}

struct grids trainer_grids(const struct options *options, const struct layout *layout)
{
    struct grids grids = {0};
    if (!options->exact_sums)
        return grids;
    grids.activation = make_grid(12, 11, layout->tp);
    grids.gradient = make_grid(14, 9, layout->tp);
    grids.weight = make_grid(10, 13, layout->dp);
    grids.expert_weight = make_grid(10, 13, layout->edp);
    grids.norm = make_grid(20, 32, layout->world);
    return grids;
}

void trainer_create(struct trainer *t)
{
    t->grids = trainer_grids(t->options, &t->layout);
    t->streams.compute = resource_stream();
    t->events.begin = resource_timer();
    t->events.end[0] = resource_timer();
    t->events.end[1] = resource_timer();
    params_create(&t->params, t->options, &t->layout);
    model_create(t);
    pipeline_create(t);
    optimizer_create(t);
    waits_create(t);
    if (t->layout.rank == t->options->slow_rank && kernels_scale_cost(t->options->slow_factor) != 0)
        die("--slow-factor: this build's kernels have no modelled cost");
    if (t->options->cost_scale != 1 && kernels_scale_cost(t->options->cost_scale) != 0)
        die("--cost-scale: this build's kernels have no modelled cost");
    /* What was set up on the default stream is complete before other streams use it. */
    CUDA_CHECK(cudaDeviceSynchronize());
}

struct result trainer_iterate(struct trainer *t)
{
    cudaStream_t compute = t->streams.compute;
    cudaEvent_t end = t->events.end[t->iteration % 2];
    float milliseconds;
    if (t->iteration == 0)
        CUDA_CHECK(cudaEventRecord(t->events.begin, compute));
    waits_begin(t);
    model_begin_iteration(t);
    pipeline_run(t);
    struct result result = optimizer_step(t, data_tokens_in_batch(t->options, t->iteration, t->layout.dp));
    waits_end(t);
    CUDA_CHECK(cudaEventRecord(end, compute));
    CUDA_CHECK(cudaEventSynchronize(end));
    CUDA_CHECK(cudaEventElapsedTime(
        &milliseconds, t->iteration ? t->events.end[(t->iteration + 1) % 2] : t->events.begin, end));
    groups_check(&t->groups);
    result.seconds = milliseconds / 1e3;
    t->iteration++;
    return result;
}

void trainer_destroy(struct trainer *t)
{
    pool_clear(&t->model.pool);
    resources_release();
    memory_released();
}
