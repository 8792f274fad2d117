/* behind.c - a clock that stands still while an end is not known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prismd/replay/behind.h"

#define MS 1000000ll

static void what_is_known_in_time_changes_nothing(void **state)
{
    struct behind b = {0};
    (void)state;
    assert_int_equal(behind_arrival(&b, 3, 7 * MS), 7 * MS);
    assert_int_equal(behind_late(&b, 20 * MS, 10 * MS, 0), 0);
    assert_int_equal(behind_late(&b, 20 * MS, 20 * MS + BEHIND_LEAST_NS - 1, 0), 0);
    assert_int_equal(b.ns, 0);
    behind_clear(&b);
}

/* An operation of 5 ms, known 50 ms late, then 10 ms of work: emulated, it is 15 ms. */
static void a_late_end_stops_the_clock(void **state)
{
    struct behind b = {0};
    (void)state;
    int64_t arrived = behind_arrival(&b, 0, 100 * MS), end = arrived + 5 * MS;
    int64_t late = behind_late(&b, end + b.ns, 155 * MS, 0);
    assert_int_equal(late, 50 * MS);
    behind_ended(&b, 0, end);
    assert_int_equal(behind_arrival(&b, 0, 155 * MS + 10 * MS), end + 10 * MS);
    /* The next one is known at once, and late only by what is beyond. */
    end = behind_arrival(&b, 0, 165 * MS) + 5 * MS;
    assert_int_equal(behind_late(&b, end + b.ns, 165 * MS, 0), 0);
    assert_int_equal(behind_late(&b, end + b.ns, 173 * MS, 0), 3 * MS);
    assert_int_equal(b.ns, 53 * MS);
    behind_clear(&b);
}

/* Another stream's work went on while the clock stood still: it has taken no time, but not less. */
static void no_stream_goes_back(void **state)
{
    struct behind b = {0};
    (void)state;
    behind_ended(&b, 2, 100 * MS);
    behind_ended(&b, 0, 90 * MS);
    assert_int_equal(behind_late(&b, 100 * MS, 140 * MS, 0), 40 * MS);
    assert_int_equal(behind_arrival(&b, 2, 120 * MS), 100 * MS);
    assert_int_equal(behind_arrival(&b, 0, 120 * MS), 90 * MS);
    assert_int_equal(behind_arrival(&b, 1, 120 * MS), 80 * MS);
    assert_int_equal(behind_arrival(&b, 2, 150 * MS), 110 * MS);
    behind_clear(&b);
}

/* What it arrived too late is made up for by origins.h, and no reason to stop the clock; up to a limit. */
static void what_is_carried_is_not_slow_motion(void **state)
{
    struct behind b = {0};
    (void)state;
    assert_int_equal(behind_late(&b, 20 * MS, 25 * MS, 5 * MS), 0);
    assert_int_equal(behind_late(&b, 20 * MS, 27 * MS, 5 * MS), 2 * MS);
    assert_int_equal(behind_late(&b, 20 * MS, 50 * MS, 30 * MS), 30 * MS - BEHIND_CARRIED_MOST_NS);
    assert_int_equal(b.ns, 32 * MS - BEHIND_CARRIED_MOST_NS);
    behind_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_in_time_changes_nothing),
        cmocka_unit_test(a_late_end_stops_the_clock),
        cmocka_unit_test(no_stream_goes_back),
        cmocka_unit_test(what_is_carried_is_not_slow_motion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
