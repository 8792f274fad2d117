/* PMIx fences over servers: order, absent ranks, ended ranks. World of 8: servers 0 and 1 share ranks 0 to 3 (a logical
 * node on two machines), server 2 has 4 and 5, ranks 6 and 7 are absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "prismd/pmix/pmix_fence.h"

static uint32_t server[8] = {0, 1, 0, 1, 2, 2, PMIX_ABSENT, PMIX_ABSENT}, firsts[3] = {0, 0, 4}, ends[3] = {4, 4, 6};
static uint8_t ended[8];
static struct pmix_world world = {.world = 8, .servers = 3, .server = server, .first = firsts, .end = ends, .ended = ended};
static const uint32_t everyone[] = {PMIX_EVERYONE};

static int set_up(void **state)
{
    for (int i = 0; i < 8; i++)
        ended[i] = 0;
    return 0;
}

static void test_absent_ranks_are_there(void **state)
{
    struct pmix_fences f = {.world = &world};
    bool lost;
    pmix_fence_enter(&f, 0, everyone, 1);
    pmix_fence_enter(&f, 2, everyone, 1);
    assert_null(pmix_fence_complete(&f, &lost));
    struct pmix_fence *last = pmix_fence_enter(&f, 1, everyone, 1);
    assert_ptr_equal(pmix_fence_complete(&f, &lost), last);
    assert_false(lost);
    assert_null(f.open);
    pmix_fence_destroy(last, 3);
}

static void test_a_fast_server_enters_the_next(void **state)
{
    struct pmix_fences f = {.world = &world};
    bool lost;
    struct pmix_fence *first = pmix_fence_enter(&f, 0, everyone, 1);
    assert_ptr_equal(pmix_fence_enter(&f, 1, everyone, 1), first);
    struct pmix_fence *second = pmix_fence_enter(&f, 0, everyone, 1);
    assert_ptr_not_equal(first, second);
    assert_ptr_equal(pmix_fence_enter(&f, 1, everyone, 1), second);
    assert_ptr_equal(pmix_fence_enter(&f, 2, everyone, 1), first);
    assert_ptr_equal(pmix_fence_complete(&f, &lost), first);
    assert_null(pmix_fence_complete(&f, &lost));
    pmix_fence_destroy(first, 3);
    pmix_fences_clear(&f);
    assert_null(f.open);
}

static void test_lists_in_any_order(void **state)
{
    struct pmix_fences f = {.world = &world};
    const uint32_t up[] = {0, 5, 7}, down[] = {7, 5, 0}, other[] = {0, 5};
    bool lost;
    struct pmix_fence *a = pmix_fence_enter(&f, 0, up, 3), *b = pmix_fence_enter(&f, 2, other, 2);
    assert_ptr_not_equal(a, b);
    assert_null(pmix_fence_complete(&f, &lost));
    assert_ptr_equal(pmix_fence_enter(&f, 2, down, 3), a);
    assert_ptr_equal(pmix_fence_complete(&f, &lost), a); /* server 1 has no rank of it, rank 7 does not run */
    assert_true(pmix_fence_has(a, 5));
    assert_false(pmix_fence_has(a, 4));
    pmix_fence_destroy(a, 3);
    pmix_fences_clear(&f);
}

static void test_ended_ranks_are_not_waited_for(void **state)
{
    struct pmix_fences f = {.world = &world};
    bool lost;
    pmix_fence_enter(&f, 0, everyone, 1);
    pmix_fence_enter(&f, 1, everyone, 1);
    ended[4] = 1;
    assert_null(pmix_fence_complete(&f, &lost));
    ended[5] = 1;
    struct pmix_fence *fence = pmix_fence_complete(&f, &lost);
    assert_non_null(fence);
    assert_true(lost);
    pmix_fence_destroy(fence, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_absent_ranks_are_there, set_up),
        cmocka_unit_test_setup(test_a_fast_server_enters_the_next, set_up),
        cmocka_unit_test_setup(test_lists_in_any_order, set_up),
        cmocka_unit_test_setup(test_ended_ranks_are_not_waited_for, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
