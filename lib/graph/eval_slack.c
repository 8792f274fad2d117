/* eval_slack.c - the evaluation backwards: how late everything may be. Every equation of graph.h section 1 is a maximum, so the
 * latest time of what stands on its right is the minimum over the equations it stands in. */
#include <stdlib.h>
#include <string.h>

#include "graph/eval_private.h"

struct rank_slack {
    int64_t *end;          /* by node: latest end, so far */
    int64_t *start;        /* by COMM node: latest start; by SYNC: latest end that issues behind it allow */
    int64_t *since;        /* by node: host works from the SYNC before to its issue */
    uint32_t *sync, *prev; /* by node: the SYNC before on its host thread, the node before on its stream; NONE */
};

struct slack {
    struct graph_eval *e;
    struct rank_slack *ranks;
    int64_t *slots; /* by channel and operation: what its group's starts may be at latest; messages: two */
    size_t *first;  /* by channel: its first slot */
};

static void *allocate(size_t n, size_t size)
{
    void *p = malloc((n ? n : 1) * size);
    if (!p)
        abort();
    return p;
}

static inline void lower(int64_t *at, int64_t ns)
{
    if (ns < *at)
        *at = ns;
}

static int64_t whole(const float *works, uint32_t n)
{
    return works ? (int64_t)((double)works[n] + 0.5) : 0;
}

/* ---- Tables ---- */

static int64_t last_end(const struct graph_eval *e, uint32_t rank)
{
    int64_t last = INT64_MIN;
    for (uint32_t i = 0; i < e->ranks[rank].nnodes; i++)
        if (e->ranks[rank].times[i].end_ns > last)
            last = e->ranks[rank].times[i].end_ns;
    return last;
}

static void set_rank(struct slack *s, uint32_t rank, int64_t horizon)
{
    const struct eval_rank *r = &s->e->ranks[rank];
    const struct eval_shape *shape = r->shape;
    struct rank_slack *x = &s->ranks[rank];
    uint32_t nlines = shape->nstreams + shape->nhosts;
    uint32_t *before = allocate(nlines, sizeof *before); /* by stream: the last node; by host: the last SYNC */
    int64_t *cursor = allocate(shape->nhosts, sizeof *cursor);
    x->end = allocate(2 * (size_t)r->nnodes, sizeof *x->end);
    x->start = x->end + r->nnodes;
    x->since = allocate(r->nnodes, sizeof *x->since);
    x->sync = allocate(2 * (size_t)r->nnodes, sizeof *x->sync);
    x->prev = x->sync + r->nnodes;
    memset(before, 0xff, nlines * sizeof *before);
    memset(cursor, 0, shape->nhosts * sizeof *cursor);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct eval_node *n = &r->nodes[i];
        x->end[i] = x->start[i] = horizon;
        x->sync[i] = before[shape->nstreams + n->host];
        x->since[i] = cursor[n->host] += whole(r->host_work, i);
        x->prev[i] = NONE;
        if (n->op == IS_SYNC) {
            before[shape->nstreams + n->host] = i;
            cursor[n->host] = 0;
        } else {
            x->prev[i] = before[n->stream];
            before[n->stream] = i;
        }
    }
    free(before);
    free(cursor);
}

static void set_slots(struct slack *s, int64_t horizon)
{
    size_t n = 0;
    s->first = allocate(s->e->nchannels, sizeof *s->first);
    for (uint32_t i = 0; i < s->e->nchannels; i++) {
        s->first[i] = n;
        n += 2 * (size_t)s->e->channel_ops[i];
    }
    s->slots = allocate(n, sizeof *s->slots);
    for (size_t i = 0; i < n; i++)
        s->slots[i] = horizon;
}

/* ---- Backwards ---- */

static int64_t *slot_of(struct slack *s, const struct eval_rank *r, const struct eval_part *p, bool other)
{
    return &s->slots[s->first[r->channels[p->counter]] + 2 * (size_t)p->sequence + other];
}

/* The group may end at latest by `end`: so late may those start that feed it. */
static void group_ended(struct slack *s, struct eval_rank *r, struct rank_slack *x, uint32_t node)
{
    const struct eval_op *op = &r->shape->ops[r->nodes[node].op];
    int64_t latest = x->end[node] - eval_duration(s->e, r, r->nodes[node].op);
    int32_t self = r->recorded->comms[op->comm].rank;
    lower(&x->start[node], latest);
    for (uint32_t i = op->first_part; i < op->first_part + op->nparts; i++) {
        const struct eval_part *p = &r->shape->parts[i];
        const struct graph_part *recorded = &r->recorded->parts[i];
        uint64_t bytes = recorded->count * graph_datatype_size(recorded->datatype);
        if (p->feeds == GRAPH_FEEDS_TO_ROOT && self != p->root)
            continue;
        if (p->feeds == GRAPH_FEEDS_SEND && s->e->ops.send_is_eager(s->e->ops.ctx, bytes))
            continue;
        lower(slot_of(s, r, p, p->feeds == GRAPH_FEEDS_RECV), latest);
    }
}

/* Whom the start of the group feeds: everyone of a collective (the root alone where it is from the root); the receiver of a
 * send, the sender of a receive. */
static void group_started(struct slack *s, struct eval_rank *r, struct rank_slack *x, uint32_t node)
{
    const struct eval_op *op = &r->shape->ops[r->nodes[node].op];
    int32_t self = r->recorded->comms[op->comm].rank;
    for (uint32_t i = op->first_part; i < op->first_part + op->nparts; i++) {
        const struct eval_part *p = &r->shape->parts[i];
        if (p->feeds != GRAPH_FEEDS_FROM_ROOT || self == p->root)
            lower(&x->start[node], *slot_of(s, r, p, p->feeds == GRAPH_FEEDS_SEND));
    }
}

static void node_started(struct eval_rank *r, struct rank_slack *x, uint32_t node, int64_t latest)
{
    const struct eval_node *n = &r->nodes[node];
    if (x->prev[node] != NONE)
        lower(&x->end[x->prev[node]], latest - whole(r->device_work, node));
    if (n->dep)
        lower(&x->end[node - n->dep], latest);
    if (x->sync[node] != NONE)
        lower(&x->start[x->sync[node]], latest - x->since[node]);
}

static void step(struct slack *s, uint64_t event, int64_t *slack_ns)
{
    uint32_t rank = (uint32_t)(event >> 33), node = (uint32_t)(event >> 1);
    struct eval_rank *r = &s->e->ranks[rank];
    struct rank_slack *x = &s->ranks[rank];
    bool is_comm = r->nodes[node].op < r->shape->nops;
    if (r->nodes[node].op == IS_SYNC)
        lower(&x->end[node], x->start[node]);
    if (!is_comm) {
        node_started(r, x, node, x->end[node]);
    } else if (event & 1) {
        group_ended(s, r, x, node);
    } else {
        group_started(s, r, x, node);
        node_started(r, x, node, x->start[node]);
        lower(&slack_ns[rank], x->start[node] - r->times[node].start_ns);
    }
}

int graph_eval_slack(struct graph_eval *e, int64_t *slack_ns)
{
    const struct eval_thread *t = &e->threads[0];
    int64_t horizon = INT64_MIN;
    if (!t->log || graph_eval_blocked(e, NULL, 0))
        return -1;
    struct slack s = {.e = e, .ranks = calloc(e->graph->world + 1u, sizeof *s.ranks)};
    if (!s.ranks)
        abort();
    for (uint32_t i = 0; i < e->graph->world; i++) {
        slack_ns[i] = last_end(e, i);
        horizon = slack_ns[i] > horizon ? slack_ns[i] : horizon;
    }
    for (uint32_t i = 0; i < e->graph->world; i++) {
        slack_ns[i] = slack_ns[i] == INT64_MIN ? 0 : horizon - slack_ns[i];
        if (e->ranks[i].shape->nops)
            slack_ns[i] = INT64_MAX;
        set_rank(&s, i, horizon);
    }
    set_slots(&s, horizon);
    for (size_t i = t->nlog; i-- > 0;)
        step(&s, t->log[i], slack_ns);
    for (uint32_t i = 0; i < e->graph->world; i++) {
        free(s.ranks[i].end);
        free(s.ranks[i].since);
        free(s.ranks[i].sync);
    }
    free(s.ranks);
    free(s.slots);
    free(s.first);
    return 0;
}
