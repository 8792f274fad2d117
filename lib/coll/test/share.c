/* share.c - every element is worked on once, and copies are copies, in one thread and in many. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "coll/share.h"

struct counted {
    uint64_t count, block;
    uint8_t *times;
};

static void count_range(const void *arg, uint64_t from, uint64_t to)
{
    const struct counted *c = arg;
    assert_true(from <= to && to <= c->count && from % c->block == 0);
    for (uint64_t i = from; i < to; i++)
        c->times[i]++;
}

static void every_element_once(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 7, 64, 65, 1000, 4097}, blocks[] = {1, 3, 64, 5000}, works[] = {0, 1, 2, 3, 16, 100};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
                struct counted c = {counts[i], blocks[b], calloc(counts[i] + 1, 1)};
                assert_non_null(c.times);
                coll_share(c.count, c.block, works[w], count_range, &c);
                for (uint64_t k = 0; k < c.count; k++)
                    assert_int_equal(c.times[k], 1);
                assert_int_equal(c.times[c.count], 0);
                free(c.times);
            }
}

static void copies_to(uint64_t bytes, uint32_t n)
{
    uint8_t *from = malloc(bytes + 1);
    void *to[5];
    assert_non_null(from);
    for (uint64_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(to[i] = malloc(bytes + 1));
        ((uint8_t *)to[i])[bytes] = 0xa5;
    }
    coll_copy_to(to, n, from, bytes);
    for (uint32_t i = 0; i < n; i++) {
        assert_memory_equal(to[i], from, bytes);
        assert_int_equal(((uint8_t *)to[i])[bytes], 0xa5);
        free(to[i]);
    }
    free(from);
}

static void copies(void **state)
{
    (void)state;
    copies_to(0, 2);
    copies_to(1, 1);
    copies_to(100000, 0);
    copies_to(70001, 3);
    copies_to(((uint64_t)17 << 20) + 13, 5); /* in threads */
}

/* Whoever has the helpers, and whoever has not, gets all of its work done. */
static void *shares_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 500; i++) {
        uint8_t times[640] = {0};
        struct counted c = {sizeof times, 10, times};
        coll_share(c.count, c.block, 3, count_range, &c);
        for (size_t k = 0; k < sizeof times; k++)
            assert_int_equal(times[k], 1);
    }
    return NULL;
}

static void several_callers(void **state)
{
    (void)state;
    pthread_t other[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&other[i], NULL, shares_often, NULL), 0);
    shares_often(NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(other[i], NULL);
}

/* Two pieces that wait for each other: so two threads are at work. */
static void meet(const void *arg, uint64_t from, uint64_t to)
{
    struct timespec start, now;
    _Atomic int *here = *(_Atomic int *const *)arg;
    clock_gettime(CLOCK_MONOTONIC, &start);
    atomic_fetch_add(here, to > from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (atomic_load(here) < 2 && now.tv_sec - start.tv_sec < 60);
}

static void helpers_help(void **state)
{
    (void)state;
    _Atomic int here = 0, *address = &here;
    coll_share(2, 1, 2, meet, &address);
    assert_int_equal(here, 2);
}

static int begin(void **state)
{
    (void)state;
    coll_share_begin(4);
    return 0;
}

static int end(void **state)
{
    (void)state;
    coll_share_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(every_element_once), cmocka_unit_test(copies)};
    const struct CMUnitTest helped[] = {cmocka_unit_test(every_element_once), cmocka_unit_test(copies), cmocka_unit_test(helpers_help),
                                        cmocka_unit_test(several_callers)};
    int failed = cmocka_run_group_tests(alone, NULL, NULL) + cmocka_run_group_tests(helped, begin, end);
    return failed + cmocka_run_group_tests(helped, begin, end); /* and once more: what ended can begin again */
}
