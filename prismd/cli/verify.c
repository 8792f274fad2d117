/* verify.c - `prism verify`: everything in a trace that can be checked without running it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10d/log.h"
#include "cli.h"
#include "coll/duration.h"
#include "common/file.h"
#include "graph/graph.h"
#include "prismd/diagnose/diagnose.h"
#include "prismd/capture/hang_file.h"
#include "prismd/pmix/pmix_log.h"
#include "prismd/predict/durations.h"
#include "trace/payload.h"
#include "trace/trace.h"

enum { JSON };

static const struct cli_option options[] = {
    [JSON] = { "json", NULL, "print as JSON" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism verify TRACE [options]",
    .about = "Check a trace: the manifest, every file's checksum and contents, that the ranks' operations fit together (who calls\n"
             "what in another order or size, who waits for whom and why), and every payload's checksum. Also of a capture that\n"
             "hung or failed: its trace is incomplete, and says why. Exit code 65 when anything is wrong.",
    .options = options,
};

#define FILE_LIMIT ((size_t)8 << 30)

struct checked {
    uint64_t payloads, bytes;
    uint32_t files; /* with graph.bin, trace.json and the payloads left out */
    struct hang_hosts hosts;
    struct diagnosis diagnosis;
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

/* ---- The other files: each by its reader ---- */

static int read_store_log(const char *path, struct prism_error *err)
{
    struct bytes b = { 0 };
    struct c10d_log *log = file_read(path, FILE_LIMIT, &b, err) == 0 ? c10d_log_decode(b.data, b.len, err) : NULL;
    int rc = log ? 0 : -1;
    c10d_log_destroy(log);
    bytes_free(&b);
    return rc;
}

static int read_pmix_log(const char *path, struct prism_error *err)
{
    struct bytes b = { 0 };
    struct pmix_log *log = file_read(path, FILE_LIMIT, &b, err) == 0 ? pmix_log_decode(b.data, b.len, err) : NULL;
    int rc = log ? 0 : -1;
    pmix_log_destroy(log);
    bytes_free(&b);
    return rc;
}

static int read_durations(const char *path, struct prism_error *err)
{
    struct durations *d = durations_load(path, err);
    durations_destroy(d);
    return d ? 0 : -1;
}

static int read_network(const char *path, struct prism_error *err)
{
    struct coll_network network = { 0 };
    int rc = coll_network_load(&network, path, err);
    if (rc == 0)
        coll_network_clear(&network);
    return rc;
}

/* What reports show as it is. */
static int read_any_json(const char *path, struct prism_error *err)
{
    json_error_t at;
    json_t *j = json_load_file(path, 0, &at);
    json_decref(j);
    return j ? 0 : prism_error_set(err, PRISM_EXIT_TRACE, "%s", at.text);
}

/* Checksums tell damage since the file was written, if the trace has any; readers tell what was never right. */
static int check_files(const char *dir, const struct trace_manifest *m, const struct graph *g, struct checked *checked,
                       struct prism_error *err)
{
    static const struct {
        const char *name;
        int (*read)(const char *path, struct prism_error *err);
        bool always;
    } files[] = { { "store.log", read_store_log, true },     { "pmix.log", read_pmix_log, false },
                  { "network.json", read_network, false },   { "durations.json", read_durations, false },
                  { "folding.json", read_any_json, false }, { "switching.json", read_any_json, false } };
    struct trace_graph facts = cli_graph_facts(g);
    if (trace_check(dir, m, &facts, TRACE_CHECK_ALL, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[4096];
        struct prism_error cause = { 0 };
        snprintf(path, sizeof(path), "%s/%s", dir, files[i].name);
        if (access(path, F_OK) != 0 && !files[i].always)
            continue;
        if (files[i].read(path, &cause) != 0)
            return prism_error_set(err, PRISM_EXIT_TRACE, "%s%s%s", strstr(cause.text, path) ? "" : path,
                                   strstr(cause.text, path) ? "" : ": ", cause.text);
        checked->files++;
    }
    return 0;
}

/* ---- Payloads ---- */

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

/* Sends up to this end without their receiver, by the trace's own network. */
static int find_eager(const char *dir, uint64_t *bytes, struct prism_error *err)
{
    struct coll_network network = { 0 };
    char *source = NULL;
    if (cli_load_network(dir, NULL, &network, &source, err) != 0)
        return -1;
    uint64_t intra = network.link[COLL_LINK_INTRA].eager_bytes, inter = network.link[COLL_LINK_INTER].eager_bytes;
    *bytes = intra < inter ? intra : inter;
    coll_network_clear(&network);
    free(source);
    return 0;
}

/* What hangs only where sends are not buffered may be well on the network it was written for. */
static bool has_fault(const struct diagnosis *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->list[i].kind != FINDING_BUFFERING)
            return true;
    return false;
}

static int check_trace(const char *dir, const struct trace_manifest *m, const struct graph *g, struct checked *checked,
                       struct prism_error *err)
{
    struct diagnose_options look = { .ended_early = !m->complete };
    if (hang_hosts_read(dir, g->world, &checked->hosts, err) != 0 || find_eager(dir, &look.eager_bytes, err) != 0)
        return -1;
    look.hosts = (const char *const *)checked->hosts.ranks;
    diagnose(g, &look, &checked->diagnosis);
    if (has_fault(&checked->diagnosis))
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: the ranks' operations do not fit together%s", dir,
                               m->complete ? "; correct the program and capture again" : ", and the capture did not end well");
    if (!m->complete)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: the capture did not end well (trace.json says "
                               "incomplete); recapture", dir);
    /* What the diagnosis has no words for. Captures that were ended early are as they should be cut. */
    if (graph_check_truncated(g, err) != 0)
        return -1;
    return check_files(dir, m, g, checked, err) != 0 ? -1 : check_payloads(dir, m, g, checked, err);
}

static json_t *findings_json(const struct diagnosis *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "kind", finding_name(d->list[i].kind), "rank",
                                              (int)d->list[i].rank, "text", d->list[i].text));
    return list;
}

static json_t *notes_json(const struct hang_hosts *hosts)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < hosts->nnotes; i++)
        json_array_append_new(list, json_string(hosts->notes[i]));
    return list;
}

static void print_findings(const struct checked *c)
{
    for (uint32_t i = 0; i < c->diagnosis.n; i++)
        printf("%s: %s\n", finding_name(c->diagnosis.list[i].kind), c->diagnosis.list[i].text);
    if (c->diagnosis.more)
        printf("and %llu more\n", (unsigned long long)c->diagnosis.more);
    for (uint32_t i = 0; i < c->hosts.nnotes; i++)
        printf("communicator: %s\n", c->hosts.notes[i]);
}

static int verify(const char *dir, bool as_json, const char *command)
{
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct checked c = { 0 };
    struct graph *graph = NULL;
    int failed = cli_load_trace(dir, NULL, &manifest, &graph, &err) != 0 || check_trace(dir, &manifest, graph, &c, &err) != 0;
    char size[40];
    if (as_json)
        print_json(json_pack("{s:b, s:b, s:s*, s:o, s:I, s:o, s:I, s:I, s:b, s:i}", "good", !failed, "complete", manifest.complete, "error",
                             failed ? err.text : NULL, "findings", findings_json(&c.diagnosis), "waiting_ranks",
                             (json_int_t)c.diagnosis.waiting, "communicators_not_made", notes_json(&c.hosts), "payloads",
                             (json_int_t)c.payloads, "payload_bytes", (json_int_t)c.bytes, "checksums", manifest.version >= 3, "files", (int)c.files));
    else
        print_findings(&c);
    if (!as_json && !failed)
        printf("%s: good: graph, %llu payloads (%s), %u other files%s\n", dir, (unsigned long long)c.payloads,
               format_bytes(size, sizeof(size), (double)c.bytes), c.files,
               manifest.version < 3 ? " (trace.json is of an earlier version, without their checksums)" : "");
    fflush(stdout);
    diagnosis_clear(&c.diagnosis);
    hang_hosts_clear(&c.hosts);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return failed ? cli_fail(command, PRISM_EXIT_TRACE, "%s", err.text) : 0;
}

int cli_verify(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    return verify(argv[first], values[JSON] != NULL, argv[0]);
}
