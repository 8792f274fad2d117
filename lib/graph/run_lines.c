/* run_lines.c - timelines going as far as they can. The arithmetic is that of graph.h section 1. */
#include "graph/run_private.h"

#include <stdlib.h>

void run_push(struct graph_run *run, uint32_t line)
{
    run->lines[line].state = LINE_READY;
    run->lines[line].next = run->ready;
    run->ready = line;
}

static inline bool line_is_past(const struct run_rank *r, const struct run_line *l, uint64_t position)
{
    return l->n == NONE || run_position(r, l->n, l->k) > position;
}

static void wait_for_line(struct graph_run *run, uint32_t waiter, struct run_line *other, uint64_t position)
{
    struct run_line *l = &run->lines[waiter];
    l->state = LINE_AT_LINE;
    l->wait_for = position;
    l->next = other->waiters;
    other->waiters = waiter;
}

static void wake_waiters(struct graph_run *run, struct run_rank *r, struct run_line *l)
{
    uint32_t *link = &l->waiters;
    while (*link != NONE) {
        uint32_t i = *link;
        struct run_line *w = &run->lines[i];
        if (line_is_past(r, l, w->wait_for)) {
            *link = w->next;
            run_push(run, i);
        } else {
            link = &w->next;
        }
    }
}

/* ---- The ring of times ---- */

static void ring_grow(struct run_rank *r, uint64_t position)
{
    uint64_t size = r->mask + 1;
    uint64_t kept = position - r->floor + r->max_dep;
    uint64_t from = r->floor > r->max_dep ? r->floor - r->max_dep : 0;
    while (size <= kept)
        size *= 2;
    int64_t *time = malloc(size * sizeof *time);
    if (!time)
        abort();
    for (uint64_t p = from; p < r->top; p++)
        time[p & (size - 1)] = r->time[p & r->mask];
    free(r->time);
    r->time = time;
    r->mask = size - 1;
}

/* Make the place of position free: positions that may still be asked for must not share it. */
static void ring_make_room(struct graph_run *run, struct run_rank *r, uint64_t position)
{
    uint64_t floor = position;
    const struct run_line *l = &run->lines[r->first_line];
    for (uint32_t i = 0; i < r->nstreams + r->nhosts; i++, l++) {
        if (l->n != NONE && run_position(r, l->n, l->k) < floor)
            floor = run_position(r, l->n, l->k);
    }
    r->floor = floor;
    /* Growing when more than half is in use keeps the number of searches low. */
    if ((position - floor + r->max_dep) * 2 > r->mask)
        ring_grow(r, position);
}

static inline void ring_put(struct graph_run *run, struct run_rank *r, uint64_t position, int64_t ns)
{
    if (position - r->floor + r->max_dep > r->mask)
        ring_make_room(run, r, position);
    r->time[position & r->mask] = ns;
    if (position >= r->top)
        r->top = position + 1;
}

/* ---- Cursors ---- */

/* Step the cursor to the line's next node, next being it as recorded. True when a loop was begun. */
static inline bool step(const struct run_rank *r, struct run_line *l, uint32_t line, uint32_t next)
{
    bool looped = false;
    if (next >= r->loop_end && l->n < r->loop_end) {
        uint32_t first = r->extra ? r->loop_first[line - r->first_line] : NONE;
        if (l->k < r->extra && first != NONE) {
            next = first;
            l->k++;
            looped = true;
        } else {
            l->k = r->extra;
        }
    }
    l->n = next < r->limit ? next : NONE;
    return looped;
}

static void hosts_to_end(struct graph_run *run, struct run_rank *r)
{
    for (uint32_t i = 0; i < r->nhosts; i++) {
        uint32_t line = r->first_line + r->nstreams + i;
        run->lines[line].want = UINT64_MAX;
        if (run->lines[line].state == LINE_IDLE)
            run_push(run, line);
    }
}

static void stream_new_slot(struct graph_run *run, struct run_rank *r, struct run_line *l)
{
    if (!run->terms)
        run_slot_raise(r, l->slot, l->end_ns);
    if (l->n == NONE) {
        l->state = LINE_ENDED;
        l->slot = 0;
        if (!--r->open_streams)
            hosts_to_end(run, r);
        return;
    }
    struct slot_place place = run_slot_of(r, l->n, l->k);
    l->slot = place.slot;
    l->slot_end = place.end;
}

/* The stream's node has ended: on to the next. */
static inline void stream_node_ended(struct graph_run *run, struct run_rank *r, struct run_line *l,
                                     uint32_t line, int64_t start_ns, int64_t end_ns)
{
    uint64_t position = run_position(r, l->n, l->k);
    r->time[position & r->mask] = end_ns;
    l->end_ns = end_ns;
    if (run->ops.on_node)
        run->ops.on_node(run->ops.ctx, l->rank, position, start_ns, end_ns);
    bool looped = step(r, l, line, r->links[l->n].stream);
    if (looped || l->n >= l->slot_end)
        stream_new_slot(run, r, l);
    if (l->waiters != NONE)
        wake_waiters(run, r, l);
}

/* ---- Waiting for nodes of the same rank ---- */

/* End of the node that l's node waits for. False: not known yet, and l is on the list of its line. */
static bool dep_end(struct graph_run *run, struct run_rank *r, uint32_t line, int64_t *end_ns)
{
    const struct run_line *l = &run->lines[line];
    const struct graph_node *node = &r->nodes[l->n];
    *end_ns = INT64_MIN;
    if (!node->dep)
        return true;
    int64_t target = (int64_t)l->n - node->dep;
    uint64_t position = run_position(r, l->n, l->k) - node->dep;
    if (l->k && target < r->loop_begin) {
        /* Looped, the distance reaches into the loop before. An event of the set-up is not there: it is long
         * past. */
        const struct graph_node *recorded = &r->nodes[target];
        target += (int64_t)r->len * (((int64_t)r->loop_begin - target + r->len - 1) / r->len);
        if (position < r->loop_begin)
            target = (int64_t)position;
        if (r->nodes[target].kind != recorded->kind || r->nodes[target].stream != recorded->stream)
            return true;
    }
    struct run_line *other = &run->lines[r->first_line + r->nodes[target].stream];
    if (!line_is_past(r, other, position)) {
        wait_for_line(run, line, other, position);
        return false;
    }
    *end_ns = r->time[position & r->mask];
    return true;
}

/* ---- Host threads ---- */

/* Issue nodes until past want. False: blocked at a SYNC (and on a list). */
static bool host_advance(struct graph_run *run, struct run_rank *r, uint32_t line)
{
    struct run_line *h = &run->lines[line];
    while (!line_is_past(r, h, h->want)) {
        uint64_t position = run_position(r, h->n, h->k);
        int64_t issue = h->end_ns + (r->host_work ? run_round(r->host_work[h->n]) : 0);
        if (r->nodes[h->n].kind == GRAPH_SYNC) {
            int64_t dep;
            if (!dep_end(run, r, line, &dep))
                return false;
            int64_t end = run_later(run, issue, dep);
            if (run->ops.on_node)
                run->ops.on_node(run->ops.ctx, h->rank, position, issue, end);
            if (!run->terms)
                run_slot_raise(r, run_slot_of(r, h->n, h->k).slot, end);
            h->end_ns = end;
        } else {
            ring_put(run, r, position, issue);
            h->end_ns = issue;
        }
        step(r, h, line, r->links[h->n].host);
    }
    return true;
}

static void host_run(struct graph_run *run, uint32_t line)
{
    struct run_line *h = &run->lines[line];
    struct run_rank *r = &run->ranks[h->rank];
    if (host_advance(run, r, line))
        h->state = h->n == NONE ? LINE_ENDED : LINE_IDLE;
    if (h->waiters != NONE)
        wake_waiters(run, r, h);
}

/* Have the node at position issued. False: its host thread is blocked, and line is on its list. */
static bool pull_host(struct graph_run *run, struct run_rank *r, uint32_t line, uint32_t host,
                      uint64_t position)
{
    struct run_line *h = &run->lines[host];
    if (h->want < position)
        h->want = position;
    if (h->state == LINE_IDLE && host_advance(run, r, host)) {
        if (h->n == NONE)
            h->state = LINE_ENDED;
        return true;
    }
    if (line_is_past(r, h, position)) /* blocked, but behind this node */
        return true;
    wait_for_line(run, line, h, position);
    return false;
}

/* ---- Streams ---- */

int64_t run_group_end(struct graph_run *run, struct run_rank *r, const struct run_group *group, uint32_t n,
                      const struct graph_part *live, uint32_t nlive)
{
    const struct graph_node *node = &r->nodes[n];
    struct graph_member member = r->recorded->comms[node->comm];
    if (!live) {
        live = &r->recorded->parts[node->first_part];
        nlive = node->nparts;
    }
    double ns =
        run->ops.duration_ns(run->ops.ctx, run->graph, (uint32_t)member.global, member.rank, live, nlive);
    return group->max_ns + run_round(ns);
}

void run_line_comm_ended(struct graph_run *run, uint32_t line)
{
    struct run_line *l = &run->lines[line];
    struct run_rank *r = &run->ranks[l->rank];
    l->state = LINE_READY;
    int64_t end = run_group_end(run, r, &l->group, l->n, NULL, 0);
    stream_node_ended(run, r, l, line, l->group.start_ns, end);
    if (l->state != LINE_ENDED)
        run_push(run, line);
}

/* Start of the node at which the stream stands. False: something is missing, and the line is on a list. */
static inline bool stream_start(struct graph_run *run, struct run_rank *r, struct run_line *l, uint32_t line,
                                int64_t *start_ns)
{
    const struct graph_node *node = &r->nodes[l->n];
    uint64_t position = run_position(r, l->n, l->k);
    uint32_t host = r->first_line + r->nstreams + node->host;
    if (!line_is_past(r, &run->lines[host], position) && !pull_host(run, r, line, host, position))
        return false;
    int64_t start = l->end_ns + (r->device_work ? run_round(r->device_work[l->n]) : 0);
    start = run_later(run, start, r->time[position & r->mask]);
    if (node->dep) {
        int64_t dep;
        if (!dep_end(run, r, line, &dep))
            return false;
        start = run_later(run, start, dep);
    }
    *start_ns = start;
    return true;
}

static void stream_run(struct graph_run *run, uint32_t line)
{
    struct run_line *l = &run->lines[line];
    struct run_rank *r = &run->ranks[l->rank];
    while (l->n != NONE) {
        if (l->slot > run->allowed) {
            l->state = LINE_PARKED;
            l->next = run->parked;
            run->parked = line;
            return;
        }
        int64_t start, end;
        if (!stream_start(run, r, l, line, &start))
            return;
        end = start;
        if (r->nodes[l->n].kind == GRAPH_COMM) {
            l->group.start_ns = start;
            l->state = LINE_AT_COMM;
            if (run->ops.on_comm_start)
                run->ops.on_comm_start(run->ops.ctx, l->rank, l->n, l->k, start);
            if (!run_match(run, r, line, &l->group, l->n, l->k, NULL))
                return;
            l->state = LINE_READY;
            end = run_group_end(run, r, &l->group, l->n, NULL, 0);
        }
        stream_node_ended(run, r, l, line, start, end);
    }
}

void run_drain(struct graph_run *run)
{
    while (run->ready != NONE) {
        if (run->terms && terms_are_many(run->terms))
            run_collect_terms(run);
        if (run->terms && terms_refused(run->terms))
            return;
        uint32_t line = run->ready;
        run->ready = run->lines[line].next;
        if (run->lines[line].is_host)
            host_run(run, line);
        else
            stream_run(run, line);
    }
}
