#include "prismd/ranks/sched.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "prismd/switching/movers.h"
#include "prismd/ranks/rank.h"
#include "prismd/gates/watch.h"

/* One node, one scheduler. */
static uint32_t bound;
static uint32_t running;
static struct rank **runners; /* owned; of the phase: those that run, and some that did: a tick need not look at all */
static size_t nrunners, runners_cap;
static struct rank *ready_head, *ready_tail; /* ranks to start or with held gates, first come first served */

static bool has_room(void)
{
    return !bound || running < bound;
}

static void list_running(struct rank *r)
{
    running++;
    if (r->listed)
        return;
    r->listed = true;
    runners = array_room(runners, nrunners, &runners_cap, sizeof *runners);
    runners[nrunners++] = r;
}

static void set_running(struct rank *r)
{
    if (r->state == RANK_RUNNING)
        return;
    r->state = RANK_RUNNING;
    r->running_since_ns = clock_now_ns();
    list_running(r);
}

static void queue(struct rank *r)
{
    if (r->queued)
        return;
    r->queued = true;
    r->next_ready = NULL;
    if (ready_head)
        ready_tail->next_ready = r;
    else
        ready_head = r;
    ready_tail = r;
}

/* g: the head of a stream, NULL: it has none. */
static bool is_held(const struct group *g)
{
    return g && g->arrived && !g->opened && g->open_at_ns < 0;
}

static void run(struct daemon *d, struct rank *r)
{
    if (r->pid) {
        set_running(r);
        for (uint32_t s = 0; s < r->nstreams; s++)
            if (is_held(r->streams[s])) {
                r->streams[s]->open_at_ns = 0;
                watch_open_at(d->watch, r->streams[s], 0);
            }
        return;
    }
    struct prism_error err = {0};
    if (rank_start(r, &err))
        daemon_fail(d, err.code, "%s", err.text);
    else
        list_running(r);
}

static void fill(struct daemon *d)
{
    while (ready_head && has_room() && !d->stopping) {
        struct rank *r = ready_head;
        ready_head = r->next_ready;
        r->queued = false;
        run(d, r);
    }
}

void sched_begin(struct daemon *d, uint32_t runnable)
{
    (void)d;
    bound = runnable;
    running = 0;
    nrunners = 0;
    ready_head = ready_tail = NULL;
}

void sched_want_start(struct daemon *d, struct rank *r)
{
    if (movers_may_start(d, r))
        sched_may_start(d, r);
}

void sched_may_start(struct daemon *d, struct rank *r)
{
    queue(r);
    fill(d);
}

static bool has_held_gate(const struct rank *r)
{
    for (uint32_t s = 0; s < r->nstreams; s++)
        if (is_held(r->streams[s]))
            return true;
    return false;
}

void sched_is_in(struct daemon *d, struct rank *r)
{
    if (r->state == RANK_ENDED || !has_held_gate(r))
        return;
    if (r->state == RANK_RUNNING)
        run(d, r);
    else
        sched_may_start(d, r);
}

void sched_open(struct daemon *d, struct group *g)
{
    struct rank *r = g->rank;
    if (!movers_gate_ready(d, r)) {
        g->open_at_ns = -1; /* held until the rank's memory is back */
        return;
    }
    if (r->state == RANK_RUNNING || has_room()) {
        set_running(r);
        watch_open_at(d->watch, g, 0);
        return;
    }
    g->open_at_ns = -1; /* held until the rank is scheduled */
    queue(r);
}

static void leave_running(struct rank *r, enum rank_state state)
{
    if (r->state == RANK_RUNNING && running)
        running--;
    r->state = state;
}

void sched_blocked(struct daemon *d, struct rank *r)
{
    if (r->state != RANK_RUNNING)
        return;
    leave_running(r, RANK_BLOCKED);
    fill(d);
    movers_look(d, r);
}

/* A gate of it has been served and is not held. */
static bool is_let_go(const struct rank *r)
{
    for (uint32_t s = 0; s < r->nstreams; s++)
        if (r->streams[s] && r->streams[s]->arrived && !r->streams[s]->pending && !is_held(r->streams[s]))
            return true;
    return false;
}

/* Its host, if it waits for streams, waits on. */
void sched_arrived(struct daemon *d, struct rank *r)
{
    if (r->state == RANK_RUNNING && r->host_waits == HOST_IN_SYNC && !is_let_go(r)) {
        leave_running(r, RANK_BLOCKED);
        fill(d);
    }
    movers_look(d, r);
}

void sched_opened(struct daemon *d, struct rank *r)
{
    movers_gate_opened(d, r);
}

void sched_running(struct daemon *d, struct rank *r)
{
    (void)d;
    if (r->state == RANK_BLOCKED)
        set_running(r);
}

void sched_ended(struct daemon *d, struct rank *r)
{
    /* rank_reaped has set ENDED already: count by what it was. */
    uint32_t n = 0;
    for (size_t i = 0; i < nrunners; i++)
        n += runners[i]->state == RANK_RUNNING;
    running = n;
    movers_rank_ended(d, r);
    fill(d);
}

void sched_tick(struct daemon *d)
{
    movers_tick(d);
    if (!bound || !ready_head)
        return;
    int64_t now = clock_now_ns(), limit = now - SCHED_QUIET_MS * 1000000LL, start_limit = now - SCHED_START_MS * 1000000LL;
    for (size_t i = 0; i < nrunners;) {
        struct rank *r = runners[i];
        if (r->state == RANK_RUNNING && r->running_since_ns < (r->hello || !d->board ? limit : start_limit))
            leave_running(r, RANK_BLOCKED);
        if (r->state == RANK_RUNNING) {
            i++;
        } else {
            r->listed = false;
            runners[i] = runners[--nrunners];
        }
    }
    fill(d);
}

void sched_end(struct daemon *d)
{
    (void)d;
    ready_head = ready_tail = NULL;
}
