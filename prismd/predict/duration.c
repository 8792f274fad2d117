#include "prismd/predict/duration.h"

#include <math.h>
#include <stdlib.h>

#include "coll/types.h"

#define FEW 64 /* parts that need no allocation */

static int count_nodes(int32_t *node_of, const struct graph *g, const struct graph_comm *c)
{
    uint8_t *seen = calloc(g->world / g->gpus_per_node + 1u, 1);
    int nodes = 0;
    if (!seen)
        abort();
    for (uint32_t i = 0; i < c->size; i++) {
        node_of[i] = c->ranks[i] / (int32_t)g->gpus_per_node;
        nodes += !seen[node_of[i]];
        seen[node_of[i]] = 1;
    }
    free(seen);
    return nodes;
}

void duration_model_init(struct duration_model *m, const struct graph *g, const struct coll_network *network)
{
    size_t members = 0, at = 0;
    for (uint32_t i = 0; i < g->ncomms; i++)
        members += g->comms[i].size;
    *m = (struct duration_model){.network = network,
                                 .shapes = calloc(g->ncomms + 1u, sizeof *m->shapes),
                                 .node_of = calloc(members + 1, sizeof *m->node_of)};
    if (!m->shapes || !m->node_of)
        abort();
    for (uint32_t i = 0; i < g->ncomms; i++) {
        const struct graph_comm *c = &g->comms[i];
        int nodes = count_nodes(m->node_of + at, g, c);
        m->shapes[i] = (struct coll_shape){.size = (int)c->size, .nodes = nodes, .node_of = m->node_of + at};
        at += c->size;
    }
}

void duration_model_clear(struct duration_model *m)
{
    free(m->shapes);
    free(m->node_of);
    *m = (struct duration_model){0};
}

double duration_ns(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                   uint32_t nparts)
{
    const struct duration_model *m = ctx;
    double measured = durations_find(m->measured, comm, parts, nparts);
    if (measured >= 0)
        return fmin(measured, (double)GRAPH_WORK_MAX);
    struct coll_part few[FEW] = {{0}}, *some = nparts <= FEW ? few : malloc(nparts * sizeof *some);
    (void)g;
    if (!some)
        abort();
    for (uint32_t i = 0; i < nparts; i++)
        some[i] = (struct coll_part){parts[i].op, parts[i].peer, parts[i].count * coll_datatype_size(parts[i].datatype)};
    double seconds = coll_group_duration(m->network, &m->shapes[comm], p, some, nparts);
    if (some != few)
        free(some);
    return fmin(seconds * 1e9, (double)GRAPH_WORK_MAX); /* counts may be anything */
}

/* The graph asks without the peers: the smaller bound of the two link classes is safe for both. */
bool duration_send_is_eager(void *ctx, uint64_t bytes)
{
    const struct duration_model *m = ctx;
    const struct coll_link_profile *intra = &m->network->link[COLL_LINK_INTRA], *inter = &m->network->link[COLL_LINK_INTER];
    return bytes <= (intra->eager_bytes < inter->eager_bytes ? intra->eager_bytes : inter->eager_bytes);
}
