#include "graph/eval.h"

#include <stdlib.h>

#include "common/cores.h"
#include "graph/eval_private.h"
#include "graph/validate.h"

#define NODES_A_THREAD 20000u /* fewer are not worth a thread */

static uint32_t count_threads(const struct graph *g, uint32_t wanted)
{
    uint64_t nodes = 0;
    uint64_t n = wanted ? wanted : cores_usable();
    for (uint32_t i = 0; i < g->world; i++)
        nodes += g->ranks[i].nnodes;
    if (!wanted && n > nodes / NODES_A_THREAD)
        n = nodes / NODES_A_THREAD;
    if (n > THREADS_MAX)
        n = THREADS_MAX;
    if (n > g->world)
        n = g->world;
    return n ? (uint32_t)n : 1;
}

static void set_threads(struct graph_eval *e)
{
    pthread_mutex_init(&e->lock, NULL);
    for (uint32_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&e->channel_locks[i], NULL);
    for (uint32_t i = 0; i < e->nthreads; i++) {
        struct eval_thread *t = &e->threads[i];
        t->e = e;
        t->number = i;
        t->near = t->far = NONE;
        pthread_cond_init(&t->wake, NULL);
    }
}

struct graph_eval *graph_eval(const struct graph *g, const struct graph_eval_ops *ops,
                              const struct graph_eval_options *options, struct prism_error *err)
{
    static const struct graph_eval_options defaults;
    if (graph_validate(g, err))
        return NULL;
    struct graph_eval *e = eval_allocate(1, sizeof *e);
    if (!options)
        options = &defaults;
    e->graph = g;
    e->ops = *ops;
    e->nthreads = count_threads(g, options->keep_slack ? 1 : options->threads);
    set_threads(e);
    eval_setup(e);
    eval_deal(e);
    eval_state(e, options);
    eval_run(e, options->t0_ns);
    return e;
}

void graph_eval_destroy(struct graph_eval *e)
{
    if (!e)
        return;
    for (uint32_t i = 0; i < e->nthreads; i++) {
        struct eval_thread *t = &e->threads[i];
        pthread_cond_destroy(&t->wake);
        free(t->in.list);
        free(t->taken.list);
        for (uint32_t k = 0; k < e->nthreads; k++)
            free(t->out[k].list);
    }
    for (uint32_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&e->channel_locks[i]);
    pthread_mutex_destroy(&e->lock);
    eval_teardown(e);
    free(e);
}

/* ---- Results ---- */

static double no_time(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    return 0;
}

/* Which timelines block each other does not depend on times: the replayer says it in words. */
static void explain(const struct graph_eval *e, char *why, size_t len)
{
    struct graph_run_ops ops = {.duration_ns = no_time, .send_is_eager = e->ops.send_is_eager, .ctx = e->ops.ctx};
    struct graph_run *run = graph_run_create(e->graph, &ops, NULL);
    if (!run)
        return;
    graph_run_begin(run, 0);
    graph_run_blocked(run, why, len);
    graph_run_destroy(run);
}

uint64_t graph_eval_blocked(const struct graph_eval *e, char *why, size_t why_len)
{
    uint64_t blocked = 0;
    for (uint32_t i = 0; i < e->nlines; i++)
        blocked += e->lines[i].n != NONE && !(e->lines[i].is_host && e->lines[i].state == EVAL_IDLE);
    if (why && why_len) {
        why[0] = 0;
        if (blocked)
            explain(e, why, why_len);
    }
    return blocked;
}

uint64_t graph_eval_nodes(const struct graph_eval *e)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->nthreads; i++)
        n += e->threads[i].nodes;
    return n;
}

uint32_t graph_eval_threads(const struct graph_eval *e)
{
    return e->nthreads;
}

int64_t graph_eval_iteration_end(const struct graph_eval *e, uint32_t rank, uint32_t iteration)
{
    if (rank >= e->graph->world)
        return INT64_MIN;
    uint32_t n = e->graph->ranks[rank].niterations;
    return iteration < (n ? n : 1) ? e->ranks[rank].slots[1 + iteration] : INT64_MIN;
}

int64_t graph_eval_setup_end(const struct graph_eval *e, uint32_t rank)
{
    return rank < e->graph->world ? e->ranks[rank].slots[0] : INT64_MIN;
}

const struct graph_times *graph_eval_times(const struct graph_eval *e, uint32_t rank)
{
    return rank < e->graph->world ? e->ranks[rank].times : NULL;
}
