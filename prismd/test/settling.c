/* COMM_READY is held back while the device's ranks still make their contexts, and only so long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "prismd/capture/settling.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"

#define RANKS 4u

static struct conf conf = {.world = RANKS, .ndevices = 2};
static struct rank ranks[RANKS], *table[RANKS];
static struct daemon daemon_ = {.conf = &conf, .ranks = table};
static uint32_t answers[RANKS];
static int64_t now;

/* What the module calls. */
int64_t clock_now_ns(void)
{
    return now;
}

void rank_send_ready(struct rank *r, struct msg_comm_ready *ready, const int32_t *sandbox)
{
    assert_null(sandbox);
    assert_int_equal(ready->comm, r->number + 10);
    answers[r->number]++;
}

void sched_running(struct daemon *d, struct rank *r)
{
    assert_ptr_equal(d, r->daemon);
}

static int begin(void **state)
{
    (void)state;
    memset(answers, 0, sizeof answers);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.daemon = &daemon_, .number = i, .device = i / 3}; /* 0 to 2 on the first */
        table[i] = &ranks[i];
    }
    now = 1;
    settling_begin(&daemon_);
    return 0;
}

static int end(void **state)
{
    (void)state;
    settling_end(&daemon_);
    return 0;
}

static void ask(uint32_t rank)
{
    settling_answer(&ranks[rank], &(struct msg_comm_ready){.comm = rank + 10});
}

static void set_up(uint32_t rank)
{
    settling_started(&ranks[rank]);
    settling_set_up(&ranks[rank], false);
    settling_set_up(&ranks[rank], true);
}

static void waits_for_a_context_however_long(void **state)
{
    (void)state;
    set_up(0);
    settling_started(&ranks[1]);
    settling_set_up(&ranks[1], false);
    ask(0);
    now += 100 * SETTLING_NS;
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 0);
    settling_set_up(&ranks[1], true);
    assert_int_equal(answers[0], 0); /* by the tick */
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 1);
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 1);
    ask(1);
    assert_int_equal(answers[1], 1);
}

static void waits_a_while_for_one_that_only_started(void **state)
{
    (void)state;
    set_up(0);
    settling_started(&ranks[1]);
    ask(0);
    now += SETTLING_NS - 1;
    settling_started(&ranks[2]); /* begins anew */
    now += SETTLING_NS - 1;
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 0);
    now += 1;
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 1);
    ask(0); /* still so long ago */
    assert_int_equal(answers[0], 2);
}

static void the_end_of_a_rank_settles_it(void **state)
{
    (void)state;
    set_up(0);
    settling_started(&ranks[1]);
    settling_set_up(&ranks[1], false);
    ask(0);
    settling_ended(&ranks[1]);
    settling_set_up(&ranks[1], false); /* too late to count */
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 1);
}

static void other_devices_do_not_matter(void **state)
{
    (void)state;
    settling_started(&ranks[0]);
    settling_set_up(&ranks[0], false);
    set_up(3);
    ask(3);
    assert_int_equal(answers[3], 1);
}

static void many_ranks_are_not_held(void **state)
{
    (void)state;
    settling_started(&ranks[1]);
    settling_set_up(&ranks[1], false);
    daemon_.board = (struct node_board *)&now;
    ask(0);
    daemon_.board = NULL;
    assert_int_equal(answers[0], 1);
}

static void a_rank_that_is_gone_gets_nothing(void **state)
{
    (void)state;
    settling_started(&ranks[1]);
    settling_set_up(&ranks[1], false);
    ask(0);
    table[0] = NULL;
    settling_tick(&daemon_);
    assert_int_equal(answers[0], 0);
}

static void outside_capture_all_is_answered(void **state)
{
    settling_end(&daemon_);
    settling_started(&ranks[1]);
    settling_set_up(&ranks[1], false);
    ask(0);
    assert_int_equal(answers[0], 1);
    begin(state);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(waits_for_a_context_however_long), CASE(waits_a_while_for_one_that_only_started), CASE(the_end_of_a_rank_settles_it),
        CASE(other_devices_do_not_matter),      CASE(a_rank_that_is_gone_gets_nothing),
        CASE(many_ranks_are_not_held),          CASE(outside_capture_all_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
