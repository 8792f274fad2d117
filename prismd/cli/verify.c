/* verify.c - `prism verify`: everything in a trace that can be checked without running it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "prismd/diagnose/diagnose.h"
#include "prismd/capture/hang_file.h"
#include "trace/payload.h"
#include "trace/trace.h"

enum { JSON };

static const struct cli_option options[] = {
    [JSON] = { "json", NULL, "print as JSON" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism verify TRACE [options]",
    .about = "Check a trace: the manifest, the graph's checksum, that the ranks' operations fit together (who calls what in\n"
             "another order or size, who waits for whom and why), and every payload's checksum. Also of a capture that hung or\n"
             "failed: its trace is incomplete, and says why. Exit code 65 when anything is wrong.",
    .options = options,
};

struct checked {
    uint64_t payloads, bytes;
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
    if (g->world != m->world)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: trace.json says %u ranks, graph.bin %u; recapture", dir, m->world,
                               g->world);
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
    return check_payloads(dir, m, g, checked, err);
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
    int failed = cli_load_trace(dir, &manifest, &graph, &err) != 0 || check_trace(dir, &manifest, graph, &c, &err) != 0;
    char size[40];
    if (as_json)
        print_json(json_pack("{s:b, s:b, s:s*, s:o, s:I, s:o, s:I, s:I}", "good", !failed, "complete", manifest.complete, "error",
                             failed ? err.text : NULL, "findings", findings_json(&c.diagnosis), "waiting_ranks",
                             (json_int_t)c.diagnosis.waiting, "communicators_not_made", notes_json(&c.hosts), "payloads",
                             (json_int_t)c.payloads, "payload_bytes", (json_int_t)c.bytes));
    else
        print_findings(&c);
    if (!as_json && !failed)
        printf("%s: good: graph, %llu payloads (%s)\n", dir, (unsigned long long)c.payloads,
               format_bytes(size, sizeof(size), (double)c.bytes));
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
