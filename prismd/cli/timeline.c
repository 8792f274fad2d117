/* timeline.c - see timeline.h. */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

static void keep(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    struct timeline *t = ctx;
    int32_t slot = t->slot[rank];
    if (slot < 0 || v >= t->g->ranks[rank].nnodes)
        return;
    t->start[slot][v] = start_ns;
    t->end[slot][v] = end_ns;
}

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

int timeline_create(struct timeline *t, const struct graph *g, const struct coll_network *network,
                    const struct durations *measured, const uint32_t *ranks, uint32_t nranks, struct prism_error *err)
{
    *t = (struct timeline){ .g = g, .nranks = nranks, .ranks = must(calloc(nranks + 1u, sizeof(*ranks))),
                            .slot = must(malloc((g->world + 1u) * sizeof(*t->slot))),
                            .start = must(calloc(nranks + 1u, sizeof(*t->start))),
                            .end = must(calloc(nranks + 1u, sizeof(*t->end))) };
    memset(t->slot, -1, (g->world + 1u) * sizeof(*t->slot));
    for (uint32_t i = 0; i < nranks; i++) {
        size_t nodes = g->ranks[ranks[i]].nnodes + 1u;
        t->ranks[i] = ranks[i];
        t->slot[ranks[i]] = (int32_t)i;
        t->start[i] = must(calloc(nodes, sizeof(int64_t)));
        t->end[i] = must(calloc(nodes, sizeof(int64_t)));
    }
    duration_model_init(&t->model, g, network);
    t->model.measured = measured;
    t->run = predict_run(g, network, measured, keep, t, err);
    return t->run ? 0 : -1;
}

void timeline_clear(struct timeline *t)
{
    for (uint32_t i = 0; i < t->nranks; i++) {
        free(t->start[i]);
        free(t->end[i]);
    }
    free(t->start);
    free(t->end);
    free(t->slot);
    free(t->ranks);
    duration_model_clear(&t->model);
    graph_run_destroy(t->run);
    *t = (struct timeline){ 0 };
}

static int64_t everyones_end(const struct timeline *t, uint32_t iteration)
{
    int64_t last = 0;
    for (uint32_t r = 0; r < t->g->world; r++) {
        int64_t end = graph_run_iteration_end(t->run, r, iteration);
        last = end > last ? end : last;
    }
    return last;
}

void timeline_window(const struct timeline *t, uint32_t first, uint32_t last, int64_t *begin_ns, int64_t *end_ns)
{
    *begin_ns = first == 0 ? 0 : everyones_end(t, first - 1);
    *end_ns = everyones_end(t, last);
}
