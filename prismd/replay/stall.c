#include "prismd/replay/stall.h"

#include "common/clock.h"
#include "prismd/capture/enough.h"
#include "prismd/capture/hang.h"
#include "prismd/store.h"

#define STORE_TIMES 3

static uint64_t last_sum;
static int64_t last_move_ns, store_limit_ns;

void stall_begin(struct daemon *d)
{
    (void)d;
    last_sum = 0;
    last_move_ns = clock_now_ns();
    store_limit_ns = STORE_TIMES * hang_limit_ns();
}

struct looked {
    uint64_t sum;      /* another one when anything has moved */
    uint32_t live;     /* ranks of this node that have not ended */
    uint32_t standing; /* of these: at a gate whose time is not known, */
    bool due;          /* some gate will be opened at its time */
    const struct rank *left, *waiting;
};

static struct looked look(const struct daemon *d)
{
    struct looked l = {0};
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        bool stands = false;
        l.sum += r->nodes;
        if (r->state == RANK_ENDED)
            l.left = r;
        else
            l.live++;
        for (const struct group *g = r->groups; g; g = g->next_of_rank) {
            l.sum += g->arrived + g->opened;
            l.due |= g->arrived && g->end_ns && !g->opened;
            stands |= g->arrived && !g->end_ns;
        }
        l.standing += stands;
        if (stands)
            l.waiting = r;
    }
    l.sum += l.live;
    return l;
}

/* All live ranks are here, and each that does not stand at a gate waits in the store; the first that does, and its key. */
static const struct rank *all_wait_in_store(const struct daemon *d, const struct looked *l, char *key, size_t size)
{
    const struct rank *found = NULL;
    uint32_t waiting = 0;
    if (l->due || !l->live || d->conf->nodes > 1)
        return NULL;
    for (uint32_t i = d->conf->world; i-- > 0;) {
        const struct rank *r = d->ranks[i];
        if (!r || r->state == RANK_ENDED || !store_has_waiting(d->store, i, key, size))
            continue;
        bool stands = false;
        for (const struct group *g = r->groups; g && !stands; g = g->next_of_rank)
            stands = g->arrived && !g->end_ns;
        waiting += !stands;
        found = r;
    }
    return found && waiting + l->standing == l->live ? found : NULL;
}

void stall_tick(struct daemon *d)
{
    char key[128];
    if (d->phase == PHASE_CAPTURE || d->stopping)
        return;
    struct looked l = look(d);
    int64_t now = clock_now_ns();
    if (l.sum != last_sum) {
        last_sum = l.sum;
        last_move_ns = now;
        return;
    }
    if (enough_is_recorded(d))
        return;
    int64_t quiet = now - last_move_ns;
    if (l.left && l.waiting && quiet > STALL_SECONDS * NSEC_PER_SEC) {
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u has ended after %u groups of operations, but rank %u waits for it", l.left->number,
                    l.left->comm_nodes, l.waiting->number);
        return;
    }
    const struct rank *r = store_limit_ns && quiet > store_limit_ns ? all_wait_in_store(d, &l, key, sizeof key) : NULL;
    if (r)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u waits in the c10d store for \"%s\", which nobody sets and, it seems, nobody set in the capture: where each iteration has keys "
                    "of its own, capture as many iterations as are to be emulated (without --prism-iterations)", r->number, key);
}
