/* load.c - a trace's manifest, graph and network profile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "coll/duration.h"
#include "common/file.h"
#include "graph/graph.h"
#include "prismd/predict/durations.h"
#include "trace/trace.h"

#define GRAPH_LIMIT ((size_t)4 << 30)

/* --network=FILE, or what stands for it. */
static const char *named_network(const char *file)
{
    const char *variable = getenv("PRISM_NETWORK");
    return file ? file : variable && variable[0] ? variable : NULL;
}

int cli_check_trace(const char *dir, const char *network, const struct trace_manifest *manifest, const struct trace_graph *graph,
                    struct prism_error *err)
{
    unsigned how = (named_network(network) ? TRACE_CHECK_OTHER_NETWORK : 0u) | (network ? TRACE_CHECK_NO_DURATIONS : 0u);
    return trace_check(dir, manifest, graph, how, err);
}

struct trace_graph cli_graph_facts(const struct graph *g)
{
    return (struct trace_graph){ g->world, g->gpus_per_node, g->world ? g->ranks[0].niterations : 0 };
}

int cli_load_trace(const char *dir, const char *network, struct trace_manifest *manifest, struct graph **graph,
                   struct prism_error *err)
{
    char path[4096];
    struct bytes data = { 0 };
    *graph = NULL;
    if (trace_manifest_read(dir, manifest, err) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/graph.bin", dir);
    if (!manifest->complete && access(path, F_OK) != 0)
        prism_error_set(err, PRISM_EXIT_TRACE, "trace %s is incomplete: its capture did not come to its end; capture again", dir);
    else if (file_read(path, GRAPH_LIMIT, &data, err) == 0)
        *graph = graph_read(data.data, data.len, err);
    bytes_free(&data);
    struct trace_graph facts = { 0 };
    if (*graph)
        facts = cli_graph_facts(*graph);
    if (*graph && cli_check_trace(dir, network, manifest, &facts, err) == 0) {
        if (network && trace_has_stray(dir, manifest, "durations.json"))
            fprintf(stderr,
                    "prism: %s/durations.json is ignored: it is not of this trace (trace.json does not name it), and with "
                    "--network none is read\n",
                    dir);
        return 0;
    }
    if (err)
        err->code = PRISM_EXIT_TRACE;
    graph_destroy(*graph);
    *graph = NULL;
    trace_manifest_clear(manifest);
    return -1;
}

int cli_load_network(const char *dir, const char *file, struct coll_network *network, char **source,
                     struct prism_error *err)
{
    char beside[4096];
    snprintf(beside, sizeof(beside), "%s/network.json", dir);
    file = named_network(file);
    if (!file && access(beside, R_OK) == 0)
        file = beside;
    if (!file)
        coll_network_default(network);
    else if (coll_network_load(network, file, err) != 0)
        return -1;
    *source = strdup(file ? file : "built-in values");
    return 0;
}

int cli_load_durations(const char *dir, const char *file, struct durations **measured, struct prism_error *err)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/durations.json", dir);
    *measured = file ? durations_create() : durations_load(path, err);
    return *measured ? 0 : -1;
}
