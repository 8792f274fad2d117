#include "prismd/replay/beginning.h"

#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "prismd/link/link.h"
#include "prismd/store.h"

static struct {
    void (*begin)(struct daemon *d, int64_t t0_ns);
    const uint8_t *live; /* NULL: no replay here */
    uint8_t *is_here;    /* owned; by world rank: first gate, or ended */
    uint32_t here, missing;
    int64_t t0_ns; /* the last first arrival: equal on every node, as each rank's is one event */
    bool begun;
    int64_t blocked_ns; /* coordinator: since when all that are missing wait for others; 0 = they do not */
} its;

void beginning_end(void)
{
    free(its.is_here);
    memset(&its, 0, sizeof its);
}

static void begin(struct daemon *d, int64_t t0_ns)
{
    its.begun = true;
    its.begin(d, t0_ns);
}

static void note(struct daemon *d, uint32_t rank, int64_t start_ns)
{
    if (!its.live || its.begun || its.is_here[rank])
        return;
    its.is_here[rank] = 1;
    its.missing--;
    if (start_ns > its.t0_ns)
        its.t0_ns = start_ns;
    if (!its.missing)
        begin(d, its.t0_ns);
}

void beginning_arrived(struct daemon *d, uint32_t rank, int64_t start_ns)
{
    its.here++;
    note(d, rank, start_ns);
}

void beginning_left(struct daemon *d, uint32_t rank)
{
    note(d, rank, 0);
}

/* --- without those that wait --- */

/* A rank that comes to its gate on another node while this message is on its way begins the replay there at its own arrival: the
 * nodes' replays are then apart by that much in the first iteration. */
static void on_begin(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    int64_t t0_ns = (int64_t)bytes_get_u64(b);
    if (!b->bad && t0_ns >= 0 && t0_ns <= INT64_MAX / 2 && !d->stopping && its.live && !its.begun)
        begin(d, t0_ns);
}

static bool waits_for_others(const struct daemon *d, uint32_t rank)
{
    const struct rank *r = d->ranks[rank];
    return store_has_waiting(d->store, rank, NULL, 0) || (r && r->host_waits == HOST_IN_INIT);
}

static bool all_missing_wait(const struct daemon *d)
{
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (its.live[i] && !its.is_here[i] && !waits_for_others(d, i))
            return false;
    return true;
}

void beginning_tick(struct daemon *d)
{
    if (!its.live || its.begun || d->stopping || d->conf->node || !its.here)
        return;
    int64_t now = clock_now_ns();
    if (!all_missing_wait(d)) {
        its.blocked_ns = 0;
    } else if (!its.blocked_ns) {
        its.blocked_ns = now;
    } else if (now - its.blocked_ns > BEGINNING_PATIENCE_NS) {
        struct bytes b = {0};
        bytes_put_u64(&b, (uint64_t)now);
        link_announce(d, LINK_BEGIN, &b);
        bytes_free(&b);
    }
}

void beginning_begin(struct daemon *d, const uint8_t *live, uint32_t n, void (*call)(struct daemon *d, int64_t t0_ns))
{
    its.begin = call;
    its.live = live;
    its.missing = n;
    if (!(its.is_here = calloc(d->conf->world, 1)))
        abort();
    link_on(LINK_BEGIN, on_begin);
}
