/* export.c - `prism export`: the predicted timeline and the graph for other tools. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

#include "cli.h"
#include "coll/duration.h"
#include "export_private.h"
#include "graph/graph.h"
#include "prismd/predict/durations.h"
#include "prismd/predict/stages.h"
#include "spank/parse.h"
#include "timeline_select.h"
#include "trace/trace.h"

enum { FORMAT, OUTPUT, RANKS, ITERATIONS, NETWORK };

static const struct cli_option options[] = {
    [FORMAT] = { "format", "csv|perfetto|chakra", "csv: a line a node; perfetto: trace events; chakra: execution traces (default csv)" },
    [OUTPUT] = { "output", "PATH", "file to write (default standard output); chakra: the folder" },
    [RANKS] = { "ranks", "LIST", "these ranks, such as 0,17,4096-4099 (default all; perfetto: all up to 64, else the first of each stage)" },
    [ITERATIONS] = { "iterations", "N|N-M", "these iterations alone, counted from 0 (default all that was recorded)" },
    [NETWORK] = { "network", "FILE", "network profile (default PRISM_NETWORK, the trace's own, built-in values)" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism export TRACE [options]",
    .about = "Write what ranks do for other tools. csv and perfetto: the predicted timeline, when each operation starts and ends in\n"
             "virtual time. chakra: operations, work and dependencies, for Chakra's tools and ASTRA-sim. docs/export.md has the forms.",
    .options = options,
};

enum form { CSV, PERFETTO, CHAKRA };
static const char *const forms[] = { "csv", "perfetto", "chakra", NULL };
#define PERFETTO_RANKS 64

void export_range(const struct export_request *q, uint32_t rank, uint32_t *begin, uint32_t *end)
{
    const struct graph_rank *r = &q->g->ranks[rank];
    *begin = q->whole ? 0 : r->iterations[q->first];
    *end = q->whole ? r->nnodes : r->iterations[q->last + 1];
}

uint64_t export_describe(const struct graph_rank *rank, const struct graph_node *node, char *name, size_t len)
{
    static const char *const kinds[] = { "?", "comm", "record", "wait", "sync", "join" };
    uint64_t bytes = 0;
    if (node->kind != GRAPH_COMM || node->nparts == 0) {
        snprintf(name, len, "%s", kinds[node->kind <= GRAPH_JOIN ? node->kind : 0]);
        return 0;
    }
    const struct graph_part *parts = rank->parts + node->first_part;
    for (uint32_t i = 0; i < node->nparts; i++)
        bytes += parts[i].count * coll_datatype_size(parts[i].datatype);
    if (node->nparts == 1)
        snprintf(name, len, "%s", prism_op_name(parts[0].op));
    else
        snprintf(name, len, "%s x%u", prism_op_name(parts[0].op), node->nparts);
    return bytes;
}

static int write_file(const struct export_request *q, enum form form, const char *path, struct prism_error *err)
{
    FILE *out = path ? fopen(path, "we") : stdout;
    if (!out)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
    int result = form == CSV ? export_csv(q, out, err) : export_perfetto(q, out, err);
    bool bad = fflush(out) != 0 || ferror(out);
    if (path && fclose(out) != 0)
        bad = true;
    if (result == 0 && bad)
        result = prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written", path ? path : "standard output");
    if (result != 0 && path)
        remove(path); /* no half a file */
    return result;
}

static int choose(struct export_request *q, enum form form, const char *const *values, uint32_t **ranks,
                  const char *command, struct prism_error *err)
{
    uint32_t *stage = calloc(q->g->world + 1u, sizeof(*stage));
    uint32_t *weight = NULL;
    const char *how = NULL;
    uint32_t nstages = stages_find(q->g, stage), all = form == PERFETTO ? PERFETTO_RANKS : q->g->world;
    int result = timeline_ranks(values[RANKS], q->g, stage, nstages, all, q->g->world, ranks, &weight, &q->nranks, &how, err);
    if (result == 0 && q->nranks < q->g->world && !values[RANKS])
        fprintf(stderr, "prism %s: %u of %u ranks (%s); name others by --ranks\n", command, q->nranks, q->g->world, how);
    q->ranks = *ranks;
    q->whole = !values[ITERATIONS];
    if (result == 0 && !q->whole)
        result = timeline_iterations(values[ITERATIONS], q->g, &q->first, &q->last, err);
    free(stage);
    free(weight);
    return result;
}

static int run(const char *dir, enum form form, const char *const *values, const char *command)
{
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct coll_network network = { 0 };
    struct graph *graph;
    struct durations *measured = NULL;
    uint32_t *ranks = NULL;
    char *source = NULL;
    if (cli_load_trace(dir, values[NETWORK], &manifest, &graph, &err) != 0)
        return cli_fail_error(command, &err);
    struct export_request q = { .g = graph, .network = &network };
    int failed = choose(&q, form, values, &ranks, command, &err) != 0 ||
                 cli_load_network(dir, values[NETWORK], &network, &source, &err) != 0 ||
                 cli_load_durations(dir, values[NETWORK], &measured, &err) != 0;
    q.measured = measured;
    failed = failed || (form == CHAKRA ? export_chakra(&q, values[OUTPUT], &err) : write_file(&q, form, values[OUTPUT], &err)) != 0;
    durations_destroy(measured);
    coll_network_clear(&network);
    free(source);
    free(ranks);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return failed ? cli_fail_error(command, &err) : 0;
}

int cli_export(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    struct prism_error err = { 0 };
    size_t form = CSV;
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    if (values[FORMAT] && parse_choice(values[FORMAT], forms, &form, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--format=%s: %s", values[FORMAT], err.text);
    if (form == CHAKRA && !values[OUTPUT])
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--format=chakra writes a file a rank: name their folder, --output=DIR");
    return run(argv[first], (enum form)form, values, argv[0]);
}
