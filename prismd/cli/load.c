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

int cli_load_trace(const char *dir, struct trace_manifest *manifest, struct graph **graph, struct prism_error *err)
{
    char path[4096];
    struct bytes data = { 0 };
    *graph = NULL;
    if (trace_manifest_read(dir, manifest, err) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/graph.bin", dir);
    if (file_read(path, GRAPH_LIMIT, &data, err) == 0)
        *graph = graph_read(data.data, data.len, err);
    bytes_free(&data);
    if (*graph)
        return 0;
    if (err)
        err->code = PRISM_EXIT_TRACE;
    trace_manifest_clear(manifest);
    return -1;
}

int cli_load_network(const char *dir, const char *file, struct coll_network *network, char **source,
                     struct prism_error *err)
{
    char beside[4096];
    const char *variable = getenv("PRISM_NETWORK");
    snprintf(beside, sizeof(beside), "%s/network.json", dir);
    if (!file && variable && variable[0])
        file = variable;
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
