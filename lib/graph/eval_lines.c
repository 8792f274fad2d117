/* eval_lines.c - timelines going as far as they can. The arithmetic is that of graph.h section 1. */
#include <stdlib.h>
#include <string.h>

#include "graph/eval_private.h"

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t rounded(float work)
{
    return (int64_t)((double)work + 0.5);
}

static inline void push(struct eval_thread *t, uint32_t line)
{
    struct eval_line *l = &t->e->lines[line];
    l->state = EVAL_READY;
    l->next = t->near;
    t->near = line;
}

static inline void wait_for_line(struct graph_eval *e, uint32_t waiter, struct eval_line *other, uint32_t node)
{
    struct eval_line *l = &e->lines[waiter];
    l->state = EVAL_AT_LINE;
    l->wait_for = node;
    l->next = other->waiters;
    other->waiters = waiter;
}

static void wake_waiters(struct eval_thread *t, struct eval_line *l)
{
    uint32_t *link = &l->waiters;
    while (*link != NONE) {
        uint32_t i = *link;
        struct eval_line *w = &t->e->lines[i];
        if (l->n > w->wait_for) {
            *link = w->next;
            push(t, i);
        } else {
            link = &w->next;
        }
    }
}

/* ---- The ring of times ---- */

/* Nodes from the rank's slowest cursor less the longest distance may still be asked for. */
static void ring_make_room(struct graph_eval *e, struct eval_rank *r, uint64_t node)
{
    uint64_t floor = node, from, size = (uint64_t)r->mask + 1, reach = r->max_dep;
    const struct eval_line *l = &e->lines[r->first_line];
    for (uint32_t i = 0; i < r->shape->nstreams + r->shape->nhosts; i++, l++)
        if (l->n < floor)
            floor = l->n;
    r->floor = (uint32_t)floor;
    /* Growing when more than half is in use keeps the number of searches low. */
    if ((node - floor + reach) * 2 <= r->mask)
        return;
    from = floor > reach ? floor - reach : 0;
    while (size <= 2 * (node - floor + reach))
        size *= 2;
    int64_t *time = eval_allocate(size, sizeof *time);
    for (uint64_t p = from; p < node; p++)
        time[p & (size - 1)] = r->time[p & r->mask];
    free(r->grown);
    r->time = r->grown = time;
    r->mask = (uint32_t)(size - 1);
}

static inline void ring_put(struct graph_eval *e, struct eval_rank *r, uint32_t node, int64_t ns)
{
    if (node - r->floor + r->max_dep > r->mask)
        ring_make_room(e, r, node);
    r->time[node & r->mask] = ns;
}

/* ---- Host threads ---- */

static inline void slot_raise(struct eval_rank *r, uint32_t slot, int64_t end_ns)
{
    if (end_ns > r->slots[slot])
        r->slots[slot] = end_ns;
}

/* End of the node that node n waits for. False: line is on a list. */
static inline bool dep_end(struct graph_eval *e, struct eval_rank *r, uint32_t line, uint32_t n, int64_t *end_ns)
{
    uint32_t target = n - r->nodes[n].dep;
    struct eval_line *other = &e->lines[r->first_line + r->nodes[target].stream];
    if (other->n <= target) {
        wait_for_line(e, line, other, target);
        return false;
    }
    *end_ns = r->time[target & r->mask];
    return true;
}

/* Issue nodes until past `want`. False: blocked at a SYNC. */
static bool host_advance(struct eval_thread *t, struct eval_rank *r, uint32_t line, uint32_t want)
{
    struct graph_eval *e = t->e;
    struct eval_line *h = &e->lines[line];
    const uint32_t *links = r->shape->host_next;
    while (h->n <= want) {
        uint32_t n = h->n;
        int64_t issue = h->end_ns + (r->host_work ? rounded(r->host_work[n]) : 0);
        if (r->nodes[n].op == IS_SYNC) {
            int64_t end = issue, dep;
            if (r->nodes[n].dep) {
                if (!dep_end(e, r, line, n, &dep))
                    return false;
                end = later(issue, dep);
            }
            uint32_t unused;
            slot_raise(r, eval_slot_of(r->recorded, n, &unused), end);
            if (r->times)
                r->times[n] = (struct graph_times){issue, end};
            h->end_ns = end;
            eval_log(t, h->rank, n, true);
            t->nodes++;
        } else {
            ring_put(e, r, n, issue);
            h->end_ns = issue;
        }
        uint32_t next = links ? links[n] : n + 1;
        h->n = next < r->nnodes ? next : NONE;
        if (h->n == NONE)
            break;
    }
    return true;
}

static void host_run(struct eval_thread *t, uint32_t line)
{
    struct eval_line *h = &t->e->lines[line];
    if (host_advance(t, &t->e->ranks[h->rank], line, h->slot))
        h->state = h->n == NONE ? EVAL_ENDED : EVAL_IDLE;
    if (h->waiters != NONE)
        wake_waiters(t, h);
}

/* Have node n issued; a host's slot is the node it is asked to get past. */
static bool pull_host(struct eval_thread *t, struct eval_rank *r, uint32_t line, uint32_t host, uint32_t n)
{
    struct eval_line *h = &t->e->lines[host];
    if (h->slot < n)
        h->slot = n;
    if (h->state == EVAL_IDLE && host_advance(t, r, host, h->slot)) {
        if (h->n == NONE)
            h->state = EVAL_ENDED;
        return true;
    }
    if (h->n > n)
        return true;
    wait_for_line(t->e, line, h, n);
    return false;
}

static void hosts_to_end(struct eval_thread *t, struct eval_rank *r)
{
    for (uint32_t i = 0; i < r->shape->nhosts; i++) {
        uint32_t line = r->first_host + i;
        t->e->lines[line].slot = NONE - 1;
        if (t->e->lines[line].state == EVAL_IDLE)
            push(t, line);
    }
}

/* ---- Channels ---- */

static void ring_grow(struct eval_channel *c)
{
    uint32_t old = c->mask + 1;
    for (uint32_t size = 2 * old;; size *= 2) {
        struct eval_slot *ring = eval_allocate(size, sizeof *ring);
        bool clash = false;
        for (uint32_t i = 0; i < old && !clash; i++) {
            struct eval_slot *to = &ring[c->ring[i].sequence & (size - 1)];
            clash = c->ring[i].count && to->count;
            if (c->ring[i].count)
                *to = c->ring[i];
        }
        if (clash) {
            free(ring);
            continue;
        }
        if (c->ring != c->own)
            free(c->ring);
        c->ring = ring;
        c->mask = size - 1;
        return;
    }
}

static inline struct eval_slot *slot_at(struct eval_channel *c, uint32_t sequence)
{
    while (c->ring[sequence & c->mask].count && c->ring[sequence & c->mask].sequence != sequence)
        ring_grow(c);
    struct eval_slot *s = &c->ring[sequence & c->mask];
    if (!s->count)
        *s = (struct eval_slot){.value = INT64_MIN, .sequence = sequence, .waiters = NONE};
    return s;
}

struct entering {
    struct eval_thread *t;
    struct eval_line *l;
    uint32_t waiter; /* of the part at hand */
};

static inline void wait_on(const struct entering *x, struct eval_slot *s)
{
    x->t->e->waiters[x->waiter].next = s->waiters;
    s->waiters = x->waiter;
    x->l->pending++;
}

static inline void raise(struct eval_line *l, int64_t ns)
{
    if (ns > l->max_ns)
        l->max_ns = ns;
}

/* What to feed then with which start; NONE: nobody. */
static inline uint32_t enter_collective(const struct entering *x, struct eval_channel *c, const struct eval_part *p, bool is_root,
                                        int64_t *value)
{
    struct eval_slot *s = slot_at(c, p->sequence);
    bool last = ++s->count == c->members, from_root = p->feeds == GRAPH_FEEDS_FROM_ROOT;
    if ((!from_root || is_root) && x->l->start_ns > s->value)
        s->value = x->l->start_ns;
    if (from_root ? is_root : last)
        s->fed = true;
    if (p->feeds == GRAPH_FEEDS_ALL || is_root != from_root) {
        if (s->fed)
            raise(x->l, s->value);
        else
            wait_on(x, s);
    }
    if (!s->fed)
        return NONE;
    uint32_t waiters = s->waiters;
    *value = s->value;
    s->waiters = NONE;
    if (last)
        s->count = 0;
    return waiters;
}

static inline uint32_t enter_message(const struct entering *x, struct eval_channel *c, const struct eval_part *p, bool eager,
                                     int64_t *value)
{
    struct eval_slot *s = slot_at(c, p->sequence);
    if (!s->count) {
        s->count = 1;
        s->value = x->l->start_ns;
        if (!eager)
            wait_on(x, s);
        return NONE;
    }
    if (!eager)
        raise(x->l, s->value);
    s->count = 0;
    *value = x->l->start_ns;
    return s->waiters;
}

static void feed_all(struct eval_thread *t, uint32_t waiter, int64_t value)
{
    struct graph_eval *e = t->e;
    while (waiter != NONE) {
        struct eval_waiter w = e->waiters[waiter]; /* its owner may use the place again once it is fed */
        uint32_t owner = e->ranks[e->lines[w.line].rank].thread;
        if (owner == t->number)
            eval_feed(t, w.line, value);
        else
            eval_post(t, owner, w.line, value);
        waiter = w.next;
    }
}

static inline uint32_t enter_part(const struct entering *x, const struct eval_rank *r, const struct eval_part *p, bool is_root,
                                  uint32_t part, int64_t *value)
{
    struct graph_eval *e = x->t->e;
    struct eval_channel *c = &e->channels[r->channels[p->counter]];
    pthread_mutex_t *lock = c->crosses ? &e->channel_locks[r->channels[p->counter] % LOCKS] : NULL;
    uint32_t waiters;
    if (lock)
        pthread_mutex_lock(lock);
    if (p->feeds < GRAPH_FEEDS_SEND) {
        waiters = enter_collective(x, c, p, is_root, value);
    } else {
        const struct graph_part *recorded = &r->recorded->parts[part];
        bool eager = p->feeds == GRAPH_FEEDS_SEND &&
                     e->ops.send_is_eager(e->ops.ctx, recorded->count * graph_datatype_size(recorded->datatype));
        waiters = enter_message(x, c, p, eager, value);
    }
    if (lock)
        pthread_mutex_unlock(lock);
    return waiters;
}

static bool enter_several(struct eval_thread *t, struct eval_rank *r, struct eval_line *l, const struct eval_op *op)
{
    struct entering x = {t, l, l->waiter};
    for (uint32_t i = 0; i < op->nparts; i++, x.waiter++) {
        const struct eval_part *p = &r->shape->parts[op->first_part + i];
        bool is_root = p->feeds != GRAPH_FEEDS_ALL && r->recorded->comms[op->comm].rank == p->root;
        int64_t value = 0;
        uint32_t waiters = enter_part(&x, r, p, is_root, op->first_part + i, &value);
        if (waiters != NONE)
            feed_all(t, waiters, value);
    }
    return --l->pending == 0;
}

/* Bring the group at which the line stands to its channels. True when nothing is pending. */
static inline bool enter(struct eval_thread *t, struct eval_rank *r, struct eval_line *l, const struct eval_node *node)
{
    l->max_ns = l->start_ns;
    l->pending = 1; /* keeps the group open while its parts come in */
    if (node->counter == NONE)
        return enter_several(t, r, l, &r->shape->ops[node->op]);
    struct entering x = {t, l, l->waiter};
    struct eval_part p = {node->counter, node->sequence, -1, node->feeds};
    int64_t value = 0;
    uint32_t waiters = enter_part(&x, r, &p, false, node->part, &value);
    if (waiters != NONE)
        feed_all(t, waiters, value);
    return --l->pending == 0;
}

/* ---- Streams ---- */

static int64_t ask_duration(struct graph_eval *e, struct eval_rank *r, const struct eval_op *op)
{
    struct graph_member m = r->recorded->comms[op->comm];
    double ns = e->ops.duration_ns(e->ops.ctx, e->graph, (uint32_t)m.global, m.rank, &r->recorded->parts[op->first_part],
                                   op->nparts);
    return (int64_t)(ns + 0.5);
}

static inline int64_t duration_of(struct graph_eval *e, struct eval_rank *r, uint32_t op)
{
    if (!r->signature)
        return ask_duration(e, r, &r->shape->ops[op]);
    int64_t *known = &r->durations[r->signature[op]];
    if (*known == INT64_MIN)
        *known = ask_duration(e, r, &r->shape->ops[op]);
    return *known;
}

int64_t eval_duration(struct graph_eval *e, struct eval_rank *r, uint32_t op)
{
    return duration_of(e, r, op);
}

static void stream_new_slot(struct eval_thread *t, struct eval_rank *r, struct eval_line *l)
{
    slot_raise(r, l->slot, l->end_ns);
    if (l->n != NONE) {
        l->slot = eval_slot_of(r->recorded, l->n, &l->slot_end);
        return;
    }
    l->state = EVAL_ENDED;
    if (!--r->open_streams)
        hosts_to_end(t, r);
}

/* The stream's node has ended: on to the next. */
static inline void node_ended(struct eval_thread *t, struct eval_rank *r, struct eval_line *l, int64_t start_ns, int64_t end_ns)
{
    uint32_t n = l->n;
    r->time[n & r->mask] = end_ns;
    if (r->times)
        r->times[n] = (struct graph_times){start_ns, end_ns};
    l->end_ns = end_ns;
    l->n = r->nodes[n].next;
    eval_log(t, l->rank, n, true);
    t->nodes++;
    if (l->n >= l->slot_end)
        stream_new_slot(t, r, l);
    if (l->waiters != NONE)
        wake_waiters(t, l);
}

void eval_feed(struct eval_thread *t, uint32_t line, int64_t value)
{
    struct graph_eval *e = t->e;
    struct eval_line *l = &e->lines[line];
    raise(l, value);
    if (--l->pending)
        return;
    struct eval_rank *r = &e->ranks[l->rank];
    l->state = EVAL_READY;
    node_ended(t, r, l, l->start_ns, l->max_ns + duration_of(e, r, r->nodes[l->n].op));
    if (l->state != EVAL_ENDED)
        push(t, line);
}

/* The commonest case of pulling: the host's next node is this one, and it has one host thread. */
static inline void issue_next(struct graph_eval *e, struct eval_rank *r, struct eval_line *h)
{
    uint32_t n = h->n;
    h->end_ns += r->host_work ? rounded(r->host_work[n]) : 0;
    ring_put(e, r, n, h->end_ns);
    h->n = n + 1 < r->nnodes ? n + 1 : NONE;
    if (h->n == NONE)
        h->state = EVAL_ENDED;
}

/* Start of the node at which the stream stands. False: something is missing, and the line is on a list. */
static inline bool stream_start(struct eval_thread *t, struct eval_rank *r, struct eval_line *l, uint32_t line,
                                int64_t *start_ns)
{
    const struct eval_node *node = &r->nodes[l->n];
    uint32_t n = l->n, host = r->first_host + node->host;
    struct eval_line *h = &t->e->lines[host];
    if (h->n == n && h->state == EVAL_IDLE && h->waiters == NONE && !r->shape->host_next)
        issue_next(t->e, r, h);
    else if (h->n <= n && !pull_host(t, r, line, host, n))
        return false;
    int64_t start = l->end_ns + (r->device_work ? rounded(r->device_work[n]) : 0);
    start = later(start, r->time[n & r->mask]);
    if (node->dep) {
        int64_t dep;
        if (!dep_end(t->e, r, line, n, &dep))
            return false;
        start = later(start, dep);
    }
    *start_ns = start;
    return true;
}

static void stream_run(struct eval_thread *t, uint32_t line, bool may_be_far)
{
    struct graph_eval *e = t->e;
    struct eval_line *l = &e->lines[line];
    struct eval_rank *r = &e->ranks[l->rank];
    while (l->n != NONE) {
        int64_t start, end;
        uint32_t op = r->nodes[l->n].op;
        if (!may_be_far && l->n > e->lines[r->first_host + r->nodes[l->n].host].n + (uint64_t)FAR) {
            l->next = t->far;
            t->far = line;
            return;
        }
        may_be_far = false;
        if (!stream_start(t, r, l, line, &start))
            return;
        end = start;
        if (op != NOT_COMM) {
            l->start_ns = start;
            l->state = EVAL_AT_COMM;
            eval_log(t, l->rank, l->n, false);
            if (!enter(t, r, l, &r->nodes[l->n]))
                return;
            l->state = EVAL_READY;
            end = l->max_ns + duration_of(e, r, op);
        }
        node_ended(t, r, l, start, end);
    }
}

void eval_drain(struct eval_thread *t)
{
    struct graph_eval *e = t->e;
    for (;;) {
        bool far = t->near == NONE;
        uint32_t *stack = far ? &t->far : &t->near, line = *stack;
        if (line == NONE)
            return;
        *stack = e->lines[line].next;
        if (e->lines[line].is_host)
            host_run(t, line);
        else
            stream_run(t, line, far);
    }
}

void eval_begin(struct eval_thread *t, int64_t t0_ns)
{
    struct graph_eval *e = t->e;
    for (uint32_t i = e->graph->world; i-- > 0;) {
        struct eval_rank *r = &e->ranks[e->order[i]];
        if (r->thread != t->number)
            continue;
        for (uint32_t k = r->shape->nstreams + r->shape->nhosts; k-- > 0;) {
            struct eval_line *l = &e->lines[r->first_line + k];
            l->end_ns = t0_ns;
            if (!l->is_host && l->n != NONE)
                push(t, r->first_line + k);
        }
        if (!r->open_streams) /* nobody would pull its host threads */
            hosts_to_end(t, r);
    }
}
