#include "prismd/ranks/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/clock.h"
#include "common/log.h"
#include "prismd/switching/movers.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"
#include "prismd/capture/settling.h"
#include "prismd/store.h"
#include "prismd/gates/watch.h"

#define COMMS_AT_ONCE 1024u /* being made by a rank's host threads */

static int malformed(struct daemon *d, struct rank *r, const char *what)
{
    return daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: malformed message (%s); are libprism.so and prismd of one build?",
                       r->number, what);
}

/* Order numbers are given at issue: NCCL matches operations in the order in which they are issued. */
static uint32_t next_of(uint32_t **counters, const struct membership *m, int32_t peer)
{
    if (!*counters && !(*counters = calloc((size_t)m->size, sizeof **counters)))
        abort();
    return (*counters)[peer]++;
}

static void number_parts(struct membership *m, struct group *g)
{
    for (uint32_t i = 0; i < g->nparts; i++) {
        const struct msg_part *p = &g->parts[i];
        if (p->op == PRISM_OP_SEND)
            g->sequence[i] = next_of(&m->sends, m, p->peer);
        else if (p->op == PRISM_OP_RECV)
            g->sequence[i] = next_of(&m->recvs, m, p->peer);
        else
            g->sequence[i] = m->collectives++;
    }
}

static bool part_is_sound(const struct rank *r, const struct membership *m, const struct msg_part *p)
{
    bool p2p = coll_op_is_p2p(p->op);
    if (!coll_part_is_possible(p->op, p->datatype, p->redop, p->count, p->peer, m->size))
        return false;
    /* Combining trusts the bytes of a collective. */
    if (!p2p && r->daemon->phase == PHASE_CAPTURE &&
        !coll_sizes_agree(p->op, p->datatype, p->count, m->rank, p->peer, m->size, p->in_bytes, p->out_bytes))
        return false;
    if (p->synthetic && (p->out_bytes || r->daemon->phase == PHASE_CAPTURE || r->daemon->conf->payload != TRACE_PAYLOAD_CONTROL))
        return false;
    if ((p->in_offset | p->out_offset) % coll_datatype_size(p->datatype)) /* sums are made where they lie */
        return false;
    if (p->in_bytes > r->region_size || p->in_offset > r->region_size - p->in_bytes)
        return false;
    return p->out_bytes <= r->region_size && p->out_offset <= r->region_size - p->out_bytes;
}

static struct group *begin_group(struct daemon *d, struct rank *r, const struct msg_node *m)
{
    struct membership *c = m->comm < r->ncomms ? &r->comms[m->comm] : NULL;
    if (!c || c->global < 0 || m->slot >= REGION_SLOTS || !m->total_parts || m->stream > 65535) {
        malformed(d, r, "node");
        return NULL;
    }
    struct group *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->rank = r;
    g->comm = m->comm;
    g->ordinal = c->groups++;
    g->position = r->comm_nodes++;
    g->node = m->index;
    g->stream = m->stream;
    g->slot = m->slot;
    g->generation = m->generation;
    g->early = m->early;
    g->head = SIZE_MAX;
    return g;
}

static void drop_group(struct group *g)
{
    free(g->parts);
    free(g->sequence);
    free(g);
}

/* Room for n more parts: memory grows with what really comes. */
static void make_room(struct group *g, uint32_t n)
{
    g->parts = realloc(g->parts, (g->nparts + n) * sizeof *g->parts);
    g->sequence = realloc(g->sequence, (g->nparts + n) * sizeof *g->sequence);
    if (!g->parts || !g->sequence)
        abort();
}

/* Returns the group once its last part has come. */
static struct group *collect_group(struct daemon *d, struct rank *r, const struct msg_node *m,
                                   const struct msg_part *parts)
{
    if (!m->first_part && !r->assembling)
        r->assembling = begin_group(d, r, m);
    struct group *g = r->assembling;
    if (!g || g->node != m->index || m->first_part != g->nparts) {
        malformed(d, r, "parts");
        return NULL;
    }
    make_room(g, m->nparts + 1);
    for (uint32_t i = 0; i < m->nparts && g->nparts < m->total_parts; i++) {
        if (!part_is_sound(r, &r->comms[g->comm], &parts[i])) {
            malformed(d, r, "part");
            return NULL;
        }
        g->parts[g->nparts++] = parts[i];
    }
    if (g->nparts < m->total_parts)
        return NULL;
    r->assembling = NULL;
    number_parts(&r->comms[g->comm], g);
    return g;
}

/* Differences of times do not overflow. */
static bool is_time(int64_t ns)
{
    return ns >= -(INT64_MAX / 2) && ns <= INT64_MAX / 2;
}

static void take_node(struct daemon *d, struct rank *r, const struct msg_node *m, size_t len)
{
    if (len < sizeof *m || m->nparts > (len - sizeof *m) / sizeof(struct msg_part) || !is_time(m->enter_ns) || !is_time(m->leave_ns)) {
        malformed(d, r, "node size or time");
        return;
    }
    struct group *g = NULL;
    if (m->kind == GRAPH_COMM) {
        g = collect_group(d, r, m, (const struct msg_part *)(m + 1));
        if (!g)
            return;
    }
    r->nodes++;
    if (d->stopping) {
        if (g)
            drop_group(g);
        return;
    }
    d->ops->node(d, r, m, g);
    if (g)
        watch_add(d->watch, g);
}

static void take_times(struct daemon *d, struct rank *r, const struct msg_times *m, size_t len)
{
    const struct msg_time *times = (const struct msg_time *)(m + 1);
    bool sound = len >= sizeof *m && m->count <= (len - sizeof *m) / sizeof(struct msg_time);
    for (uint32_t i = 0; sound && i < m->count; i++)
        sound = is_time(times[i].pre_ns) && is_time(times[i].post_ns);
    if (!sound)
        malformed(d, r, "times");
    else if (d->ops->times)
        d->ops->times(d, r, times, m->count);
}

static void take_fatal(struct daemon *d, struct rank *r, const struct msg_fatal *m, size_t len)
{
    if (len < sizeof *m)
        malformed(d, r, "fatal");
    movers_hear(d);
    if (len >= sizeof *m)
        daemon_fail(d, (int)m->code, "%.*s", (int)(len - sizeof *m), (const char *)(m + 1));
}

static void take_memory(struct rank *r, const struct msg_memory *m)
{
    r->live_bytes = m->live_bytes;
    if (m->peak_bytes > r->peak_bytes)
        r->peak_bytes = m->peak_bytes;
}

static void take_set_up(struct daemon *d, struct rank *r, const struct msg_set_up *m)
{
    r->host_waits = m->done ? HOST_RUNS : HOST_IN_DRIVER;
    settling_set_up(r, m->done);
    if (m->done && m->wakes)
        watch_writers_wake(d->watch);
}

static void take_mark(struct daemon *d, struct rank *r, const struct msg_mark *m)
{
    if (m->position > r->nodes || m->kind < MARK_PUSH || m->kind > MARK_DROP)
        malformed(d, r, "mark");
    else if (d->ops->mark && !d->stopping)
        d->ops->mark(d, r, m);
}

static bool long_enough(const struct msg_header *h, size_t len)
{
    static const size_t least[] = {
        [MSG_COMM_INIT] = sizeof(struct msg_comm_init), [MSG_COMM_SPLIT] = sizeof(struct msg_comm_split),
        [MSG_COMM_FREE] = sizeof(struct msg_comm_free), [MSG_MEMORY] = sizeof(struct msg_memory),       [MSG_STORE_PORT] = sizeof(struct msg_store_port),
        [MSG_BYE] = sizeof(struct msg_header),         [MSG_SET_UP] = sizeof(struct msg_set_up),
        [MSG_MARK] = sizeof(struct msg_mark),
    };
    size_t need = h->type < sizeof least / sizeof *least ? least[h->type] : 0;
    return len >= (need ? need : sizeof *h);
}

/* Numbers count from 0; those of communicators that several host threads make at once may come in another order. */
static bool number_is_sound(const struct rank *r, uint32_t comm)
{
    return comm < GRAPH_COMMS_MAX && comm <= r->ncomms + COMMS_AT_ONCE;
}

void dispatch_message(struct daemon *d, struct rank *r, const void *data, size_t len)
{
    const struct msg_header *h = data;
    if (len < sizeof *h || h->size != len || !long_enough(h, len)) {
        malformed(d, r, "header");
        return;
    }
    r->running_since_ns = clock_now_ns();
    d->moves++;
    switch (h->type) {
    case MSG_COMM_INIT:
        if (!number_is_sound(r, ((const struct msg_comm_init *)h)->comm)) {
            malformed(d, r, "communicator");
            break;
        }
        r->host_waits = HOST_IN_INIT;
        d->ops->comm_init(d, r, data);
        break;
    case MSG_COMM_SPLIT:
        if (!number_is_sound(r, ((const struct msg_comm_split *)h)->comm)) {
            malformed(d, r, "communicator");
            break;
        }
        r->host_waits = HOST_IN_INIT;
        d->ops->comm_split(d, r, data);
        break;
    case MSG_COMM_FREE:
        r->host_waits = HOST_RUNS;
        if (d->ops->comm_free)
            d->ops->comm_free(d, r, data);
        break;
    case MSG_NODE:
        r->host_waits = HOST_RUNS;
        take_node(d, r, data, len);
        break;
    case MSG_SYNC_ENTER:
        r->host_waits = HOST_IN_SYNC;
        sched_blocked(d, r);
        break;
    case MSG_TIMES:
        take_times(d, r, data, len);
        break;
    case MSG_MEMORY:
        take_memory(r, data);
        break;
    case MSG_STORE_PORT:
        store_rank_connected(d->store, ((const struct msg_store_port *)data)->port, r->number);
        break;
    case MSG_FATAL:
        take_fatal(d, r, data, len);
        break;
    case MSG_SET_UP:
        take_set_up(d, r, data);
        break;
    case MSG_MARK:
        take_mark(d, r, data);
        break;
    case MSG_BYE:
        r->bye = true;
        break;
    default:
        malformed(d, r, "type");
    }
}
