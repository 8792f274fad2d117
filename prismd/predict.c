#include "prismd/predict.h"

#include <stdlib.h>

#include "graph/run.h"
#include "prismd/duration.h"

void predict(const struct graph *g, const struct coll_network *network, const struct durations *measured,
             uint32_t rank, struct prediction *out)
{
    struct duration_model model;
    struct graph_run_ops ops = {.duration_ns = duration_ns, .send_is_eager = duration_send_is_eager, .ctx = &model};
    struct graph_run_options options = {0};
    struct graph_run *run = graph_run_create(g, &ops, &options);
    *out = (struct prediction){0};
    if (!run)
        return;
    duration_model_init(&model, g, network);
    model.measured = measured;
    graph_run_begin(run, 0);
    uint32_t n = g->ranks[rank].niterations;
    out->seconds = calloc(n + 1u, sizeof *out->seconds);
    if (!out->seconds)
        abort();
    for (uint32_t i = 1; i < n; i++)
        out->seconds[i] =
            (double)(graph_run_iteration_end(run, rank, i) - graph_run_iteration_end(run, rank, i - 1)) / 1e9;
    if (n)
        out->seconds[0] = (double)graph_run_iteration_end(run, rank, 0) / 1e9;
    out->iterations = n;
    graph_run_destroy(run);
    duration_model_clear(&model);
}

void prediction_clear(struct prediction *p)
{
    free(p->seconds);
    *p = (struct prediction){0};
}
