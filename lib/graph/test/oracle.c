#include "oracle.h"

#include <stdlib.h>

#include "graph/feeds.h"

uint32_t oracle_positions(const struct graph_rank *r, uint32_t iterations)
{
    if (!iterations || !r->niterations)
        return r->nnodes;
    if (iterations < r->niterations)
        return r->iterations[iterations];
    uint32_t len = r->iterations[r->niterations] - r->iterations[r->niterations - 1];
    return r->nnodes + (iterations - r->niterations) * len;
}

uint32_t oracle_node_at(const struct graph_rank *r, uint32_t iterations, uint32_t position)
{
    if (!iterations || !r->niterations || iterations <= r->niterations)
        return position;
    uint32_t end = r->iterations[r->niterations], len = end - r->iterations[r->niterations - 1];
    for (uint32_t k = iterations - r->niterations; k > 0 && position >= end; k--)
        position -= len;
    return position;
}

/* One part at one position, with the number it has among its like. */
struct part_at {
    uint32_t rank, position;
    uint32_t comm;
    int32_t self, source, destination; /* communicator ranks; -1, -1 for collectives */
    uint32_t sequence;
    const struct graph_part *part;
};

struct parts {
    struct part_at *at;
    uint32_t n;
};

static struct parts list_parts(const struct graph *g, const struct oracle *o)
{
    struct parts list = {NULL, 0};
    for (uint32_t rank = 0; rank < g->world; rank++)
        for (uint32_t v = 0; v < o->ranks[rank].n; v++) {
            const struct graph_node *n = o->ranks[rank].nodes[v].node;
            for (uint32_t i = 0; i < n->nparts; i++) {
                struct part_at a = {rank, v, 0, 0, -1, -1, 0, &g->ranks[rank].parts[n->first_part + i]};
                struct graph_member m = g->ranks[rank].comms[n->comm];
                a.comm = (uint32_t)m.global;
                a.self = m.rank;
                if (a.part->op == GRAPH_OP_SEND) {
                    a.source = m.rank;
                    a.destination = a.part->peer;
                } else if (a.part->op == GRAPH_OP_RECV) {
                    a.source = a.part->peer;
                    a.destination = m.rank;
                }
                for (uint32_t j = 0; j < list.n; j++) {
                    const struct part_at *b = &list.at[j];
                    bool p2p = a.source >= 0;
                    if (b->rank == rank && b->comm == a.comm && b->source == a.source &&
                        b->destination == a.destination && (!p2p || b->part->op == a.part->op))
                        a.sequence++;
                }
                list.at = realloc(list.at, (list.n + 1) * sizeof *list.at);
                list.at[list.n++] = a;
            }
        }
    return list;
}

/* Whether q's start feeds p. */
static bool feeds(const struct part_at *p, const struct part_at *q, const struct graph_run_ops *ops)
{
    if (p->comm != q->comm || p->source != q->source || p->destination != q->destination ||
        p->sequence != q->sequence)
        return false;
    switch (p->part->op) {
    case GRAPH_OP_SEND:
        return q->part->op == GRAPH_OP_RECV &&
               !ops->send_is_eager(ops->ctx, p->part->count * graph_datatype_size(p->part->datatype));
    case GRAPH_OP_RECV:
        return q->part->op == GRAPH_OP_SEND;
    case GRAPH_OP_BROADCAST:
    case GRAPH_OP_SCATTER:
        return q->self == p->part->peer;
    case GRAPH_OP_REDUCE:
    case GRAPH_OP_GATHER:
        return p->self == p->part->peer;
    default:
        return true;
    }
}

/* How many feeds a part must have before it can end. */
static uint32_t feeds_needed(const struct graph *g, const struct part_at *p, const struct graph_run_ops *ops)
{
    switch (p->part->op) {
    case GRAPH_OP_SEND:
        return !ops->send_is_eager(ops->ctx, p->part->count * graph_datatype_size(p->part->datatype));
    case GRAPH_OP_RECV:
    case GRAPH_OP_BROADCAST:
    case GRAPH_OP_SCATTER:
        return 1;
    case GRAPH_OP_REDUCE:
    case GRAPH_OP_GATHER:
        return p->self == p->part->peer ? g->comms[p->comm].size : 0;
    default:
        return g->comms[p->comm].size;
    }
}

static bool try_comm(const struct graph *g, const struct graph_run_ops *ops, struct oracle *o,
                     const struct parts *all, uint32_t rank, uint32_t v)
{
    struct oracle_node *n = &o->ranks[rank].nodes[v];
    int64_t latest = n->start;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct part_at *p = &all->at[i];
        if (p->rank != rank || p->position != v)
            continue;
        uint32_t have = 0;
        for (uint32_t j = 0; j < all->n; j++) {
            const struct part_at *q = &all->at[j];
            if (!feeds(p, q, ops))
                continue;
            const struct oracle_node *other = &o->ranks[q->rank].nodes[q->position];
            if (!other->started)
                return false;
            have++;
            latest = other->start > latest ? other->start : latest;
        }
        if (have < feeds_needed(g, p, ops))
            return false;
    }
    struct graph_member m = g->ranks[rank].comms[n->node->comm];
    double ns = ops->duration_ns(ops->ctx, g, (uint32_t)m.global, m.rank,
                                 &g->ranks[rank].parts[n->node->first_part], n->node->nparts);
    n->fed = latest;
    n->end = latest + (int64_t)(ns + 0.5);
    n->ended = true;
    return true;
}

static int64_t rounded(float work)
{
    return (int64_t)((double)work + 0.5);
}

/* The node waited for, NULL = none. Over loops a distance may point at another kind of node: then it is none.
 */
static const struct oracle_node *dep_of(const struct graph *g, const struct oracle *o, uint32_t rank,
                                        uint32_t v)
{
    const struct oracle_node *n = &o->ranks[rank].nodes[v];
    if (!n->node->dep)
        return NULL;
    const struct oracle_node *t = &o->ranks[rank].nodes[v - n->node->dep];
    const struct graph_node *recorded = &g->ranks[rank].nodes[n->recorded - n->node->dep];
    return t->node->kind == recorded->kind && t->node->stream == recorded->stream ? t : NULL;
}

static bool try_node(const struct graph *g, const struct graph_run_ops *ops, struct oracle *o,
                     const struct parts *all, uint32_t rank, uint32_t v, int64_t t0)
{
    struct oracle_node *nodes = o->ranks[rank].nodes, *n = &nodes[v];
    bool changed = false, is_sync = n->node->kind == GRAPH_SYNC;
    const struct oracle_node *dep = dep_of(g, o, rank, v);
    if (!n->issued) {
        int64_t from = t0;
        uint32_t u = v;
        while (u > 0 && nodes[u - 1].node->host != n->node->host)
            u--;
        if (u > 0) {
            const struct oracle_node *before = &nodes[u - 1];
            bool sync = before->node->kind == GRAPH_SYNC;
            if (sync ? !before->ended : !before->issued)
                return false;
            from = sync ? before->end : before->issue;
        }
        n->issue = from + rounded(graph_host_work(g, rank, n->recorded));
        n->issued = changed = true;
    }
    if (!n->started) {
        int64_t start = n->issue;
        if (dep && !dep->ended)
            return changed;
        if (dep && dep->end > start)
            start = dep->end;
        uint32_t u = v;
        while (!is_sync && u > 0 &&
               (nodes[u - 1].node->kind == GRAPH_SYNC || nodes[u - 1].node->stream != n->node->stream))
            u--;
        if (!is_sync && u > 0 && !nodes[u - 1].ended)
            return changed;
        int64_t ready = (u > 0 ? nodes[u - 1].end : t0) + rounded(graph_device_work(g, rank, n->recorded));
        n->start = !is_sync && ready > start ? ready : start;
        n->started = changed = true;
    }
    if (!n->ended && n->node->kind != GRAPH_COMM) {
        n->end = n->start;
        n->ended = changed = true;
    }
    if (!n->ended)
        changed |= try_comm(g, ops, o, all, rank, v);
    return changed;
}

static void roll_out(const struct graph *g, struct oracle *o, uint32_t iterations)
{
    o->world = g->world;
    o->ranks = calloc(g->world, sizeof *o->ranks);
    for (uint32_t rank = 0; rank < g->world; rank++) {
        struct oracle_rank *r = &o->ranks[rank];
        uint32_t groups[64] = {0};
        r->n = oracle_positions(&g->ranks[rank], iterations);
        r->nodes = calloc(r->n + 1, sizeof *r->nodes);
        for (uint32_t v = 0; v < r->n; v++) {
            r->nodes[v].recorded = oracle_node_at(&g->ranks[rank], iterations, v);
            r->nodes[v].node = &g->ranks[rank].nodes[r->nodes[v].recorded];
            if (r->nodes[v].node->kind == GRAPH_COMM)
                r->nodes[v].arrival = groups[r->nodes[v].node->comm]++;
        }
    }
}

struct oracle *oracle_solve(const struct graph *g, const struct graph_run_ops *ops,
                            const struct graph_run_options *options, int64_t t0, int64_t *const *arrivals)
{
    struct oracle *o = calloc(1, sizeof *o);
    roll_out(g, o, options->iterations);
    struct parts all = list_parts(g, o);
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t rank = 0; rank < g->world; rank++)
            for (uint32_t v = 0; v < o->ranks[rank].n; v++) {
                struct oracle_node *n = &o->ranks[rank].nodes[v];
                if (n->ended)
                    continue;
                if (!options->external || !options->external[rank]) {
                    changed |= try_node(g, ops, o, &all, rank, v, t0);
                } else if (n->node->kind == GRAPH_COMM) {
                    changed |= !n->started;
                    n->start = arrivals[rank][v];
                    n->started = true;
                    changed |= try_comm(g, ops, o, &all, rank, v);
                }
            }
    }
    free(all.at);
    return o;
}

void oracle_free(struct oracle *o)
{
    for (uint32_t i = 0; i < o->world; i++)
        free(o->ranks[i].nodes);
    free(o->ranks);
    free(o);
}
