/* player.c - a graph played by the caller, by a thread of its own, and condensed, until it has to be played after all: the same ends, and
 * errors that are told. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/feeds.h"
#include "prismd/daemon.h"
#include "prismd/replay/player.h"

#define GROUPS 200
#define STEP   10000

struct fixture {
    struct daemon daemon;
    struct watch *watch;
    struct graph *g;
    struct player *player;
    int64_t ends[GROUPS];
    uint32_t nends;
    bool twice;
    pthread_mutex_t *until; /* a release waits for it; NULL: for nothing */
};

enum how { CALLER, BESIDE, CONDENSED };

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    return 100;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= 4;
}

static void keep(struct fixture *f, const struct player_release *r)
{
    assert_int_equal(r->rank, 0);
    assert_in_range(r->ordinal, 0, GROUPS - 1);
    if (f->ends[r->ordinal]) { /* a second time */
        assert_true(f->twice);
        assert_int_equal(r->end_ns, f->ends[r->ordinal]);
        return;
    }
    f->ends[r->ordinal] = r->end_ns;
    f->nends++;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns)
{
    struct fixture *f = ctx;
    struct player_release r = {rank, comm, ordinal, started_ns, end_ns};
    if (f->until) {
        pthread_mutex_lock(f->until);
        pthread_mutex_unlock(f->until);
    }
    if (f->player && player_is_beside(f->player))
        player_released(f->player, &r);
    else
        keep(f, &r);
}

/* Rank 0 is live; rank 1 computes 1,000 ns before each all-reduce, or receive from it (every second one, with messages). */
static void make_keeping(struct fixture *f, enum how how, bool messages, size_t keep)
{
    static const uint8_t external[2] = {1, 0};
    const int32_t members[2] = {0, 1};
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->daemon.lock, NULL);
    f->g = graph_create(2, 8);
    int comm = graph_add_comm(f->g, members, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(graph_set_member(f->g, r, 0, comm, (int32_t)r), 0);
        for (uint32_t i = 0; i < GROUPS; i++) {
            struct graph_node n = {.kind = GRAPH_COMM, .ordinal = i};
            struct graph_part p = {.op = GRAPH_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 4};
            if (messages && i % 2)
                p = (struct graph_part){.op = r ? GRAPH_OP_RECV : GRAPH_OP_SEND, .datatype = 7, .peer = r ? 0 : 1, .count = 4};
            assert_int_equal(graph_add_node(f->g, r, &n, &p, 1), 0);
        }
        graph_alloc_works(f->g, r);
        for (uint32_t i = 0; i < GROUPS; i++)
            f->g->ranks[r].device_work[i] = 1000;
    }
    struct graph_run_ops ops = {duration, eager, on_release, NULL, f, NULL};
    struct graph_run_options options = {.external = external};
    f->watch = watch_create(&f->daemon);
    assert_non_null(f->watch);
    f->player = how == CONDENSED ? player_create_condensed(&(struct player_replay){f->g, ops, options, f->watch, keep})
                                 : player_create(graph_run_create(f->g, &ops, &options), how == BESIDE ? f->watch : NULL);
    assert_non_null(f->player);
    assert_int_equal(player_is_beside(f->player), how == BESIDE);
}

static void make(struct fixture *f, enum how how, bool messages)
{
    make_keeping(f, how, messages, 0);
}

static void unmake(struct fixture *f)
{
    player_destroy(f->player);
    watch_destroy(f->watch);
    graph_destroy(f->g);
    pthread_mutex_destroy(&f->daemon.lock);
}

static int arrive_with(struct fixture *f, struct graph_part part, uint32_t comm, uint32_t ordinal, struct prism_error *err)
{
    struct player_arrival a = {.comm = comm, .ordinal = ordinal, .start_ns = (ordinal + 1) * STEP, .nparts = 1};
    a.parts = malloc(sizeof *a.parts);
    *a.parts = part;
    return player_arrive(f->player, &a, err);
}

static int arrive(struct fixture *f, uint32_t comm, uint32_t ordinal, struct prism_error *err)
{
    return arrive_with(f, (struct graph_part){.op = GRAPH_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 4}, comm, ordinal, err);
}

/* Takes until so many ends are known or an error is told: what take said last. */
static int64_t take_until(struct fixture *f, uint32_t n, struct prism_error *err)
{
    struct player_release *list;
    for (;;) {
        int64_t taken = player_take(f->player, &list, err);
        for (int64_t i = 0; i < taken; i++)
            keep(f, &list[i]);
        free(list);
        if (taken < 0 || f->nends >= n)
            return taken;
        sched_yield();
    }
}

/* Half of the groups arrive before the beginning. */
static void play(enum how how)
{
    struct fixture f;
    struct prism_error err = {0};
    make(&f, how, false);
    for (uint32_t i = 0; i < GROUPS / 2; i++)
        assert_int_equal(arrive(&f, 0, i, &err), 0);
    assert_int_equal(f.nends, 0);
    assert_int_equal(player_begin(f.player, 0, &err), 0);
    for (uint32_t i = GROUPS / 2; i < GROUPS; i++)
        assert_int_equal(arrive(&f, 0, i, &err), 0);
    assert_true(take_until(&f, GROUPS, &err) >= 0);
    assert_int_equal(f.nends, GROUPS);
    for (uint32_t i = 0; i < GROUPS; i++)
        assert_int_equal(f.ends[i], (i + 1) * STEP + 100);
    unmake(&f);
}

static void the_caller_plays(void **state) { play(CALLER); }
static void a_thread_plays_the_same(void **state) { play(BESIDE); }
static void condensed_is_the_same(void **state) { play(CONDENSED); }

/* From the `small`th group on, sends are so small that they end without their receivers. */
static void play_messages(struct fixture *f, enum how how, uint32_t small, size_t keep)
{
    struct prism_error err = {0};
    make_keeping(f, how, true, keep);
    f->twice = how == CONDENSED;
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct graph_part p = {.op = GRAPH_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 4};
        if (i % 2)
            p = (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = 1, .count = i < small ? 4 : 1};
        if (i == GROUPS / 2)
            assert_int_equal(player_begin(f->player, GROUPS * STEP, &err), 0);
        assert_int_equal(arrive_with(f, p, 0, i, &err), 0);
    }
    if (player_is_beside(f->player))
        assert_true(take_until(f, GROUPS, &err) >= 0);
    assert_int_equal(f->nends, GROUPS);
    while (player_is_playing(f->player)) /* comes to its end */
        sched_yield();
}

/* The thread has arrivals to play, and says so until it has played them: gates that wait meanwhile are no sign of a stall. */
static void a_thread_that_plays_says_so(void **state)
{
    struct fixture f;
    struct prism_error err = {0};
    pthread_mutex_t until = PTHREAD_MUTEX_INITIALIZER;
    make(&f, BESIDE, false);
    f.until = &until;
    assert_int_equal(arrive(&f, 0, 0, &err), 0);
    assert_false(player_is_playing(f.player)); /* not begun */
    pthread_mutex_lock(&until);
    assert_int_equal(player_begin(f.player, 0, &err), 0);
    for (int i = 0; i < 100; i++) {
        assert_true(player_is_playing(f.player));
        sched_yield();
    }
    pthread_mutex_unlock(&until);
    assert_true(take_until(&f, 1, &err) >= 0);
    while (player_is_playing(f.player))
        sched_yield();
    unmake(&f);
}

/* Before the beginning, or behind it, or not at all. */
static void sizes_that_change_who_waits_are_played(void **state)
{
    for (uint32_t small = GROUPS / 4; small <= GROUPS * 5 / 4; small += GROUPS / 2) {
        struct fixture plain, f;
        play_messages(&plain, CALLER, small, 0);
        play_messages(&f, CONDENSED, small, 0);
        assert_int_equal(player_is_beside(f.player), small < GROUPS);
        assert_memory_equal(plain.ends, f.ends, sizeof f.ends);
        unmake(&plain);
        unmake(&f);
    }
}

/* The first of these sends comes when nothing is kept any more; or when what is kept is enough. */
static void after_a_long_run_sizes_are_played_as_recorded(void **state)
{
    struct fixture plain, recorded, f;
    play_messages(&plain, CALLER, GROUPS / 2, 0);
    play_messages(&recorded, CALLER, GROUPS, 0);
    assert_memory_not_equal(plain.ends, recorded.ends, sizeof f.ends);
    play_messages(&f, CONDENSED, GROUPS / 2, GROUPS / 4);
    assert_false(player_is_beside(f.player));
    assert_memory_equal(recorded.ends, f.ends, sizeof f.ends);
    unmake(&f);
    for (uint32_t keep = GROUPS / 2; keep < GROUPS / 2 + 4; keep++) { /* the last one before is the GROUPS / 2 + 1st */
        bool leaves = keep > GROUPS / 2 + 1;
        play_messages(&f, CONDENSED, GROUPS / 2, keep);
        assert_int_equal(player_is_beside(f.player), leaves);
        assert_memory_equal(leaves ? plain.ends : recorded.ends, f.ends, sizeof f.ends);
        unmake(&f);
    }
    unmake(&plain);
    unmake(&recorded);
}

static void what_the_graph_does_not_know_is_told(void **state)
{
    for (enum how how = CALLER; how <= CONDENSED; how++) {
        struct fixture f;
        struct prism_error err = {0};
        make(&f, how, false);
        assert_int_equal(player_begin(f.player, 0, &err), 0);
        int rc = arrive(&f, 9, 0, &err);
        assert_true(how == BESIDE || rc == -1);
        assert_int_equal(take_until(&f, GROUPS, &err), -1);
        assert_int_not_equal(err.code, 0);
        unmake(&f);
    }
}

/* What has not been played or taken goes with it. */
static void destroyed_in_between(void **state)
{
    struct fixture f;
    struct prism_error err = {0};
    make(&f, BESIDE, false);
    assert_int_equal(arrive(&f, 0, 0, &err), 0);
    unmake(&f);
    make(&f, BESIDE, false);
    assert_int_equal(player_begin(f.player, 0, &err), 0);
    for (uint32_t i = 0; i < GROUPS; i++)
        assert_int_equal(arrive(&f, 0, i, &err), 0);
    unmake(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_plays),
        cmocka_unit_test(a_thread_plays_the_same),
        cmocka_unit_test(condensed_is_the_same),
        cmocka_unit_test(sizes_that_change_who_waits_are_played),
        cmocka_unit_test(after_a_long_run_sizes_are_played_as_recorded),
        cmocka_unit_test(a_thread_that_plays_says_so),
        cmocka_unit_test(what_the_graph_does_not_know_is_told),
        cmocka_unit_test(destroyed_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
