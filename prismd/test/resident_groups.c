/* The policy of context switching against programs whose ranks talk in groups: islands that exchange many small operations and are
 * joined by sums that run beside the computing, stages of a pipeline, one group of all. Counts how many ranks are moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/switching/resident.h"

#define MS      1000000LL
#define SECOND  (1000 * MS)
#define RANKS   32u
#define COMMS   128u
#define STEPS   256u
#define NUMBERS 16384u /* operations of a communicator in a whole run */
#define SIDE    1024u /* operations beside the computing, of a rank in a whole run */
#define MOVE_MS 150   /* a rank, one way */
#define PARK_MS 4
#define EACH    5000u /* bytes of a rank */

/* What a rank does, one after the other. MEET: on the stream that computes. BESIDE: on a second stream, and the first goes on; its input goes
 * out ahead of its turn (lib/preload/gate/early.h). JOIN: wait for all of those. SEND, RECEIVE: comm is of two. */
enum kind { COMPUTE, MEET, BESIDE, JOIN, GROW, SEND, RECEIVE };

struct step {
    enum kind kind;
    uint32_t value; /* ms at most, communicator, or bytes */
};

struct side {
    uint32_t comm, number;
};

struct player {
    struct step steps[STEPS];
    uint32_t nsteps, at, iteration, numbers[COMMS];
    bool in, leaving, coming, parked, at_gate, ready, waits_memory, ended;
    struct side side[SIDE];
    uint32_t nside, side_done;
    bool side_ready;
    uint64_t granted;
    int64_t busy_until, moved_at, active, ready_ns, side_ready_ns, wanted_ns;
};

static struct {
    struct resident *policy;
    struct resident_setting set;
    struct player ranks[RANKS];
    int32_t members[COMMS][RANKS];
    uint32_t size[COMMS], ncomms, iterations, ms; /* ms: of computing between two operations, at most */
    uint8_t come[COMMS][NUMBERS]; /* members that have come to the operation */
    int64_t now, out_free, in_free; /* when each copy engine is free */
    uint64_t evictions;
    double seconds;  /* an iteration */
    int64_t longest; /* that a gate was ready, or memory was asked for */
} sim;

static uint64_t seed;
static uint32_t number(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % below);
}

/* --- the mover --- */

static void on_start(void *arg, uint32_t rank)
{
    (void)arg;
    sim.ranks[rank].in = true;
}

static void on_hopeless(void *arg, uint32_t rank, uint64_t bytes)
{
    (void)arg;
    (void)bytes;
    fail_msg("rank %u: hopeless", rank);
}

static uint64_t promised(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim.set.ranks; i++)
        if ((sim.ranks[i].in && !sim.ranks[i].leaving) || sim.ranks[i].coming)
            sum += sim.ranks[i].granted;
    return sum;
}

static void note_wait(int64_t since)
{
    if (sim.now - since > sim.longest)
        sim.longest = sim.now - since;
}

static void on_send(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag)
{
    struct player *p = &sim.ranks[rank];
    (void)arg;
    (void)flag;
    if (type == MOVER_GRANT) {
        assert_true(p->waits_memory && bytes);
        note_wait(p->wanted_ns);
        p->waits_memory = false;
        p->granted += bytes;
        p->at++;
    } else if (type == MOVER_EVICT) {
        assert_true(p->in && !p->leaving);
        p->leaving = true;
        p->parked = false;
        p->moved_at = (p->busy_until > sim.now ? p->busy_until : sim.now) + PARK_MS * MS;
        sim.evictions++;
    } else if (type == MOVER_RESTORE) {
        assert_true(!p->in && !p->coming);
        p->coming = true;
        sim.in_free = (sim.in_free > sim.now ? sim.in_free : sim.now) + MOVE_MS * MS;
        p->moved_at = sim.in_free;
    }
    assert_true(promised() <= sim.set.capacity);
}

static void tell(uint32_t rank, uint32_t type, uint64_t bytes)
{
    struct mover_message m = {.type = type, .rank = rank, .bytes = bytes, .ns = MS};
    resident_message(sim.policy, &m, sim.now);
}

static uint64_t held(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim.set.ranks; i++)
        sum += sim.ranks[i].in ? sim.ranks[i].granted : 0;
    return sum;
}

static void move(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    if ((!p->leaving && !p->coming) || p->moved_at > sim.now)
        return;
    if (p->leaving && !p->parked) {
        p->parked = true;
        sim.out_free = (sim.out_free > sim.now ? sim.out_free : sim.now) + MOVE_MS * MS;
        p->moved_at = sim.out_free;
        tell(rank, MOVER_PARKED, 0);
    } else if (p->leaving) {
        p->leaving = p->in = false;
        tell(rank, MOVER_EVICTED, p->granted);
    } else if (held() + p->granted <= sim.set.capacity) {
        p->coming = false;
        p->in = true;
        p->active = sim.now;
        tell(rank, MOVER_RESTORED, p->granted);
    }
}

/* --- the ranks --- */

static bool is_complete(uint32_t comm, uint32_t n)
{
    return sim.come[comm][n] == sim.size[comm];
}

static void join(uint32_t rank, uint32_t comm, uint32_t n)
{
    resident_joined(sim.policy, rank, (struct resident_operation){.comm = (int32_t)comm, .sequence = n}, sim.members[comm], sim.size[comm], sim.now);
}

/* The host runs ahead of the stream, except that it waits for every fourth operation and for JOIN. */
static bool is_blocked(const struct player *p)
{
    return (p->at_gate && p->at % 4 == 0) || (p->at < p->nsteps && p->steps[p->at].kind == JOIN);
}

static struct resident_look on_look(void *arg, uint32_t rank)
{
    const struct player *p = &sim.ranks[rank];
    (void)arg;
    bool waits = p->steps[p->at].kind == JOIN && p->busy_until <= sim.now && p->side_done < p->nside;
    return (struct resident_look){.standing = p->at_gate || waits, .blocked = (p->at_gate || waits) && is_blocked(p), .active_ns = p->active};
}

static void opened(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    if (is_blocked(p))
        p->active = sim.now;
    resident_gate_opened(sim.policy, rank, sim.now);
}

/* Gates that all members have come to are ready, and open where the rank is in. */
static void look_at_gates(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    const struct side *head = &p->side[p->side_done];
    if (p->side_done < p->nside && !p->side_ready && is_complete(head->comm, head->number)) {
        p->side_ready = true;
        p->side_ready_ns = sim.now;
        resident_gate_ready(sim.policy, rank, sim.now);
    }
    if (p->at_gate && !p->ready && is_complete(p->steps[p->at].value, p->numbers[p->steps[p->at].value] - 1)) {
        p->ready = true;
        p->ready_ns = sim.now;
        resident_gate_ready(sim.policy, rank, sim.now);
    }
    if (!resident_is_in(sim.policy, rank))
        return;
    if (p->side_ready) {
        note_wait(p->side_ready_ns);
        p->side_ready = false;
        p->side_done++;
        opened(rank);
    }
    if (p->ready) {
        note_wait(p->ready_ns);
        p->ready = p->at_gate = false;
        opened(rank);
        p->at++;
    }
}

/* To its next operation on the communicator. Senders wait for nobody: they meet who receives once both have been there. */
static void come(uint32_t rank, enum kind kind, uint32_t comm)
{
    uint32_t n = sim.ranks[rank].numbers[comm]++;
    assert_true(n < NUMBERS);
    sim.come[comm][n]++;
    if (kind != SEND || is_complete(comm, n))
        join(rank, comm, n);
    if (kind == RECEIVE && is_complete(comm, n))
        join((uint32_t)(sim.members[comm][0] == (int32_t)rank ? sim.members[comm][1] : sim.members[comm][0]), comm, n);
    for (uint32_t i = 0; i < sim.size[comm] && is_complete(comm, n); i++)
        look_at_gates((uint32_t)sim.members[comm][i]);
    resident_tick(sim.policy, sim.now);
}

static void finish_iteration(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    p->at = 0;
    if (++p->iteration < sim.iterations)
        return;
    p->ended = true;
    p->in = false;
    resident_ended(sim.policy, rank, sim.now);
}

static void step(uint32_t rank)
{
    struct player *p = &sim.ranks[rank];
    if (!p->in || p->leaving || p->at_gate || p->waits_memory || p->busy_until > sim.now)
        return;
    if (p->at == p->nsteps) {
        finish_iteration(rank);
        return;
    }
    const struct step *s = &p->steps[p->at];
    switch (s->kind) {
    case COMPUTE:
        p->busy_until = sim.now + (1 + number(s->value)) * MS;
        p->at++;
        break;
    case MEET:
    case RECEIVE:
        p->at_gate = true;
        come(rank, s->kind, s->value);
        break;
    case BESIDE:
        assert_true(p->nside < SIDE);
        p->side[p->nside++] = (struct side){s->value, p->numbers[s->value]};
        p->at++;
        come(rank, s->kind, s->value);
        break;
    case SEND:
        p->at++;
        come(rank, s->kind, s->value);
        break;
    case JOIN:
        p->at += p->side_done == p->nside;
        break;
    case GROW:
        p->at++;
        if (p->iteration == 0) {
            p->at--;
            p->waits_memory = true;
            p->wanted_ns = sim.now;
            tell(rank, MOVER_WANT, s->value);
        }
        break;
    }
}

/* --- programs --- */

static uint32_t communicator(uint32_t first, uint32_t stride, uint32_t n)
{
    assert_true(sim.ncomms < COMMS && n <= RANKS);
    for (uint32_t i = 0; i < n; i++)
        sim.members[sim.ncomms][i] = (int32_t)(first + i * stride);
    sim.size[sim.ncomms] = n;
    return sim.ncomms++;
}

static void add(uint32_t rank, enum kind kind, uint32_t value)
{
    struct player *p = &sim.ranks[rank];
    assert_true(p->nsteps < STEPS - 1);
    p->steps[p->nsteps++] = (struct step){kind, value};
}

static void begin(uint32_t fit, uint64_t order)
{
    memset(&sim, 0, sizeof sim);
    seed = 1 + order;
    sim.now = SECOND;
    sim.iterations = 6;
    sim.set = (struct resident_setting){.capacity = (uint64_t)fit * EACH, .ranks = RANKS, .seed = order};
    sim.ms = 5;
}

/* Tensor pairs and expert groups in turn, 40 operations in forward and in backward. */
static void write_layers(uint32_t rank, const uint32_t comms[3], bool beside, uint32_t grows)
{
    add(rank, GROW, EACH - grows * EACH / 100);
    for (uint32_t i = 0; i < 80; i++) {
        if (grows && i % 4 == 0)
            add(rank, GROW, grows * EACH / 100 / 20);
        add(rank, COMPUTE, sim.ms);
        add(rank, MEET, comms[i % 2]);
        if (beside && i >= 40 && i % 5 == 4)
            add(rank, BESIDE, comms[2]);
    }
}

/* Communicators of each rank: its pair, its experts, its counterparts in other islands. */
static void make_islands(uint32_t island, uint32_t comms[RANKS][3])
{
    for (uint32_t r = 0; r < RANKS; r++) {
        uint32_t first = r / island * island;
        comms[r][0] = r % 2 ? comms[r - 1][0] : communicator(r, 1, 2);
        comms[r][1] = r - first >= 2 ? comms[r - 2][1] : communicator(r, 2, island / 2);
        comms[r][2] = first ? comms[r - island][2] : communicator(r, island, RANKS / island);
    }
}

/* A bucket of gradients every five operations of backward. */
static void write_sums(uint32_t island, uint32_t grows)
{
    uint32_t comms[RANKS][3];
    make_islands(island, comms);
    for (uint32_t r = 0; r < RANKS; r++) {
        write_layers(r, comms[r], true, grows);
        add(r, JOIN, 0);
        add(r, COMPUTE, sim.ms);
    }
}

static void write_islands(uint32_t island)
{
    write_sums(island, 0);
}

/* Two fifths of the memory come bit by bit. */
static void write_growing(uint32_t island)
{
    write_sums(island, 40);
}

/* As tests/gpu/torch/moe.py: sums one after the other, among every second rank and then among counterparts, and one of all. */
static void write_moe(uint32_t island)
{
    uint32_t comms[RANKS][3], all = communicator(0, 1, RANKS), data[2] = {communicator(0, 2, RANKS / 2), communicator(1, 2, RANKS / 2)};
    make_islands(island, comms);
    for (uint32_t r = 0; r < RANKS; r++) {
        write_layers(r, comms[r], false, 0);
        for (uint32_t i = 0; i < 8; i++) {
            add(r, COMPUTE, sim.ms);
            add(r, MEET, i < 4 ? data[r % 2] : comms[r][2]);
        }
        add(r, COMPUTE, sim.ms);
        add(r, MEET, all);
        add(r, COMPUTE, 20);
    }
}

/* Stages in a row, micro-batches down and up. */
static void write_pipeline(uint32_t island)
{
    (void)island;
    uint32_t down[RANKS], up[RANKS];
    for (uint32_t r = 0; r + 1 < RANKS; r++) {
        down[r] = communicator(r, 1, 2);
        up[r] = communicator(r, 1, 2);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        add(r, GROW, EACH);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t *to = i < 8 ? down : up;
            bool first = i < 8 ? r == 0 : r == RANKS - 1, last = i < 8 ? r == RANKS - 1 : r == 0;
            if (!first)
                add(r, RECEIVE, i < 8 ? to[r - 1] : to[r]);
            add(r, COMPUTE, sim.ms);
            if (!last)
                add(r, SEND, i < 8 ? to[r] : to[r - 1]);
        }
    }
}

static void write_all_to_all(uint32_t operations)
{
    uint32_t all = communicator(0, 1, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        add(r, GROW, EACH);
        for (uint32_t i = 0; i < operations; i++) {
            add(r, COMPUTE, sim.ms);
            add(r, MEET, all);
        }
    }
}

static uint32_t living(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim.set.ranks; i++)
        n += !sim.ranks[i].ended;
    return n;
}

/* A program of meetings in one order for all, so that none can wait for ever: what comes between them is any. */
static void write_any(uint64_t s)
{
    begin(8, s % 3);
    seed = s;
    sim.iterations = 2;
    sim.set.ranks = 3 + number(10);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t stride = 1 + number(3), n = 2 + number(sim.set.ranks - 2), first = number(sim.set.ranks);
        for (; first + (n - 1) * stride >= sim.set.ranks; n -= n > 2, first -= first > 0)
            if (n == 2 && !first)
                stride = 1;
        communicator(first, stride, n);
    }
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t comm = number(sim.ncomms), how = number(6);
        for (uint32_t k = 0; k < sim.size[comm]; k++) {
            uint32_t rank = (uint32_t)sim.members[comm][k];
            if (how == 5 && number(3) == 0)
                add(rank, GROW, 1 + number(EACH * 6 / 50));
            add(rank, COMPUTE, number(20) ? 10 : 600);
            add(rank, how == 0 ? BESIDE : how == 1 && sim.size[comm] == 2 ? k ? RECEIVE : SEND : MEET, comm);
        }
    }
    for (uint32_t r = 0; r < sim.set.ranks; r++) {
        sim.ranks[r].steps[0].kind == GROW ? (void)0 : add(r, GROW, 2 * EACH);
        add(r, JOIN, 0);
    }
}

/* To the end: evictions an iteration. */
static double play(const char *what)
{
    static const struct resident_calls calls = {.send = on_send, .start = on_start, .look = on_look, .hopeless = on_hopeless};
    int64_t began = sim.now;
    sim.policy = resident_create(&sim.set, &calls, NULL);
    for (uint32_t i = 0; i < sim.set.ranks; i++)
        resident_want_start(sim.policy, i, sim.now);
    for (; living(); sim.now += MS) {
        if (sim.now - began > 3600 * SECOND)
            fail_msg("%s: no end", what);
        for (uint32_t i = 0; i < sim.set.ranks; i++) {
            move(i);
            if (sim.ranks[i].ended)
                continue;
            look_at_gates(i);
            step(i);
        }
        if (sim.now % (5 * MS) == 0)
            resident_tick(sim.policy, sim.now);
    }
    resident_destroy(sim.policy);
    sim.seconds = (double)(sim.now - began) / (double)SECOND / sim.iterations;
    return (double)sim.evictions / sim.iterations;
}

/* --- tests --- */

/* Most evictions an iteration. The policy that knew no groups had in the three orders, from the first row on: 40; 19, 67, 45; 99, 111, 122;
 * 15, 28, 30; 14, 19, 19; 13, 27, 27; 32, 510, 583; 21, 64, 77; 408, 71, 92; 40, 39, 34. */
static const struct row {
    const char *what;
    void (*write)(uint32_t island);
    uint32_t island, fit, ms;
    double most;
} rows[] = {
    {"4 operations of all", write_all_to_all, 4, 24, 20, 41}, /* 8 an operation and 8 for growth: the least */
    {"islands of 8", write_islands, 8, 24, 5, 20},
    {"islands of 8, slow", write_islands, 8, 24, 60, 36},
    {"islands of 4", write_islands, 4, 24, 5, 20},
    {"islands of 2", write_islands, 2, 24, 5, 16},
    {"islands of 8, 28 fit", write_islands, 8, 28, 5, 12},
    {"islands of 16, 20 fit", write_islands, 16, 20, 5, 20},
    {"islands of 8 that grow", write_growing, 8, 24, 5, 24},
    {"experts", write_moe, 8, 24, 5, 40},
    {"pipeline", write_pipeline, 0, 24, 5, 30},
};

static void groups_move_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t order = 0; order < 3; order++) {
            const struct row *r = &rows[i];
            begin(r->fit, order);
            sim.ms = r->ms;
            r->write(r->island);
            double n = play(r->what);
            print_message("# %s, order %d: %.1f evictions and %.2f s an iteration\n", r->what, (int)order, n, sim.seconds);
            assert_true(n <= r->most);
        }
}

static void all_finish(void **state)
{
    (void)state;
    uint64_t evictions = 0;
    for (uint64_t s = 1; s <= 200; s++) {
        write_any(s);
        play("any");
        assert_true(sim.longest < 2 * RESIDENT_PATIENCE_NS);
        evictions += sim.evictions;
    }
    assert_true(evictions > 1000);
}

/* Two groups that have nothing to do with each other and never rest, where one fits: neither waits for the other's end. */
static void strangers_take_turns(void **state)
{
    (void)state;
    for (uint64_t order = 0; order < 3; order++) {
        begin(4, order);
        sim.iterations = 40;
        sim.set.ranks = 8;
        uint32_t comms[2] = {communicator(0, 1, 4), communicator(4, 1, 4)};
        for (uint32_t r = 0; r < 8; r++) {
            add(r, GROW, EACH);
            for (uint32_t i = 0; i < 100; i++) {
                add(r, COMPUTE, 40);
                add(r, MEET, comms[r / 4]);
            }
        }
        play("strangers");
        assert_true(sim.longest < 2 * RESIDENT_PATIENCE_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_move_together), cmocka_unit_test(all_finish), cmocka_unit_test(strangers_take_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
