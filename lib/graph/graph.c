#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "graph/share.h"

/* Arrays grow when their length is a power of two, so that no capacity has to be kept: room for need elements
 * where have are in use. */
static void *grow(void *array, uint32_t have, uint32_t need, size_t size)
{
    uint64_t cap = 1;
    if (have) {
        while (cap < have)
            cap *= 2;
        if (cap >= need)
            return array;
    }
    while (cap < need)
        cap *= 2;
    array = realloc(array, cap * size);
    if (!array)
        abort();
    return array;
}

struct graph *graph_create(uint32_t world, uint32_t gpus_per_node)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->world = world;
    g->gpus_per_node = gpus_per_node;
    g->ranks = calloc(world ? world : 1, sizeof *g->ranks);
    if (!g->ranks)
        abort();
    return g;
}

void graph_destroy(struct graph *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->world; i++)
        graph_rank_clear(&g->ranks[i]);
    for (uint32_t i = 0; i < g->ncomms; i++)
        free(g->comms[i].ranks);
    free(g->ranks);
    free(g->comms);
    free(g);
}

int graph_add_comm(struct graph *g, const int32_t *ranks, uint32_t size)
{
    g->comms = grow(g->comms, g->ncomms, g->ncomms + 1, sizeof *g->comms);
    struct graph_comm *c = &g->comms[g->ncomms];
    c->size = size;
    c->ranks = malloc((size ? size : 1) * sizeof *c->ranks);
    if (!c->ranks)
        abort();
    if (size)
        memcpy(c->ranks, ranks, size * sizeof *c->ranks);
    return (int)g->ncomms++;
}

int graph_set_member(struct graph *g, uint32_t rank, uint32_t comm, int32_t global, int32_t comm_rank)
{
    if (rank >= g->world || comm >= GRAPH_COMMS_MAX || global < -1 || global >= (int64_t)g->ncomms)
        return -1;
    if (global >= 0 && (comm_rank < 0 || (uint32_t)comm_rank >= g->comms[global].size))
        return -1;
    struct graph_rank *r = &g->ranks[rank];
    if (comm >= r->ncomms) {
        r->comms = grow(r->comms, r->ncomms, comm + 1, sizeof *r->comms);
        for (uint32_t i = r->ncomms; i <= comm; i++)
            r->comms[i] = (struct graph_member){.global = -1, .rank = -1};
        r->ncomms = comm + 1;
    }
    r->comms[comm] = (struct graph_member){.global = global, .rank = global < 0 ? -1 : comm_rank};
    return 0;
}

/* Works are arrays of nnodes: nodes added later make them wrong. */
static bool works_measured(const struct graph_rank *r)
{
    return r->device_work || r->host_work;
}

bool graph_may_add_node(const struct graph *g, uint32_t rank, const struct graph_node *node, uint32_t nparts)
{
    if (rank >= g->world || node->kind < GRAPH_COMM || node->kind > GRAPH_JOIN || works_measured(&g->ranks[rank]))
        return false;
    const struct graph_rank *r = &g->ranks[rank];
    return node->dep <= r->nnodes && (node->kind == GRAPH_COMM) == (nparts > 0) && nparts <= UINT32_MAX - r->nparts &&
           node->stream < GRAPH_STREAMS_MAX;
}

void graph_note_lines(struct graph_rank *r, const struct graph_node *n)
{
    if (n->kind != GRAPH_SYNC && n->stream >= r->nstreams)
        r->nstreams = n->stream + 1;
    if (n->host >= r->nhosts)
        r->nhosts = n->host + 1u;
}

int graph_add_node(struct graph *g, uint32_t rank, const struct graph_node *node,
                   const struct graph_part *parts, uint32_t nparts)
{
    if (!graph_may_add_node(g, rank, node, nparts))
        return -1;
    struct graph_rank *r = &g->ranks[rank];
    graph_rank_own(r);
    r->nodes = grow(r->nodes, r->nnodes, r->nnodes + 1, sizeof *r->nodes);
    struct graph_node *n = &r->nodes[r->nnodes++];
    *n = *node;
    n->unused = 0;
    n->first_part = r->nparts;
    n->nparts = nparts;
    if (nparts) {
        r->parts = grow(r->parts, r->nparts, r->nparts + nparts, sizeof *r->parts);
        for (uint32_t i = 0; i < nparts; i++) {
            r->parts[r->nparts] = parts[i];
            r->parts[r->nparts++].unused = 0;
        }
    }
    graph_note_lines(r, n);
    return 0;
}

int32_t graph_representative(const struct graph *g, uint32_t klass)
{
    for (uint32_t i = 0; i < g->world; i++)
        if (g->ranks[i].klass == klass && g->ranks[i].device_work)
            return (int32_t)i;
    return -1;
}

/* The rank whose works count for rank: itself when measured, else its class's representative. */
static const struct graph_rank *works_of(const struct graph *g, uint32_t rank, uint32_t node)
{
    const struct graph_rank *r = &g->ranks[rank];
    if (!r->device_work && !r->host_work) {
        int32_t other = g->nclasses ? graph_representative(g, r->klass) : -1;
        if (other < 0)
            return NULL;
        r = &g->ranks[other];
    }
    return node < r->nnodes ? r : NULL;
}

float graph_device_work(const struct graph *g, uint32_t rank, uint32_t node)
{
    const struct graph_rank *r = works_of(g, rank, node);
    return r && r->device_work ? r->device_work[node] : 0;
}

float graph_host_work(const struct graph *g, uint32_t rank, uint32_t node)
{
    const struct graph_rank *r = works_of(g, rank, node);
    return r && r->host_work ? r->host_work[node] : 0;
}

static float *zeroes(float *array, uint32_t n)
{
    if (array)
        return array;
    array = calloc(n ? n : 1, sizeof *array);
    if (!array)
        abort();
    return array;
}

void graph_alloc_works(struct graph *g, uint32_t rank)
{
    struct graph_rank *r = &g->ranks[rank];
    r->device_work = zeroes(r->device_work, r->nnodes);
    r->host_work = zeroes(r->host_work, r->nnodes);
}
