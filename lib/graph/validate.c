#include "graph/validate.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "graph/feeds.h"
#include "graph/share.h"

static int bad(struct prism_error *err, uint32_t rank, uint32_t node, const char *what)
{
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "graph: rank %u, node %u: %s; the trace is damaged: capture again", rank, node,
                           what);
}

static int validate_comms(const struct graph *g, struct prism_error *err)
{
    for (uint32_t i = 0; i < g->ncomms; i++)
        for (uint32_t m = 0; m < g->comms[i].size; m++)
            if (g->comms[i].ranks[m] < 0 || (uint32_t)g->comms[i].ranks[m] >= g->world)
                return prism_error_set(
                    err, PRISM_EXIT_TRACE,
                    "graph: communicator %u: member %u is rank %d, outside the world of %u; the "
                    "trace is damaged: capture again",
                    i, m, g->comms[i].ranks[m], g->world);
    return 0;
}

static int validate_members(const struct graph *g, uint32_t rank, struct prism_error *err)
{
    const struct graph_rank *r = &g->ranks[rank];
    for (uint32_t i = 0; i < r->ncomms; i++) {
        struct graph_member m = r->comms[i];
        if (m.global == -1)
            continue;
        if (m.global < 0 || (uint32_t)m.global >= g->ncomms || m.rank < 0 ||
            (uint32_t)m.rank >= g->comms[m.global].size || g->comms[m.global].ranks[m.rank] != (int32_t)rank)
            return prism_error_set(
                err, PRISM_EXIT_TRACE,
                "graph: rank %u is not the member that its communicator %u says it is; the trace "
                "is damaged: capture again",
                rank, i);
    }
    return 0;
}

static const char *part_fault(const struct graph_part *part, uint32_t comm_size)
{
    enum graph_feeds feeds = graph_feeds(part->op);
    if (feeds == GRAPH_FEEDS_NONE)
        return "unknown operation";
    if (!graph_datatype_size(part->datatype))
        return "unknown datatype";
    if (feeds != GRAPH_FEEDS_ALL && (part->peer < 0 || (uint32_t)part->peer >= comm_size))
        return "peer or root outside the communicator";
    return NULL;
}

static const char *node_fault(const struct graph *g, const struct graph_rank *r, uint32_t i)
{
    const struct graph_node *n = &r->nodes[i];
    if (n->kind < GRAPH_COMM || n->kind > GRAPH_JOIN)
        return "unknown kind of node";
    if (n->host >= r->nhosts)
        return "unknown host thread";
    if (n->kind != GRAPH_SYNC && n->stream >= r->nstreams)
        return "unknown stream";
    if (n->dep > i)
        return "waits for a node before the first";
    if (n->dep && r->nodes[i - n->dep].kind == GRAPH_SYNC)
        return "waits for a host synchronisation";
    if (n->kind != GRAPH_COMM)
        return n->nparts ? "has operations but is none" : NULL;
    if (!n->nparts || n->first_part > r->nparts || n->nparts > r->nparts - n->first_part)
        return "operations missing";
    if (n->comm >= r->ncomms || r->comms[n->comm].global < 0)
        return "uses a communicator its rank is no member of";
    const char *fault = NULL;
    for (uint32_t p = 0; p < n->nparts && !fault; p++)
        fault = part_fault(&r->parts[n->first_part + p], g->comms[r->comms[n->comm].global].size);
    return fault;
}

/* Times are sums of works in int64_t nanoseconds. */
static int validate_works(const struct graph_rank *r, uint32_t rank, const float *works,
                          struct prism_error *err)
{
    for (uint32_t i = 0; works && i < r->nnodes; i++)
        if (!(works[i] >= 0 && works[i] <= GRAPH_WORK_MAX))
            return bad(err, rank, i, "has a work that is no duration");
    return 0;
}

static int validate_iterations(const struct graph_rank *r, uint32_t rank, struct prism_error *err)
{
    for (uint32_t i = 0; r->niterations && i <= r->niterations; i++)
        if (r->iterations[i] > r->nnodes || (i && r->iterations[i] < r->iterations[i - 1]))
            return bad(err, rank, r->iterations[i], "is no place for an iteration to begin");
    return 0;
}

/* Ranks that share their arrays, in communicators of the same sizes, are looked at once. */
struct seen {
    struct {
        const struct graph_node *nodes;
        const struct graph_part *parts;
        uint64_t sizes; /* of communicators, hash */
        uint32_t ncomms;
        uint32_t nnodes, nparts, nstreams, nhosts;
    } id;
    UT_hash_handle hh;
};

static bool seen_before(struct seen **table, const struct graph *g, const struct graph_rank *r)
{
    struct seen *s, key;
    if (!r->nodes_shared || !r->parts_shared)
        return false;
    memset(&key, 0, sizeof key);
    key.id.nodes = r->nodes;
    key.id.parts = r->parts;
    key.id.sizes = shared_hash_places(g, r, NULL);
    key.id.ncomms = r->ncomms;
    key.id.nnodes = r->nnodes;
    key.id.nparts = r->nparts;
    key.id.nstreams = r->nstreams;
    key.id.nhosts = r->nhosts;
    HASH_FIND(hh, *table, &key.id, sizeof key.id, s);
    if (s)
        return true;
    s = malloc(sizeof *s);
    if (!s)
        abort();
    *s = key;
    HASH_ADD(hh, *table, id, sizeof s->id, s);
    return false;
}

static int validate_ranks(const struct graph *g, struct seen **table, struct prism_error *err)
{
    for (uint32_t rank = 0; rank < g->world; rank++) {
        const struct graph_rank *r = &g->ranks[rank];
        if (validate_members(g, rank, err) || validate_iterations(r, rank, err) ||
            validate_works(r, rank, r->device_work, err) || validate_works(r, rank, r->host_work, err))
            return -1;
        if (seen_before(table, g, r))
            continue;
        for (uint32_t i = 0; i < r->nnodes; i++) {
            const char *fault = node_fault(g, r, i);
            if (fault)
                return bad(err, rank, i, fault);
        }
    }
    return 0;
}

int graph_validate(const struct graph *g, struct prism_error *err)
{
    struct seen *table = NULL, *s, *next;
    int rc = validate_comms(g, err);
    if (!rc)
        rc = validate_ranks(g, &table, err);
    HASH_ITER(hh, table, s, next) {
        HASH_DEL(table, s);
        free(s);
    }
    return rc;
}
