/* predict.c - `prism predict`: iteration times from the calibrated graph alone. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "prismd/durations.h"
#include "spank/parse.h"
#include "timeline.h"
#include "trace/trace.h"

enum { NETWORK, RANKS, JSON };

static const struct cli_option options[] = {
    [NETWORK] = { "network", "FILE", "network profile (default PRISM_NETWORK, the trace's own, built-in values)" },
    [RANKS] = { "ranks", "LIST", "also the iterations of these ranks, such as 0,17" },
    [JSON] = { "json", NULL, "print as JSON" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism predict TRACE [options]",
    .about = "Evaluate a calibrated trace in virtual time, with all ranks virtual. An iteration lasts from the end of the\n"
             "one before at the slowest rank to its own end there; the first one includes set-up.",
    .options = options,
};

#define EVERYONE UINT32_MAX

static int64_t iteration_end(const struct graph *g, const struct graph_run *run, uint32_t rank, uint32_t iteration)
{
    if (rank != EVERYONE)
        return graph_run_iteration_end(run, rank, iteration);
    int64_t last = 0;
    for (uint32_t r = 0; r < g->world; r++) {
        int64_t end = graph_run_iteration_end(run, r, iteration);
        last = end > last ? end : last;
    }
    return last;
}

static double *iteration_seconds(const struct graph *g, const struct graph_run *run, uint32_t rank, uint32_t n)
{
    double *seconds = calloc(n + 1u, sizeof(*seconds));
    int64_t before = 0;
    if (!seconds)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        int64_t end = iteration_end(g, run, rank, i);
        seconds[i] = (double)(end - before) * 1e-9;
        before = end;
    }
    return seconds;
}

static json_t *numbers(const double *values, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

struct output {
    const struct graph *g;
    const struct graph_run *run;
    uint32_t iterations;
    json_t *json; /* NULL = text */
    json_t *ranks;
};

static void put_rank(const struct output *o, uint32_t rank)
{
    double *seconds = iteration_seconds(o->g, o->run, rank, o->iterations);
    char name[16];
    if (o->json) {
        snprintf(name, sizeof(name), "%u", rank);
        json_object_set_new(o->ranks, name, numbers(seconds, o->iterations));
    } else {
        printf("  rank %-8u", rank);
        for (uint32_t i = 0; i < o->iterations; i++)
            printf(" %.6g", seconds[i]);
        printf(" s\n");
    }
    free(seconds);
}

static void put_all(const struct output *o, const char *source, const struct parse_ranks *ranks)
{
    double *seconds = iteration_seconds(o->g, o->run, EVERYONE, o->iterations);
    /* The first iteration includes set-up. */
    double steady = o->iterations > 1 ? median(seconds + 1, o->iterations - 1) : median(seconds, o->iterations);
    if (o->json) {
        json_object_set_new(o->json, "world", json_integer(o->g->world));
        json_object_set_new(o->json, "network", json_string(source));
        json_object_set_new(o->json, "iteration_seconds", numbers(seconds, o->iterations));
        if (o->iterations > 0)
            json_object_set_new(o->json, "median_seconds", json_real(steady));
        json_object_set(o->json, "ranks", o->ranks);
    } else {
        printf("%u ranks, network: %s\n  iteration seconds ", o->g->world, source);
        for (uint32_t i = 0; i < o->iterations; i++)
            printf("%.6g ", seconds[i]);
        printf("(median after the first %.6g)\n", steady);
    }
    for (size_t i = 0; i < ranks->nranges; i++)
        for (uint32_t r = ranks->ranges[i].first; r <= ranks->ranges[i].last; r++)
            put_rank(o, r);
    free(seconds);
}

static int predict(const char *dir, const char *const *values, const struct parse_ranks *ranks, const char *command)
{
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct coll_network network = { 0 };
    struct durations *measured = NULL;
    struct graph *graph;
    struct graph_run *run = NULL;
    char *source = NULL;
    if (cli_load_trace(dir, &manifest, &graph, &err) != 0)
        return cli_fail_error(command, &err);
    if (ranks->count > 0 && ranks->highest >= graph->world)
        prism_error_set(&err, PRISM_EXIT_USAGE, "--ranks: there is no rank %u in a world of %u", ranks->highest,
                        graph->world);
    else if (!manifest.calibrated)
        prism_error_set(&err, PRISM_EXIT_TRACE, "%s is not calibrated, so it has no times: prism run --phase=calibrate",
                        dir);
    else if (cli_load_network(dir, values[NETWORK], &network, &source, &err) == 0 &&
             cli_load_durations(dir, values[NETWORK], &measured, &err) == 0)
        run = timeline_run(graph, &network, measured, NULL, NULL, &err);
    int result = 0;
    if (run) {
        struct output o = { .g = graph, .run = run, .iterations = graph->ranks[0].niterations,
                            .json = values[JSON] ? json_object() : NULL, .ranks = json_object() };
        put_all(&o, source, ranks);
        json_decref(o.ranks);
        result = o.json ? print_json(o.json) : 0;
    } else {
        result = cli_fail_error(command, &err);
    }
    graph_run_destroy(run);
    durations_destroy(measured);
    coll_network_clear(&network);
    free(source);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return result;
}

int cli_predict(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    struct prism_error err = { 0 };
    struct parse_ranks ranks = { 0 };
    if (values[RANKS] && parse_ranks(values[RANKS], &ranks, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--ranks=%s: %s", values[RANKS], err.text);
    int result = predict(argv[first], values, &ranks, argv[0]);
    parse_ranks_clear(&ranks);
    return result;
}
