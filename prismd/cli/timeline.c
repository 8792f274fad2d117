/* timeline.c - see timeline.h. */
#include "timeline.h"

#include "prismd/duration.h"

struct timeline {
    struct duration_model model;
    void (*on_node)(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns);
    void *ctx;
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                       uint32_t nparts)
{
    return duration_ns(&((struct timeline *)ctx)->model, g, comm, p, parts, nparts);
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    return duration_send_is_eager(&((struct timeline *)ctx)->model, bytes);
}

static void node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    struct timeline *t = ctx;
    t->on_node(t->ctx, rank, v, start_ns, end_ns);
}

struct graph_run *timeline_run(const struct graph *g, const struct coll_network *network,
                               const struct durations *measured,
                               void (*on_node)(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns),
                               void *ctx, struct prism_error *err)
{
    struct timeline t = { .on_node = on_node, .ctx = ctx };
    struct graph_run_ops ops = { .duration_ns = duration, .send_is_eager = is_eager, .on_node = on_node ? node : NULL,
                                 .ctx = &t };
    struct graph_run_options options = { 0 };
    char why[512];
    struct graph_run *run = graph_run_create(g, &ops, &options);
    if (!run) {
        prism_error_set(err, PRISM_EXIT_TRACE, "the graph cannot be evaluated");
        return NULL;
    }
    duration_model_init(&t.model, g, network);
    t.model.measured = measured;
    graph_run_begin(run, 0);
    duration_model_clear(&t.model);
    if (graph_run_blocked(run, why, sizeof(why)) == 0)
        return run;
    prism_error_set(err, PRISM_EXIT_TRACE, "the timelines block each other: %s; recapture", why);
    graph_run_destroy(run);
    return NULL;
}
