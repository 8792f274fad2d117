#include "prismd/switching/victims.h"

#include "prismd/switching/gangs.h"

#define GROWS 4 /* idleness of a victim that waits for memory */

/* Of victims, best first; 0 = none. Those that are stuck: of a gang that has begun to leave; of one that is stuck as a whole; for long, of one
 * that goes on. Then those that would go on, and at last whom the demand's rank wants to meet. */
enum class { GANG_OUT = 1, WHOLE_GANG, LINGERS, GOES_ON, PARTY };

/* How well a rank that is in does without the device: 0 = it goes on; the lower else, the better. */
static int idleness(struct resident *s, struct guest *g, int64_t now)
{
    if (g->place != IN || g->ready)
        return 0;
    struct resident_look look = s->calls.look(s->arg, g->rank);
    bool still = look.standing && (look.blocked || now - look.active_ns >= RESIDENT_STILL_NS);
    int64_t least = g->awaited ? RESIDENT_SETTLE_NS : RESIDENT_QUIET_NS;
    bool quiet = now - look.active_ns >= least && now - g->opened_ns >= least && now - g->joined_ns >= least;
    if (still || g->wants || now - g->restored_ns >= RESIDENT_SETTLE_NS)
        g->settled = true;
    if (!g->settled)
        return 0;
    return g->wants ? GROWS : still ? (look.blocked ? 1 : 2) : quiet ? 3 : 0;
}

static bool can_leave(const struct guest *g, int64_t now)
{
    return g->idle && !g->unmovable && !g->ending && g->granted && (!g->cancelled_ns || now - g->cancelled_ns >= RESIDENT_PARK_NS);
}

/* Will others wait for it in vain while `who` is served? Not if it is in and goes on, is served before, or comes with `who`. */
static bool is_away(const struct guest *g, const struct guest *who, int64_t now)
{
    if (g->place == COMING || (g->place == IN && !g->wants) || (who && gangs_is_party(who, g)))
        return false;
    return g->place == LEAVING || !who || !gangs_before(g, who, now);
}

/* A meeting lacks somebody who is away, or stuck: then so are those that have come to it. A group that is too large for the device can
 * only meet by turns, so that who waits in it for `who` may just as well leave. */
static bool spread(const struct meeting *m, const struct guest *who)
{
    bool in_vain = false, changed = false;
    for (uint32_t i = 0; i < m->n && !in_vain; i++) {
        const struct guest *g = m->members[i];
        in_vain = g && !m->has_come[i] && (g->stuck || (g == who ? !m->fits : g->away));
    }
    for (uint32_t i = 0; i < m->n && in_vain; i++) {
        struct guest *g = m->members[i];
        if (!g || !m->has_come[i] || !g->idle || g->stuck)
            continue;
        g->stuck = changed = true;
    }
    return changed;
}

/* Who waits for a rank that is away, straight or by way of others; or for memory, for another device, or is silent. */
static void find_stuck(struct resident *s, const struct guest *who, int64_t now)
{
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        g->away = is_away(g, who, now);
        g->stuck = g != who && (g->idle > 2 || (g->idle && !g->waits));
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (const struct meeting *m = s->meetings; m; m = m->hh.next)
            changed |= spread(m, who);
    }
}

void victims_begin(struct resident *s, const struct guest *who, int64_t now)
{
    gangs_look(s, now);
    s->anyone_goes = s->forces = false;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        g->idle = idleness(s, g, now);
        g->taken = g->gang_goes = false;
        s->anyone_goes |= g->place == COMING || g->place == LEAVING || (g->place == IN && !g->idle);
    }
    find_stuck(s, NULL, now);
    for (struct guest *g = s->guests; g; g = g->hh.next)
        g->gang->gang_goes |= g->place == IN && !g->stuck && g != who;
    find_stuck(s, who, now);
    bool old = who && who->asked && now - who->asked_ns >= RESIDENT_PATIENCE_NS;
    s->may_force = !s->anyone_goes || (old && now - s->forced_ns >= RESIDENT_PATIENCE_NS);
}

static uint64_t random_number(struct resident *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    return s->random ^= s->random << 17;
}

/* A rank that waits for memory makes room for what one in memory asked for before it, and for nobody's way back: it would have to
 * come back itself for the little that it lacks. */
static bool may_take(const struct guest *who, const struct guest *from)
{
    return from->idle < GROWS || !who || (who->place != OUT && from->asked > who->asked);
}

static enum class class_of(const struct resident *s, const struct guest *g, const struct guest *who, int64_t now)
{
    if (g == who || g->taken || !can_leave(g, now) || !may_take(who, g))
        return 0;
    if (who && gangs_is_party(who, g))
        return s->may_force ? PARTY : 0;
    if (!g->stuck)
        return s->may_force ? GOES_ON : 0;
    if (g->gang->gang_goes && (now - g->joined_ns < RESIDENT_LINGER_NS || now - g->restored_ns < RESIDENT_LINGER_NS))
        return s->may_force ? GOES_ON : 0;
    return g->gang->gang_out ? GANG_OUT : g->gang->gang_goes ? LINGERS : WHOLE_GANG;
}

/* Of two victims that are equally idle: who was let on longest ago; of those that wait for memory, who asked last. */
static bool is_better(const struct guest *a, const struct guest *b)
{
    if (a->idle != b->idle)
        return a->idle < b->idle;
    if (a->idle == GROWS)
        return a->asked > b->asked;
    return a->opened_ns < b->opened_ns;
}

struct guest *victims_choose(struct resident *s, const struct guest *who, int64_t now)
{
    struct guest *best = NULL;
    enum class best_class = 0;
    uint64_t seen = 0;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        enum class c = class_of(s, g, who, now);
        if (!c || (best && c > best_class))
            continue;
        bool any = s->set.seed && best && c == best_class && g->idle < GROWS && best->idle < GROWS;
        seen = !best || c < best_class ? 1 : seen + any;
        if (!best || c < best_class || (any ? random_number(s) % seen == 0 : is_better(g, best))) {
            best = g;
            best_class = c;
        }
    }
    if (!best)
        return NULL;
    best->taken = best->gang->gang_out = true;
    s->forces |= best_class >= GOES_ON && s->anyone_goes;
    return best;
}
