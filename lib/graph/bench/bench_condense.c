/* bench_condense - the condensed replay (graph/condense.h): what it costs once and for each iteration.
 *
 *   bench_condense graph.bin|RANKS NAME [rank …]      of a trace, or a training-shaped graph; external ranks, default the first and the one
 *                                                     half a world on
 *
 * Prints FIGURE lines (tests/bench.sh): seconds to condense; microseconds of an iteration's arrivals, condensed; the same played by
 * graph_run; weights that an iteration has. Arrivals come when the operation before ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/file.h"
#include "graph/condense.h"
#include "graph/eval.h"
#include "training.h"

#define RANKS 64

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    return 5e3 + (double)parts[0].count * 2e-2;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= 1 << 19;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns)
{
}

struct live {
    uint32_t rank;
    struct graph_times *times; /* predicted, by node */
    int64_t period_ns;         /* of the last iteration */
    uint32_t *ordinals;        /* by communicator */
};

struct replay { /* one of the two */
    struct graph_run *run;
    struct graph_condensed *condensed;
    struct live *live;
    uint32_t n;
};

static void arrive(struct replay *p, struct live *l, uint32_t comm, int64_t ns)
{
    struct prism_error err = {0};
    uint32_t ordinal = l->ordinals[comm]++;
    int rc = p->run ? graph_run_arrive(p->run, l->rank, comm, ordinal, ns, NULL, 0, &err)
                    : graph_condensed_arrive(p->condensed, l->rank, comm, ordinal, ns, NULL, 0, &err);
    if (rc) {
        fprintf(stderr, "bench_condense: %s\n", err.text);
        exit(1);
    }
}

/* All groups up to the end of the iteration that is looped (k = 0), or of its k'th repetition, as predicted. */
static void play(struct replay *p, const struct graph *g, uint32_t k)
{
    for (uint32_t i = 0; i < p->n; i++) {
        struct live *l = &p->live[i];
        const struct graph_rank *r = &g->ranks[l->rank];
        for (uint32_t n = k ? r->iterations[r->niterations - 1] : 0; n < r->iterations[r->niterations]; n++)
            if (r->nodes[n].kind == GRAPH_COMM)
                arrive(p, l, r->nodes[n].comm, l->times[n].start_ns + k * l->period_ns);
    }
}

/* Of an iteration: those recorded, or so many repetitions of the last one. */
static double us_an_iteration(struct replay *p, const struct graph *g, uint32_t loops)
{
    for (uint32_t i = 0; i < p->n; i++)
        p->live[i].ordinals = calloc(g->ranks[p->live[i].rank].ncomms + 1u, sizeof *p->live[i].ordinals);
    int64_t begin = clock_now_ns();
    if (p->run)
        graph_run_begin(p->run, 0);
    else
        graph_condensed_begin(p->condensed, 0);
    play(p, g, 0);
    double us = (double)(clock_now_ns() - begin) / 1e3 / g->ranks[p->live[0].rank].niterations;
    begin = clock_now_ns();
    for (uint32_t k = 1; k <= loops; k++)
        play(p, g, k);
    if (loops)
        us = (double)(clock_now_ns() - begin) / 1e3 / loops;
    for (uint32_t i = 0; i < p->n; i++)
        free(p->live[i].ordinals);
    return us;
}

static void predict(const struct graph *g, const uint8_t *external, struct live *live, uint32_t n)
{
    struct graph_eval_ops ops = {.duration_ns = duration, .send_is_eager = eager};
    struct graph_eval *e = graph_eval(g, &ops, &(struct graph_eval_options){.keep_times = true, .keep_of = external}, NULL);
    for (uint32_t i = 0; i < n; i++) {
        const struct graph_rank *r = &g->ranks[live[i].rank];
        live[i].times = calloc(r->nnodes, sizeof *live[i].times);
        memcpy(live[i].times, graph_eval_times(e, live[i].rank), r->nnodes * sizeof *live[i].times);
        live[i].period_ns = graph_eval_iteration_end(e, live[0].rank, r->niterations - 1) - graph_eval_iteration_end(e, live[0].rank, r->niterations - 2);
    }
    graph_eval_destroy(e);
}

/* Beyond the recorded iterations, or these. */
static void bench(const struct graph *g, const char *name, struct live *live, uint32_t n, const uint8_t *external, bool looped)
{
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = eager, .on_release = on_release};
    struct graph_run_options options = {.external = external, .iterations = looped ? UINT32_MAX : 0, .lookahead = looped ? 2 : 0};
    struct prism_error why = {0};
    const char *how = looped ? "_looped" : "";
    int64_t begin = clock_now_ns();
    struct replay p = {.condensed = graph_condense(g, &ops, &options, NULL, &why), .live = live, .n = n};
    if (p.condensed && looped && graph_condensed_size(p.condensed).only_recorded) {
        printf("FIGURE condense_%s%s_refused_seconds s %.2f\n", name, how, (double)(clock_now_ns() - begin) / 1e9);
        graph_condensed_destroy(p.condensed);
        return;
    }
    if (!p.condensed) {
        fprintf(stderr, "bench_condense: %s%s: %s\n", name, how, why.text);
        return;
    }
    printf("FIGURE condense_%s%s_seconds s %.2f\n", name, how, (double)(clock_now_ns() - begin) / 1e9);
    printf("FIGURE condense_%s%s_weights weights %" PRIu64 "\n", name, how, graph_condensed_size(p.condensed).terms);
    printf("FIGURE condense_%s%s_iteration_us us %.1f\n", name, how, us_an_iteration(&p, g, looped ? 50 : 0));
    graph_condensed_destroy(p.condensed);
    p = (struct replay){.run = graph_run_create(g, &ops, &options), .live = live, .n = n};
    printf("FIGURE replay_%s%s_iteration_us us %.1f\n", name, how, us_an_iteration(&p, g, looped ? 2 : 0));
    graph_run_destroy(p.run);
}

static void bench_both(const struct graph *g, const char *name, const uint32_t *ranks, uint32_t n)
{
    uint8_t *external = calloc(g->world, 1);
    struct live live[RANKS];
    for (uint32_t i = 0; i < n; i++) {
        live[i].rank = ranks[i];
        external[ranks[i]] = 1;
    }
    predict(g, external, live, n);
    bench(g, name, live, n, external, false);
    bench(g, name, live, n, external, true);
    for (uint32_t i = 0; i < n; i++)
        free(live[i].times);
    free(external);
}

int main(int argc, char **argv)
{
    struct prism_error err = {0};
    struct bytes data = {0};
    uint32_t n = 0, ranks[RANKS];
    uint32_t world = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    struct training shape = {.world = world, .dp = world / TRAINING_REPLICA, .microbatches = 8, .meets = true};
    if (argc < 3 || world % TRAINING_REPLICA || argc > 3 + RANKS) {
        fprintf(stderr, "usage: bench_condense graph.bin|RANKS NAME [rank ...]\n");
        return 64;
    }
    struct graph *g = world ? training_graph(&shape, 3) : file_read(argv[1], (size_t)4 << 30, &data, &err) ? NULL : graph_read(data.data, data.len, &err);
    if (!g) {
        fprintf(stderr, "bench_condense: %s\n", err.text);
        return 65;
    }
    for (int i = 3; i < argc; i++)
        ranks[n++] = (uint32_t)strtoul(argv[i], NULL, 10) % g->world;
    if (!n) {
        ranks[n++] = 0;
        ranks[n++] = g->world / 2;
    }
    bench_both(g, argv[2], ranks, n);
    graph_destroy(g);
    bytes_free(&data);
    return 0;
}
