#include "prismd/switching/gangs.h"

#include <stdlib.h>

#define AT_ONCE 2 /* demands being served */

struct resident *resident_create(const struct resident_setting *set, const struct resident_calls *calls, void *arg)
{
    struct resident *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->set = *set;
    s->calls = *calls;
    s->arg = arg;
    s->to_come = set->ranks;
    s->least_capacity = set->capacity / 2;
    s->random = set->seed;
    s->turn_ns = RESIDENT_IDLE_NS;
    return s;
}

void resident_destroy(struct resident *s)
{
    struct guest *g, *next;
    if (!s)
        return;
    gangs_destroy(s);
    HASH_ITER(hh, s->guests, g, next)
    {
        HASH_DEL(s->guests, g);
        free(g);
    }
    free(s);
}

static struct guest *find(const struct resident *s, uint32_t rank)
{
    struct guest *g;
    HASH_FIND(hh, s->guests, &rank, sizeof rank, g);
    return g;
}

/* --- the ledger --- */

static uint64_t held(const struct resident *s)
{
    uint64_t sum = s->started * s->set.context;
    for (const struct guest *g = s->guests; g; g = g->hh.next)
        if (g->place == IN || g->place == LEAVING || g->place == COMING)
            sum += g->granted;
    return sum;
}

static uint64_t promised(const struct resident *s)
{
    uint64_t sum = held(s);
    for (const struct guest *g = s->guests; g; g = g->hh.next)
        if (g->place == LEAVING)
            sum -= g->granted;
    return sum;
}

uint64_t resident_most(const struct resident *s, uint32_t rank)
{
    const struct guest *self = find(s, rank);
    uint64_t taken = (s->started + s->to_come) * s->set.context, largest = 0;
    for (const struct guest *g = s->guests; g; g = g->hh.next) {
        if (g == self)
            continue;
        if (g->unmovable)
            taken += g->granted;
        else if (g->granted > largest)
            largest = g->granted;
    }
    if (self && self->unmovable)
        taken += largest; /* the others must fit beside it */
    return s->set.capacity > taken ? s->set.capacity - taken : 0;
}

/* What is held when every other rank that can leave is out. */
static uint64_t least_held(const struct resident *s, const struct guest *alone)
{
    uint64_t sum = s->started * s->set.context + alone->granted;
    for (const struct guest *g = s->guests; g; g = g->hh.next)
        if (g->unmovable && g != alone)
            sum += g->granted;
    return sum;
}

static uint32_t coming(const struct resident *s)
{
    uint32_t n = 0;
    for (const struct guest *g = s->guests; g; g = g->hh.next)
        n += g->place == COMING;
    return n;
}

/* --- demands --- */

static void ask(struct resident *s, struct guest *g, int64_t now)
{
    if (g->asked)
        return;
    if (!g->turn)
        g->turn = ++s->serial;
    g->asked = g->turn;
    g->asked_ns = now;
}

static void satisfied(struct resident *s, struct guest *g, int64_t now)
{
    s->counts.seconds_waiting += (double)(now - g->asked_ns) / 1e9;
    g->asked = 0;
}

static void answer(struct resident *s, struct guest *g, uint64_t bytes)
{
    s->calls.send(s->arg, g->rank, MOVER_GRANT, bytes, g->want_flag);
    if (!g->want_flag)
        g->granted += bytes;
    g->wants = false;
    g->want = 0;
}

static void refuse(struct resident *s, struct guest *g, int64_t now)
{
    s->counts.refused++;
    answer(s, g, 0);
    if (g->place == IN && g->asked)
        satisfied(s, g, now);
}

/* What serving the demand adds to the ledger. A WANT of flag 1 is in it already. */
static uint64_t bytes_of(const struct resident *s, const struct guest *g)
{
    uint64_t more = g->wants && !g->want_flag ? g->want : 0;
    return g->place == WAITS_START ? s->set.context : g->place == OUT ? g->granted + more : more;
}

/* --- victims --- */

static void evict(struct resident *s, struct guest *g, int64_t now)
{
    g->place = LEAVING;
    g->parked = g->cancelling = g->needs = false;
    g->turn = g->asked;
    g->evict_ns = now;
    s->counts.evictions++;
    s->counts.ranks_evicted += !g->was_evicted;
    g->was_evicted = true;
    s->calls.send(s->arg, g->rank, MOVER_EVICT, 0, 0);
}

/* Evict ranks until `bytes` more are free or promised. Nobody, if there are not enough: moving some would not help. What is free
 * while ranks grow was made free for them, and is nobody's way back. */
static bool make_room(struct resident *s, const struct guest *who, uint64_t bytes, int64_t now)
{
    struct guest *chosen[256];
    uint32_t n = 0;
    uint64_t sum = promised(s);
    if (who && who->place == OUT && s->grown_ns && now - s->grown_ns < RESIDENT_GROW_NS && sum < s->set.capacity)
        sum = s->set.capacity;
    sum += bytes;
    if (sum > s->set.capacity)
        victims_begin(s, who, now);
    while (sum > s->set.capacity) {
        struct guest *g = n < 256 ? victims_choose(s, who, now) : NULL;
        if (!g)
            return false;
        chosen[n++] = g;
        sum -= g->granted;
    }
    if (n && s->forces)
        s->forced_ns = now;
    for (uint32_t i = 0; i < n; i++)
        evict(s, chosen[i], now);
    return true;
}

/* --- serving --- */

static void restore(struct resident *s, struct guest *g, int64_t now)
{
    g->place = COMING;
    s->calls.send(s->arg, g->rank, MOVER_RESTORE, 0, 0);
    if (g->wants)
        answer(s, g, g->want);
    if (g->asked)
        satisfied(s, g, now);
}

static void start(struct resident *s, struct guest *g, int64_t now)
{
    g->place = IN;
    g->settled = true;
    s->started++;
    if (s->to_come)
        s->to_come--;
    satisfied(s, g, now);
    s->calls.start(s->arg, g->rank);
}

/* Serve the demand if there is room, else make some. What is not served keeps its bytes: those behind get none of them. */
static void serve(struct resident *s, struct guest *g, uint64_t *reserved, int64_t now)
{
    /* Nobody has to leave for what is asked for only to ask seldom. */
    if (g->wants && promised(s) + *reserved + bytes_of(s, g) > s->set.capacity)
        g->want = g->least;
    uint64_t bytes = bytes_of(s, g);
    if (g->place == OUT) {
        if (least_held(s, g) > s->set.capacity)
            s->calls.hopeless(s->arg, g->rank, g->granted);
        if (coming(s) < AT_ONCE && make_room(s, g, *reserved + bytes, now))
            restore(s, g, now);
        else
            *reserved += bytes;
        return;
    }
    if (held(s) + *reserved + bytes <= s->set.capacity) {
        if (g->place == WAITS_START) {
            start(s, g, now);
        } else {
            answer(s, g, g->want);
            satisfied(s, g, now);
        }
        return;
    }
    make_room(s, g, *reserved + bytes, now);
    *reserved += bytes;
}

/* The demand to be served next, of those that have not been looked at. Ranks on their way are not served before they have arrived. */
static struct guest *next_demand(struct resident *s, int64_t now)
{
    struct guest *best = NULL;
    bool looked = false;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        if (!g->asked || g->seen || g->place == LEAVING || g->place == COMING)
            continue;
        if (!looked)
            gangs_look(s, now);
        looked = true;
        if (!best || gangs_before(g, best, now))
            best = g;
    }
    return best;
}

static void refuse_too_large(struct resident *s, int64_t now)
{
    for (struct guest *g = s->guests; g; g = g->hh.next)
        if (g->wants && !g->want_flag && g->granted + g->want > resident_most(s, g->rank)) {
            g->want = g->least;
            if (g->granted + g->want > resident_most(s, g->rank))
                refuse(s, g, now);
        }
}

/* (3) of resident.h. */
static void take_turns(struct resident *s, int64_t now)
{
    struct guest *longest = NULL;
    int64_t since = 0;
    if (now - s->active_ns < s->turn_ns)
        return;
    for (struct guest *g = s->guests; g; g = g->hh.next) {
        if (g->place == LEAVING || g->place == COMING)
            return;
        if (g->place != OUT)
            continue;
        /* Who stands at gates is less likely to have something to do. */
        int64_t out_ns = g->out_ns + (s->calls.look(s->arg, g->rank).standing ? RESIDENT_SETTLE_NS : 0);
        if (!longest || out_ns < since) {
            longest = g;
            since = out_ns;
        }
    }
    if (!longest || !make_room(s, longest, bytes_of(s, longest), now))
        return;
    restore(s, longest, now);
    s->active_ns = now;
    s->turn_ns = 2 * s->turn_ns < RESIDENT_TURN_NS ? 2 * s->turn_ns : RESIDENT_TURN_NS;
}

static void pump(struct resident *s, int64_t now)
{
    uint64_t reserved = 0;
    uint32_t waiting = 0;
    struct guest *g;
    refuse_too_large(s, now);
    if (promised(s) > s->set.capacity) /* a victim was taken back, or the device holds less than was thought */
        make_room(s, NULL, 0, now);
    for (g = s->guests; g; g = g->hh.next)
        g->seen = false;
    while (waiting < AT_ONCE && (g = next_demand(s, now))) {
        uint64_t asked = g->asked;
        g->seen = true;
        serve(s, g, &reserved, now);
        waiting += g->asked == asked;
    }
    if (!waiting)
        take_turns(s, now);
}

static void progress(struct resident *s, int64_t now)
{
    s->active_ns = now;
    s->turn_ns = RESIDENT_IDLE_NS;
}

/* --- events --- */

void resident_want_start(struct resident *s, uint32_t rank, int64_t now)
{
    struct guest *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->rank = rank;
    g->gang = g;
    HASH_ADD(hh, s->guests, rank, sizeof g->rank, g);
    ask(s, g, now);
    pump(s, now);
}

/* The device has refused memory that the ledger thinks it has: it holds less than we thought. But every rank has been on
 * it with what it has, the one that asks excepted. */
static void learn_capacity(struct resident *s, uint64_t bytes)
{
    uint64_t all = held(s), now = all > bytes ? all - bytes : 0, least = s->least_capacity;
    for (const struct guest *g = s->guests; g; g = g->hh.next)
        if (least < s->started * s->set.context + g->granted)
            least = s->started * s->set.context + g->granted;
    now = now > least ? now : least;
    if (now < s->set.capacity)
        s->set.capacity = now;
}

/* No device has as much, so it is refused, and no sum of it wraps. */
static uint64_t believed(uint64_t bytes)
{
    return bytes < 1ull << 60 ? bytes : 1ull << 60;
}

static void take_want(struct resident *s, struct guest *g, const struct mover_message *m, int64_t now)
{
    progress(s, now);
    if (m->flag == 2) {
        g->needs = true;
    } else {
        g->wants = true;
        g->want = believed(m->bytes);
        g->least = believed(m->total ? m->total : m->bytes);
        g->want_flag = m->flag;
        if (m->flag && g->place == IN && held(s) <= least_held(s, g)) {
            refuse(s, g, now); /* it is alone already */
            return;
        }
        if (m->flag)
            learn_capacity(s, m->bytes);
    }
    if (m->flag != 2 && g->place == IN)
        s->grown_ns = now;
    if (m->flag != 2 || g->place == LEAVING || g->place == OUT)
        ask(s, g, now);
}

static void take_evicted(struct resident *s, struct guest *g, const struct mover_message *m, int64_t now)
{
    if (g->place != LEAVING)
        return;
    g->place = OUT;
    g->out_ns = now;
    s->counts.bytes_out += m->bytes;
    busy_add(&s->out, now, m->ns);
    s->counts.seconds_out = busy_seconds(&s->out);
    if (g->ready || g->needs || g->wants)
        ask(s, g, now);
}

static void take_restored(struct resident *s, struct guest *g, const struct mover_message *m, int64_t now)
{
    if (g->place != COMING)
        return;
    g->place = IN;
    g->restored_ns = now;
    g->settled = g->needs = false;
    s->counts.restorations++;
    s->counts.bytes_in += m->bytes;
    s->counts.bytes_handed += m->total;
    busy_add(&s->back, now, m->ns);
    s->counts.seconds_in = busy_seconds(&s->back);
    if (g->wants)
        ask(s, g, now);
    else
        g->asked = 0;
}

/* Taken back as asked, or a rank that can never be moved; one that is ending gives its memory back by itself. */
static void take_cancelled(struct guest *g, bool ending, int64_t now)
{
    if (g->place != LEAVING)
        return;
    g->ending |= ending;
    g->unmovable |= !g->cancelling && !ending;
    g->place = IN;
    g->settled = true;
    g->needs = false;
    g->cancelled_ns = now;
    if (!g->wants)
        g->asked = 0;
}

void resident_message(struct resident *s, const struct mover_message *m, int64_t now)
{
    struct guest *g = find(s, m->rank);
    if (m->type == MOVER_HOST) {
        s->counts.host_now = m->total;
        s->counts.host_bytes = m->total > s->counts.host_bytes ? m->total : s->counts.host_bytes;
        s->counts.seconds_pinning = (double)m->ns / 1e9;
        s->counts.spilled_bytes = m->spilled;
        return;
    }
    if (!g)
        return;
    switch (m->type) {
    case MOVER_WANT:
        take_want(s, g, m, now);
        break;
    case MOVER_LESS:
        g->granted -= m->bytes < g->granted ? m->bytes : g->granted;
        break;
    case MOVER_PARKED:
        g->parked = true;
        s->counts.seconds_parking += (double)m->ns / 1e9;
        break;
    case MOVER_CANCELLED:
        take_cancelled(g, m->flag, now);
        break;
    case MOVER_EVICTED:
        take_evicted(s, g, m, now);
        break;
    case MOVER_RESTORED:
        take_restored(s, g, m, now);
        break;
    default:
        break;
    }
    pump(s, now);
}

void resident_joined(struct resident *s, uint32_t rank, struct resident_operation op, const int32_t *members, uint32_t n, int64_t now)
{
    struct guest *g = find(s, rank);
    if (!g)
        return;
    g->joined_ns = now;
    gangs_join(s, g, &op, members, n);
}

void resident_gate_ready(struct resident *s, uint32_t rank, int64_t now)
{
    struct guest *g = find(s, rank);
    if (!g)
        return;
    progress(s, now);
    g->ready++;
    if (g->place == OUT || g->place == LEAVING) {
        ask(s, g, now);
        pump(s, now);
    }
}

void resident_gate_opened(struct resident *s, uint32_t rank, int64_t now)
{
    struct guest *g = find(s, rank);
    if (!g)
        return;
    progress(s, now);
    if (g->ready)
        g->ready--;
    g->opened_ns = now;
    g->turn = g->asked;
}

void resident_ended(struct resident *s, uint32_t rank, int64_t now)
{
    struct guest *g = find(s, rank);
    if (!g)
        return;
    if (g->place != WAITS_START && s->started)
        s->started--;
    HASH_DEL(s->guests, g);
    gangs_leave(s, g);
    free(g);
    progress(s, now);
    pump(s, now);
}

/* Work behind the park gates of a rank that is out is seen by nobody, and the device need never fall silent. */
static void ask_for_hidden(struct resident *s, int64_t now)
{
    for (struct guest *g = s->guests; g; g = g->hh.next)
        if (g->place == OUT && !g->asked && now - g->out_ns >= RESIDENT_PATIENCE_NS && !s->calls.look(s->arg, g->rank).standing)
            ask(s, g, now);
}

void resident_tick(struct resident *s, int64_t now)
{
    ask_for_hidden(s, now);
    for (struct guest *g = s->guests; g; g = g->hh.next)
        if (g->place == LEAVING && !g->parked && !g->cancelling && now - g->evict_ns > RESIDENT_PARK_NS) {
            g->cancelling = true;
            s->calls.send(s->arg, g->rank, MOVER_CANCEL, 0, 0);
        }
    pump(s, now);
}

bool resident_is_in(const struct resident *s, uint32_t rank)
{
    const struct guest *g = find(s, rank);
    return !g || g->place == IN;
}

uint64_t resident_capacity(const struct resident *s)
{
    return s->set.capacity;
}

const struct resident_counts *resident_count(const struct resident *s)
{
    return &s->counts;
}

struct resident_state resident_look_at(const struct resident *s)
{
    struct resident_state all = {.held = held(s), .capacity = s->set.capacity};
    for (const struct guest *g = s->guests; g; g = g->hh.next) {
        uint32_t *const counts[] = {&all.to_start, &all.in, &all.leaving, &all.out, &all.coming};
        ++*counts[g->place];
        all.ranks++;
        all.asking += g->place != WAITS_START && g->asked;
    }
    return all;
}
