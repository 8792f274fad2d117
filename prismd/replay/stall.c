#include "prismd/replay/stall.h"

#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "prismd/capture/enough.h"
#include "prismd/capture/hang.h"
#include "prismd/link/link.h"
#include "prismd/replay/emulate.h"
#include "prismd/store.h"

#define STORE_TIMES 3

enum { ENDED, GOES_ON, STANDS }; /* a rank, as its node told: STANDS at a gate whose time is not known */

static struct {
    uint64_t last_sum;
    int64_t last_move_ns, store_limit_ns;
    bool told;            /* the coordinator: that nothing moves here */
    uint8_t *ranks;       /* owned; coordinator: by world rank */
    uint8_t *nodes_still; /* owned; coordinator: by node */
} stall;

struct looked {
    uint64_t sum;  /* another one when anything has moved */
    uint32_t live; /* ranks of this node that have not ended */
    bool due;      /* some gate will be opened at its time */
    const struct rank *left, *waiting;
};

static bool stands_at_gate(const struct rank *r)
{
    for (const struct group *g = r->groups; g; g = g->next_of_rank)
        if (g->arrived && !g->end_ns)
            return true;
    return false;
}

static struct looked look(const struct daemon *d)
{
    struct looked l = {0};
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        l.sum += r->nodes;
        if (r->state == RANK_ENDED)
            l.left = r;
        else
            l.live++;
        for (const struct group *g = r->groups; g; g = g->next_of_rank) {
            l.sum += g->arrived + g->opened;
            l.due |= g->arrived && g->end_ns && !g->opened;
        }
        if (stands_at_gate(r))
            l.waiting = r;
    }
    l.sum += l.live;
    return l;
}

/* --- the store: nodes tell the coordinator, which alone knows who waits there, when nothing moves on them, and when it does again --- */

static void tell(struct daemon *d, bool still)
{
    struct bytes b = {0}, ranks = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; still && i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        bytes_put_u32(&ranks, i);
        bytes_put_u8(&ranks, r->state == RANK_ENDED ? ENDED : stands_at_gate(r) ? STANDS : GOES_ON);
        n++;
    }
    bytes_put_u32(&b, (uint32_t)d->phase);
    bytes_put_u8(&b, still);
    bytes_put_u32(&b, n);
    bytes_put(&b, ranks.data, ranks.len);
    stall.told = still;
    link_send(d, 0, LINK_STILL, &b);
    bytes_free(&ranks);
    bytes_free(&b);
}

static void on_still(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    if (bytes_get_u32(b) != (uint32_t)d->phase || !stall.ranks || from >= d->conf->nodes)
        return;
    bool still = bytes_get_u8(b);
    for (uint32_t n = bytes_get_u32(b); n > 0 && !b->bad; n--) {
        uint32_t rank = bytes_get_u32(b);
        uint8_t how = bytes_get_u8(b);
        if (!b->bad && rank < d->conf->world)
            stall.ranks[rank] = how;
    }
    stall.nodes_still[from] = still && !b->bad;
}

/* Nothing moves on any node, and each live rank waits in the store or stands at a gate; the first in the store, and its key. -1: no. */
static int64_t all_wait_in_store(const struct daemon *d, char *key, size_t size)
{
    int64_t found = -1;
    for (uint32_t i = 0; i < d->conf->nodes; i++)
        if (!stall.nodes_still[i])
            return -1;
    for (uint32_t i = 0; i < d->conf->world; i++) {
        if (stall.ranks[i] == ENDED)
            continue;
        bool waits = store_has_waiting(d->store, i, found < 0 ? key : NULL, found < 0 ? size : 0);
        if (!waits && stall.ranks[i] != STANDS)
            return -1;
        found = waits && found < 0 ? i : found;
    }
    return found;
}

static void look_at_store(struct daemon *d, const struct looked *l, int64_t quiet)
{
    char key[128];
    if (!stall.store_limit_ns)
        return;
    if (!stall.told && !l->due && quiet > stall.store_limit_ns)
        tell(d, true);
    int64_t rank = stall.ranks ? all_wait_in_store(d, key, sizeof key) : -1;
    if (rank >= 0)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u waits in the c10d store for \"%s\", which nobody sets and, it seems, nobody set in the capture: where each iteration has keys "
                    "of its own, capture as many iterations as are to be emulated (without --prism-iterations)", (uint32_t)rank, key);
}

/* --- */

void stall_begin(struct daemon *d)
{
    bool hears = !d->conf->node && d->phase != PHASE_CAPTURE;
    free(stall.ranks);
    free(stall.nodes_still);
    memset(&stall, 0, sizeof stall);
    stall.last_move_ns = clock_now_ns();
    stall.store_limit_ns = STORE_TIMES * hang_limit_ns();
    if (hears && (!(stall.ranks = calloc(d->conf->world, 1)) || !(stall.nodes_still = calloc(d->conf->nodes, 1))))
        abort();
    link_on(LINK_STILL, on_still);
}

void stall_tick(struct daemon *d)
{
    if (d->phase == PHASE_CAPTURE || d->stopping)
        return;
    struct looked l = look(d);
    int64_t now = clock_now_ns();
    if (l.sum != stall.last_sum || emulate_is_playing()) {
        stall.last_sum = l.sum;
        stall.last_move_ns = now;
        if (stall.told)
            tell(d, false);
        return;
    }
    if (enough_is_recorded(d))
        return;
    int64_t quiet = now - stall.last_move_ns;
    if (l.left && l.waiting && quiet > STALL_SECONDS * NSEC_PER_SEC) {
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u has ended after %u groups of operations, but rank %u waits for it", l.left->number,
                    l.left->comm_nodes, l.waiting->number);
        return;
    }
    look_at_store(d, &l, quiet);
}
