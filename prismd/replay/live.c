#include "prismd/replay/live.h"

#include <stdlib.h>

#include "common/array.h"

/* Ranks without operations have no iterations here. */
static void count_iterations(struct live *l, const struct graph_rank *r)
{
    uint32_t groups = 0, k = 0;
    l->ends = array_zeros(r->niterations + 1u, sizeof *l->ends);
    for (uint32_t i = 0; i <= r->nnodes && r->niterations; i++) {
        for (; k <= r->niterations && r->iterations[k] == i; k++)
            l->ends[k] = groups;
        groups += i < r->nnodes && r->nodes[i].kind == GRAPH_COMM;
    }
    l->niterations = r->niterations;
    l->first_position = l->ends[0];
    l->per_iteration = r->niterations ? l->ends[r->niterations] - l->ends[r->niterations - 1] : 0;
}

static void index_groups(struct live *l, const struct graph_rank *r)
{
    uint32_t begin = r->niterations ? r->iterations[r->niterations - 1] : 0;
    uint32_t end = r->niterations ? r->iterations[r->niterations] : r->nnodes;
    l->ncomms = r->ncomms;
    l->comms = calloc(r->ncomms + 1u, sizeof *l->comms);
    if (!l->comms)
        abort();
    for (uint32_t i = 0; i < r->nnodes; i++) {
        l->recorded += r->nodes[i].kind == GRAPH_COMM;
        if (r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm < r->ncomms)
            l->comms[r->nodes[i].comm].ngroups++;
    }
    for (uint32_t c = 0; c < r->ncomms; c++) {
        l->comms[c].nodes = malloc((l->comms[c].ngroups + 1u) * sizeof(uint32_t));
        if (!l->comms[c].nodes)
            abort();
        l->comms[c].ngroups = 0;
    }
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM || n->comm >= r->ncomms)
            continue;
        struct live_comm *c = &l->comms[n->comm];
        c->nodes[c->ngroups++] = i;
        if (i < begin)
            c->loop_begin = c->ngroups;
        if (i < end)
            c->loop_end = c->ngroups;
    }
}

struct live *live_create(const struct graph *g, uint32_t rank, bool measure)
{
    const struct graph_rank *r = &g->ranks[rank];
    struct live *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    if (measure)
        l->measured = measured_create(r);
    if (!(l->lag_in_at = calloc(r->nnodes + 1u, sizeof *l->lag_in_at)))
        abort();
    index_groups(l, r);
    count_iterations(l, r);
    return l;
}

void live_destroy(struct live *l)
{
    if (!l)
        return;
    measured_destroy(l->measured);
    for (uint32_t c = 0; c < l->ncomms; c++)
        free(l->comms[c].nodes);
    free(l->comms);
    behind_clear(&l->behind);
    free(l->ends);
    free(l->seconds);
    free(l->origins);
    free(l->lag_in_at);
    free(l->over);
    free(l);
}

int64_t live_node_of(const struct live *l, uint32_t comm, uint32_t ordinal, uint32_t *recorded_ordinal)
{
    if (comm >= l->ncomms || !l->comms[comm].ngroups)
        return -1;
    const struct live_comm *c = &l->comms[comm];
    if (ordinal >= c->ngroups) {
        if (c->loop_end <= c->loop_begin)
            return -1;
        ordinal = c->loop_begin + (ordinal - c->loop_end) % (c->loop_end - c->loop_begin);
    }
    *recorded_ordinal = ordinal;
    return c->nodes[ordinal];
}

void live_position_arrived(struct live *l, uint32_t position, int64_t start_ns)
{
    if (!position && !l->first_position)
        l->iteration_start_ns = start_ns;
}

uint32_t live_iteration_of(const struct live *l, uint32_t position)
{
    uint32_t low = 0, high = l->niterations; /* ends[low] <= position < ends[high] */
    if (position >= l->recorded)
        return l->niterations + (position - l->ends[l->niterations]) / l->per_iteration;
    if (position >= l->ends[high])
        return high - 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (l->ends[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Is it the last of an iteration? */
static bool ends_iteration(const struct live *l, uint32_t position)
{
    if (position < l->first_position)
        return false;
    if (position >= l->recorded)
        return (position + 1 - l->ends[l->niterations]) % l->per_iteration == 0;
    return position + 1 == l->ends[live_iteration_of(l, position) + 1];
}

void live_position_ended(struct live *l, uint32_t position, int64_t end_ns)
{
    if (!l->per_iteration)
        return;
    if (position + 1 == l->first_position)
        l->iteration_start_ns = end_ns;
    if (!ends_iteration(l, position))
        return;
    if (l->iterations == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 16;
        l->seconds = realloc(l->seconds, l->cap * sizeof *l->seconds);
        if (!l->seconds)
            abort();
    }
    l->seconds[l->iterations++] = l->iteration_start_ns ? (double)(end_ns - l->iteration_start_ns) / 1e9 : 0;
    l->iteration_start_ns = end_ns;
}

struct live_gate *live_gate(struct live *l, uint32_t node)
{
    return &l->gates[node % LIVE_GATES];
}

void live_ended_late(struct live *l, uint32_t position, int64_t ns)
{
    l->late[position % LIVE_GATES] = (struct live_late){position, ns > 0 ? ns : 0, l->behind.ns};
}

int64_t live_lag_in_ns(const struct live *l, uint32_t node)
{
    return pace_recent_ns(&l->lag_in_at[node], pace_lag_ns(&l->lag_in));
}

int64_t live_carried(const struct live *l, uint32_t position, uint32_t node)
{
    int64_t most = 0;
    for (uint32_t k = 0; l->origins && k < ORIGINS_MAX && l->origins[node].of[k].back; k++) {
        const struct origin *o = &l->origins[node].of[k];
        const struct live_late *late = &l->late[(position - o->back) % LIVE_GATES];
        int64_t ns = late->ns - (l->behind.ns - late->behind_ns) - o->slack_ns;
        if (o->back <= position && late->position == position - o->back && ns > most)
            most = ns;
    }
    return most;
}
