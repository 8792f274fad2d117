#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "scratch.h"
#include "trace/crew.h"
#include "trace/rooms.h"

/* ---- crew.h ---- */

#define JOBS   500u
#define PIECES 9u

struct job {
    struct crew_job job;
    uint32_t want; /* pieces */
    atomic_uint begun, done[PIECES], ended;
    atomic_bool early; /* a piece before begin(), or end() before the last piece */
};

static uint32_t begin(void *ctx, struct crew_job *job)
{
    struct job *j = (struct job *)job;
    atomic_fetch_add((atomic_uint *)ctx, 1);
    j->begun++;
    return j->want;
}

static void piece(void *ctx, struct crew_job *job, uint32_t number)
{
    struct job *j = (struct job *)job;
    if (j->begun != 1 || j->ended || number >= j->want)
        j->early = true;
    else
        j->done[number]++;
}

static void end(void *ctx, struct crew_job *job)
{
    struct job *j = (struct job *)job;
    for (uint32_t i = 0; i < j->want; i++)
        if (j->done[i] != 1)
            j->early = true;
    j->ended++;
}

/* Every piece of every job once, and the end after them. */
static void test_jobs(void **state)
{
    static const struct crew_work work = {begin, piece, end};
    struct job *jobs = test_calloc(JOBS, sizeof *jobs);
    atomic_uint begun = 0;
    uint64_t seed = 7;
    struct crew *c = crew_create(&work, &begun, 4);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i].want = (uint32_t)(scratch_random(&seed) % (PIECES + 1));
        crew_submit(c, &jobs[i].job);
    }
    for (uint32_t helped = 0; helped < 20 && crew_help(c); helped++)
        ;
    crew_finish(c);
    crew_finish(NULL);
    assert_int_equal(begun, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].ended, 1);
        assert_false(jobs[i].early);
        for (uint32_t k = 0; k < PIECES; k++)
            assert_int_equal(jobs[i].done[k], k < jobs[i].want);
    }
    test_free(jobs);
}

/* ---- rooms.h ---- */

#define BOUND ((size_t)1 << 20)

static void test_used_again(void **state)
{
    struct rooms r;
    rooms_init(&r, BOUND);
    void *a = rooms_take(&r, BOUND / 4), *b = rooms_take(&r, BOUND / 4);
    assert_ptr_not_equal(a, b);
    assert_int_equal((uintptr_t)a % 64, 0);
    rooms_send(&r, a);
    rooms_give(&r, a);
    rooms_give(&r, b);
    assert_int_equal(r.idle, BOUND / 2);
    assert_ptr_equal(rooms_take(&r, BOUND / 4 - 100), b);
    assert_ptr_equal(rooms_take(&r, BOUND / 4), a);
    rooms_give(&r, a);
    rooms_give(&r, b);
    void *small = rooms_take(&r, 0); /* not one so much larger */
    assert_true(small != a && small != b);
    rooms_give(&r, small);
    void *all = rooms_take(&r, 2 * BOUND); /* alone it may be larger than the bound; nothing is kept beside it */
    assert_int_equal(r.idle, 0);
    rooms_give(&r, all);
    assert_int_equal(r.idle, 0);
    rooms_clear(&r);
}

struct taker {
    struct rooms *rooms;
    atomic_bool has;
    void *room;
};

static void *take(void *arg)
{
    struct taker *t = arg;
    t->room = rooms_take(t->rooms, BOUND / 2);
    t->has = true;
    return NULL;
}

/* Who would pass the bound waits for rooms that were sent, never for those that callers still hold. */
static void test_bound(void **state)
{
    struct rooms r;
    pthread_t thread;
    rooms_init(&r, BOUND);
    struct taker t = {.rooms = &r};
    void *held = rooms_take(&r, BOUND), *sent[2] = {rooms_take(&r, BOUND / 2), rooms_take(&r, BOUND / 4)};
    rooms_send(&r, sent[0]);
    assert_false(rooms_would_wait(&r, BOUND / 2));
    rooms_send(&r, sent[1]);
    assert_true(rooms_would_wait(&r, BOUND / 2));
    assert_int_equal(pthread_create(&thread, NULL, take, &t), 0);
    struct timespec a_moment = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&a_moment, NULL);
    assert_false(t.has);
    rooms_give(&r, sent[0]);
    pthread_join(thread, NULL);
    assert_true(t.has);
    rooms_give(&r, t.room);
    rooms_give(&r, sent[1]);
    rooms_give(&r, held);
    assert_true(r.idle <= BOUND);
    rooms_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_used_again),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests_name("large contents", tests, NULL, NULL);
}
