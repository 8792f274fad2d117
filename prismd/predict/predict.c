#include "prismd/predict/predict.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "graph/feeds.h"
#include "prismd/predict/stages.h"

/* ---- One evaluation ---- */

struct evaluation {
    struct duration_model model;
    predict_node on_node;
    void *ctx;
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    return duration_ns(&((struct evaluation *)ctx)->model, g, comm, p, parts, n);
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    return duration_send_is_eager(&((struct evaluation *)ctx)->model, bytes);
}

static void node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    const struct evaluation *e = ctx;
    e->on_node(e->ctx, rank, v, start_ns, end_ns);
}

struct graph_run *predict_run(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                              predict_node on_node, void *ctx, struct prism_error *err)
{
    struct evaluation e = {.on_node = on_node, .ctx = ctx};
    struct graph_run_ops ops = {
        .duration_ns = duration, .send_is_eager = is_eager, .on_node = on_node ? node : NULL, .ctx = &e};
    char why[512];
    struct graph_run *run = graph_run_create(g, &ops, NULL);
    if (!run) {
        prism_error_set(err, PRISM_EXIT_TRACE, "the graph cannot be evaluated; prism verify says why");
        return NULL;
    }
    duration_model_init(&e.model, g, network);
    e.model.measured = measured;
    graph_run_begin(run, 0);
    duration_model_clear(&e.model);
    if (!graph_run_blocked(run, why, sizeof why))
        return run;
    prism_error_set(err, PRISM_EXIT_TRACE, "the timelines block each other: %s; prism verify says more", why);
    graph_run_destroy(run);
    return NULL;
}

/* The same without a word a node, on all cores. NULL with err. */
static struct graph_eval *evaluate(const struct graph *g, struct duration_model *model,
                                   const struct graph_eval_options *options, struct prism_error *err)
{
    struct graph_eval_ops ops = {.duration_ns = duration_ns, .send_is_eager = duration_send_is_eager, .ctx = model};
    char why[512];
    struct graph_eval *e = graph_eval(g, &ops, options, NULL);
    if (!e) {
        prism_error_set(err, PRISM_EXIT_TRACE, "the graph cannot be evaluated; prism verify says why");
        return NULL;
    }
    if (!graph_eval_blocked(e, why, sizeof why))
        return e;
    prism_error_set(err, PRISM_EXIT_TRACE, "the timelines block each other: %s; prism verify says more", why);
    graph_eval_destroy(e);
    return NULL;
}

/* ---- Iteration times ---- */

static int64_t iteration_end(const struct graph *g, const struct graph_eval *e, uint32_t rank, uint32_t iteration)
{
    if (rank != PREDICT_EVERYONE)
        return graph_eval_iteration_end(e, rank, iteration);
    int64_t last = 0;
    for (uint32_t r = 0; r < g->world; r++) {
        int64_t end = graph_eval_iteration_end(e, r, iteration);
        last = end > last ? end : last;
    }
    return last;
}

void predict_iterations(const struct graph *g, const struct graph_eval *e, uint32_t rank, struct prediction *out)
{
    uint32_t n = g->ranks[rank == PREDICT_EVERYONE ? 0 : rank].niterations;
    int64_t before = 0;
    out->seconds = check(calloc(n + 1u, sizeof *out->seconds));
    out->iterations = n;
    for (uint32_t i = 0; i < n; i++) {
        int64_t end = iteration_end(g, e, rank, i);
        out->seconds[i] = (double)(end - before) / 1e9;
        before = end;
    }
}

void predict(const struct graph *g, const struct coll_network *network, const struct durations *measured,
             uint32_t rank, struct prediction *out)
{
    struct duration_model model;
    duration_model_init(&model, g, network);
    model.measured = measured;
    struct graph_eval *e = evaluate(g, &model, NULL, NULL);
    *out = (struct prediction){0};
    if (e)
        predict_iterations(g, e, rank, out);
    graph_eval_destroy(e);
    duration_model_clear(&model);
}

void prediction_clear(struct prediction *p)
{
    free(p->seconds);
    *p = (struct prediction){0};
}

/* ---- Every node's times ---- */

/* As graph_device_work chooses, but once a class. */
static void find_works(struct predicted *p)
{
    const struct graph *g = p->graph;
    int64_t *first = check(malloc((g->nclasses + 1u) * sizeof *first));
    for (uint32_t c = 0; c < g->nclasses; c++)
        first[c] = -1;
    for (uint32_t r = g->world; r-- > 0;)
        if (g->ranks[r].device_work && g->ranks[r].klass < g->nclasses)
            first[g->ranks[r].klass] = r;
    for (uint32_t r = 0; r < g->world; r++) {
        const struct graph_rank *own = &g->ranks[r], *from = own;
        if (!own->device_work && !own->host_work && own->klass < g->nclasses && first[own->klass] >= 0)
            from = &g->ranks[first[own->klass]];
        bool alike = from->nnodes >= own->nnodes;
        p->device[r] = alike ? from->device_work : NULL;
        p->host[r] = alike ? from->host_work : NULL;
    }
    free(first);
}

static void find_window(struct predicted *p)
{
    const struct graph *g = p->graph;
    uint32_t n = g->world ? g->ranks[0].niterations : 0;
    p->iteration = n ? n - 1 : 0;
    p->end_ns = n ? iteration_end(g, p->eval, PREDICT_EVERYONE, p->iteration) : 0;
    if (p->iteration)
        p->begin_ns = iteration_end(g, p->eval, PREDICT_EVERYONE, p->iteration - 1);
    for (uint32_t r = 0; n && !p->iteration && r < g->world; r++)
        if (graph_eval_setup_end(p->eval, r) > p->begin_ns)
            p->begin_ns = graph_eval_setup_end(p->eval, r);
}

struct predicted *predicted_create(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                                   struct prism_error *err)
{
    struct predicted *p = check(calloc(1, sizeof *p));
    p->graph = g;
    p->times = check(calloc(g->world + 1u, sizeof *p->times));
    p->device = check(calloc(g->world + 1u, sizeof *p->device));
    p->host = check(calloc(g->world + 1u, sizeof *p->host));
    p->stages = check(calloc(g->world + 1u, sizeof *p->stages));
    duration_model_init(&p->model, g, network);
    p->model.measured = measured;
    find_works(p);
    p->eval = evaluate(g, &p->model, &(struct graph_eval_options){.keep_times = true}, err);
    if (!p->eval) {
        predicted_destroy(p);
        return NULL;
    }
    for (uint32_t r = 0; r < g->world; r++)
        p->times[r] = graph_eval_times(p->eval, r);
    find_window(p);
    p->nstages = stages_find(g, p->stages);
    return p;
}

void predicted_destroy(struct predicted *p)
{
    if (!p)
        return;
    free(p->times);
    free(p->device);
    free(p->host);
    free(p->stages);
    free(p->memo);
    duration_model_clear(&p->model);
    graph_eval_destroy(p->eval);
    free(p);
}

/* ---- Durations once more ---- */

#define MEMO 1024

struct duration_memo {
    struct {
        uint64_t count;
        int64_t ns;
        int size, nodes;
        uint8_t op, datatype;
    } places[MEMO];
};

/* Of a collective that everyone waits for everyone in, the profile's duration is a matter of these. */
static int64_t memorised(struct predicted *p, uint32_t comm, int32_t self, const struct graph_part *part)
{
    const struct coll_shape *shape = &p->model.shapes[comm];
    if (!p->memo)
        p->memo = check(calloc(1, sizeof *p->memo));
    uint64_t hash = (part->count * 31 + part->op) * 31 + (uint64_t)shape->size * 7 + (uint64_t)shape->nodes;
    size_t at = (size_t)((hash * 0x9e3779b97f4a7c15u) >> 54);
    if (p->memo->places[at].count == part->count && p->memo->places[at].size == shape->size &&
        p->memo->places[at].nodes == shape->nodes && p->memo->places[at].op == part->op &&
        p->memo->places[at].datatype == part->datatype)
        return p->memo->places[at].ns;
    int64_t ns = (int64_t)(duration_ns(&p->model, p->graph, comm, self, part, 1) + 0.5);
    p->memo->places[at].count = part->count;
    p->memo->places[at].ns = ns;
    p->memo->places[at].size = shape->size;
    p->memo->places[at].nodes = shape->nodes;
    p->memo->places[at].op = part->op;
    p->memo->places[at].datatype = part->datatype;
    return ns;
}

int64_t predicted_duration(struct predicted *p, uint32_t rank, const struct graph_node *at)
{
    const struct graph_rank *r = &p->graph->ranks[rank];
    struct graph_member m = r->comms[at->comm];
    const struct graph_part *parts = &r->parts[at->first_part];
    if (at->nparts == 1 && graph_feeds(parts->op) == GRAPH_FEEDS_ALL && !durations_count(p->model.measured))
        return memorised(p, (uint32_t)m.global, m.rank, parts);
    return (int64_t)(duration_ns(&p->model, p->graph, (uint32_t)m.global, m.rank, parts, at->nparts) + 0.5);
}

/* ---- Slack ---- */

int64_t *predict_slack(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                       struct prism_error *err)
{
    int64_t *slack = check(calloc(g->world + 1u, sizeof *slack));
    struct duration_model model;
    duration_model_init(&model, g, network);
    model.measured = measured;
    struct graph_eval *e = evaluate(g, &model, &(struct graph_eval_options){.keep_slack = true}, err);
    if (!e || graph_eval_slack(e, slack)) {
        free(slack);
        slack = NULL;
    }
    graph_eval_destroy(e);
    duration_model_clear(&model);
    return slack;
}

/* ---- What if ---- */

static void own_works(struct graph *g, uint32_t rank, const struct graph_rank *from)
{
    struct graph_rank *r = &g->ranks[rank];
    if (from == r)
        return;
    graph_alloc_works(g, rank);
    if (from->device_work)
        memcpy(r->device_work, from->device_work, r->nnodes * sizeof *r->device_work);
    if (from->host_work)
        memcpy(r->host_work, from->host_work, r->nnodes * sizeof *r->host_work);
}

int predict_slow(struct graph *g, uint32_t rank, double factor, struct prism_error *err)
{
    if (rank >= g->world)
        return prism_error_set(err, PRISM_EXIT_USAGE, "there is no rank %u in a world of %u", rank, g->world);
    int32_t first = g->nclasses ? graph_representative(g, g->ranks[rank].klass) : -1;
    /* If others take their works from this rank, they get copies first. */
    for (uint32_t r = 0; first == (int32_t)rank && r < g->world; r++)
        if (g->ranks[r].klass == g->ranks[rank].klass && !g->ranks[r].device_work)
            own_works(g, r, &g->ranks[rank]);
    if (!g->ranks[rank].device_work && first >= 0)
        own_works(g, rank, &g->ranks[first]);
    float *works = g->ranks[rank].device_work;
    for (uint32_t i = 0; works && i < g->ranks[rank].nnodes; i++) {
        double work = (double)works[i] * factor;
        works[i] = work < (double)GRAPH_WORK_MAX ? (float)work : GRAPH_WORK_MAX;
    }
    return 0;
}
