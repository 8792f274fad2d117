#include "prismd/predict/breakdown.h"

#include <stdlib.h>

enum kind { NOTHING, COMPUTE, TRANSFER, PEERS, HOST, KINDS };

struct span {
    int64_t from_ns, to_ns;
    enum kind kind;
};

struct line { /* a stream: its spans in order of time, without overlap */
    struct span *list;
    uint32_t n, cap, at;
    int64_t end_ns; /* of the node before */
};

struct rank_lines {
    struct line *streams;
    int64_t *hosts; /* where each host thread is */
    int64_t begin_ns, end_ns;
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t whole(float ns)
{
    return (int64_t)((double)ns + 0.5);
}

static void add(struct rank_lines *x, struct line *l, int64_t from, int64_t to, enum kind kind)
{
    if (from < x->begin_ns)
        from = x->begin_ns;
    if (to > x->end_ns)
        to = x->end_ns;
    if (from >= to)
        return;
    if (l->n && l->list[l->n - 1].kind == kind && l->list[l->n - 1].to_ns == from) {
        l->list[l->n - 1].to_ns = to;
        return;
    }
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->list = realloc(l->list, l->cap * sizeof *l->list);
        if (!l->list)
            abort();
    }
    l->list[l->n++] = (struct span){from, to, kind};
}

/* graph.h, section 1, backwards: what each part of the time between two nodes of a stream was. */
static void add_node(struct rank_lines *x, struct predicted *p, uint32_t rank, uint32_t i)
{
    const struct graph_node *n = &p->graph->ranks[rank].nodes[i];
    const struct graph_times *t = &p->times[rank][i];
    int64_t *host = &x->hosts[n->host];
    if (n->kind == GRAPH_SYNC) {
        *host = t->end_ns;
        return;
    }
    struct line *l = &x->streams[n->stream];
    int64_t worked = l->end_ns + (p->device[rank] ? whole(p->device[rank][i]) : 0);
    int64_t ready = n->dep ? later(worked, p->times[rank][i - n->dep].end_ns) : worked;
    *host += p->host[rank] ? whole(p->host[rank][i]) : 0;
    add(x, l, l->end_ns, worked, COMPUTE);
    if (*host > ready)
        add(x, l, ready, *host, HOST);
    if (n->kind == GRAPH_COMM) {
        int64_t moves = later(t->end_ns - predicted_duration(p, rank, n), t->start_ns);
        add(x, l, t->start_ns, moves, PEERS);
        add(x, l, moves, t->end_ns, TRANSFER);
    }
    l->end_ns = t->end_ns;
}

static void count(struct breakdown *b, const bool *now, double ns)
{
    if (now[COMPUTE])
        b->compute += ns;
    if (now[COMPUTE] && now[TRANSFER])
        b->hidden += ns;
    if (now[COMPUTE])
        return;
    if (now[TRANSFER])
        b->exposed += ns;
    else if (now[HOST] && !now[PEERS])
        b->host += ns;
    else
        b->bubble += ns;
}

/* All streams side by side, from one change to the next. */
static struct breakdown sweep(struct rank_lines *x, uint32_t n)
{
    struct breakdown b = {0};
    for (int64_t t = x->begin_ns, next; t < x->end_ns; t = next) {
        bool now[KINDS] = {false};
        next = x->end_ns;
        for (uint32_t s = 0; s < n; s++) {
            struct line *l = &x->streams[s];
            while (l->at < l->n && l->list[l->at].to_ns <= t)
                l->at++;
            if (l->at == l->n)
                continue;
            const struct span *span = &l->list[l->at];
            bool begun = span->from_ns <= t;
            int64_t change = begun ? span->to_ns : span->from_ns;
            now[begun ? span->kind : NOTHING] = true;
            next = change < next ? change : next;
        }
        count(&b, now, (double)(next - t));
    }
    return b;
}

struct breakdown breakdown_of(struct predicted *p, uint32_t rank)
{
    const struct graph_rank *r = &p->graph->ranks[rank];
    struct rank_lines x = {calloc(r->nstreams + 1u, sizeof *x.streams), calloc(r->nhosts + 1u, sizeof *x.hosts), p->begin_ns,
                           p->end_ns};
    if (!x.streams || !x.hosts)
        abort();
    for (uint32_t i = 0; i < r->nnodes; i++)
        add_node(&x, p, rank, i);
    struct breakdown b = sweep(&x, r->nstreams);
    for (uint32_t s = 0; s < r->nstreams; s++)
        free(x.streams[s].list);
    free(x.streams);
    free(x.hosts);
    return b;
}

void breakdown_add(struct breakdown *to, const struct breakdown *more)
{
    to->compute += more->compute;
    to->exposed += more->exposed;
    to->hidden += more->hidden;
    to->host += more->host;
    to->bubble += more->bubble;
}

void breakdown_divide(struct breakdown *b, double by)
{
    b->compute /= by;
    b->exposed /= by;
    b->hidden /= by;
    b->host /= by;
    b->bubble /= by;
}
