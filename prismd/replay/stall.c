#include "prismd/replay/stall.h"

#include "common/clock.h"

static uint64_t last_sum;
static int64_t last_move_ns;

void stall_begin(struct daemon *d)
{
    (void)d;
    last_sum = 0;
    last_move_ns = clock_now_ns();
}

void stall_tick(struct daemon *d)
{
    if (d->phase == PHASE_CAPTURE || d->stopping)
        return;
    uint64_t sum = 0;
    const struct rank *left = NULL, *waiting = NULL;
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        sum += r->nodes;
        if (r->state == RANK_ENDED)
            left = r;
        for (const struct group *g = r->groups; g; g = g->next_of_rank) {
            sum += g->arrived + g->opened;
            if (g->arrived && !g->end_ns)
                waiting = r;
        }
    }
    int64_t now = clock_now_ns();
    if (sum != last_sum || !left || !waiting) {
        last_sum = sum;
        last_move_ns = now;
    } else if (now - last_move_ns > STALL_SECONDS * NSEC_PER_SEC) {
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u has ended after %u groups of operations, but rank %u waits for it", left->number,
                    left->comm_nodes, waiting->number);
    }
}
