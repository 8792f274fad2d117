/* misfit.c - put into a good trace what programs get wrong, at any size: `misfit TRACE FAULT RANK OP NUMBER [incomplete]`.
 *
 * OP NUMBER is the rank's NUMBER'th group (from 0) that begins with that operation ("AllReduce", "Send", …). FAULT:
 *   count, datatype   the rank's own is another
 *   root              all members broadcast there; the rank takes itself for the root
 *   swap              the rank does this group and its next one in the other order
 *   drop              the rank leaves the group out
 *   end               the rank makes no call from this one on
 * incomplete: the trace is left as a capture that hung leaves it: the host waits at the end of each iteration, what
 * iterations are is not known yet, and trace.json says that it is not complete.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/file.h"
#include "graph/graph.h"
#include "trace/trace.h"

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "misfit: %s: %s\n", what, why);
    exit(1);
}

static const struct graph_part *first_part(const struct graph_rank *r, uint32_t node)
{
    return &r->parts[r->nodes[node].first_part];
}

static uint32_t find_group(const struct graph_rank *r, const char *op, uint32_t number)
{
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM && !strcmp(prism_op_name(first_part(r, i)->op), op) && !number--)
            return i;
    give_up(op, "the rank has not so many");
    return 0;
}

/* Ordinals count the groups of a communicator. */
static void renumber(struct graph_rank *r)
{
    uint32_t *next = calloc(r->ncomms + 1u, sizeof *next);
    if (!next)
        abort();
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM)
            r->nodes[i].ordinal = next[r->nodes[i].comm]++;
    free(next);
}

static void swap(struct graph_rank *r, uint32_t node)
{
    uint32_t other = node + 1;
    while (other < r->nnodes && r->nodes[other].kind != GRAPH_COMM)
        other++;
    if (other == r->nnodes)
        give_up("swap", "the rank has no group behind it");
    struct graph_node *a = &r->nodes[node], *b = &r->nodes[other], was = *a;
    a->comm = b->comm, a->first_part = b->first_part, a->nparts = b->nparts;
    b->comm = was.comm, b->first_part = was.first_part, b->nparts = was.nparts;
}

/* A node without operations stands in its place, so that distances hold. */
static void drop(struct graph_rank *r, uint32_t node)
{
    struct graph_node *n = &r->nodes[node];
    n->kind = GRAPH_RECORD;
    n->comm = n->ordinal = n->nparts = 0;
}

static void end(struct graph_rank *r, uint32_t node)
{
    r->nnodes = node;
    for (uint32_t i = 0; r->niterations && i <= r->niterations; i++)
        if (r->iterations[i] > node)
            r->iterations[i] = node;
}

static void broadcast(struct graph *g, uint32_t rank, uint32_t node)
{
    const struct graph_node *n = &g->ranks[rank].nodes[node];
    int32_t global = g->ranks[rank].comms[n->comm].global, self = g->ranks[rank].comms[n->comm].rank;
    uint32_t ordinal = n->ordinal;
    for (uint32_t m = 0; m < g->comms[global].size; m++) {
        struct graph_rank *r = &g->ranks[g->comms[global].ranks[m]];
        for (uint32_t i = 0; i < r->nnodes; i++) {
            const struct graph_node *its = &r->nodes[i];
            if (its->kind != GRAPH_COMM || r->comms[its->comm].global != global || its->ordinal != ordinal)
                continue;
            graph_rank_own(r);
            struct graph_part *p = &r->parts[r->nodes[i].first_part];
            p->op = PRISM_OP_BROADCAST;
            p->redop = 0;
            p->peer = (int32_t)m == self ? self : self ? 0 : 1;
        }
    }
}

static void plant(struct graph *g, const char *fault, uint32_t rank, uint32_t node)
{
    struct graph_rank *r = &g->ranks[rank];
    graph_rank_own(r);
    struct graph_part *p = &r->parts[r->nodes[node].first_part];
    if (!strcmp(fault, "count"))
        p->count++;
    else if (!strcmp(fault, "datatype"))
        p->datatype = p->datatype == COLL_INT32 ? COLL_INT64 : COLL_INT32;
    else if (!strcmp(fault, "root"))
        broadcast(g, rank, node);
    else if (!strcmp(fault, "swap"))
        swap(r, node);
    else if (!strcmp(fault, "drop"))
        drop(r, node);
    else if (!strcmp(fault, "end"))
        end(r, node);
    else
        give_up(fault, "unknown fault");
    renumber(r);
}

/* Behind the last node of each iteration its stream is recorded, and the host waits for that. */
static void add_waits(struct graph_rank *r)
{
    struct graph_node *nodes = calloc(r->nnodes + 2u * r->niterations + 1, sizeof *nodes);
    uint32_t n = 0;
    if (!nodes)
        abort();
    graph_rank_own(r);
    for (uint32_t k = 0; k < r->niterations; k++) {
        for (uint32_t i = k ? r->iterations[k] : 0; i < r->iterations[k + 1]; i++) {
            if (r->nodes[i].dep > i - (k ? r->iterations[k] : 0))
                give_up("incomplete", "nodes of this trace wait for those of another iteration");
            nodes[n++] = r->nodes[i];
        }
        if (r->iterations[k + 1] == r->iterations[k])
            continue;
        nodes[n] = (struct graph_node){.kind = GRAPH_RECORD, .stream = nodes[n - 1].stream};
        nodes[n + 1] = (struct graph_node){.kind = GRAPH_SYNC, .dep = 1};
        n += 2;
    }
    free(r->nodes);
    r->nodes = nodes;
    r->nnodes = n;
    r->niterations = 0;
}

static void leave_incomplete(const char *dir, struct graph *g)
{
    struct trace_manifest m = {0};
    struct prism_error err = {0};
    for (uint32_t i = 0; i < g->world; i++)
        add_waits(&g->ranks[i]);
    graph_share(g);
    if (trace_manifest_read(dir, &m, &err))
        give_up(dir, err.text);
    m.complete = false;
    if (trace_manifest_write(dir, &m, &err))
        give_up(dir, err.text);
    trace_manifest_clear(&m);
}

int main(int argc, char **argv)
{
    char path[4096];
    struct bytes data = {0};
    struct prism_error err = {0};
    if (argc < 6)
        give_up("usage", "misfit TRACE FAULT RANK OP NUMBER [incomplete]");
    snprintf(path, sizeof path, "%s/graph.bin", argv[1]);
    struct graph *g = file_read(path, (size_t)4 << 30, &data, &err) ? NULL : graph_read(data.data, data.len, &err);
    if (!g)
        give_up(path, err.text);
    uint32_t rank = (uint32_t)strtoul(argv[3], NULL, 10);
    if (rank >= g->world)
        give_up(argv[3], "no such rank");
    plant(g, argv[2], rank, find_group(&g->ranks[rank], argv[4], (uint32_t)strtoul(argv[5], NULL, 10)));
    if (argc > 6)
        leave_incomplete(argv[1], g);
    /* Calibrated works belong to nodes that may be gone: without them nothing is lost here. */
    for (uint32_t i = 0; i < g->world; i++) {
        free(g->ranks[i].device_work);
        free(g->ranks[i].host_work);
        g->ranks[i].device_work = g->ranks[i].host_work = NULL;
    }
    graph_write(g, &data);
    if (file_write_atomic(path, data.data, data.len, 0644, &err))
        give_up(path, err.text);
    bytes_free(&data);
    graph_destroy(g);
    return 0;
}
