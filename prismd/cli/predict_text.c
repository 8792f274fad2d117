/* predict_text.c - see predict_text.h. */
#include "predict_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

#define SPANS_SHOWN 12   /* pieces of the critical path, the longest ones */
#define SPANS_JSON  4096

double predict_steady(const struct prediction *p)
{
    return p->iterations > 1 ? median(p->seconds + 1, p->iterations - 1) : median(p->seconds, p->iterations);
}

void predict_answer_make(struct predict_answer *a, struct predicted *p)
{
    const struct graph *g = p->graph;
    a->p = p;
    a->nstages = p->nstages;
    a->stages = calloc(a->nstages + 1u, sizeof(*a->stages));
    a->stage_ranks = calloc(a->nstages + 1u, sizeof(*a->stage_ranks));
    if (!a->stages || !a->stage_ranks)
        abort();
    predict_iterations(g, p->eval, PREDICT_EVERYONE, &a->all);
    for (uint32_t r = 0; r < g->world; r++) {
        struct breakdown b = breakdown_of(p, r);
        breakdown_add(&a->stages[p->stages[r]], &b);
        breakdown_add(&a->mean, &b);
        a->stage_ranks[p->stages[r]]++;
    }
    for (uint32_t s = 0; s < a->nstages; s++)
        breakdown_divide(&a->stages[s], a->stage_ranks[s] ? a->stage_ranks[s] : 1);
    breakdown_divide(&a->mean, g->world ? g->world : 1);
    critical_path_find(p, &a->path);
}

void predict_answer_clear(struct predict_answer *a)
{
    free(a->stages);
    free(a->stage_ranks);
    prediction_clear(&a->all);
    critical_path_clear(&a->path);
    predicted_destroy(a->p);
    *a = (struct predict_answer){ 0 };
}

/* --- JSON --- */

json_t *breakdown_json(const struct breakdown *b)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "compute", b->compute * 1e-9, "exposed_communication", b->exposed * 1e-9,
                     "hidden_communication", b->hidden * 1e-9, "host", b->host * 1e-9, "bubble", b->bubble * 1e-9);
}

static json_t *path_json(const struct critical_path *path)
{
    json_t *spans = json_array();
    for (uint32_t i = 0; i < path->n && i < SPANS_JSON; i++) {
        const struct critical_span *s = &path->spans[i];
        json_array_append_new(spans, json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "rank", (int)s->rank, "from",
                                               (double)s->from_ns * 1e-9, "to", (double)s->to_ns * 1e-9, "compute",
                                               s->compute_ns * 1e-9, "communication", s->communication_ns * 1e-9, "host",
                                               s->host_ns * 1e-9));
    }
    return json_pack("{s:f, s:f, s:f, s:i, s:o}", "compute", path->compute_ns * 1e-9, "communication",
                     path->communication_ns * 1e-9, "host", path->host_ns * 1e-9, "pieces", (int)path->n, "spans", spans);
}

json_t *predict_answer_json(const struct predict_answer *a)
{
    json_t *root = json_object(), *seconds = json_array(), *stages = json_array();
    for (uint32_t i = 0; i < a->all.iterations; i++)
        json_array_append_new(seconds, json_real(a->all.seconds[i]));
    for (uint32_t s = 0; s < a->nstages; s++) {
        json_t *stage = breakdown_json(&a->stages[s]);
        json_object_set_new(stage, "stage", json_integer(s));
        json_object_set_new(stage, "ranks", json_integer(a->stage_ranks[s]));
        json_array_append_new(stages, stage);
    }
    json_object_set_new(root, "world", json_integer(a->p->graph->world));
    json_object_set_new(root, "network", json_string(a->network));
    json_object_set_new(root, "iteration_seconds", seconds);
    if (a->all.iterations > 0)
        json_object_set_new(root, "median_seconds", json_real(predict_steady(&a->all)));
    json_object_set_new(root, "breakdown_seconds", json_real((double)(a->p->end_ns - a->p->begin_ns) * 1e-9));
    json_object_set_new(root, "mean", breakdown_json(&a->mean));
    json_object_set_new(root, "stages", stages);
    json_object_set_new(root, "critical_path", path_json(&a->path));
    return root;
}

/* --- Text --- */

static void put_share(double ns, double of)
{
    char text[40];
    format_seconds(text, sizeof(text), ns * 1e-9);
    printf(" %10s %5.1f%%", text, of > 0 ? 100 * ns / of : 0);
}

void breakdown_print_head(const char *what)
{
    printf("  %-10s %7s %17s %17s %17s %17s %17s\n", what, "ranks", "compute", "exposed comm.", "bubble", "host",
           "hidden comm.");
}

void breakdown_print(const char *name, uint32_t ranks, const struct breakdown *b)
{
    double all = b->compute + b->exposed + b->bubble + b->host;
    printf("  %-10s %7u", name, ranks);
    put_share(b->compute, all);
    put_share(b->exposed, all);
    put_share(b->bubble, all);
    put_share(b->host, all);
    put_share(b->hidden, all);
    printf("\n");
}

static int by_length(const void *x, const void *y)
{
    const struct critical_span *a = *(struct critical_span *const *)x, *b = *(struct critical_span *const *)y;
    int64_t la = a->to_ns - a->from_ns, lb = b->to_ns - b->from_ns;
    return la != lb ? (la < lb) - (la > lb) : (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static int by_time(const void *x, const void *y)
{
    const struct critical_span *a = *(struct critical_span *const *)x, *b = *(struct critical_span *const *)y;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static void print_spans(const struct predicted *p, const struct critical_path *path)
{
    uint32_t n = path->n < SPANS_SHOWN ? path->n : SPANS_SHOWN;
    struct critical_span **list = calloc(path->n + 1u, sizeof(*list));
    if (!list)
        abort();
    for (uint32_t i = 0; i < path->n; i++)
        list[i] = &path->spans[i];
    qsort(list, path->n, sizeof(*list), by_length);
    qsort(list, n, sizeof(*list), by_time);
    for (uint32_t i = 0; i < n; i++) {
        char at[40], length[40];
        printf("    at %-10s rank %-7u stage %-4u for %s\n",
               format_seconds(at, sizeof(at), (double)(list[i]->from_ns - p->begin_ns) * 1e-9), list[i]->rank,
               p->stages[list[i]->rank], format_seconds(length, sizeof(length), (double)(list[i]->to_ns - list[i]->from_ns) * 1e-9));
    }
    if (n < path->n)
        printf("    the %u longest of %u pieces; --json has them all\n", n, path->n);
    free(list);
}

static void print_path(const struct predicted *p, const struct critical_path *path)
{
    double all = path->compute_ns + path->communication_ns + path->host_ns;
    printf("  critical path: compute");
    put_share(path->compute_ns, all);
    printf(", communication");
    put_share(path->communication_ns, all);
    printf(", host");
    put_share(path->host_ns, all);
    printf("\n");
    print_spans(p, path);
}

void predict_answer_print(const struct predict_answer *a)
{
    printf("%u ranks, network: %s\n  iteration seconds ", a->p->graph->world, a->network);
    for (uint32_t i = 0; i < a->all.iterations; i++)
        printf("%.6g ", a->all.seconds[i]);
    printf("(median after the first %.6g)\n", predict_steady(&a->all));
    if (!a->all.iterations)
        return;
    breakdown_print_head("stage");
    for (uint32_t s = 0; s < a->nstages; s++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", s);
        breakdown_print(name, a->stage_ranks[s], &a->stages[s]);
    }
    if (a->nstages > 1)
        breakdown_print("all", a->p->graph->world, &a->mean);
    print_path(a->p, &a->path);
}

/* --- Two of them --- */

static void compare_line(const char *name, double a, double b)
{
    char one[40], two[40];
    printf("  %-24s %12s %12s", name, format_seconds(one, sizeof(one), a), format_seconds(two, sizeof(two), b));
    if (a > 0)
        printf(" %+8.2f %%\n", 100 * (b - a) / a);
    else
        printf(" %10s\n", fabs(b) > 0 ? "new" : "");
}

static void compare_breakdown(const char *prefix, const struct breakdown *a, const struct breakdown *b)
{
    const struct {
        const char *name;
        double a, b;
    } lines[] = { { "compute", a->compute, b->compute },
                  { "exposed communication", a->exposed, b->exposed },
                  { "bubble", a->bubble, b->bubble },
                  { "host", a->host, b->host },
                  { "hidden communication", a->hidden, b->hidden } };
    char name[64];
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        snprintf(name, sizeof(name), "%s%s", prefix, lines[i].name);
        compare_line(name, lines[i].a * 1e-9, lines[i].b * 1e-9);
    }
}

void predict_compare_print(const struct predict_answer *a, const struct predict_answer *b)
{
    printf("A: %s (%u ranks, network: %s)\nB: %s (%u ranks, network: %s)\n", a->trace, a->p->graph->world, a->network, b->trace,
           b->p->graph->world, b->network);
    printf("  %-24s %12s %12s %10s\n", "", "A", "B", "B to A");
    compare_line("iteration", predict_steady(&a->all), predict_steady(&b->all));
    compare_breakdown("", &a->mean, &b->mean);
    compare_line("critical: compute", a->path.compute_ns * 1e-9, b->path.compute_ns * 1e-9);
    compare_line("critical: communication", a->path.communication_ns * 1e-9, b->path.communication_ns * 1e-9);
    for (uint32_t s = 0; a->nstages == b->nstages && a->nstages > 1 && s < a->nstages; s++) {
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "%u: ", s);
        if (a->nstages <= 4)
            compare_breakdown(prefix, &a->stages[s], &b->stages[s]);
    }
}
