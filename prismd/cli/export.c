/* export.c - `prism export`: the predicted timeline for other tools. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "prismd/durations.h"
#include "timeline.h"
#include "trace/trace.h"

enum { FORMAT, NETWORK };

static const struct cli_option options[] = {
    [FORMAT] = { "format", "csv|perfetto", "csv: a line a node; perfetto: trace events for ui.perfetto.dev (default csv)" },
    [NETWORK] = { "network", "FILE", "network profile (default PRISM_NETWORK, the trace's own, built-in values)" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism export TRACE [options]",
    .about = "Print the predicted timeline of every rank: when each operation starts and ends in virtual time.",
    .options = options,
};

struct writer {
    const struct graph *g;
    uint64_t written;
};

static const char *const kinds[] = { "?", "comm", "record", "wait", "sync", "join" };

static const struct graph_node *find(const struct graph *g, uint32_t rank, uint64_t v)
{
    return v < g->ranks[rank].nnodes ? &g->ranks[rank].nodes[v] : NULL;
}

/* Name and bytes of a group: its first part's operation, "xN" when there are several. */
static uint64_t describe(const struct graph_rank *rank, const struct graph_node *node, char *name, size_t len)
{
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

static void csv_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    const struct graph *g = ((struct writer *)ctx)->g;
    const struct graph_node *node = find(g, rank, v);
    char name[64];
    if (!node)
        return;
    uint64_t bytes = describe(&g->ranks[rank], node, name, sizeof(name));
    printf("%u,%" PRIu64 ",%s,%s,%u,%u,%u,%u,%" PRIu64 ",%" PRId64 ",%" PRId64 "\n", rank, v,
           kinds[node->kind <= GRAPH_JOIN ? node->kind : 0], name, node->host, node->stream, node->comm, node->ordinal,
           bytes, start_ns, end_ns);
}

/* Communication and computation of streams as complete ("X") events; times in microseconds, a process a rank. */
static void perfetto_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    struct writer *w = ctx;
    const struct graph_node *node = find(w->g, rank, v);
    char name[64];
    if (!node || node->kind == GRAPH_SYNC)
        return;
    double work = (double)graph_device_work(w->g, rank, (uint32_t)v);
    if (work > 0)
        printf("%s{\"name\":\"work\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
               w->written++ ? ",\n" : "", rank, node->stream, ((double)start_ns - work) * 1e-3, work * 1e-3);
    if (node->kind != GRAPH_COMM)
        return;
    uint64_t bytes = describe(&w->g->ranks[rank], node, name, sizeof(name));
    printf("%s{\"name\":\"%s\",\"cat\":\"communication\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
           "\"args\":{\"communicator\":%u,\"group\":%u,\"bytes\":%" PRIu64 "}}",
           w->written++ ? ",\n" : "", name, rank, node->stream, (double)start_ns * 1e-3,
           (double)(end_ns - start_ns) * 1e-3, node->comm, node->ordinal, bytes);
}

static int write_timeline(const struct graph *g, const struct coll_network *network, const struct durations *measured,
                          bool perfetto, struct prism_error *err)
{
    struct writer writer = { .g = g };
    if (perfetto)
        printf("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    else
        printf("rank,node,kind,name,host,stream,communicator,group,bytes,start_ns,end_ns\n");
    struct graph_run *run = timeline_run(g, network, measured, perfetto ? perfetto_node : csv_node, &writer, err);
    if (!run)
        return -1;
    if (perfetto)
        printf("\n]}\n");
    graph_run_destroy(run);
    if (fflush(stdout) != 0 || ferror(stdout))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "standard output cannot be written");
    return 0;
}

int cli_export(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    const char *format = values[FORMAT] ? values[FORMAT] : "csv";
    if (strcmp(format, "csv") != 0 && strcmp(format, "perfetto") != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--format=%s: csv or perfetto is allowed", format);
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct coll_network network = { 0 };
    struct graph *graph;
    struct durations *measured = NULL;
    char *source = NULL;
    if (cli_load_trace(argv[first], &manifest, &graph, &err) != 0)
        return cli_fail_error(argv[0], &err);
    int failed = cli_load_network(argv[first], values[NETWORK], &network, &source, &err) != 0 ||
                 cli_load_durations(argv[first], values[NETWORK], &measured, &err) != 0 ||
                 write_timeline(graph, &network, measured, strcmp(format, "perfetto") == 0, &err) != 0;
    durations_destroy(measured);
    coll_network_clear(&network);
    free(source);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return failed ? cli_fail_error(argv[0], &err) : 0;
}
