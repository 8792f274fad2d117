/* watch.c - gates on a region of plain memory: what arrives is seen in the order of its stream, what is due opens in the
 * order of its times, a rank that is gone takes its gates along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "prismd/gates/board.h"
#include "prismd/gates/watch.h"
#include "proto/board.h"

#define SEEN_MAX 64

static struct {
    uint32_t arrived[SEEN_MAX], opened[SEEN_MAX]; /* by group.node */
    int64_t opened_ns[SEEN_MAX];
    uint32_t narrived, nopened;
    pthread_cond_t changed;
} seen;

static void on_arrived(struct daemon *d, struct group *g)
{
    (void)d;
    assert_true(seen.narrived < SEEN_MAX);
    seen.arrived[seen.narrived++] = g->node;
    pthread_cond_broadcast(&seen.changed);
}

static void on_opened(struct daemon *d, struct group *g)
{
    (void)d;
    seen.opened_ns[seen.nopened] = g->open_at_ns;
    seen.opened[seen.nopened++] = g->node;
    pthread_cond_broadcast(&seen.changed);
}

static const struct phase_ops ops = {.name = "test", .arrived = on_arrived, .opened = on_opened};

struct fixture {
    struct daemon daemon;
    struct rank ranks[2];
    uint32_t generation; /* every gate has a slot of its own and this generation */
};

static int make(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    memset(&seen, 0, sizeof seen);
    pthread_cond_init(&seen.changed, NULL);
    pthread_mutex_init(&f->daemon.lock, NULL);
    f->daemon.ops = &ops;
    f->generation = UINT32_MAX; /* about to wrap */
    for (uint32_t i = 0; i < 2; i++) {
        f->ranks[i] = (struct rank){.daemon = &f->daemon, .number = i};
        f->ranks[i].region = aligned_alloc(64, REGION_HEAP_OFFSET);
        memset(f->ranks[i].region, 0xff, REGION_HEAP_OFFSET);
        for (uint32_t s = 0; s < REGION_SLOTS; s++)
            ((struct region_slot *)f->ranks[i].region)[s] =
                (struct region_slot){.arrive = UINT32_MAX - 1, .ready = UINT32_MAX - 1, .go = UINT32_MAX - 1};
    }
    f->daemon.watch = watch_create(&f->daemon);
    *state = f;
    return f->daemon.watch ? 0 : -1;
}

static int unmake(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    for (uint32_t i = 0; i < 2; i++)
        watch_drop_rank(f->daemon.watch, &f->ranks[i]);
    pthread_mutex_unlock(&f->daemon.lock);
    watch_destroy(f->daemon.watch);
    for (uint32_t i = 0; i < 2; i++) {
        free(f->ranks[i].streams);
        free(f->ranks[i].stream_tails);
        free(f->ranks[i].region);
    }
    pthread_mutex_destroy(&f->daemon.lock);
    pthread_cond_destroy(&seen.changed);
    free(f);
    return 0;
}

/* With the lock held. Slot and node are `number`. */
static struct group *add_one(struct fixture *f, uint32_t rank, uint32_t stream, uint32_t number, bool early)
{
    struct group *g = calloc(1, sizeof *g);
    g->rank = &f->ranks[rank];
    g->stream = stream;
    g->slot = g->node = number;
    g->generation = f->generation;
    g->early = early;
    watch_add(f->daemon.watch, g);
    return g;
}

static struct group *add(struct fixture *f, uint32_t rank, uint32_t stream, uint32_t number)
{
    return add_one(f, rank, stream, number, false);
}

static struct group *add_early(struct fixture *f, uint32_t rank, uint32_t stream, uint32_t number)
{
    return add_one(f, rank, stream, number, true);
}

static struct region_slot *slot(struct fixture *f, uint32_t rank, uint32_t number)
{
    return (struct region_slot *)f->ranks[rank].region + number;
}

static void arrive(struct fixture *f, uint32_t rank, uint32_t number)
{
    region_word_set(&slot(f, rank, number)->arrive, f->generation);
}

/* With the lock held: until the counter has got so far; generous, so never reached by a slow machine. */
static void wait_for(struct fixture *f, const uint32_t *counter, uint32_t value)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 30;
    while (*counter < value)
        if (pthread_cond_timedwait(&seen.changed, &f->daemon.lock, &limit))
            fail_msg("%u instead of %u", *counter, value);
}

/* Long enough for the watch thread to look several times. */
static void let_it_look(struct fixture *f)
{
    pthread_mutex_unlock(&f->daemon.lock);
    clock_sleep_until_ns(clock_now_ns() + 20000000);
    pthread_mutex_lock(&f->daemon.lock);
}

static void a_stream_arrives_in_order(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    struct group *first = add(f, 0, 3, 1), *second = add(f, 0, 3, 2);
    add(f, 0, 9, 3);
    arrive(f, 0, 2); /* cannot be: the word is another's, or the stream is behind the first gate */
    arrive(f, 0, 3);
    wait_for(f, &seen.narrived, 1);
    let_it_look(f);
    assert_int_equal(seen.narrived, 1);
    assert_int_equal(seen.arrived[0], 3);
    arrive(f, 0, 1);
    wait_for(f, &seen.narrived, 2);
    assert_int_equal(seen.arrived[1], 1);
    assert_true(first->arrived && first->arrived_ns > 0);
    let_it_look(f);
    assert_false(second->arrived);
    watch_open_at(f->daemon.watch, first, 0);
    wait_for(f, &seen.narrived, 3); /* the first gate has opened: the next one's turn */
    assert_int_equal(seen.arrived[2], 2);
    assert_int_equal(seen.nopened, 1);
    assert_int_equal(slot(f, 0, 1)->go, f->generation);
    assert_int_equal(slot(f, 0, 2)->go, f->generation - 1);
    pthread_mutex_unlock(&f->daemon.lock);
}

static void early_ones_arrive_at_any_time(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    struct group *first = add(f, 0, 3, 1);
    add_early(f, 0, 3, 2);
    struct group *third = add_early(f, 0, 3, 3), *last = add(f, 0, 3, 4);
    arrive(f, 0, 3);
    arrive(f, 0, 4); /* cannot be */
    wait_for(f, &seen.narrived, 1);
    assert_int_equal(seen.arrived[0], 3);
    assert_ptr_equal(f->ranks[0].streams[3], first);
    arrive(f, 0, 1);
    wait_for(f, &seen.narrived, 2);
    watch_open_at(f->daemon.watch, first, 0);
    wait_for(f, &seen.nopened, 1);
    arrive(f, 0, 2);
    wait_for(f, &seen.narrived, 3);
    assert_int_equal(seen.arrived[2], 2);
    watch_open_at(f->daemon.watch, f->ranks[0].streams[3], 0);
    wait_for(f, &seen.nopened, 2);
    assert_ptr_equal(f->ranks[0].streams[3], third);
    let_it_look(f);
    assert_int_equal(seen.narrived, 3);
    assert_false(last->arrived);
    watch_open_at(f->daemon.watch, third, 0);
    wait_for(f, &seen.narrived, 4);
    assert_int_equal(seen.arrived[3], 4);
    pthread_mutex_unlock(&f->daemon.lock);
}

static void gates_open_at_their_times(void **state)
{
    struct fixture *f = *state;
    struct group *g[6];
    static const uint32_t order[6] = {4, 1, 5, 0, 3, 2}; /* by time */
    pthread_mutex_lock(&f->daemon.lock);
    for (uint32_t i = 0; i < 6; i++) {
        g[i] = add(f, i % 2, i, i);
        arrive(f, i % 2, i);
    }
    wait_for(f, &seen.narrived, 6);
    int64_t begin = clock_now_ns() + 50000000, due[6];
    for (uint32_t k = 0; k < 6; k++)
        due[order[k]] = begin + k * 10000000;
    for (uint32_t i = 0; i < 6; i++)
        watch_open_at(f->daemon.watch, g[i], due[i]);
    wait_for(f, &seen.nopened, 6);
    for (uint32_t k = 0; k < 6; k++) {
        assert_int_equal(seen.opened[k], order[k]);
        assert_true(seen.opened_ns[k] >= due[order[k]]);
        assert_int_equal(slot(f, order[k] % 2, order[k])->go, f->generation);
    }
    assert_null(f->ranks[0].groups);
    assert_null(f->ranks[1].groups);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* Only the gates of the rank that fell behind, and their ends. */
static void a_delayed_rank_opens_later(void **state)
{
    struct fixture *f = *state;
    struct group *g[4];
    pthread_mutex_lock(&f->daemon.lock);
    for (uint32_t i = 0; i < 4; i++) {
        g[i] = add(f, i % 2, i, i);
        arrive(f, i % 2, i);
    }
    wait_for(f, &seen.narrived, 4);
    int64_t begin = clock_now_ns() + 100000000;
    for (uint32_t i = 0; i < 4; i++) {
        g[i]->end_ns = begin + i * 10000000;
        watch_open_at(f->daemon.watch, g[i], g[i]->end_ns);
    }
    watch_delay_rank(f->daemon.watch, &f->ranks[0], 60000000);
    assert_int_equal(g[0]->end_ns, begin + 60000000);
    assert_int_equal(g[1]->end_ns, begin + 10000000);
    wait_for(f, &seen.nopened, 4);
    static const uint32_t order[4] = {1, 3, 0, 2};
    for (uint32_t k = 0; k < 4; k++)
        assert_int_equal(seen.opened[k], order[k]);
    assert_true(seen.opened_ns[2] >= begin + 60000000);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* Who has kept the lock opens what has become due meanwhile, and nothing else. */
static void the_lock_holder_opens_what_is_due(void **state)
{
    struct fixture *f = *state;
    struct group *g[2];
    pthread_mutex_lock(&f->daemon.lock);
    for (uint32_t i = 0; i < 2; i++) {
        g[i] = add(f, i, 0, i);
        arrive(f, i, i);
    }
    wait_for(f, &seen.narrived, 2);
    int64_t due = clock_now_ns() + 20000000;
    watch_open_at(f->daemon.watch, g[0], due);
    watch_open_at(f->daemon.watch, g[1], due + 200000000);
    watch_open_due(f->daemon.watch);
    assert_int_equal(seen.nopened, 0);
    clock_sleep_until_ns(due);
    watch_open_due(f->daemon.watch);
    assert_int_equal(seen.nopened, 1);
    assert_int_equal(seen.opened[0], 0);
    wait_for(f, &seen.nopened, 2);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* Words are raised in the order of their times, never lowered, and not at all once dropped. */
static void words_are_raised_in_time(void **state)
{
    struct fixture *f = *state;
    uint32_t words[3] = {UINT32_MAX, 5, 0};
    pthread_mutex_lock(&f->daemon.lock);
    int64_t due = clock_now_ns() + 60000000;
    watch_write_at(f->daemon.watch, &words[0], 2, due); /* wraps */
    watch_write_at(f->daemon.watch, &words[0], 1, due - 30000000);
    watch_write_at(f->daemon.watch, &words[1], 4, 0);
    assert_int_equal(words[0], UINT32_MAX);
    assert_int_equal(words[1], 5);
    watch_write_at(f->daemon.watch, &words[1], 6, 0);
    assert_int_equal(words[1], 6);
    while (!region_word_reached(&words[0], 1))
        let_it_look(f);
    assert_true(clock_now_ns() >= due - 30000000);
    while (!region_word_reached(&words[0], 2))
        let_it_look(f);
    assert_true(clock_now_ns() >= due);
    watch_write_at(f->daemon.watch, &words[2], 1, clock_now_ns() + 30000000);
    watch_drop_writes(f->daemon.watch);
    for (int i = 0; i < 4; i++)
        let_it_look(f);
    assert_int_equal(words[2], 0);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* A GPU writes without waking anybody. */
static void writers_need_not_wake(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    watch_set_poll(f->daemon.watch, 1000000, WATCH_SLEEPS);
    add(f, 0, 0, 0);
    let_it_look(f);
    assert_int_equal(seen.narrived, 0);
    __atomic_store_n(&slot(f, 0, 0)->arrive, f->generation, __ATOMIC_RELEASE);
    wait_for(f, &seen.narrived, 1);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* After a few silent arrivals the thread spins; a rank can still be dropped while it does. */
static void silent_writers_are_watched_by_spinning(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    watch_set_poll(f->daemon.watch, 1000000, WATCH_SPINS_AT_GATES);
    for (uint32_t i = 0; i < 8; i++) {
        add(f, 0, i, i);
        add(f, 1, i, i);
        let_it_look(f);
        __atomic_store_n(&slot(f, 0, i)->arrive, f->generation, __ATOMIC_RELEASE);
        wait_for(f, &seen.narrived, i + 1);
    }
    watch_drop_rank(f->daemon.watch, &f->ranks[1]);
    assert_null(f->ranks[1].groups);
    pthread_mutex_unlock(&f->daemon.lock);
}

/* Announcements wake the thread, which says nothing of the writers; and while a rank lives it spins without a gate, too. */
static void announcements_are_no_wake_ups(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    f->daemon.live = 1;
    watch_set_poll(f->daemon.watch, 1000000, WATCH_SPINS);
    assert_false(watch_spins(f->daemon.watch));
    uint32_t n = 0;
    for (; n < 40 && !watch_spins(f->daemon.watch); n++) { /* found by looks, if the machine is not too busy */
        add(f, 0, 0, n);
        let_it_look(f);
        __atomic_store_n(&slot(f, 0, n)->arrive, f->generation, __ATOMIC_RELEASE);
        wait_for(f, &seen.narrived, n + 1);
        watch_open_at(f->daemon.watch, f->ranks[0].streams[0], 0);
        wait_for(f, &seen.nopened, n + 1);
        let_it_look(f);
    }
    assert_true(watch_spins(f->daemon.watch));
    for (uint32_t i = 0; i < 10; i++, n++) { /* there already when they are announced */
        __atomic_store_n(&slot(f, 0, n)->arrive, f->generation, __ATOMIC_RELEASE);
        add(f, 0, 0, n);
        wait_for(f, &seen.narrived, n + 1);
        watch_open_at(f->daemon.watch, f->ranks[0].streams[0], 0);
        wait_for(f, &seen.nopened, n + 1);
        let_it_look(f);
        assert_true(watch_spins(f->daemon.watch));
    }
    f->daemon.live = 0;
    add(f, 1, 0, n);
    watch_drop_rank(f->daemon.watch, &f->ranks[1]);
    while (watch_spins(f->daemon.watch))
        let_it_look(f);
    pthread_mutex_unlock(&f->daemon.lock);
}

static uint32_t looks;

static void count_look(struct daemon *d)
{
    (void)d;
    looks++;
}

/* Known to wake: nobody looks every now and then, or spins, for what may come without. If it does come, it is found late. */
static void writers_that_wake_are_slept_for(void **state)
{
    struct fixture *f = *state;
    struct phase_ops counting = ops;
    counting.look = count_look;
    pthread_mutex_lock(&f->daemon.lock);
    f->daemon.ops = &counting;
    watch_set_poll(f->daemon.watch, 100000, WATCH_SPINS);
    watch_writers_wake(f->daemon.watch);
    for (uint32_t i = 0; i < 4; i++) {
        add(f, 0, i, i);
        add(f, 1, i, i);
        let_it_look(f);
        __atomic_store_n(&slot(f, 0, i)->arrive, f->generation, __ATOMIC_RELEASE);
        wait_for(f, &seen.narrived, i + 1);
    }
    let_it_look(f);
    looks = 0;
    for (uint32_t i = 0; i < 10; i++)
        let_it_look(f); /* a fifth of a second: 2,000 looks, were it to poll */
    uint32_t looked = looks;
    arrive(f, 1, 0);
    wait_for(f, &seen.narrived, 5);
    f->daemon.ops = &ops;
    pthread_mutex_unlock(&f->daemon.lock);
    assert_true(looked < 20);
}

/* With a board as well: it rings the bell, and wakes nobody. Looks that come seldom, as long as all arrivals wake (a tenth of a
 * second), would take four seconds. */
static void silent_writers_with_a_board(void **state)
{
    struct fixture *f = *state;
    static struct rank others[BOARD_LEAST];
    struct rank *all[BOARD_LEAST];
    struct conf conf = {.world = BOARD_LEAST};
    struct prism_error err = {0};
    for (uint32_t i = 0; i < BOARD_LEAST; i++)
        all[i] = i < 2 ? &f->ranks[i] : &others[i];
    pthread_mutex_lock(&f->daemon.lock);
    f->daemon.conf = &conf;
    f->daemon.ranks = all;
    assert_int_equal(board_create(&f->daemon, &err), 0);
    struct board *b = mmap(NULL, board_size(BOARD_LEAST), PROT_READ | PROT_WRITE, MAP_SHARED, board_fd(&f->daemon), 0);
    assert_ptr_not_equal(b, MAP_FAILED);
    watch_set_poll(f->daemon.watch, 1000000, WATCH_SLEEPS);
    int64_t begin = clock_now_ns();
    for (uint32_t i = 0; i < 40; i++) {
        add(f, 0, i, i);
        __atomic_store_n(&slot(f, 0, i)->arrive, f->generation, __ATOMIC_RELEASE);
        __atomic_store_n(&b->flags[f->ranks[0].seat], 1, __ATOMIC_RELEASE);
        __atomic_store_n(&b->bell, 1, __ATOMIC_RELEASE);
        wait_for(f, &seen.narrived, i + 1);
    }
    int64_t took = clock_now_ns() - begin;
    munmap(b, board_size(BOARD_LEAST));
    board_destroy(&f->daemon);
    pthread_mutex_unlock(&f->daemon.lock);
    assert_in_range(took, 0, 2 * NSEC_PER_SEC);
}

/* More streams than one futex call takes. */
static void many_streams_are_watched(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    watch_set_poll(f->daemon.watch, 1000000, WATCH_SLEEPS);
    for (uint32_t i = 0; i < 300; i++)
        add(f, i % 2, i, i);
    for (uint32_t i = 270; i < 290; i++)
        arrive(f, i % 2, i);
    wait_for(f, &seen.narrived, 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_in_range(seen.arrived[i], 270, 289);
    pthread_mutex_unlock(&f->daemon.lock);
}

static void a_dropped_rank_takes_its_gates_along(void **state)
{
    struct fixture *f = *state;
    struct group *g[8];
    pthread_mutex_lock(&f->daemon.lock);
    for (uint32_t i = 0; i < 8; i++) {
        g[i] = add(f, i % 2, i / 2, i);
        arrive(f, i % 2, i);
    }
    add(f, 0, 0, 8); /* behind gate 0 */
    wait_for(f, &seen.narrived, 8);
    int64_t begin = clock_now_ns() + 30000000;
    for (uint32_t i = 0; i < 8; i++)
        watch_open_at(f->daemon.watch, g[i], begin + (8 - i) * 1000000);
    watch_drop_rank(f->daemon.watch, &f->ranks[0]);
    assert_null(f->ranks[0].groups);
    wait_for(f, &seen.nopened, 4);
    let_it_look(f);
    assert_int_equal(seen.nopened, 4);
    for (uint32_t k = 0; k < 4; k++)
        assert_int_equal(seen.opened[k], 7 - 2 * k);
    assert_int_equal(slot(f, 0, 0)->go, f->generation - 1);
    /* The other rank goes on. */
    add(f, 1, 0, 9);
    arrive(f, 1, 9);
    wait_for(f, &seen.narrived, 9);
    assert_int_equal(seen.arrived[8], 9);
    pthread_mutex_unlock(&f->daemon.lock);
}

static void outputs_are_marked_ready(void **state)
{
    struct fixture *f = *state;
    pthread_mutex_lock(&f->daemon.lock);
    struct group *g = add(f, 1, 0, 7);
    watch_mark_ready(g);
    assert_int_equal(slot(f, 1, 7)->ready, f->generation);
    assert_int_equal(slot(f, 1, 6)->ready, f->generation - 1);
    pthread_mutex_unlock(&f->daemon.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stream_arrives_in_order, make, unmake),
        cmocka_unit_test_setup_teardown(early_ones_arrive_at_any_time, make, unmake),
        cmocka_unit_test_setup_teardown(gates_open_at_their_times, make, unmake),
        cmocka_unit_test_setup_teardown(the_lock_holder_opens_what_is_due, make, unmake),
        cmocka_unit_test_setup_teardown(a_delayed_rank_opens_later, make, unmake),
        cmocka_unit_test_setup_teardown(words_are_raised_in_time, make, unmake),
        cmocka_unit_test_setup_teardown(writers_need_not_wake, make, unmake),
        cmocka_unit_test_setup_teardown(silent_writers_are_watched_by_spinning, make, unmake),
        cmocka_unit_test_setup_teardown(announcements_are_no_wake_ups, make, unmake),
        cmocka_unit_test_setup_teardown(writers_that_wake_are_slept_for, make, unmake),
        cmocka_unit_test_setup_teardown(silent_writers_with_a_board, make, unmake),
        cmocka_unit_test_setup_teardown(many_streams_are_watched, make, unmake),
        cmocka_unit_test_setup_teardown(a_dropped_rank_takes_its_gates_along, make, unmake),
        cmocka_unit_test_setup_teardown(outputs_are_marked_ready, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
