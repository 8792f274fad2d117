#include "prismd/capture/settling.h"

#include <stdlib.h>

#include "common/clock.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"

enum stage { UNKNOWN, STARTED, IN_DRIVER, SETTLED };

struct held {
    uint32_t rank;
    struct msg_comm_ready ready;
    struct held *next;
};

static struct {
    uint8_t *stages;   /* owned, by rank: enum stage; NULL: not in capture */
    struct place {
        uint32_t counts[SETTLED + 1]; /* of its ranks by stage */
        int64_t changed_ns;
    } *devices;        /* owned */
    struct held *held; /* owned */
} settling;

void settling_begin(struct daemon *d)
{
    settling.stages = calloc(d->conf->world, 1);
    settling.devices = calloc(d->conf->ndevices ? d->conf->ndevices : 1, sizeof *settling.devices);
    if (!settling.stages || !settling.devices)
        abort();
}

void settling_end(struct daemon *d)
{
    (void)d;
    for (struct held *h; (h = settling.held);) {
        settling.held = h->next;
        free(h);
    }
    free(settling.stages);
    free(settling.devices);
    settling.stages = NULL;
    settling.devices = NULL;
}

static void become(struct rank *r, enum stage stage)
{
    if (!settling.stages || settling.stages[r->number] >= stage)
        return;
    struct place *p = &settling.devices[r->device];
    if (settling.stages[r->number] != UNKNOWN)
        p->counts[settling.stages[r->number]]--;
    p->counts[stage]++;
    p->changed_ns = clock_now_ns();
    settling.stages[r->number] = (uint8_t)stage;
}

void settling_started(struct rank *r)
{
    become(r, STARTED);
}

void settling_set_up(struct rank *r, bool done)
{
    become(r, done ? SETTLED : IN_DRIVER);
}

void settling_ended(struct rank *r)
{
    become(r, SETTLED);
}

static bool is_settled(const struct rank *r, int64_t now)
{
    const struct place *p = settling.stages ? &settling.devices[r->device] : NULL;
    return !p || r->daemon->board || (!p->counts[IN_DRIVER] && (!p->counts[STARTED] || now - p->changed_ns >= SETTLING_NS));
}

static void answer(struct rank *r, struct msg_comm_ready *ready)
{
    rank_send_ready(r, ready, NULL);
    sched_running(r->daemon, r);
}

void settling_answer(struct rank *r, const struct msg_comm_ready *ready)
{
    struct msg_comm_ready copy = *ready;
    if (is_settled(r, clock_now_ns())) {
        answer(r, &copy);
        return;
    }
    struct held *h = malloc(sizeof *h);
    if (!h)
        abort();
    *h = (struct held){.rank = r->number, .ready = *ready, .next = settling.held};
    settling.held = h;
}

void settling_tick(struct daemon *d)
{
    int64_t now = settling.held ? clock_now_ns() : 0;
    for (struct held **at = &settling.held, *h; (h = *at);) {
        struct rank *r = d->ranks ? d->ranks[h->rank] : NULL;
        if (r && !is_settled(r, now)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        if (r)
            answer(r, &h->ready);
        free(h);
    }
}
