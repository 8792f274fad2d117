/* The policy of context switching against a fake mover, fake ranks and a fake clock: whatever the ranks do, no more is
 * promised than the device holds, every rank is answered and let on, and all finish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/switching/busy.h"
#include "prismd/switching/resident.h"
#include "prismd/switching/tell.h"

#define MIB   (1ull << 20)
#define MS    1000000LL
#define RANKS 12

/* What a rank does, one after the other. A barrier is all ranks' next gate. */
enum step { ALLOCATE, RELEASE, COMPUTE, BARRIER, STORE, ENDS };

struct player {
    enum step steps[64];
    uint64_t sizes[64]; /* of ALLOCATE and RELEASE */
    uint32_t at;
    bool started, ended, in, leaving, coming, at_gate, in_store, waits_memory, unmovable;
    uint64_t granted;
    int64_t busy_until, moves_until, active;
    uint32_t parked; /* EVICT waits until the kernels end */
};

static struct {
    struct resident *policy;
    struct resident_setting set;
    struct player ranks[RANKS];
    uint32_t n, gates, stored;
    int64_t now;
    uint64_t evictions, refused;
    bool hopeless, slow; /* slow: moves take seconds */
} sim;

static uint64_t seed;
static uint64_t number(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void check_ledger(void)
{
    uint64_t promised = 0;
    for (uint32_t i = 0; i < sim.n; i++) {
        struct player *p = &sim.ranks[i];
        if (p->started && !p->ended)
            promised += sim.set.context;
        if ((p->in && !p->leaving) || p->coming)
            promised += p->granted;
    }
    assert_true(promised <= sim.set.capacity);
}

/* --- the policy's calls --- */

static void on_start(void *arg, uint32_t rank)
{
    (void)arg;
    assert_false(sim.ranks[rank].started);
    sim.ranks[rank].started = sim.ranks[rank].in = true;
    sim.ranks[rank].active = sim.now;
    check_ledger();
}

static struct resident_look on_look(void *arg, uint32_t rank)
{
    (void)arg;
    const struct player *p = &sim.ranks[rank];
    return (struct resident_look){.standing = p->at_gate, .blocked = p->at_gate, .active_ns = p->active};
}

static void on_hopeless(void *arg, uint32_t rank, uint64_t bytes)
{
    (void)arg;
    (void)bytes;
    assert_true(sim.ranks[0].unmovable && rank);
    sim.hopeless = true;
}

static void on_send(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag)
{
    struct player *p = &sim.ranks[rank];
    (void)arg;
    (void)flag;
    switch (type) {
    case MOVER_GRANT:
        assert_true(p->waits_memory);
        assert_true(!bytes || bytes == p->sizes[p->at]);
        p->waits_memory = false;
        p->granted += bytes;
        sim.refused += !bytes;
        p->at++;
        break;
    case MOVER_EVICT:
        assert_true(p->in && !p->leaving);
        p->leaving = true;
        sim.evictions++;
        break;
    case MOVER_RESTORE:
        assert_true(!p->in && !p->coming);
        p->coming = true;
        p->moves_until = sim.now + (int64_t)(1 + number(sim.slow ? 3000 : 300)) * MS;
        break;
    default:
        assert_int_equal(type, MOVER_CANCEL);
    }
    if (type == MOVER_RESTORE || bytes) /* what promises nothing may come while room is made for one that could not leave */
        check_ledger();
}

/* --- ranks --- */

static void tell(uint32_t rank, uint32_t type, uint64_t bytes)
{
    struct mover_message m = {.type = type, .rank = rank, .bytes = bytes, .ns = MS};
    resident_message(sim.policy, &m, sim.now);
}

static void move(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    if (p->leaving && p->unmovable) {
        p->leaving = false;
        tell(rank, MOVER_CANCELLED, 0);
    } else if (p->leaving && p->busy_until <= sim.now && !p->moves_until) {
        tell(rank, MOVER_PARKED, 0);
        p->moves_until = sim.now + (int64_t)(1 + number(sim.slow ? 3000 : 300)) * MS;
    } else if (p->leaving && p->moves_until && p->moves_until <= sim.now) {
        p->leaving = p->in = false;
        p->moves_until = 0;
        tell(rank, MOVER_EVICTED, p->granted);
    } else if (p->coming && p->moves_until <= sim.now) {
        p->coming = false;
        p->in = true;
        p->moves_until = 0;
        p->active = sim.now;
        tell(rank, MOVER_RESTORED, p->granted);
    }
}

static void open_gate(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    resident_gate_opened(sim.policy, rank, sim.now);
    p->at_gate = false;
    p->at++;
    p->active = sim.now;
}

/* All have come: gates of ranks that are in open, the others' when they are back. */
static void all_at_gate(void)
{
    sim.gates = 0;
    for (uint32_t i = 0; i < sim.n; i++)
        if (!sim.ranks[i].ended) {
            resident_gate_ready(sim.policy, i, sim.now);
            sim.ranks[i].parked = 1; /* ready */
        }
}

static uint32_t living(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim.n; i++)
        n += !sim.ranks[i].ended;
    return n;
}

static void step(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    if (p->parked && p->in && !p->leaving && resident_is_in(sim.policy, rank)) {
        p->parked = 0;
        open_gate(rank);
    }
    /* Kernels need the memory; the host's own part of a program does not. */
    if (!p->started || p->ended || p->at_gate || p->waits_memory || p->busy_until > sim.now ||
        (p->steps[p->at] != STORE && !(p->in && !p->leaving)))
        return;
    switch (p->steps[p->at]) {
    case ALLOCATE:
        p->waits_memory = true;
        tell(rank, MOVER_WANT, p->sizes[p->at]);
        break;
    case RELEASE: {
        uint64_t bytes = p->sizes[p->at] < p->granted ? p->sizes[p->at] : p->granted;
        p->granted -= bytes;
        p->at++;
        tell(rank, MOVER_LESS, bytes);
        break;
    }
    case COMPUTE:
        p->busy_until = sim.now + (int64_t)number(400) * MS;
        p->active = sim.now;
        p->at++;
        break;
    case BARRIER:
        p->at_gate = true;
        p->active = sim.now;
        if (++sim.gates == living())
            all_at_gate();
        resident_tick(sim.policy, sim.now);
        break;
    case STORE: /* blocked until every rank has been here: nothing of it is seen by prismd */
        if (!p->in_store) {
            p->in_store = true;
            sim.stored++;
        }
        if (sim.stored == sim.n)
            p->at++;
        break;
    case ENDS:
        p->ended = true;
        p->in = false;
        resident_ended(sim.policy, rank, sim.now);
        break;
    }
}

/* The same barriers for all; memory and work as it comes. */
static void write_programs(uint64_t most)
{
    for (uint32_t i = 0; i < sim.n; i++) {
        struct player *p = &sim.ranks[i];
        uint32_t n = 0;
        for (int round = 0; round < 8; round++) {
            uint64_t kind = number(4);
            p->steps[n] = ALLOCATE;
            p->sizes[n++] = (1 + number(most / MIB / 5)) * MIB;
            if (kind == 0)
                p->steps[n++] = COMPUTE;
            if (round == 2)
                p->steps[n++] = STORE;
            if (kind == 1) {
                p->steps[n] = RELEASE;
                p->sizes[n++] = (1 + number(64)) * MIB;
            }
            p->steps[n++] = BARRIER;
        }
        p->steps[n] = ENDS;
    }
}

static const struct resident_calls calls = {.send = on_send, .start = on_start, .look = on_look,
                                           .hopeless = on_hopeless};

static void begin_play(uint64_t s, struct resident_setting set)
{
    memset(&sim, 0, sizeof sim);
    seed = s;
    sim.n = set.ranks;
    sim.now = 1000 * MS;
    sim.set = set;
}

static void play_to_end(uint64_t s, uint64_t eviction_seed)
{
    sim.policy = resident_create(&sim.set, &calls, NULL);
    for (uint32_t i = 0; i < sim.n; i++)
        resident_want_start(sim.policy, i, sim.now);
    int64_t limit = sim.now + 3600LL * 1000 * MS;
    for (int64_t next_tick = 0; living() && !sim.hopeless; sim.now += 5 * MS) {
        if (sim.now > limit)
            fail_msg("seed %llu, eviction seed %llu: no end", (unsigned long long)s, (unsigned long long)eviction_seed);
        for (uint32_t i = 0; i < sim.n; i++) {
            move(i);
            step(i);
        }
        if (sim.now >= next_tick) {
            next_tick = sim.now + 20 * MS;
            resident_tick(sim.policy, sim.now);
        }
    }
    const struct resident_counts *c = resident_count(sim.policy);
    assert_int_equal(c->evictions, sim.evictions);
    assert_int_equal(c->refused, sim.refused);
    resident_destroy(sim.policy);
}

static void play(uint64_t s, uint64_t eviction_seed, bool unmovable)
{
    seed = s;
    uint32_t ranks = 2 + (uint32_t)number(RANKS - 1);
    uint64_t context = number(3) * 10 * MIB, after = seed;
    begin_play(after, (struct resident_setting){.capacity = 1000 * MIB, .context = context, .ranks = ranks, .seed = eviction_seed});
    write_programs(700 * MIB);
    sim.ranks[0].unmovable = unmovable;
    play_to_end(s, eviction_seed);
}

static void all_finish(void **state)
{
    (void)state;
    uint64_t evictions = 0, refused = 0;
    for (uint64_t s = 1; s <= 150; s++) {
        play(s, s % 3 ? s : 0, false);
        evictions += sim.evictions;
        refused += sim.refused;
    }
    assert_true(evictions > 1000);
    assert_true(refused < evictions);
}

/* Ranks that grow in small steps, all at the same time, as PyTorch's do: those that are in go on to their gate, and are not moved
 * for a little of what the others lack. Nine of twelve fit; the least is three moves each way a barrier. */
static void growing_moves_few(void **state)
{
    (void)state;
    for (uint64_t order = 0; order < 6; order++) {
        begin_play(order + 1, (struct resident_setting){.capacity = 1000 * MIB, .ranks = 12, .seed = order % 3});
        sim.slow = order > 2;
        for (uint32_t i = 0; i < sim.n; i++) {
            struct player *p = &sim.ranks[i];
            uint32_t n = 0;
            for (uint32_t k = 0; k < 34; k++) {
                p->steps[n] = ALLOCATE;
                p->sizes[n++] = (k < 10 ? 11 : 2) * MIB;
                if (k == 9)
                    p->steps[n++] = BARRIER;
            }
            p->steps[n++] = COMPUTE;
            p->steps[n++] = BARRIER;
            p->steps[n++] = BARRIER;
            p->steps[n] = ENDS;
        }
        play_to_end(1, order % 3);
        assert_in_range(sim.evictions, 12, 48);
    }
}

static void one_cannot_be_moved(void **state)
{
    (void)state;
    uint32_t hopeless = 0;
    for (uint64_t s = 1; s <= 50; s++) {
        play(s, 0, true);
        hopeless += sim.hopeless;
    }
    assert_true(hopeless < 25);
}

/* --- single decisions --- */

static uint32_t sent[16][2], nsent, nstarted;
static struct resident_look looks[4];

static void note(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag)
{
    (void)arg;
    (void)bytes;
    (void)flag;
    sent[nsent][0] = rank;
    sent[nsent++][1] = type;
}

static void note_start(void *arg, uint32_t rank)
{
    (void)arg;
    (void)rank;
    nstarted++;
}

static struct resident_look given_look(void *arg, uint32_t rank)
{
    (void)arg;
    return looks[rank];
}

static const struct resident_calls notes = {.send = note, .start = note_start, .look = given_look};

static struct resident *begin(uint64_t capacity, uint64_t context, uint32_t ranks)
{
    struct resident_setting set = {.capacity = capacity, .context = context, .ranks = ranks};
    nsent = nstarted = 0;
    memset(looks, 0, sizeof looks);
    struct resident *s = resident_create(&set, &notes, NULL);
    for (uint32_t i = 0; i < ranks; i++)
        resident_want_start(s, i, 1);
    assert_int_equal(nstarted, ranks);
    return s;
}

static void message(struct resident *s, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag, int64_t now)
{
    struct mover_message m = {.type = type, .rank = rank, .bytes = bytes, .flag = flag};
    resident_message(s, &m, now);
}

static void expect(uint32_t i, uint32_t rank, uint32_t type)
{
    assert_true(i < nsent);
    assert_int_equal(sent[i][0], rank);
    assert_int_equal(sent[i][1], type);
}

/* The one let on longest ago of those that stand; the one that comes in is told at the same time. */
static void both_directions(void **state)
{
    (void)state;
    struct resident *s = begin(100, 0, 3);
    message(s, 0, MOVER_WANT, 50, 0, 2);
    message(s, 1, MOVER_WANT, 50, 0, 3);
    resident_gate_ready(s, 0, 4);
    resident_gate_opened(s, 0, 5);
    resident_gate_ready(s, 1, 6);
    resident_gate_opened(s, 1, 7);
    looks[0] = looks[1] = (struct resident_look){.standing = true, .blocked = true, .active_ns = 7};
    message(s, 2, MOVER_WANT, 40, 0, 8);
    assert_int_equal(nsent, 3);
    expect(2, 0, MOVER_EVICT);
    message(s, 0, MOVER_PARKED, 0, 0, 9);
    assert_int_equal(nsent, 3); /* no grant before the memory is there */
    message(s, 0, MOVER_EVICTED, 50, 0, 10);
    expect(3, 2, MOVER_GRANT);
    resident_gate_ready(s, 0, 11);
    expect(4, 1, MOVER_EVICT);
    expect(5, 0, MOVER_RESTORE);
    assert_false(resident_is_in(s, 0));
    message(s, 0, MOVER_RESTORED, 50, 0, 12);
    assert_true(resident_is_in(s, 0));
    resident_destroy(s);
}

/* Ranks with a gate to open, and those that came back just now, are left alone. */
static void who_is_no_victim(void **state)
{
    (void)state;
    struct resident *s = begin(100, 0, 2);
    message(s, 0, MOVER_WANT, 100, 0, 2);
    looks[0] = (struct resident_look){.standing = true, .blocked = true};
    resident_gate_ready(s, 0, 3);
    message(s, 1, MOVER_WANT, 10, 0, 4);
    assert_int_equal(nsent, 1);
    resident_gate_opened(s, 0, 5);
    looks[0] = (struct resident_look){.active_ns = 5};
    resident_tick(s, 6);
    assert_int_equal(nsent, 1); /* it computes */
    resident_tick(s, 6 + RESIDENT_SETTLE_NS);
    expect(1, 0, MOVER_EVICT);
    resident_destroy(s);
}

/* Those in memory have done their work and cannot be stopped in their exit handlers: who is out waits for their end. */
static void who_ends_makes_room(void **state)
{
    (void)state;
    struct resident *s = begin(100, 0, 4);
    message(s, 0, MOVER_WANT, 60, 0, 2);
    looks[0] = (struct resident_look){.standing = true, .blocked = true, .active_ns = 2};
    message(s, 1, MOVER_WANT, 50, 0, 3);
    expect(1, 0, MOVER_EVICT);
    message(s, 0, MOVER_EVICTED, 60, 0, 4);
    message(s, 2, MOVER_WANT, 50, 0, 5);
    assert_int_equal(nsent, 4);
    looks[1] = looks[2] = (struct resident_look){.standing = true, .blocked = true};
    message(s, 3, MOVER_WANT, 100, 0, 6);
    for (uint32_t rank = 1; rank <= 2; rank++) {
        expect(nsent - 1 - (2 - rank), rank, MOVER_EVICT);
        message(s, rank, MOVER_CANCELLED, 0, 1, 7);
    }
    nsent = 0;
    resident_gate_ready(s, 0, 8);
    resident_tick(s, 8 + 2 * RESIDENT_PARK_NS);
    assert_int_equal(nsent, 0); /* not hopeless, and nobody is asked again */
    resident_ended(s, 1, 9 + 2 * RESIDENT_PARK_NS);
    resident_ended(s, 2, 9 + 2 * RESIDENT_PARK_NS);
    expect(0, 3, MOVER_GRANT);
    resident_ended(s, 3, 10 + 2 * RESIDENT_PARK_NS);
    expect(nsent - 1, 0, MOVER_RESTORE);
    resident_destroy(s);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct resident *s = begin(100, 10, 2);
    assert_int_equal(resident_most(s, 0), 80);
    message(s, 0, MOVER_WANT, 80, 0, 2);
    message(s, 0, MOVER_WANT, 1, 0, 3);
    expect(0, 0, MOVER_GRANT);
    expect(1, 0, MOVER_GRANT);
    assert_int_equal(resident_count(s)->refused, 1);
    /* The device itself has less than that, and nobody else could leave. */
    message(s, 0, MOVER_WANT, 5, 1, 4);
    assert_int_equal(resident_count(s)->refused, 2);
    resident_destroy(s);
}

/* Nobody asks for anything, and nothing moves: who is out comes in, in turn. */
static void turns_are_taken(void **state)
{
    (void)state;
    struct resident *s = begin(100, 0, 2);
    message(s, 0, MOVER_WANT, 60, 0, 2);
    looks[0].standing = looks[0].blocked = true;
    message(s, 1, MOVER_WANT, 60, 0, 3);
    expect(1, 0, MOVER_EVICT);
    message(s, 0, MOVER_EVICTED, 60, 0, 4);
    expect(2, 1, MOVER_GRANT);
    resident_tick(s, 5);
    assert_int_equal(nsent, 3);
    resident_tick(s, 5 + RESIDENT_SETTLE_NS);
    expect(3, 1, MOVER_EVICT);
    expect(4, 0, MOVER_RESTORE);
    resident_destroy(s);
}

static void what_happens_is_told(void **state)
{
    const struct resident_state where = {.ranks = 16, .to_start = 1, .in = 8, .leaving = 1, .out = 5, .coming = 1, .asking = 4,
                                         .held = 120000000000, .capacity = 146500000000};
    struct resident_counts counts = {.evictions = 7, .bytes_out = 90000000000, .bytes_in = 45000000000, .seconds_out = 2, .seconds_in = 1.5,
                                     .seconds_parking = 0.25, .host_bytes = 80000000000, .host_now = 80000000000,
                                     .seconds_pinning = 8};
    struct mover_message moved = {.type = MOVER_EVICTED, .rank = 3, .range = 143, .bytes = 12000000000, .ns = 300000000};
    char line[400];
    (void)state;
    tell_progress(&where, &counts, line, sizeof line);
    assert_string_equal(line, "8 of 16 ranks on the device (120.0 of 146.5 GB), 1 leaving, 1 coming, 5 out, 1 not started, 4 waiting; 7 evictions: "
                              "90.0 GB out (45.0 GB/s), 45.0 GB in (30.0 GB/s), 0.2 s of parking; 80.0 GB pinned in 8.0 s");
    counts.spilled_bytes = 5000000000;
    tell_progress(&where, &counts, line, sizeof line);
    assert_non_null(strstr(line, ", 5.0 GB written to disk (a larger PRISM_HOST_POOL holds more)"));
    counts.host_now = 60000000000; /* memory was short: a larger pool would not help */
    tell_progress(&where, &counts, line, sizeof line);
    assert_non_null(strstr(line, "; 80.0 GB pinned in 8.0 s, 60.0 GB now, 5.0 GB written to disk"));
    assert_null(strstr(line, "PRISM_HOST_POOL"));
    assert_true(tell_message(&moved, line, sizeof line));
    assert_string_equal(line, "rank 3 is out: 12.00 GB, 143 ranges, in 0.300 s (40.0 GB/s)");
    moved = (struct mover_message){.type = MOVER_CONTEXT, .rank = 5, .ns = 2100000000};
    assert_true(tell_message(&moved, line, sizeof line));
    assert_string_equal(line, "rank 5 has its context on the device, made in 2.1 s");
    moved.type = MOVER_LESS;
    assert_false(tell_message(&moved, line, sizeof line));
}

static void moves_that_overlap_count_once(void **state)
{
    (void)state;
    struct busy b = {0};
    busy_add(&b, 1000000000, 500000000);
    assert_true(busy_seconds(&b) == 0.5);
    busy_add(&b, 1200000000, 400000000); /* half of it beside the first */
    assert_true(busy_seconds(&b) == 0.7);
    busy_add(&b, 3000000000, 100000000);
    busy_add(&b, 3100000000, 50000000);
    assert_true(busy_seconds(&b) > 0.8499 && busy_seconds(&b) < 0.8501);
    busy_add(&b, 3200000000, 2900000000); /* longer than all the others together */
    assert_true(busy_seconds(&b) == 2.9);
    memset(&b, 0, sizeof b);
    for (int64_t i = 1; i <= 1000; i++)
        busy_add(&b, i * 1000000000, 250000000);
    assert_true(busy_seconds(&b) == 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_directions), cmocka_unit_test(who_is_no_victim),    cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(who_ends_makes_room), cmocka_unit_test(what_happens_is_told),
        cmocka_unit_test(moves_that_overlap_count_once), cmocka_unit_test(turns_are_taken), cmocka_unit_test(one_cannot_be_moved), cmocka_unit_test(all_finish), cmocka_unit_test(growing_moves_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
