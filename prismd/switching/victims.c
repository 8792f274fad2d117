#include "prismd/switching/victims.h"

#define GROWS 4 /* rate of a victim that waits for memory */

/* 0 = not a victim; the lower, the better a one. */
static int rate(struct resident *s, struct guest *g, int64_t now)
{
    if (g->place != IN || g->ready || g->unmovable || g->ending || !g->granted ||
        (g->cancelled_ns && now - g->cancelled_ns < RESIDENT_PARK_NS))
        return 0;
    struct resident_look look = s->calls.look(s->arg, g->rank);
    bool still = look.standing && (look.blocked || now - look.active_ns >= RESIDENT_STILL_NS);
    bool quiet = now - look.active_ns >= RESIDENT_QUIET_NS;
    if (still || g->wants || now - g->restored_ns >= RESIDENT_SETTLE_NS)
        g->settled = true;
    if (!g->settled)
        return 0;
    return g->wants ? GROWS : still ? (look.blocked ? 1 : 2) : quiet ? 3 : 0;
}

static uint64_t random_number(struct resident *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    return s->random ^= s->random << 17;
}

/* Of two victims of equal rate: who was let on longest ago; of those that wait for memory, who asked last. */
static bool is_better(const struct guest *a, int rate_a, const struct guest *b, int rate_b)
{
    if (rate_a != rate_b)
        return rate_a < rate_b;
    if (rate_a == GROWS)
        return a->asked > b->asked;
    return a->opened_ns < b->opened_ns;
}

/* A rank that waits for memory makes room for what one in memory asked for before it, and for nobody's way back: it would have to
 * come back itself for the little that it lacks. */
static bool may_take(const struct guest *who, const struct guest *from, int rate)
{
    return rate < GROWS || !who || (who->place != OUT && from->asked > who->asked);
}

struct guest *victims_choose(struct resident *s, const struct guest *who, struct guest *const *chosen, uint32_t n, int64_t now)
{
    struct guest *best = NULL;
    int best_rate = 0;
    uint64_t seen = 0;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        bool taken = g == who;
        for (uint32_t i = 0; i < n; i++)
            taken |= chosen[i] == g;
        int r = taken ? 0 : rate(s, g, now);
        if (!r || !may_take(who, g, r))
            continue;
        bool any = s->set.seed && r < GROWS && best_rate < GROWS;
        seen += any;
        if (!best || (any ? random_number(s) % seen == 0 : is_better(g, r, best, best_rate))) {
            best = g;
            best_rate = r;
        }
    }
    return best;
}
