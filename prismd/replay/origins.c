#include "prismd/replay/origins.h"

#include <stdlib.h>

#include "common/check.h"

#define NONE UINT32_MAX

/* ---- From times to origins ---- */

/* A moment, and the COMM nodes on whose ends it hangs: node + 1, and the slack. Least slack first; 0 ends the list. */
struct moment {
    int64_t ns;
    struct origin of[ORIGINS_MAX];
};

struct pass {
    struct moment *end;  /* by node */
    struct moment *host; /* by host thread: when it goes on */
    uint32_t *stream;    /* by stream: its node before; NONE */
};

/* An origin more, if it is among the nearest; each node once, with its least slack. */
static void insert(struct moment *m, uint32_t node, int64_t slack_ns)
{
    uint32_t at = 0;
    if (slack_ns > ORIGINS_SLACK_NS)
        return;
    while (at < ORIGINS_MAX && m->of[at].back && m->of[at].slack_ns <= slack_ns)
        if (m->of[at++].back == node)
            return;
    if (at == ORIGINS_MAX)
        return;
    uint32_t last = at;
    while (last < ORIGINS_MAX - 1 && m->of[last].back && m->of[last].back != node)
        last++;
    for (; last > at; last--)
        m->of[last] = m->of[last - 1];
    m->of[at] = (struct origin){node, (int32_t)slack_ns};
}

/* The largest of some terms: *m so far, and one more. */
static void raise_to(struct moment *m, const struct moment *term)
{
    struct moment lower = *m;
    if (term->ns > m->ns)
        *m = *term;
    else
        lower = *term;
    for (uint32_t k = 0; k < ORIGINS_MAX && lower.of[k].back; k++)
        insert(m, lower.of[k].back, lower.of[k].slack_ns + (m->ns - lower.ns));
}

static struct moment start_of(const struct graph *g, uint32_t rank, const struct pass *p, uint32_t i, const struct moment *issue)
{
    const struct graph_node *n = &g->ranks[rank].nodes[i];
    struct moment start = *issue;
    if (n->kind != GRAPH_SYNC) {
        struct moment before = {0}; /* streams begin at 0, as the prediction does */
        if (p->stream[n->stream] != NONE)
            before = p->end[p->stream[n->stream]];
        before.ns += graph_whole_ns(graph_device_work(g, rank, i));
        raise_to(&start, &before);
    }
    if (n->dep && n->dep <= i)
        raise_to(&start, &p->end[i - n->dep]);
    return start;
}

static struct moment pass_node(const struct graph *g, uint32_t rank, const struct graph_times *times, struct pass *p, uint32_t i)
{
    const struct graph_node *n = &g->ranks[rank].nodes[i];
    struct moment issue = p->host[n->host];
    issue.ns += graph_whole_ns(graph_host_work(g, rank, i));
    struct moment start = start_of(g, rank, p, i, &issue);
    p->end[i] = n->kind == GRAPH_COMM ? (struct moment){times[i].end_ns, {{i + 1, 0}}} : start;
    if (n->kind != GRAPH_SYNC)
        p->stream[n->stream] = i;
    p->host[n->host] = n->kind == GRAPH_SYNC ? p->end[i] : issue;
    return start;
}

struct origins *origins_from_times(const struct graph *g, uint32_t rank, const struct graph_times *times)
{
    const struct graph_rank *r = &g->ranks[rank];
    struct origins *found = check(calloc(r->nnodes + 1u, sizeof *found));
    uint32_t *order = check(calloc(r->nnodes + 1u, sizeof *order)); /* of COMM nodes: how many are before it */
    struct pass p = {check(calloc(r->nnodes + 1u, sizeof *p.end)), check(calloc(r->nhosts + 1u, sizeof *p.host)),
                     check(calloc(r->nstreams + 1u, sizeof *p.stream))};
    for (uint32_t s = 0; s < r->nstreams; s++)
        p.stream[s] = NONE;
    for (uint32_t i = 0, ncomm = 0; i < r->nnodes; i++) {
        struct moment start = pass_node(g, rank, times, &p, i);
        if (r->nodes[i].kind != GRAPH_COMM)
            continue;
        order[i] = ncomm++;
        for (uint32_t k = 0; k < ORIGINS_MAX && start.of[k].back; k++)
            found[i].of[k] = (struct origin){order[i] - order[start.of[k].back - 1], start.of[k].slack_ns};
    }
    free(order);
    free(p.end);
    free(p.host);
    free(p.stream);
    return found;
}

/* ---- The prediction: of all ranks on all cores, of those that are played on one ---- */

static void of_all(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *ranks, uint32_t n, struct origins **found)
{
    struct graph_eval_ops own = {.duration_ns = ops->duration_ns, .send_is_eager = ops->send_is_eager, .ctx = ops->ctx};
    uint8_t *asked = check(calloc(g->world, 1));
    for (uint32_t i = 0; i < n; i++)
        asked[ranks[i]] = 1;
    struct graph_eval *e = graph_eval(g, &own, &(struct graph_eval_options){.keep_times = true, .keep_of = asked}, NULL);
    bool complete = e && !graph_eval_blocked(e, NULL, 0);
    for (uint32_t i = 0; complete && i < n; i++)
        found[i] = origins_from_times(g, ranks[i], graph_eval_times(e, ranks[i]));
    graph_eval_destroy(e);
    free(asked);
}

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

static void of_played(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *as, const uint32_t *ranks, uint32_t n,
                      struct origins **found)
{
    struct evaluation e = {*ops, g, check(calloc(g->world, sizeof *e.times))};
    struct graph_run_ops own = {.duration_ns = duration, .send_is_eager = is_eager, .on_node = on_node, .ctx = &e};
    struct graph_run_options options = {.as = as};
    struct graph_run *run = graph_run_create(g, &own, &options);
    for (uint32_t i = 0; i < n; i++)
        e.times[ranks[i]] = check(calloc(g->ranks[ranks[i]].nnodes + 1u, sizeof **e.times));
    if (run)
        graph_run_begin(run, 0);
    bool complete = run && !graph_run_blocked(run, NULL, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (complete)
            found[i] = origins_from_times(g, ranks[i], e.times[ranks[i]]);
        free(e.times[ranks[i]]);
    }
    free(e.times);
    graph_run_destroy(run);
}

void origins_find(const struct graph *g, const struct graph_run_ops *ops, const uint32_t *as, const uint32_t *ranks, uint32_t n,
                  struct origins **found)
{
    for (uint32_t i = 0; i < n; i++)
        found[i] = NULL;
    if (as)
        of_played(g, ops, as, ranks, n, found);
    else
        of_all(g, ops, ranks, n, found);
}
