/* run_match.c - operations between ranks: who has got there, who waits, who may go on. */
#include "graph/run_private.h"

#include <stdlib.h>

static void waiter_add(struct graph_run *run, uint32_t *head, uint32_t group)
{
    uint32_t w = run->free_waiter;
    if (w != NONE) {
        run->free_waiter = run->waiters[w].next;
    } else {
        if (run->nwaiters == run->waiters_cap) {
            run->waiters_cap = run->waiters_cap ? run->waiters_cap * 2 : 1024;
            run->waiters = realloc(run->waiters, run->waiters_cap * sizeof *run->waiters);
            if (!run->waiters)
                abort();
        }
        w = run->nwaiters++;
    }
    run->waiters[w] = (struct run_waiter){.group = group, .next = *head};
    *head = w;
}

/* One part of the group is fed. */
static void group_fed(struct graph_run *run, uint32_t number, int64_t start_ns)
{
    bool is_line = number < run->nlines;
    struct run_group *g = is_line ? &run->lines[number].group : &run->externals[number - run->nlines].group;
    g->max_ns = run_later(run, g->max_ns, start_ns);
    if (--g->pending)
        return;
    if (is_line)
        run_line_comm_ended(run, number);
    else
        run_external_ended(run, number - run->nlines);
}

/* Feed every waiter on the list and give the list back. */
static void waiters_feed(struct graph_run *run, uint32_t head, int64_t start_ns)
{
    while (head != NONE) {
        struct run_waiter w = run->waiters[head];
        run->waiters[head].next = run->free_waiter;
        run->free_waiter = head;
        head = w.next;
        group_fed(run, w.group, start_ns);
    }
}

static inline void group_raise(const struct graph_run *run, struct run_group *g, int64_t start_ns)
{
    g->max_ns = run_later(run, g->max_ns, start_ns);
}

struct entering {
    struct graph_run *run;
    struct run_group *group;
    uint32_t number;     /* of the group */
    uint32_t comm, size; /* global communicator; its evaluated members */
    int32_t self;
};

static void wait_on(const struct entering *e, struct run_open *o)
{
    waiter_add(e->run, &o->waiters, e->number);
    e->group->pending++;
}

static void enter_collective(const struct entering *e, enum graph_feeds feeds, int32_t root,
                             uint64_t sequence, int32_t place)
{
    struct graph_run *run = e->run;
    struct run_open *o = run_table_get(&run->table, sequence, e->comm, place, place);
    bool last = ++o->count == e->size;
    bool from_root = feeds == GRAPH_FEEDS_FROM_ROOT;
    if (!from_root || e->self == root)
        o->start_ns = run_later(run, o->start_ns, e->group->start_ns);
    if (from_root && e->self == root)
        o->fed = true;
    if (!from_root && last)
        o->fed = true;
    if (last && run->terms && feeds == GRAPH_FEEDS_ALL && place == RUN_COLLECTIVE && e->size == run->nevaluated)
        o->start_ns = run->on_meeting(run->ops.ctx, e->comm, sequence, o->start_ns);

    if (feeds == GRAPH_FEEDS_ALL || (e->self == root) != from_root) {
        if (o->fed)
            group_raise(e->run, e->group, o->start_ns);
        else
            wait_on(e, o);
    }
    if (!o->fed)
        return;
    uint32_t waiters = o->waiters;
    int64_t start_ns = o->start_ns;
    o->waiters = NONE;
    if (last)
        run_table_remove(&run->table, o);
    waiters_feed(run, waiters, start_ns);
}

/* The second side to come takes the entry away; the first has left its start and, unless it is an eager send,
 * waits. */
static void enter_p2p(const struct entering *e, bool send, bool eager, int32_t peer, uint64_t sequence)
{
    struct graph_run *run = e->run;
    int32_t source = send ? e->self : peer, destination = send ? peer : e->self;
    struct run_open *o = run_table_get(&run->table, sequence, e->comm, source, destination);
    if (!o->count) {
        o->count = 1;
        o->start_ns = e->group->start_ns;
        if (!eager)
            wait_on(e, o);
        return;
    }
    if (!eager)
        group_raise(e->run, e->group, o->start_ns);
    uint32_t waiters = o->waiters;
    run_table_remove(&run->table, o);
    waiters_feed(run, waiters, e->group->start_ns);
}

bool run_match(struct graph_run *run, struct run_rank *r, uint32_t number, struct run_group *group,
               uint32_t n, uint32_t k, const struct graph_part *live)
{
    const struct graph_node *node = &r->nodes[n];
    struct graph_member member = r->recorded->comms[node->comm];
    uint32_t size = run_members(run, member.global);
    bool exchanged = false;
    struct entering e = {run, group, number, (uint32_t)member.global, size, member.rank};
    group->max_ns = group->start_ns;
    group->pending = 1; /* keeps the group open while its parts come in */
    for (uint32_t i = 0; i < node->nparts; i++) {
        const struct graph_part *part = &r->recorded->parts[node->first_part + i];
        const struct run_sequence *s = &r->sequences[node->first_part + i];
        uint64_t sequence = s->first + (n >= r->loop_begin ? (uint64_t)k * s->step : 0);
        enum graph_feeds feeds = graph_feeds(part->op);
        if (feeds < GRAPH_FEEDS_SEND) {
            enter_collective(&e, feeds, part->peer, sequence, RUN_COLLECTIVE);
            continue;
        }
        if (run_is_exchange(run, member.global)) {
            /* Everyone receives from everyone, so everyone waits for everyone, whatever is eager. All pairs are counted
             * alike: the first part stands for all. */
            if (part->peer != member.rank && !exchanged)
                enter_collective(&e, GRAPH_FEEDS_ALL, -1, sequence, RUN_EXCHANGE);
            exchanged |= part->peer != member.rank;
            continue;
        }
        bool send = feeds == GRAPH_FEEDS_SEND;
        uint64_t bytes = (live ? live[i].count : part->count) * graph_datatype_size(part->datatype);
        bool eager = send && run->ops.send_is_eager(run->ops.ctx, bytes);
        enter_p2p(&e, send, eager, part->peer, sequence);
    }
    return --group->pending == 0;
}
