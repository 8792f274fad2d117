/* info.c - `prism info`: what a trace holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/types.h"
#include "common/file.h"
#include "graph/file.h"
#include "graph/graph.h"
#include "info_part.h"
#include "trace/payload.h"
#include "trace/trace.h"

enum { RANK, COMMUNICATOR, JSON };

static const struct cli_option options[] = {
    [RANK] = { "rank", "N", "what this rank does, instead of the whole trace; the rest is not read" },
    [COMMUNICATOR] = { "communicator", "N", "what is done on this communicator, by its number in the trace; likewise" },
    [JSON] = { "json", NULL, "print as JSON" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism info TRACE [options]",
    .about = "Print what a trace holds: program, world, what is complete, ranks, operations, payloads.",
    .options = options,
};

#define OPS 256 /* graph_part.op is a byte */

struct totals {
    uint64_t nodes, comm_nodes, parts, measured;
    uint64_t by_op[OPS];
    uint64_t payloads, raw_bytes, disk_bytes;
    char payload_error[256];
    struct graph_file_info file; /* all zero: graph.bin is of version 1 */
};

static char *graph_path(char path[4096], const char *dir)
{
    snprintf(path, 4096, "%s/graph.bin", dir);
    return path;
}

static void count_file(const char *dir, struct totals *t)
{
    char path[4096];
    struct graph_file *f = graph_file_map(graph_path(path, dir), NULL);
    if (f)
        graph_file_info(f, &t->file);
    graph_file_close(f);
}

/* A graph that was cut or damaged: how much of it is whole. Nothing where another file of the trace is what is damaged. */
static void print_saved(const char *dir)
{
    char path[4096];
    struct bytes data = { 0 };
    struct graph_file_saved saved;
    struct graph_file *f = NULL;
    if (file_read(graph_path(path, dir), (size_t)4 << 30, &data, NULL) == 0)
        f = graph_file_salvage(data.data, data.len, NULL);
    struct graph *whole = f ? graph_read(data.data, data.len, NULL) : NULL;
    struct graph *g = f && !whole ? graph_file_read(f, &saved, NULL) : NULL;
    graph_destroy(whole);
    if (g)
        printf("%s can be read in part: %u of %u ranks are whole, %llu of %zu bytes are lost\n", path, saved.ranks,
               g->world, (unsigned long long)saved.lost_bytes, data.len);
    graph_destroy(g);
    graph_file_close(f);
    bytes_free(&data);
}

static void count_graph(const struct graph *g, struct totals *t)
{
    for (uint32_t r = 0; r < g->world; r++) {
        const struct graph_rank *rank = &g->ranks[r];
        t->nodes += rank->nnodes;
        t->parts += rank->nparts;
        t->measured += rank->device_work != NULL;
        for (uint32_t i = 0; i < rank->nnodes; i++)
            t->comm_nodes += rank->nodes[i].kind == GRAPH_COMM;
        for (uint32_t i = 0; i < rank->nparts; i++)
            t->by_op[rank->parts[i].op]++;
    }
}

static void count_payloads(const char *dir, const struct trace_manifest *m, struct totals *t)
{
    struct prism_error err = { 0 };
    struct payload_reader *reader = payload_reader_open(dir, m->nodes, &err);
    if (!reader) {
        snprintf(t->payload_error, sizeof(t->payload_error), "%.250s", err.text);
        return;
    }
    payload_reader_totals(reader, &t->payloads, &t->raw_bytes, &t->disk_bytes);
    payload_reader_close(reader);
}

static json_t *strings(char *const *list)
{
    json_t *out = json_array();
    for (; list && *list; list++) {
        /* Arguments are bytes; those that are no UTF-8 cannot be in JSON. */
        json_t *text = json_string(*list);
        json_array_append_new(out, text ? text : json_string("(not UTF-8)"));
    }
    return out;
}

static json_t *file_json(const struct graph_file_info *f)
{
    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "blocks", (int)f->blocks, "programs",
                     (int)f->programs, "bytes", (json_int_t)f->bytes, "structure_bytes", (json_int_t)f->structure_bytes,
                     "count_bytes", (json_int_t)f->count_bytes, "time_bytes", (json_int_t)f->time_bytes, "communicator_bytes",
                     (json_int_t)f->comm_bytes, "rank_bytes", (json_int_t)f->rank_bytes, "index_bytes",
                     (json_int_t)f->index_bytes);
}

static void print_file(const struct graph_file_info *f)
{
    char all[40], part[6][40];
    const uint64_t bytes[6] = { f->structure_bytes, f->count_bytes, f->time_bytes, f->comm_bytes, f->rank_bytes, f->index_bytes };
    if (!f->bytes)
        return;
    for (int i = 0; i < 6; i++)
        format_bytes(part[i], sizeof(part[i]), (double)bytes[i]);
    printf("  graph.bin       %s: %u distinct blocks in %u programs %s, counts %s, times %s, communicators %s, ranks %s, "
           "index %s\n",
           format_bytes(all, sizeof(all), (double)f->bytes), f->blocks, f->programs, part[0], part[1], part[2], part[3],
           part[4], part[5]);
}

static json_t *info_json(const struct trace_manifest *m, const struct graph *g, const struct totals *t)
{
    json_t *sandbox = json_array(), *ops = json_object();
    for (uint32_t i = 0; i < m->nsandbox; i++)
        json_array_append_new(sandbox, json_integer(m->sandbox[i]));
    for (int op = 0; op < OPS; op++)
        if (t->by_op[op])
            json_object_set_new(ops, prism_op_name(op), json_integer((json_int_t)t->by_op[op]));
    return json_pack("{s:i, s:s*, s:s*, s:s*, s:o, s:s*, s:i, s:i, s:i, s:b, s:b, s:i, s:s*, s:s*, s:o,"
                     " s:i, s:i, s:I, s:I, s:I, s:o, s:{s:s*, s:s?, s:I, s:I, s:I}, s:o}",
                     "version", (int)m->version, "trace_id", m->trace_id, "created", m->created, "program_id",
                     m->program_id, "argv", strings(m->argv), "cwd", m->cwd, "world", (int)m->world, "gpus_per_node",
                     (int)m->gpus_per_node, "nodes", (int)m->nodes, "complete", m->complete, "calibrated",
                     m->calibrated, "iterations", (int)m->iterations, "layout", m->layout, "fold", m->fold, "sandbox", sandbox, "classes",
                     (int)g->nclasses, "communicators", (int)g->ncomms, "graph_nodes", (json_int_t)t->nodes,
                     "groups", (json_int_t)t->comm_nodes, "measured_ranks", (json_int_t)t->measured, "ops", ops,
                     "payloads", "error", t->payload_error[0] ? t->payload_error : NULL, "mode", trace_payload_name(m->payload), "count", (json_int_t)t->payloads, "raw_bytes", (json_int_t)t->raw_bytes,
                     "disk_bytes", (json_int_t)t->disk_bytes, "graph_file", file_json(&t->file));
}

static const char *payload_text(enum trace_payload p)
{
    static const char *const texts[] = { "", ": every part", ": what control mode keeps, large floating-point data is synthetic",
                                         ": none are delivered" };
    return texts[p];
}

static void print_info(const char *dir, const struct trace_manifest *m, const struct graph *g, const struct totals *t)
{
    char raw[40], disk[40];
    char *ranks = format_ranks(m->sandbox, m->nsandbox);
    printf("Trace %s (%s), captured %s\n", m->trace_id ? m->trace_id : "?", dir, m->created ? m->created : "?");
    printf("  program        ");
    for (char *const *arg = m->argv; arg && *arg; arg++)
        printf(" %s", *arg);
    printf("\n  directory       %s\n", m->cwd ? m->cwd : "?");
    printf("  world           %u ranks, %u a node, captured on %u node%s\n", m->world, m->gpus_per_node, m->nodes,
           m->nodes == 1 ? "" : "s");
    printf("  state           %s, %s\n", m->complete ? "complete" : "incomplete (emulation refuses it)",
           m->calibrated ? "calibrated" : "not calibrated");
    printf("  sandbox ranks   %s (payload sums are exact for these)\n", m->nsandbox ? ranks : "none");
    if (m->fold)
        printf("  folded          %s of the layout %s: representatives ran (prism report says how many)\n", m->fold, m->layout);
    printf("  iterations      %u\n", m->iterations);
    printf("  structure       %u classes of ranks, %u communicators, %llu nodes of which %llu groups; %llu ranks "
           "measured\n",
           g->nclasses, g->ncomms, (unsigned long long)t->nodes, (unsigned long long)t->comm_nodes,
           (unsigned long long)t->measured);
    for (int op = 0; op < OPS; op++)
        if (t->by_op[op])
            printf("    %-14s %llu\n", prism_op_name(op), (unsigned long long)t->by_op[op]);
    print_file(&t->file);
    if (t->payload_error[0])
        printf("  payloads        %s\n", t->payload_error);
    else
        printf("  payloads        %llu, %s (%s on disk)%s\n", (unsigned long long)t->payloads,
               format_bytes(raw, sizeof(raw), (double)t->raw_bytes),
               format_bytes(disk, sizeof(disk), (double)t->disk_bytes), payload_text(m->payload));
    free(ranks);
}

int cli_info(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first != 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    if (values[RANK] && values[COMMUNICATOR])
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--rank or --communicator, not both");
    if (values[RANK])
        return info_rank(argv[first], values[RANK], values[JSON] != NULL, argv[0]);
    if (values[COMMUNICATOR])
        return info_communicator(argv[first], values[COMMUNICATOR], values[JSON] != NULL, argv[0]);
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct graph *graph;
    struct totals totals = { 0 };
    if (cli_load_trace(argv[first], NULL, &manifest, &graph, &err) != 0) {
        if (!values[JSON])
            print_saved(argv[first]);
        return cli_fail_error(argv[0], &err);
    }
    count_file(argv[first], &totals);
    if (graph->nclasses == 0)
        graph_find_classes(graph);
    count_graph(graph, &totals);
    count_payloads(argv[first], &manifest, &totals);
    int result = 0;
    if (values[JSON])
        result = print_json(info_json(&manifest, graph, &totals));
    else
        print_info(argv[first], &manifest, graph, &totals);
    /* A capture that did not end well has none. */
    if (result == 0 && manifest.complete && totals.payload_error[0])
        result = cli_fail(argv[0], PRISM_EXIT_TRACE, "%s", totals.payload_error);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return result;
}
