#include "prismd/switching/gangs.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TOGETHER 1024u     /* operations of two ranks that are counted; then all counts are halved */
#define RENEW_NS      50000000LL /* gangs are made anew so often at most */
#define LEVELS        4         /* a pair belongs together with an eighth of the operations that the closest pair has */

static struct guest *find(const struct resident *s, uint32_t rank)
{
    struct guest *g;
    HASH_FIND(hh, s->guests, &rank, sizeof rank, g);
    return g;
}

/* --- meetings --- */

static void drop(struct resident *s, struct meeting *m)
{
    HASH_DEL(s->meetings, m);
    free(m->members);
    free(m->has_come);
    free(m);
}

static struct meeting *add(struct resident *s, const struct resident_operation *op, const int32_t *members, uint32_t n)
{
    struct meeting *m = calloc(1, sizeof *m);
    if (!m || !(m->members = calloc(n + 1u, sizeof(struct guest *))) || !(m->has_come = calloc(n + 1u, sizeof *m->has_come)))
        abort();
    m->operation = *op;
    for (uint32_t i = 0; i < n; i++) {
        struct guest *g = find(s, (uint32_t)members[i]);
        if (g)
            m->members[m->n++] = g;
    }
    HASH_ADD(hh, s->meetings, operation, sizeof m->operation, m);
    return m;
}

static void halve(struct resident *s)
{
    for (uint32_t i = 0; i < s->places * s->places; i++)
        s->together[i] /= 2;
}

static void count_pair(struct resident *s, const struct guest *a, const struct guest *b)
{
    if (!a || !b || a == b)
        return;
    if (++s->together[a->number * s->places + b->number] >= MOST_TOGETHER)
        halve(s);
}

static void complete(struct resident *s, struct meeting *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->members[i])
            m->members[i]->waits--;
        for (uint32_t j = 0; j < m->n; j++)
            count_pair(s, m->members[i], m->members[j]);
    }
    s->gangs_old = true;
    drop(s, m);
}

/* Enlarges the table of counts as ranks become known. */
static void seat(struct resident *s, struct guest *g)
{
    if (g->seated)
        return;
    g->seated = true;
    g->number = s->seats++;
    if (s->seats <= s->places)
        return;
    uint32_t places = s->places ? 2 * s->places : 16;
    uint16_t *wider = calloc((size_t)places * places, sizeof *wider);
    if (!wider)
        abort();
    for (uint32_t i = 0; i < s->places; i++)
        memcpy(wider + (size_t)i * places, s->together + (size_t)i * s->places, s->places * sizeof *wider);
    free(s->together);
    s->together = wider;
    s->places = places;
}

void gangs_join(struct resident *s, struct guest *g, const struct resident_operation *op, const int32_t *members, uint32_t n)
{
    struct meeting *m;
    HASH_FIND(hh, s->meetings, op, sizeof *op, m);
    if (!m)
        m = add(s, op, members, n);
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->members[i])
            seat(s, m->members[i]);
        if (m->members[i] != g || m->has_come[i])
            continue;
        m->has_come[i] = true;
        m->came++;
        g->waits++;
    }
    if (m->came == m->n)
        complete(s, m);
}

void gangs_leave(struct resident *s, struct guest *g)
{
    struct meeting *m, *next;
    HASH_ITER(hh, s->meetings, m, next)
    {
        for (uint32_t i = 0; i < m->n; i++) {
            if (m->members[i] != g)
                continue;
            m->came += !m->has_come[i];
            m->has_come[i] = true;
            m->members[i] = NULL;
        }
        if (m->came == m->n)
            complete(s, m);
    }
    for (struct guest *other = s->guests; other; other = other->hh.next)
        other->gang = other;
    s->gangs_old = true;
    s->gangs_ns = 0;
}

void gangs_destroy(struct resident *s)
{
    struct meeting *m, *next;
    HASH_ITER(hh, s->meetings, m, next)
        drop(s, m);
    free(s->together);
}

/* --- gangs --- */

static struct guest *root(struct guest *g)
{
    while (g->above != g)
        g = g->above;
    return g;
}

static uint32_t together(const struct resident *s, const struct guest *a, const struct guest *b)
{
    return a->seated && b->seated ? s->together[a->number * s->places + b->number] : 0;
}

/* Join what has had `least` operations together; but not to what is too large to be on the device, or is all ranks. */
static void join_level(struct resident *s, uint32_t least, uint64_t room)
{
    for (struct guest *a = s->guests; a; a = a->hh.next)
        a->above = a->gang;
    for (struct guest *a = s->guests; a; a = a->hh.next)
        for (struct guest *b = a->hh.next; b; b = b->hh.next)
            if (together(s, a, b) >= least)
                root(a)->above = root(b);
    for (struct guest *g = s->guests; g; g = g->hh.next)
        g->sum = g->size = 0;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        root(g)->sum += g->granted;
        root(g)->size++;
    }
    for (struct guest *g = s->guests; g; g = g->hh.next)
        if (root(g)->sum <= room && root(g)->size < HASH_COUNT(s->guests))
            g->gang = root(g);
}

static void make_gangs(struct resident *s, int64_t now)
{
    uint64_t contexts = s->started * s->set.context, room = s->set.capacity > contexts ? s->set.capacity - contexts : 0;
    uint32_t most = 0;
    if (!s->gangs_old || (s->gangs_ns && now - s->gangs_ns < RENEW_NS))
        return;
    s->gangs_old = false;
    s->gangs_ns = now;
    for (uint32_t i = 0; i < s->places * s->places; i++)
        most = s->together[i] > most ? s->together[i] : most;
    for (struct guest *g = s->guests; g; g = g->hh.next)
        g->gang = g;
    for (int level = 0; level < LEVELS && most; level++, most /= 2)
        join_level(s, (most + 1) / 2, room);
}

/* --- the order of demands --- */

static void look_at_meeting(struct resident *s, struct meeting *m)
{
    uint32_t waiting = 0, out = 0;
    uint64_t sum = s->started * s->set.context;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct guest *g = m->members[i];
        if (!g)
            continue;
        sum += g->granted;
        waiting += m->has_come[i] && g->place == IN;
        out += !m->has_come[i] && (g->place == OUT || g->place == LEAVING);
    }
    m->fits = sum <= s->set.capacity;
    for (uint32_t i = 0; i < m->n && waiting; i++) {
        struct guest *g = m->members[i];
        if (!g || m->has_come[i])
            continue;
        g->awaited = true;
        if (g->place != OUT || g->lack <= out)
            continue;
        g->lack = out;
        g->meeting = m->fits ? m : NULL;
    }
}

void gangs_look(struct resident *s, int64_t now)
{
    make_gangs(s, now);
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        g->lack = g->gang_lack = UINT32_MAX;
        g->gang_asked = UINT64_MAX;
        g->gang_out = g->awaited = false;
        g->meeting = NULL;
    }
    for (struct meeting *m = s->meetings; m; m = m->hh.next)
        look_at_meeting(s, m);
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        struct guest *gang = g->gang;
        gang->gang_out |= g->place == OUT || g->place == LEAVING;
        if (g->place != OUT || !g->asked)
            continue;
        gang->gang_lack = g->lack < gang->gang_lack ? g->lack : gang->gang_lack;
        gang->gang_asked = g->asked < gang->gang_asked ? g->asked : gang->gang_asked;
    }
}

/* Of gangs the one comes first that lacks the fewest, so that a gang that is partly in comes in whole; and so within the gang. */
bool gangs_before(const struct guest *a, const struct guest *b, int64_t now)
{
    const struct guest *of_a = a->gang, *of_b = b->gang;
    if (!a->asked || !b->asked)
        return a->asked > b->asked;
    if ((a->place == OUT) != (b->place == OUT))
        return b->place == OUT;
    bool old_a = now - a->asked_ns >= RESIDENT_PATIENCE_NS, old_b = now - b->asked_ns >= RESIDENT_PATIENCE_NS;
    if (a->place == OUT && old_a != old_b)
        return old_a;
    if (a->place != OUT || old_a)
        return a->asked < b->asked;
    if (of_a == of_b)
        return a->lack != b->lack ? a->lack < b->lack : a->asked < b->asked;
    return of_a->gang_lack != of_b->gang_lack ? of_a->gang_lack < of_b->gang_lack : of_a->gang_asked < of_b->gang_asked;
}

bool gangs_is_party(const struct guest *a, const struct guest *b)
{
    if (a->gang == b->gang)
        return true;
    for (uint32_t i = 0; a->meeting && i < a->meeting->n; i++)
        if (a->meeting->members[i] == b)
            return true;
    return false;
}
