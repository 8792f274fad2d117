#include "prismd/predict/critical.h"

#include <stdlib.h>

#include "common/check.h"
#include "graph/feeds.h"

#define NONE UINT32_MAX

/* What the way back needs of a rank, made when the path first comes there. */
struct walked {
    int64_t *issue;                /* by node */
    uint32_t *on_stream, *on_host; /* by node: the one before it there; NONE */
    uint32_t *collectives;         /* node of each collective, by communicator and order */
    uint32_t *first;               /* by communicator: its place in collectives; one more at the end */
};

struct walk {
    struct predicted *p;
    struct walked *ranks;
    struct critical_path *path;
    uint32_t rank, node;
    bool at_issue; /* at the node's issue, else at its end */
};

static int64_t whole(float ns)
{
    return (int64_t)((double)ns + 0.5);
}

/* ---- A rank's tables ---- */

static uint32_t count_collectives(const struct graph_rank *r, const struct graph_node *n)
{
    uint32_t count = 0;
    for (uint32_t k = 0; n->kind == GRAPH_COMM && k < n->nparts; k++)
        count += graph_feeds(r->parts[n->first_part + k].op) < GRAPH_FEEDS_SEND;
    return count;
}

static void index_collectives(const struct graph_rank *r, struct walked *w)
{
    uint32_t *next = check(calloc(r->ncomms + 1u, sizeof *next));
    w->first = check(calloc(r->ncomms + 1u, sizeof *w->first));
    w->collectives = check(malloc((r->nparts + 1u) * sizeof *w->collectives));
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM)
            w->first[r->nodes[i].comm + 1] += count_collectives(r, &r->nodes[i]);
    for (uint32_t c = 0; c < r->ncomms; c++)
        w->first[c + 1] += w->first[c];
    for (uint32_t c = 0; c < r->ncomms; c++)
        next[c] = w->first[c];
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t n = count_collectives(r, &r->nodes[i]); n > 0; n--)
            w->collectives[next[r->nodes[i].comm]++] = i;
    free(next);
}

static void link_nodes(struct walk *x, uint32_t rank, struct walked *w)
{
    const struct graph_rank *r = &x->p->graph->ranks[rank];
    uint32_t *stream = check(malloc((r->nstreams + 1u) * sizeof *stream));
    uint32_t *host = check(malloc((r->nhosts + 1u) * sizeof *host));
    int64_t *host_ns = check(calloc(r->nhosts + 1u, sizeof *host_ns));
    w->issue = check(malloc((r->nnodes + 1u) * sizeof *w->issue));
    w->on_stream = check(malloc((r->nnodes + 1u) * sizeof *w->on_stream));
    w->on_host = check(malloc((r->nnodes + 1u) * sizeof *w->on_host));
    for (uint32_t s = 0; s < r->nstreams; s++)
        stream[s] = NONE;
    for (uint32_t h = 0; h < r->nhosts; h++)
        host[h] = NONE;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        bool sync = n->kind == GRAPH_SYNC;
        w->issue[i] = host_ns[n->host] + (x->p->host[rank] ? whole(x->p->host[rank][i]) : 0);
        host_ns[n->host] = sync ? x->p->times[rank][i].end_ns : w->issue[i];
        w->on_host[i] = host[n->host];
        host[n->host] = i;
        w->on_stream[i] = sync ? NONE : stream[n->stream];
        if (!sync)
            stream[n->stream] = i;
    }
    free(stream);
    free(host);
    free(host_ns);
}

static const struct walked *tables(struct walk *x, uint32_t rank)
{
    struct walked *w = &x->ranks[rank];
    if (!w->issue) {
        link_nodes(x, rank, w);
        index_collectives(&x->p->graph->ranks[rank], w);
    }
    return w;
}

/* ---- The path, from its end ---- */

static struct critical_span *span_of(struct walk *x, uint32_t rank, int64_t from, int64_t to)
{
    struct critical_path *path = x->path;
    if (path->n && path->spans[path->n - 1].rank == rank && path->spans[path->n - 1].from_ns == to) {
        path->spans[path->n - 1].from_ns = from;
        return &path->spans[path->n - 1];
    }
    if (!(path->n & (path->n - 1)))
        path->spans = check(realloc(path->spans, (path->n ? 2u * path->n : 1u) * sizeof *path->spans));
    path->spans[path->n] = (struct critical_span){.rank = rank, .from_ns = from, .to_ns = to};
    return &path->spans[path->n++];
}

enum what { COMPUTE, COMMUNICATION, HOST };

static void put(struct walk *x, enum what what, int64_t from, int64_t to)
{
    if (from < x->p->begin_ns)
        from = x->p->begin_ns;
    if (from >= to)
        return;
    struct critical_span *s = span_of(x, x->rank, from, to);
    double ns = (double)(to - from);
    *(what == COMPUTE ? &s->compute_ns : what == HOST ? &s->host_ns : &s->communication_ns) += ns;
    *(what == COMPUTE ? &x->path->compute_ns : what == HOST ? &x->path->host_ns : &x->path->communication_ns) += ns;
}

/* ---- Operations: who came last ---- */

static bool go(struct walk *x, uint32_t rank, uint32_t node, int64_t start)
{
    if (node == NONE || x->p->times[rank][node].start_ns != start)
        return false;
    x->rank = rank;
    x->node = node;
    return true;
}

/* Which of the communicator's collectives the k'th of this node is. */
static uint32_t number_of(const struct walked *w, uint32_t comm, uint32_t node, uint32_t k)
{
    uint32_t low = w->first[comm], high = w->first[comm + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->collectives[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low + k - w->first[comm];
}

static uint32_t local_number(const struct graph_rank *r, int32_t global)
{
    for (uint32_t c = 0; c < r->ncomms; c++)
        if (r->comms[c].global == global)
            return c;
    return NONE;
}

static bool go_to_member(struct walk *x, int32_t global, uint32_t member, uint32_t number, int64_t start)
{
    uint32_t rank = (uint32_t)x->p->graph->comms[global].ranks[member];
    uint32_t comm = local_number(&x->p->graph->ranks[rank], global);
    if (comm == NONE)
        return false;
    const struct walked *w = tables(x, rank);
    uint32_t place = w->first[comm] + number;
    return place < w->first[comm + 1] && go(x, rank, w->collectives[place], start);
}

static bool last_of_collective(struct walk *x, const struct graph_node *n, const struct graph_part *part, uint32_t k, int64_t start)
{
    const struct graph_rank *r = &x->p->graph->ranks[x->rank];
    int32_t global = r->comms[n->comm].global;
    uint32_t number = number_of(tables(x, x->rank), n->comm, x->node, k);
    if (graph_feeds(part->op) == GRAPH_FEEDS_FROM_ROOT)
        return go_to_member(x, global, (uint32_t)part->peer, number, start);
    for (uint32_t m = 0; m < x->p->graph->comms[global].size; m++)
        if (go_to_member(x, global, m, number, start))
            return true;
    return false;
}

/* Messages between two ranks of a communicator are matched in order. */
static uint32_t count_messages(const struct graph_rank *r, uint32_t comm, uint8_t op, int32_t peer, uint32_t until)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < until; i++)
        for (uint32_t k = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == comm && k < r->nodes[i].nparts; k++) {
            const struct graph_part *p = &r->parts[r->nodes[i].first_part + k];
            count += p->op == op && p->peer == peer;
        }
    return count;
}

static bool last_of_message(struct walk *x, const struct graph_node *n, const struct graph_part *part, int64_t start)
{
    const struct graph *g = x->p->graph;
    struct graph_member self = g->ranks[x->rank].comms[n->comm];
    uint32_t rank = (uint32_t)g->comms[self.global].ranks[part->peer];
    uint8_t op = part->op == GRAPH_OP_SEND ? GRAPH_OP_RECV : GRAPH_OP_SEND;
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t comm = local_number(r, self.global), before = count_messages(&g->ranks[x->rank], n->comm, part->op, part->peer, x->node);
    for (uint32_t i = 0; comm != NONE && i < r->nnodes; i++) {
        if (r->nodes[i].kind != GRAPH_COMM || r->nodes[i].comm != comm)
            continue;
        for (uint32_t k = 0; k < r->nodes[i].nparts; k++) {
            const struct graph_part *p = &r->parts[r->nodes[i].first_part + k];
            if (p->op == op && p->peer == self.rank && !before--)
                return go(x, rank, i, start);
        }
    }
    return false;
}

/* To the rank whose start ended the waiting; the own one if nobody came later. */
static void to_the_last(struct walk *x, int64_t start)
{
    const struct graph_rank *r = &x->p->graph->ranks[x->rank];
    const struct graph_node *n = &r->nodes[x->node];
    if (x->p->times[x->rank][x->node].start_ns >= start)
        return;
    for (uint32_t k = 0, collectives = 0; k < n->nparts; k++) {
        const struct graph_part *part = &r->parts[n->first_part + k];
        bool collective = graph_feeds(part->op) < GRAPH_FEEDS_SEND;
        if (collective ? last_of_collective(x, n, part, collectives, start) : last_of_message(x, n, part, start))
            return;
        collectives += collective;
    }
}

/* ---- One step back ---- */

/* From a node's issue to what it followed on the host thread. False: the begin. */
static bool before_issue(struct walk *x)
{
    const struct graph_rank *r = &x->p->graph->ranks[x->rank];
    const struct walked *w = tables(x, x->rank);
    uint32_t before = w->on_host[x->node];
    int64_t issue = w->issue[x->node];
    int64_t from = before == NONE ? 0 : r->nodes[before].kind == GRAPH_SYNC ? x->p->times[x->rank][before].end_ns : w->issue[before];
    put(x, HOST, from, issue);
    x->node = before;
    x->at_issue = before != NONE && r->nodes[before].kind != GRAPH_SYNC;
    return before != NONE && from > x->p->begin_ns;
}

/* From a node's end to what ended when it could begin. False: the begin of the iteration is reached. */
static bool step_back(struct walk *x)
{
    if (x->at_issue)
        return before_issue(x);
    const struct graph_node *n = &x->p->graph->ranks[x->rank].nodes[x->node];
    if (n->kind == GRAPH_COMM) {
        int64_t end = x->p->times[x->rank][x->node].end_ns, start = end - predicted_duration(x->p, x->rank, n);
        put(x, COMMUNICATION, start, end);
        if (start <= x->p->begin_ns)
            return false;
        to_the_last(x, start);
        n = &x->p->graph->ranks[x->rank].nodes[x->node];
    }
    const struct graph_times *times = x->p->times[x->rank];
    const struct walked *w = tables(x, x->rank);
    uint32_t before = w->on_stream[x->node];
    int64_t from = before == NONE ? 0 : times[before].end_ns;
    int64_t work = x->p->device[x->rank] ? whole(x->p->device[x->rank][x->node]) : 0;
    int64_t start = n->kind == GRAPH_SYNC ? times[x->node].end_ns : times[x->node].start_ns;
    if (n->kind != GRAPH_SYNC && from + work == start && (before != NONE || work)) {
        put(x, COMPUTE, from, start);
        x->node = before;
        return before != NONE && from > x->p->begin_ns;
    }
    if (n->dep && times[x->node - n->dep].end_ns == start) {
        x->node -= n->dep;
        return start > x->p->begin_ns;
    }
    x->at_issue = true;
    return start > x->p->begin_ns;
}

static bool find_end(struct walk *x)
{
    const struct predicted *p = x->p;
    for (x->rank = 0; x->rank < p->graph->world; x->rank++)
        for (x->node = p->graph->ranks[x->rank].nnodes; x->node-- > 0;)
            if (p->times[x->rank][x->node].end_ns == p->end_ns)
                return p->end_ns > p->begin_ns;
    return false;
}

static void reverse(struct critical_path *path)
{
    for (uint32_t i = 0; i < path->n / 2; i++) {
        struct critical_span other = path->spans[i];
        path->spans[i] = path->spans[path->n - 1 - i];
        path->spans[path->n - 1 - i] = other;
    }
}

void critical_path_find(struct predicted *p, struct critical_path *path)
{
    struct walk x = {.p = p, .path = path, .ranks = check(calloc(p->graph->world + 1u, sizeof *x.ranks))};
    *path = (struct critical_path){0};
    if (find_end(&x))
        while (step_back(&x))
            ;
    reverse(path);
    for (uint32_t r = 0; r < p->graph->world; r++) {
        free(x.ranks[r].issue);
        free(x.ranks[r].on_stream);
        free(x.ranks[r].on_host);
        free(x.ranks[r].collectives);
        free(x.ranks[r].first);
    }
    free(x.ranks);
}

void critical_path_clear(struct critical_path *path)
{
    free(path->spans);
    *path = (struct critical_path){0};
}
