#include "info_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/types.h"
#include "graph/file.h"
#include "spank/parse.h"
#include "trace/trace.h"

/* The graph of a trace, by parts where its version has them. */
struct source {
    struct graph_file *file;
    struct graph *whole; /* version 1: all of it had to be read */
    uint32_t world, ncomms;
};

static int source_open(struct source *s, const char *dir, struct prism_error *err)
{
    char path[4096];
    struct trace_manifest m = { 0 };
    struct graph_file_info info;
    *s = (struct source){ 0 };
    snprintf(path, sizeof(path), "%s/graph.bin", dir);
    if (trace_manifest_read(dir, &m, err) != 0)
        return -1;
    s->file = graph_file_map(path, err);
    if (s->file) {
        graph_file_info(s->file, &info);
        s->world = info.world;
        s->ncomms = info.ncomms;
        /* Iterations stand with each rank: those that are printed are the graph's. */
        struct trace_graph facts = { info.world, info.gpus_per_node, TRACE_ITERATIONS_UNKNOWN };
        int rc = cli_check_trace(dir, NULL, &m, &facts, err);
        trace_manifest_clear(&m);
        if (rc)
            graph_file_close(s->file);
        return rc;
    }
    trace_manifest_clear(&m);
    *err = (struct prism_error){ 0 };
    if (cli_load_trace(dir, NULL, &m, &s->whole, err) != 0)
        return -1;
    trace_manifest_clear(&m);
    s->world = s->whole->world;
    s->ncomms = s->whole->ncomms;
    return 0;
}

static void source_close(struct source *s)
{
    graph_file_close(s->file);
    graph_destroy(s->whole);
}

/* graph_rank_clear it. */
static int take_rank(struct source *s, uint32_t rank, struct graph_rank *out, struct prism_error *err)
{
    if (s->file)
        return graph_file_rank(s->file, rank, out, err);
    *out = s->whole->ranks[rank];
    s->whole->ranks[rank] = (struct graph_rank){ 0 };
    return 0;
}

static int take_comm(struct source *s, uint32_t comm, const struct graph_comm **out, struct prism_error *err)
{
    if (s->file)
        return graph_file_comm(s->file, comm, out, err);
    *out = &s->whole->comms[comm];
    return 0;
}

/* ---- Groups ---- */

static uint32_t iteration_of(const struct graph_rank *r, uint32_t node)
{
    uint32_t i = 0;
    while (i < r->niterations && r->iterations[i] <= node)
        i++;
    return i && node >= r->iterations[r->niterations] ? 0 : i; /* counted from 1; 0: set-up, or behind the last */
}

static json_t *part_json(const struct graph_part *p, const struct graph_comm *c)
{
    bool peer = (coll_op_is_p2p(p->op) || coll_op_is_rooted(p->op)) && p->peer >= 0 && (uint32_t)p->peer < c->size;
    return json_pack("{s:s, s:I, s:s, s:s*, s:o*}", "op", prism_op_name(p->op), "count", (json_int_t)p->count, "datatype",
                     coll_datatype_name(p->datatype), "reduction", coll_op_is_reduction(p->op) ? coll_redop_name(p->redop) : NULL,
                     coll_op_is_p2p(p->op) ? "peer" : "root", peer ? json_integer(c->ranks[p->peer]) : NULL);
}

static json_t *group_json(uint32_t rank, const struct graph_rank *r, uint32_t node, const struct graph_comm *c)
{
    const struct graph_node *n = &r->nodes[node];
    json_t *parts = json_array();
    for (uint32_t k = 0; k < n->nparts; k++)
        json_array_append_new(parts, part_json(&r->parts[n->first_part + k], c));
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "rank", (int)rank, "node", (int)node, "iteration",
                     (int)iteration_of(r, node), "stream", (int)n->stream, "communicator", (int)r->comms[n->comm].global,
                     "group", (int)n->ordinal, "operations", parts);
}

/* Groups of the rank, on one communicator alone unless only is -1. */
static int add_groups(struct source *s, uint32_t rank, const struct graph_rank *r, int32_t only, json_t *groups,
                      struct prism_error *err)
{
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        const struct graph_comm *c;
        if (n->kind != GRAPH_COMM || n->comm >= r->ncomms || (only >= 0 && r->comms[n->comm].global != only))
            continue;
        if (r->comms[n->comm].global < 0 || take_comm(s, (uint32_t)r->comms[n->comm].global, &c, err) != 0)
            return -1;
        json_array_append_new(groups, group_json(rank, r, i, c));
    }
    return 0;
}

static json_t *ranks_json(const struct graph_comm *c)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < c->size; i++)
        json_array_append_new(list, json_integer(c->ranks[i]));
    return list;
}

static json_t *comm_json(const struct graph_comm *c, int32_t number)
{
    return json_pack("{s:i, s:o}", "communicator", (int)number, "ranks", ranks_json(c));
}

/* ---- Printing ---- */

static void print_ranks(json_t *list)
{
    size_t n = json_array_size(list);
    uint32_t *ranks = malloc((n + 1) * sizeof(*ranks));
    if (!ranks)
        abort();
    for (size_t i = 0; i < n; i++)
        ranks[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    char *text = format_ranks(ranks, n);
    printf("%s\n", text);
    free(text);
    free(ranks);
}

static void print_groups(json_t *groups)
{
    size_t i, k;
    json_t *group, *part;
    printf("%8s %8s %9s %6s %12s %6s  operations\n", "rank", "node", "iteration", "stream", "communicator", "group");
    json_array_foreach(groups, i, group) {
        printf("%8lld %8lld %9lld %6lld %12lld %6lld ", json_integer_value(json_object_get(group, "rank")),
               json_integer_value(json_object_get(group, "node")), json_integer_value(json_object_get(group, "iteration")),
               json_integer_value(json_object_get(group, "stream")), json_integer_value(json_object_get(group, "communicator")),
               json_integer_value(json_object_get(group, "group")));
        json_array_foreach(json_object_get(group, "operations"), k, part) {
            json_t *peer = json_object_get(part, "peer"), *root = json_object_get(part, "root");
            printf("%s %s of %lld x %s", k ? "," : "", json_string_value(json_object_get(part, "op")),
                   json_integer_value(json_object_get(part, "count")), json_string_value(json_object_get(part, "datatype")));
            if (peer)
                printf(" with rank %lld", json_integer_value(peer));
            if (root)
                printf(" root rank %lld", json_integer_value(root));
        }
        printf("\n");
    }
}

static int print_part(json_t *all, bool as_json)
{
    json_t *comms = json_object_get(all, "communicators"), *comm;
    size_t i;
    if (as_json)
        return print_json(all);
    if (json_object_get(all, "rank"))
        printf("rank %lld: class %lld, %lld nodes, %lld iterations, %s\n", json_integer_value(json_object_get(all, "rank")),
               json_integer_value(json_object_get(all, "class")), json_integer_value(json_object_get(all, "nodes")),
               json_integer_value(json_object_get(all, "iterations")),
               json_is_true(json_object_get(all, "measured")) ? "measured" : "not measured itself");
    json_array_foreach(comms, i, comm) {
        printf("communicator %lld: ranks ", json_integer_value(json_object_get(comm, "communicator")));
        print_ranks(json_object_get(comm, "ranks"));
    }
    print_groups(json_object_get(all, "groups"));
    json_decref(all);
    return 0;
}

/* ---- The two questions ---- */

static json_t *describe_rank(struct source *s, uint32_t rank, struct prism_error *err)
{
    struct graph_rank r;
    json_t *comms = json_array(), *groups = json_array();
    if (take_rank(s, rank, &r, err) != 0) {
        json_decref(comms);
        json_decref(groups);
        return NULL;
    }
    int failed = 0;
    for (uint32_t i = 0; i < r.ncomms && !failed; i++) {
        const struct graph_comm *c;
        if (r.comms[i].global < 0)
            continue;
        failed = take_comm(s, (uint32_t)r.comms[i].global, &c, err);
        if (!failed)
            json_array_append_new(comms, comm_json(c, r.comms[i].global));
    }
    failed = failed || add_groups(s, rank, &r, -1, groups, err) != 0;
    json_t *all = json_pack("{s:i, s:i, s:i, s:i, s:b, s:o, s:o}", "rank", (int)rank, "class", (int)r.klass, "nodes",
                            (int)r.nnodes, "iterations", (int)r.niterations, "measured", r.device_work != NULL,
                            "communicators", comms, "groups", groups);
    graph_rank_clear(&r);
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *describe_comm(struct source *s, uint32_t comm, struct prism_error *err)
{
    const struct graph_comm *c;
    if (take_comm(s, comm, &c, err) != 0)
        return NULL;
    json_t *groups = json_array();
    int failed = 0;
    for (uint32_t m = 0; m < c->size && !failed; m++) {
        struct graph_rank r;
        uint32_t rank = (uint32_t)c->ranks[m];
        failed = rank >= s->world ? prism_error_set(err, PRISM_EXIT_TRACE, "communicator %u has a member outside the world", comm)
                                  : take_rank(s, rank, &r, err);
        if (failed)
            break;
        failed = add_groups(s, rank, &r, (int32_t)comm, groups, err);
        graph_rank_clear(&r);
    }
    json_t *all = json_pack("{s:[o], s:o}", "communicators", comm_json(c, (int32_t)comm), "groups", groups);
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

static int info_part(const char *dir, const char *number, const char *what, bool of_rank, bool as_json, const char *command)
{
    struct prism_error err = { 0 };
    struct source s;
    uint64_t chosen;
    if (source_open(&s, dir, &err) != 0)
        return cli_fail_error(command, &err);
    uint32_t n = of_rank ? s.world : s.ncomms;
    if (!n || parse_number(number, 0, n - 1, &chosen, &err) != 0) {
        source_close(&s);
        return cli_fail(command, PRISM_EXIT_USAGE, "--%s=%s: the trace has %u of them, counted from 0", what, number, n);
    }
    json_t *all = of_rank ? describe_rank(&s, (uint32_t)chosen, &err) : describe_comm(&s, (uint32_t)chosen, &err);
    source_close(&s);
    return all ? print_part(all, as_json) : cli_fail_error(command, &err);
}

int info_rank(const char *dir, const char *number, bool as_json, const char *command)
{
    return info_part(dir, number, "rank", true, as_json, command);
}

int info_communicator(const char *dir, const char *number, bool as_json, const char *command)
{
    return info_part(dir, number, "communicator", false, as_json, command);
}
