/* export_chakra.c - ranks as Chakra execution traces, for ASTRA-sim and Chakra's own tools.
 *
 * S. Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using Standardized Execution Traces", 2023;
 * messages and field numbers: package ChakraProtoMsg, et_def.proto of github.com/mlcommons/chakra. A file is messages, each
 * behind its length as a varint: one GlobalMetadata, then Nodes whose dependencies come before them.
 *
 * What follows from graph.h, section 1: work becomes a COMP_NODE (of the device or of the host), a part of a group a COMM_*_NODE;
 * events, waits and synchronisations have no node: they are dependencies. A line of the rank (stream, host thread) carries
 * the set of nodes that must have ended for it to have got here, which is the next node's dependencies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/bytes.h"
#include "common/file.h"
#include "export_private.h"

/* --- 1. The wire format: https://protobuf.dev/programming-guides/encoding --- */

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void put_varint(struct bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        bytes_put_u8(b, (uint8_t)(v | 128));
    bytes_put_u8(b, (uint8_t)v);
}

static void put_number(struct bytes *b, unsigned field, uint64_t v)
{
    put_varint(b, field << 3 | WIRE_VARINT);
    put_varint(b, v);
}

static void put_block(struct bytes *b, unsigned field, const void *data, size_t len)
{
    put_varint(b, field << 3 | WIRE_BYTES);
    put_varint(b, len);
    bytes_put(b, data, len);
}

/* --- 2. Messages --- */

enum { METADATA_VERSION = 1 };
enum { NODE_ID = 1, NODE_NAME, NODE_TYPE, NODE_CTRL_DEPS, NODE_DATA_DEPS, NODE_START, NODE_DURATION, NODE_ATTR = 10 };
enum { TYPE_COMP = 4, TYPE_SEND, TYPE_RECV, TYPE_COLL };
enum { ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_UINT64 = 13, ATTR_BOOL = 27, ATTR_STRING = 29 };

#define SCHEMA_VERSION "0.0.4"

/* Nodes that must have ended. More than DEPS_MAX become one of no duration. */
#define DEPS_MAX 8
struct deps {
    uint32_t n;
    uint64_t id[DEPS_MAX];
};

struct chakra {
    const struct export_request *q;
    struct duration_model model;
    uint8_t *used; /* communicators, by their index in the graph */
    FILE *out;
    struct bytes node, attr; /* of the node that is being made */
    uint32_t rank;
    uint64_t next_id;
    struct deps *stream, *host; /* by line */
    struct deps *record;        /* by node - begin: RECORDs */
    uint32_t begin;
    double *stream_us, *host_us; /* work so far: durations are whole microseconds, and their sums stay right */
};

static void attr_number(struct chakra *c, const char *name, unsigned field, uint64_t v)
{
    bytes_clear(&c->attr);
    put_block(&c->attr, ATTR_NAME, name, strlen(name));
    put_number(&c->attr, field, v);
    put_block(&c->node, NODE_ATTR, c->attr.data, c->attr.len);
}

static void attr_text(struct chakra *c, const char *name, const char *text)
{
    bytes_clear(&c->attr);
    put_block(&c->attr, ATTR_NAME, name, strlen(name));
    put_block(&c->attr, ATTR_STRING, text, strlen(text));
    put_block(&c->node, NODE_ATTR, c->attr.data, c->attr.len);
}

static void write_message(FILE *out, const struct bytes *b)
{
    struct bytes length = { 0 };
    put_varint(&length, b->len);
    fwrite(length.data, 1, length.len, out);
    fwrite(b->data, 1, b->len, out);
    bytes_free(&length);
}

static void node_begin(struct chakra *c, const char *name, unsigned type, const struct deps *deps, uint64_t micros, bool host)
{
    struct bytes packed = { 0 };
    bytes_clear(&c->node);
    put_number(&c->node, NODE_ID, c->next_id);
    put_block(&c->node, NODE_NAME, name, strlen(name));
    put_number(&c->node, NODE_TYPE, type);
    for (uint32_t i = 0; i < deps->n; i++)
        put_varint(&packed, deps->id[i]);
    if (packed.len)
        put_block(&c->node, NODE_DATA_DEPS, packed.data, packed.len);
    put_number(&c->node, NODE_DURATION, micros);
    attr_number(c, "is_cpu_op", ATTR_BOOL, host);
    bytes_free(&packed);
}

static uint64_t node_end(struct chakra *c)
{
    write_message(c->out, &c->node);
    return c->next_id++;
}

/* --- 3. Dependencies --- */

static void deps_one(struct deps *d, uint64_t id)
{
    *d = (struct deps){ .n = 1, .id = { id } };
}

static void deps_add(struct chakra *c, struct deps *d, uint64_t id)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->id[i] == id)
            return;
    if (d->n == DEPS_MAX) {
        node_begin(c, "join", TYPE_COMP, d, 0, false);
        deps_one(d, node_end(c));
    }
    d->id[d->n++] = id;
}

static void deps_add_all(struct chakra *c, struct deps *d, const struct deps *more)
{
    for (uint32_t i = 0; i < more->n; i++)
        deps_add(c, d, more->id[i]);
}

/* --- 4. Nodes --- */

/* Whole microseconds of ns more on a line that has done *before. */
static uint64_t whole_micros(double *before_us, double ns)
{
    uint64_t before = (uint64_t)(*before_us + 0.5);
    *before_us += ns * 1e-3;
    return (uint64_t)(*before_us + 0.5) - before;
}

static void put_work(struct chakra *c, struct deps *line, double *line_us, float work, bool host)
{
    uint64_t ns = (uint64_t)graph_whole_ns(work);
    if (!ns)
        return;
    node_begin(c, host ? "host work" : "work", TYPE_COMP, line, whole_micros(line_us, work), host);
    attr_number(c, "duration_ns", ATTR_UINT64, ns);
    deps_one(line, node_end(c));
}

static int collective_type(int op)
{
    static const int types[PRISM_OP_END] = { [PRISM_OP_ALLREDUCE] = 0, [PRISM_OP_REDUCE] = 1, [PRISM_OP_ALLGATHER] = 2,
        [PRISM_OP_GATHER] = 3, [PRISM_OP_SCATTER] = 4, [PRISM_OP_BROADCAST] = 5, [PRISM_OP_ALLTOALL] = 6, [PRISM_OP_REDUCESCATTER] = 7 };
    return types[op];
}

static uint64_t put_part(struct chakra *c, const struct graph_member *member, const struct graph_part *part, const struct deps *deps)
{
    const struct graph_comm *comm = &c->q->g->comms[member->global];
    uint64_t micros = (uint64_t)(duration_ns(&c->model, c->q->g, (uint32_t)member->global, member->rank, part, 1) * 1e-3 + 0.5);
    char text[16];
    bool p2p = coll_op_is_p2p(part->op), send = part->op == PRISM_OP_SEND;
    node_begin(c, prism_op_name(part->op), p2p ? send ? TYPE_SEND : TYPE_RECV : TYPE_COLL, deps, micros, false);
    if (p2p) {
        uint32_t peer = (uint32_t)comm->ranks[part->peer];
        attr_number(c, "comm_src", ATTR_INT32, send ? c->rank : peer);
        attr_number(c, "comm_dst", ATTR_INT32, send ? peer : c->rank);
        attr_number(c, "comm_tag", ATTR_INT32, (uint64_t)member->global);
        attr_number(c, "comm_size", ATTR_INT64, part->count * coll_datatype_size(part->datatype));
        return node_end(c);
    }
    c->used[member->global] = 1;
    snprintf(text, sizeof(text), "%d", member->global + 1);
    attr_number(c, "comm_type", ATTR_INT64, (uint64_t)collective_type(part->op));
    /* What one rank puts in; the root where there is one. */
    attr_number(c, "comm_size", ATTR_INT64,
                coll_input_count(part->op, part->count, 0, 0, (int)comm->size) * coll_datatype_size(part->datatype));
    attr_text(c, "pg_name", text);
    if (coll_op_is_rooted(part->op))
        attr_number(c, "root", ATTR_INT32, (uint64_t)part->peer);
    return node_end(c);
}

/* Messages of a rank to itself take no time, and ASTRA-sim refuses them: they are left out. */
static void put_group(struct chakra *c, const struct graph_rank *r, const struct graph_node *node, const struct deps *deps, struct deps *after)
{
    const struct graph_member *member = &r->comms[node->comm];
    *after = (struct deps){ 0 };
    for (uint32_t i = 0; i < node->nparts; i++) {
        const struct graph_part *part = &r->parts[node->first_part + i];
        if (!coll_op_is_p2p(part->op) || part->peer != member->rank)
            deps_add(c, after, put_part(c, member, part, deps));
    }
    if (!after->n)
        *after = *deps;
}

static void put_node(struct chakra *c, const struct graph_rank *r, uint32_t v)
{
    const struct graph_node *node = &r->nodes[v];
    struct deps *host = &c->host[node->host], *stream = &c->stream[node->stream], joined;
    const struct deps *waited = node->dep && node->dep <= v - c->begin ? &c->record[v - node->dep - c->begin] : NULL;
    put_work(c, host, &c->host_us[node->host], graph_host_work(c->q->g, c->rank, v), true);
    if (node->kind == GRAPH_SYNC) {
        if (waited)
            deps_add_all(c, host, waited);
        return;
    }
    put_work(c, stream, &c->stream_us[node->stream], graph_device_work(c->q->g, c->rank, v), false);
    joined = *stream;
    deps_add_all(c, &joined, host);
    if (waited)
        deps_add_all(c, &joined, waited);
    if (node->kind == GRAPH_COMM)
        put_group(c, r, node, &joined, stream);
    else
        *stream = joined;
    if (node->kind == GRAPH_RECORD)
        c->record[v - c->begin] = *stream;
}

/* --- 5. Files --- */

static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        abort();
    return p;
}

static int write_rank(struct chakra *c, const char *dir, uint32_t rank, struct prism_error *err)
{
    const struct graph_rank *r = &c->q->g->ranks[rank];
    char path[4096];
    uint32_t end;
    snprintf(path, sizeof(path), "%s/trace.%u.et", dir, rank);
    if (!(c->out = fopen(path, "we")))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
    c->rank = rank;
    c->next_id = 0;
    export_range(c->q, rank, &c->begin, &end);
    c->stream = zeros(r->nstreams, sizeof(*c->stream)), c->stream_us = zeros(r->nstreams, sizeof(double));
    c->host = zeros(r->nhosts, sizeof(*c->host)), c->host_us = zeros(r->nhosts, sizeof(double));
    c->record = zeros(end - c->begin, sizeof(*c->record));
    bytes_clear(&c->node);
    put_block(&c->node, METADATA_VERSION, SCHEMA_VERSION, strlen(SCHEMA_VERSION));
    write_message(c->out, &c->node);
    for (uint32_t v = c->begin; v < end; v++)
        put_node(c, r, v);
    free(c->stream), free(c->stream_us);
    free(c->host), free(c->host_us);
    free(c->record);
    bool bad = ferror(c->out) != 0;
    if (fclose(c->out) != 0 || bad)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written", path);
    return 0;
}

/* ASTRA-sim's comm-group-configuration: {"number": [ranks]}; numbers count from 1, as it wants them. */
static int write_groups(const struct chakra *c, const char *dir, struct prism_error *err)
{
    char path[4096];
    const char *separator = "";
    snprintf(path, sizeof(path), "%s/comm_groups.json", dir);
    FILE *out = fopen(path, "we");
    if (!out)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
    fprintf(out, "{");
    for (uint32_t i = 0; i < c->q->g->ncomms; i++) {
        const struct graph_comm *comm = &c->q->g->comms[i];
        if (!c->used[i])
            continue;
        fprintf(out, "%s\n  \"%u\": [", separator, i + 1);
        for (uint32_t k = 0; k < comm->size; k++)
            fprintf(out, "%s%d", k ? ", " : "", comm->ranks[k]);
        fprintf(out, "]");
        separator = ",";
    }
    fprintf(out, "\n}\n");
    bool bad = ferror(out) != 0;
    return fclose(out) != 0 || bad ? prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written", path) : 0;
}

int export_chakra(const struct export_request *q, const char *dir, struct prism_error *err)
{
    struct chakra c = { .q = q, .used = zeros(q->g->ncomms, 1) };
    int result = file_make_dirs(dir, 0777, err);
    duration_model_init(&c.model, q->g, q->network);
    c.model.measured = q->measured;
    for (uint32_t i = 0; i < q->nranks && result == 0; i++)
        result = write_rank(&c, dir, q->ranks[i], err);
    if (result == 0)
        result = write_groups(&c, dir, err);
    duration_model_clear(&c.model);
    bytes_free(&c.node);
    bytes_free(&c.attr);
    free(c.used);
    return result;
}
