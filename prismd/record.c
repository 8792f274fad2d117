#include "prismd/record.h"

#include <stdlib.h>

#include "prismd/align.h"

/* A stream that was idle until the host issued the node shows it arriving this soon after: no work in front of it. */
#define HOST_BOUND_NS 150000

struct measured {
    uint32_t nnodes;
    struct align *align;
    int64_t *pre, *post;    /* by recorded node, as all here; device; 0 = not seen */
    int64_t *enter, *leave; /* host: call began; previous call had returned */
    int64_t *unmatched;     /* by host thread: host work in front of nodes that are not recorded */
    uint32_t nhosts;
};

int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g)
{
    struct graph_node n = {.kind = m->kind,
                           .host = m->host,
                           .stream = m->stream,
                           .dep = m->dep ? m->index - (m->dep - 1) : 0,
                           .comm = m->comm,
                           .ordinal = g ? g->ordinal : 0};
    if (m->dep > m->index)
        return daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: node %u depends on a later one", r->number, m->index);
    struct graph_part *parts = NULL;
    if (g) {
        parts = malloc(g->nparts * sizeof *parts);
        if (!parts)
            abort();
        for (uint32_t i = 0; i < g->nparts; i++)
            parts[i] = (struct graph_part){.op = g->parts[i].op,
                                           .datatype = g->parts[i].datatype,
                                           .redop = g->parts[i].redop,
                                           .peer = g->parts[i].peer,
                                           .count = g->parts[i].count};
    }
    int rc = graph_add_node(d->graph, r->number, &n, parts, g ? g->nparts : 0);
    free(parts);
    return rc < 0 ? daemon_fail(d, PRISM_EXIT_SYSTEM, "rank %u: out of memory for the graph", r->number) : 0;
}

struct measured *measured_create(const struct graph_rank *r)
{
    uint32_t nnodes = r->nnodes;
    struct measured *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->nnodes = nnodes;
    x->pre = calloc(nnodes + 1, sizeof *x->pre);
    x->post = calloc(nnodes + 1, sizeof *x->post);
    x->enter = calloc(nnodes + 1, sizeof *x->enter);
    x->leave = calloc(nnodes + 1, sizeof *x->leave);
    x->nhosts = r->nhosts;
    x->unmatched = calloc(r->nhosts + 1u, sizeof *x->unmatched);
    if (!x->pre || !x->post || !x->enter || !x->leave || !x->unmatched)
        abort();
    x->align = align_create(r);
    return x;
}

void measured_destroy(struct measured *x)
{
    if (!x)
        return;
    free(x->pre);
    free(x->post);
    free(x->enter);
    free(x->leave);
    free(x->unmatched);
    align_destroy(x->align);
    free(x);
}

void measured_node(struct measured *x, const struct msg_node *m, uint32_t ordinal)
{
    int64_t node = align_next(x->align, m->kind, m->stream, m->comm, ordinal);
    int64_t *unmatched = &x->unmatched[m->host < x->nhosts ? m->host : x->nhosts];
    if (node < 0) {
        if (m->leave_ns && m->enter_ns > m->leave_ns)
            *unmatched += m->enter_ns - m->leave_ns;
        return;
    }
    x->enter[node] = m->enter_ns;
    x->leave[node] = m->leave_ns ? m->leave_ns - *unmatched : 0;
    *unmatched = 0;
}

void measured_times(struct measured *x, const struct msg_time *times, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t node = align_find(x->align, times[i].index);
        if (node < 0)
            continue;
        x->pre[node] = times[i].pre_ns;
        x->post[node] = times[i].post_ns;
    }
}

/* device work(n) = pre(n) - post(node before n on its stream): the kernels and copies between them. When the stream
 * stood idle until the host issued n, the time in between was the host's, which host work has already.
 * host work(n) = enter(n) - leave(n): from the program's return out of the call before to this call. */
uint32_t measured_to_works(const struct measured *x, struct graph *g, uint32_t rank)
{
    struct graph_rank *r = &g->ranks[rank];
    int64_t *end_of_stream = calloc(r->nstreams + 1u, sizeof *end_of_stream);
    uint32_t seen = 0;
    if (!end_of_stream)
        abort();
    graph_alloc_works(g, rank);
    for (uint32_t i = 0; i < r->nnodes && i < x->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (x->enter[i] > x->leave[i] && x->leave[i])
            r->host_work[i] = (float)(x->enter[i] - x->leave[i]);
        if (n->kind == GRAPH_SYNC || !x->pre[i])
            continue;
        int64_t *before = &end_of_stream[n->stream];
        int64_t work = *before ? x->pre[i] - *before : 0;
        bool host_bound = x->enter[i] > *before && x->pre[i] - x->enter[i] < HOST_BOUND_NS;
        r->device_work[i] = work > 0 && !host_bound ? (float)work : 0;
        *before = x->post[i];
        seen++;
    }
    free(end_of_stream);
    return seen;
}
