#include "training.h"

#include <stdlib.h>

#include "graph/feeds.h"

#define TP     8u
#define PP     4u
#define LAYERS 6u

static uint32_t pp_of(const struct training *s, uint32_t rank)
{
    return rank / TP / s->dp;
}

static uint32_t rank_at(const struct training *s, uint32_t tp, uint32_t dp, uint32_t pp)
{
    return (pp * s->dp + dp) * TP + tp;
}

static void comm(struct graph *g, const int32_t *ranks, uint32_t n, uint32_t number)
{
    int global = graph_add_comm(g, ranks, n);
    for (uint32_t i = 0; i < n; i++)
        graph_set_member(g, (uint32_t)ranks[i], number, global, (int32_t)i);
}

static void comms(struct graph *g, const struct training *s)
{
    int32_t *ranks = calloc(s->world, sizeof *ranks);
    for (uint32_t p = 0; p < PP; p++)
        for (uint32_t d = 0; d < s->dp; d++) {
            for (uint32_t t = 0; t < TP; t++)
                ranks[t] = (int32_t)rank_at(s, t, d, p);
            comm(g, ranks, TP, 0);
        }
    for (uint32_t d = 0; d < s->dp; d++)
        for (uint32_t t = 0; t < TP; t++) {
            for (uint32_t p = 0; p < PP; p++)
                ranks[p] = (int32_t)rank_at(s, t, d, p);
            comm(g, ranks, PP, 1);
        }
    for (uint32_t p = 0; p < PP; p++)
        for (uint32_t t = 0; t < TP; t++) {
            for (uint32_t d = 0; d < s->dp; d++)
                ranks[d] = (int32_t)rank_at(s, t, d, p);
            comm(g, ranks, s->dp, 2);
        }
    for (uint32_t i = 0; i < s->world; i++)
        ranks[i] = (int32_t)i;
    if (s->meets)
        comm(g, ranks, s->world, 3);
    free(ranks);
}

struct rank {
    struct graph *g;
    uint32_t rank, ordinals[4];
};

static void group(struct rank *r, uint32_t number, uint32_t stream, uint8_t op, int32_t peer, uint64_t count)
{
    struct graph_node n = {
        .kind = GRAPH_COMM, .stream = stream, .comm = number, .ordinal = r->ordinals[number]++};
    struct graph_part p = {.op = op, .datatype = 9, .peer = peer, .count = count};
    graph_add_node(r->g, r->rank, &n, &p, 1);
}

/* The waiting stream goes on when the other one has got here. */
static void event(struct rank *r, uint32_t from, uint32_t to)
{
    graph_add_node(r->g, r->rank, &(struct graph_node){.kind = GRAPH_RECORD, .stream = from}, NULL, 0);
    graph_add_node(r->g, r->rank, &(struct graph_node){.kind = GRAPH_WAIT, .stream = to, .dep = 1}, NULL, 0);
}

static void pass(struct rank *r, int32_t from, int32_t to)
{
    if (from >= 0) {
        group(r, 1, 1, GRAPH_OP_RECV, from, 1 << 20);
        event(r, 1, 0);
    }
    for (uint32_t l = 0; l < LAYERS; l++)
        group(r, 0, 0, GRAPH_OP_ALLREDUCE, -1, 1 << 20);
    if (to >= 0) {
        event(r, 0, 3);
        group(r, 1, 3, GRAPH_OP_SEND, to, 1 << 20);
    }
}

static void iteration(struct rank *r, const struct training *s)
{
    int32_t stage = (int32_t)pp_of(s, r->rank), before = stage - 1,
            after = stage + 1 < (int32_t)PP ? stage + 1 : -1;
    uint32_t warm = PP - 1 - (uint32_t)stage, m = s->microbatches;
    warm = warm < m ? warm : m;
    for (uint32_t i = 0; i < warm; i++)
        pass(r, before, after);
    for (uint32_t i = warm; i < m; i++) {
        pass(r, before, after);
        pass(r, after, before);
    }
    for (uint32_t i = 0; i < warm; i++)
        pass(r, after, before);
    event(r, 0, 2);
    group(r, 2, 2, GRAPH_OP_ALLREDUCE, -1, 1 << 24);
    if (s->meets)
        group(r, 3, 2, GRAPH_OP_ALLREDUCE, -1, 1);
    graph_add_node(r->g, r->rank, &(struct graph_node){.kind = GRAPH_RECORD, .stream = 2}, NULL, 0);
    graph_add_node(r->g, r->rank, &(struct graph_node){.kind = GRAPH_SYNC, .dep = 1}, NULL, 0);
    graph_add_node(r->g, r->rank, &(struct graph_node){.kind = GRAPH_JOIN, .stream = 0}, NULL, 0);
}

struct graph *training_graph(const struct training *s, uint32_t iterations)
{
    struct graph *g = graph_create(s->world, 8);
    comms(g, s);
    for (uint32_t i = 0; i < s->world; i++) {
        struct rank r = {.g = g, .rank = i};
        uint32_t *bounds = calloc(iterations + 1, sizeof *bounds);
        for (uint32_t k = 0; k < iterations; k++) {
            iteration(&r, s);
            bounds[k + 1] = g->ranks[i].nnodes;
        }
        g->ranks[i].iterations = bounds;
        g->ranks[i].niterations = iterations;
    }
    graph_find_classes(g);
    for (uint32_t i = 0; i < s->world; i++) {
        if (graph_representative(g, g->ranks[i].klass) >= 0)
            continue; /* as calibrated: one rank of each class is measured */
        graph_alloc_works(g, i);
        for (uint32_t n = 0; n < g->ranks[i].nnodes; n++) {
            g->ranks[i].device_work[n] =
                g->ranks[i].nodes[n].kind == GRAPH_COMM ? 100e3f + (float)(i * n % 1000) : 500;
            g->ranks[i].host_work[n] = 5e3f;
        }
    }
    return g;
}
