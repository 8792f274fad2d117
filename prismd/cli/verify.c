/* verify.c - `prism verify`: everything in a trace that can be checked without running it. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "graph/graph.h"
#include "trace/payload.h"
#include "trace/trace.h"

static const struct cli_option options[] = { { 0 } };
static const struct cli_usage usage = {
    .synopsis = "prism verify TRACE",
    .about = "Check a trace: the manifest, the graph's checksum and structure (every collective has all its members,\n"
             "every send its receive), and every payload's checksum. Exit code 65 when anything is wrong.",
    .options = options,
};

struct checked {
    uint64_t payloads, bytes;
};

/* Both roles of one group; payloads that were not kept (no sandbox rank) are none. */
static int check_group(struct payload_reader *reader, struct payload_key key, struct bytes *buffer,
                       struct checked *checked, struct prism_error *err)
{
    for (key.role = PAYLOAD_OUTPUT; key.role <= PAYLOAD_CONTRIBUTION; key.role++) {
        int64_t size = payload_reader_size(reader, key);
        if (size < 0)
            continue;
        bytes_clear(buffer);
        if (payload_reader_get(reader, key, bytes_reserve(buffer, (size_t)size + 1), (size_t)size, err) < 0)
            return -1;
        checked->payloads++;
        checked->bytes += (uint64_t)size;
    }
    return 0;
}

static int check_payloads(const char *dir, const struct trace_manifest *m, const struct graph *g,
                          struct checked *checked, struct prism_error *err)
{
    struct payload_reader *reader = payload_reader_open(dir, m->nodes, err);
    if (!reader)
        return -1;
    struct bytes buffer = { 0 };
    int result = 0;
    for (uint32_t r = 0; r < g->world && result == 0; r++) {
        for (uint32_t i = 0; i < g->ranks[r].nnodes && result == 0; i++) {
            const struct graph_node *node = &g->ranks[r].nodes[i];
            struct payload_key key = { .rank = r, .comm = node->comm, .ordinal = node->ordinal };
            if (node->kind == GRAPH_COMM)
                result = check_group(reader, key, &buffer, checked, err);
        }
    }
    bytes_free(&buffer);
    payload_reader_close(reader);
    return result;
}

static int verify(const char *dir, struct checked *checked, struct prism_error *err)
{
    struct trace_manifest manifest = { 0 };
    struct graph *graph;
    if (cli_load_trace(dir, &manifest, &graph, err) != 0)
        return -1;
    int result = 0;
    if (graph->world != manifest.world)
        result = prism_error_set(err, PRISM_EXIT_TRACE, "%s: trace.json says %u ranks, graph.bin %u; recapture", dir,
                                 manifest.world, graph->world);
    else if (!manifest.complete)
        result = prism_error_set(err, PRISM_EXIT_TRACE, "%s: the capture did not end well (trace.json says "
                                 "incomplete); recapture", dir);
    if (result == 0)
        result = graph_check(graph, err);
    if (result == 0)
        result = check_payloads(dir, &manifest, graph, checked, err);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return result;
}

int cli_verify(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    struct prism_error err = { 0 };
    struct checked checked = { 0 };
    if (verify(argv[first], &checked, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_TRACE, "%s", err.text);
    char size[40];
    printf("%s: good: graph, %llu payloads (%s)\n", argv[first], (unsigned long long)checked.payloads,
           format_bytes(size, sizeof(size), (double)checked.bytes));
    return 0;
}
