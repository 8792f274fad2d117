#include "prismd/trace_folder.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "prismd/predict/durations.h"
#include "prismd/store.h"

#define FILE_LIMIT (8ull << 30)

void path_in_trace(const struct daemon *d, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", d->conf->trace, name);
}

/* A trace without the file is a damaged trace. */
static int read_file(const struct daemon *d, const char *name, struct bytes *b, struct prism_error *err)
{
    char path[PATH_MAX];
    struct prism_error cause = {0};
    path_in_trace(d, name, path);
    return file_read(path, FILE_LIMIT, b, &cause) ? prism_error_set(err, PRISM_EXIT_TRACE, "%s", cause.text) : 0;
}

static int write_file(const struct daemon *d, const char *name, const struct bytes *b, struct prism_error *err)
{
    char path[PATH_MAX];
    path_in_trace(d, name, path);
    return file_write_atomic(path, b->data, b->len, 0644, err);
}

/* ---- graph.bin ---- */

int trace_folder_load_graph(struct daemon *d, struct prism_error *err)
{
    struct bytes b = {0};
    int rc = read_file(d, "graph.bin", &b, err);
    if (!rc) {
        graph_destroy(d->graph);
        d->graph = graph_read(b.data, b.len, err);
        rc = d->graph ? 0 : -1;
    }
    if (!rc && d->graph->world != d->conf->world)
        rc = prism_error_set(err, PRISM_EXIT_TRACE, "%s/graph.bin is of a world of %u, not %u", d->conf->trace, d->graph->world,
                             d->conf->world);
    bytes_free(&b);
    return rc;
}

int trace_folder_open(struct daemon *d, const struct trace_manifest *m, struct prism_error *err)
{
    if (trace_folder_load_graph(d, err))
        return -1;
    struct trace_graph g = {d->graph->world, d->graph->gpus_per_node, d->graph->ranks[0].niterations};
    unsigned how = (d->conf->network ? TRACE_CHECK_OTHER_NETWORK : 0u) | (d->conf->phase == CONF_CALIBRATE ? TRACE_CHECK_CALIBRATES : 0u);
    return trace_check(d->conf->trace, m, &g, how, err);
}

int trace_folder_write_graph(struct daemon *d, struct prism_error *err)
{
    struct bytes b = {0};
    graph_write(d->graph, &b);
    int rc = write_file(d, "graph.bin", &b, err);
    bytes_free(&b);
    return rc;
}

/* ---- store.log ---- */

int trace_folder_write_store(struct daemon *d, struct prism_error *err)
{
    struct bytes b = {0};
    store_log_encode(d->store, &b);
    int rc = write_file(d, "store.log", &b, err);
    bytes_free(&b);
    return rc;
}

int trace_folder_replay_store(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    struct bytes b = {0};
    int rc = read_file(d, "store.log", &b, err);
    if (!rc)
        rc = store_replay(d->store, b.data, b.len, live, nlive, err);
    bytes_free(&b);
    return rc;
}

/* ---- durations.json ---- */

void trace_folder_forget_durations(const struct daemon *d)
{
    char path[PATH_MAX];
    path_in_trace(d, "durations.json", path);
    unlink(path);
}

int trace_folder_keep_durations(const struct daemon *d, const struct durations *all, struct prism_error *err)
{
    char path[PATH_MAX];
    path_in_trace(d, "durations.json", path);
    return durations_count(all) ? durations_save(all, path, err) : 0;
}

struct durations *trace_folder_load_durations(const struct daemon *d, struct prism_error *err)
{
    char path[PATH_MAX];
    path_in_trace(d, "durations.json", path);
    return durations_load(path, err);
}

/* ---- Payloads ---- */

void trace_folder_remove_payloads(const struct daemon *d)
{
    char pattern[PATH_MAX];
    glob_t found;
    path_in_trace(d, "payload-[0-9]*", pattern);
    if (!glob(pattern, GLOB_NOSORT, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    globfree(&found);
}
