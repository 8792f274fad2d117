#include "prismd/mover/hear.h"

#include <unistd.h>

#include "prismd/mover/copy.h"
#include "prismd/mover/pool.h"

#define RANGE_ALIGN 4096u /* of a range's bytes: what the spill file is written in (spill.h) */

static uint64_t departures; /* evictions so far: numbers them */
static uint64_t capacity;   /* what prismd divides among the ranks */

/* Pinned memory is prepared when two more ranks like the largest would overfill the device: for what is beyond it, and for three
 * ranks more, since whole ranks are moved, one comes in while another goes out, and contexts take space too. */
static void foresee(void)
{
    uint64_t sum = 0, largest = 0;
    for (const struct guest *g = guests; g; g = g->hh.next) {
        sum += g->granted;
        largest = g->granted > largest ? g->granted : largest;
    }
    if (sum + 2 * largest > capacity)
        pool_prepare(sum + 3 * largest - capacity);
}

static void begin_move(struct guest *g)
{
    g->moved = g->handed = 0;
    g->moved_ranges = 0;
    g->first_ns = g->last_ns = 0;
}

/* --- from prismd --- */

/* Messages that are the rank's; what they say is noted. */
static void hand_on(const struct mover_message *m)
{
    struct guest *g = guest_find(m->rank);
    if (!g)
        return;
    if (m->type == MOVER_GRANT && !m->flag) {
        g->granted += m->bytes;
        foresee();
    } else if (m->type == MOVER_EVICT) {
        g->left = ++departures;
        begin_move(g);
    } else if (m->type == MOVER_RESTORE) {
        begin_move(g);
        g->coming = true;
    }
    outlet_send(&g->outlet, m);
}

void hear_prismd(const struct mover_message *m, int fd)
{
    switch (m->type) {
    case MOVER_ATTACH:
        if (fd < 0 || guest_find(m->rank))
            mover_failed("malformed message: rank %u attached twice, or without a socket", m->rank);
        capacity = m->total;
        guest_add(m->rank, fd);
        return;
    case MOVER_DETACH:
        if (guest_find(m->rank))
            guest_drop(guest_find(m->rank));
        hand_trim();
        break;
    case MOVER_GRANT:
    case MOVER_EVICT:
    case MOVER_CANCEL:
    case MOVER_RESTORE:
        hand_on(m);
        break;
    default:
        mover_failed("malformed message of type %u", m->type);
    }
    if (fd >= 0)
        close(fd);
}

/* --- from ranks --- */

static void tell_moved(const struct guest *g, uint32_t type)
{
    struct mover_message m = {.type = type, .rank = g->rank, .bytes = g->moved, .range = g->moved_ranges, .total = g->handed, .ns = g->last_ns - g->first_ns};
    m.spilled = guest_spilled(g);
    pool_tell();
    outlet_send(&to_prismd, &m);
}

/* A rank waits for its copies before it says that all are done; dropped ranges have none under way. */
static void end_move(const struct guest *g, uint32_t type)
{
    if (g->jobs)
        mover_failed("rank %u: malformed message (an end before its copies')", g->rank);
    tell_moved(g, type);
}

static void drop_ranges(struct guest *g)
{
    struct range *r, *next;
    HASH_ITER(hh, g->ranges, r, next)
        guest_drop_range(r);
}

static void take_out(struct guest *g, const struct mover_message *m, int fd)
{
    if (fd < 0 || !m->bytes || m->bytes > capacity || m->bytes % RANGE_ALIGN || guest_range(g, m->range))
        mover_failed("rank %u: malformed message (range %llu out)", g->rank, (unsigned long long)m->range);
    struct range *r = guest_add_range(g, m->range, m->bytes);
    r->plain = m->flag & 1;
    copy_queue(COPY_OUT, r, (struct memory){.fd = fd});
}

/* The range that the rank asks for, which is whole here. */
static struct range *asked_for(struct guest *g, const struct mover_message *m)
{
    struct range *r = guest_range(g, m->range);
    if (!r || r->bytes != m->bytes || r->place == RANGE_MOVING || r->leaving)
        mover_failed("rank %u: malformed message (range %llu in)", g->rank, (unsigned long long)m->range);
    return r;
}

static void take_in(struct guest *g, const struct mover_message *m, int fd)
{
    struct range *r = asked_for(g, m);
    if (fd < 0)
        mover_failed("rank %u: malformed message (range %llu in, without memory)", g->rank, (unsigned long long)m->range);
    r->leaving = true;
    copy_queue(COPY_IN, r, (struct memory){.fd = fd});
    hand_trim(); /* it has found memory while some was kept for it */
}

/* The rank can have the memory at once: what is copied into it lies in our hands already. */
static void take_take(struct guest *g, const struct mover_message *m)
{
    struct range *r = asked_for(g, m);
    struct mover_message given = {.type = MOVER_GIVEN, .rank = g->rank, .range = m->range, .bytes = m->bytes};
    struct memory memory = {.fd = -1};
    if (r->plain && g->coming && hand_take(r->bytes, &memory)) {
        r->leaving = true;
        g->handed += r->bytes;
    }
    outlet_send_with(&g->outlet, &given, memory.fd);
    if (memory.fd >= 0)
        copy_queue(COPY_IN, r, memory);
}

/* The device has refused what prismd granted: perhaps for what lies here. */
static bool answer_by_clearing(struct guest *g, const struct mover_message *m)
{
    struct mover_message grant = {.type = MOVER_GRANT, .rank = g->rank, .bytes = m->bytes, .flag = 1};
    if (m->flag != 1 || !hand_clear())
        return false;
    outlet_send(&g->outlet, &grant);
    return true;
}

void hear_rank(struct guest *g, struct mover_message *m, int fd, const char *text)
{
    m->rank = g->rank;
    switch (m->type) {
    case MOVER_OUT:
        take_out(g, m, fd);
        return;
    case MOVER_IN:
        take_in(g, m, fd);
        return;
    case MOVER_TAKE:
        take_take(g, m);
        break;
    case MOVER_OUT_END:
        end_move(g, MOVER_EVICTED);
        break;
    case MOVER_IN_END:
        end_move(g, MOVER_RESTORED);
        drop_ranges(g);
        g->coming = false;
        hand_trim();
        break;
    case MOVER_LESS:
        g->granted -= m->bytes < g->granted ? m->bytes : g->granted;
        outlet_send(&to_prismd, m);
        break;
    case MOVER_WANT:
        if (!answer_by_clearing(g, m))
            outlet_send(&to_prismd, m);
        break;
    case MOVER_CONTEXT:
    case MOVER_PARKED:
    case MOVER_CANCELLED:
        outlet_send(&to_prismd, m);
        break;
    case MOVER_FAILED:
        mover_failed("rank %u: %s", g->rank, text);
    default:
        mover_failed("rank %u: malformed message of type %u", g->rank, m->type);
    }
    if (fd >= 0)
        close(fd);
}
