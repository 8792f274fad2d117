#include "prismd/replay/origins.h"

#include <stdlib.h>

#define NONE UINT32_MAX

static void *check(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- From times to origins ---- */

/* A moment, and the COMM node on whose end it hangs. */
struct moment {
    int64_t ns;
    uint32_t origin; /* NONE: the beginning */
};

struct pass {
    struct moment *end;  /* by node */
    struct moment *host; /* by host thread: when it goes on */
    uint32_t *stream;    /* by stream: its node before; NONE */
};

static struct moment later(struct moment a, struct moment b)
{
    /* Of two that are equal the operation, which may be late. */
    return b.ns > a.ns || (b.ns == a.ns && a.origin == NONE) ? b : a;
}

static struct moment start_of(const struct graph *g, uint32_t rank, const struct pass *p, uint32_t i, struct moment issue)
{
    const struct graph_node *n = &g->ranks[rank].nodes[i];
    struct moment start = issue;
    if (n->kind != GRAPH_SYNC && p->stream[n->stream] != NONE) {
        struct moment before = p->end[p->stream[n->stream]];
        before.ns += graph_whole_ns(graph_device_work(g, rank, i));
        start = later(start, before);
    }
    return n->dep && n->dep <= i ? later(start, p->end[i - n->dep]) : start;
}

static void pass_node(const struct graph *g, uint32_t rank, const struct graph_times *times, struct pass *p, uint32_t i, uint32_t *origin)
{
    const struct graph_node *n = &g->ranks[rank].nodes[i];
    struct moment issue = p->host[n->host];
    issue.ns += graph_whole_ns(graph_host_work(g, rank, i));
    struct moment start = start_of(g, rank, p, i, issue);
    *origin = start.origin;
    p->end[i] = (struct moment){times[i].end_ns, n->kind == GRAPH_COMM ? i : start.origin};
    if (n->kind != GRAPH_SYNC)
        p->stream[n->stream] = i;
    p->host[n->host] = n->kind == GRAPH_SYNC ? p->end[i] : issue;
}

uint32_t *origins_from_times(const struct graph *g, uint32_t rank, const struct graph_times *times)
{
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t *back = check(calloc(r->nnodes + 1u, sizeof *back));
    uint32_t *order = check(calloc(r->nnodes + 1u, sizeof *order)); /* of COMM nodes: how many are before it */
    struct pass p = {check(calloc(r->nnodes + 1u, sizeof *p.end)), check(calloc(r->nhosts + 1u, sizeof *p.host)),
                     check(calloc(r->nstreams + 1u, sizeof *p.stream))};
    for (uint32_t s = 0; s < r->nstreams; s++)
        p.stream[s] = NONE;
    for (uint32_t h = 0; h < r->nhosts; h++)
        p.host[h].origin = NONE;
    for (uint32_t i = 0, ncomm = 0; i < r->nnodes; i++) {
        uint32_t origin;
        pass_node(g, rank, times, &p, i, &origin);
        if (r->nodes[i].kind != GRAPH_COMM)
            continue;
        order[i] = ncomm++;
        back[i] = origin == NONE ? 0 : order[i] - order[origin];
    }
    free(order);
    free(p.end);
    free(p.host);
    free(p.stream);
    return back;
}

/* ---- The prediction ---- */

struct evaluation {
    struct graph_run_ops of; /* the caller's */
    const struct graph *graph;
    struct graph_times **times; /* by world rank; NULL: not asked for */
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    const struct evaluation *e = ctx;
    return e->of.duration_ns(e->of.ctx, g, comm, p, parts, n);
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    const struct evaluation *e = ctx;
    return e->of.send_is_eager(e->of.ctx, bytes);
}

static void on_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    const struct evaluation *e = ctx;
    if (e->times[rank] && v < e->graph->ranks[rank].nnodes)
        e->times[rank][v] = (struct graph_times){start_ns, end_ns};
}

void origins_find(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *as, const uint32_t *ranks, uint32_t n,
                  uint32_t **back)
{
    struct evaluation e = {*ops, g, check(calloc(g->world, sizeof *e.times))};
    struct graph_run_ops own = {.duration_ns = duration, .send_is_eager = is_eager, .on_node = on_node, .ctx = &e};
    struct graph_run_options options = {.as = as};
    struct graph_run *run = graph_run_create(g, &own, &options);
    for (uint32_t i = 0; i < n; i++) {
        back[i] = NULL;
        e.times[ranks[i]] = check(calloc(g->ranks[ranks[i]].nnodes + 1u, sizeof **e.times));
    }
    if (run)
        graph_run_begin(run, 0);
    bool complete = run && !graph_run_blocked(run, NULL, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (complete)
            back[i] = origins_from_times(g, ranks[i], e.times[ranks[i]]);
        free(e.times[ranks[i]]);
    }
    free(e.times);
    graph_run_destroy(run);
}
