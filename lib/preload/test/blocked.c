/* blocked.c - nodes that lie behind launches, copies and fills: whether they do (nodes/put.h); host work in front of a node, of a program that is as far ahead as its stream's queue lets it (nodes/blocked.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/nodes/blocked.h"
#include "preload/test/fake_prismd.h"

static const struct fake_rank *run_on(uint32_t phase, const char *entries, const char *what, const char *blocking)
{
    static struct fake f;
    memset(&f, 0, sizeof f);
    f.phase = phase;
    f.world = 4;
    f.program = "test/preload_ahead";
    f.more_env[0][0] = "SOFTGPU_QUEUE_ENTRIES";
    f.more_env[0][1] = entries;
    fake_run(&f, 1, (const char *const[]){what, blocking, NULL});
    const struct fake_rank *r = &f.ranks[0];
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status))
        fail_msg("wait status %#x; output: %s; fatal: %s", r->status, r->output, r->fatal);
    return r;
}

static const struct fake_rank *run(uint32_t phase, const char *entries, const char *what)
{
    return run_on(phase, entries, what, NULL);
}

/* The n-th node of that kind, from 0. */
static const struct msg_node *node(const struct fake_rank *r, int kind, uint32_t n)
{
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == kind && !n--)
            return &r->nodes[i];
    fail_msg("no such node of kind %d", kind);
    return NULL;
}

static int64_t host_work(const struct msg_node *n)
{
    return n->enter_ns - n->leave_ns;
}

/* The host work before the second operation, and the time since the first, as the program saw it (ahead.c). Compared with each other, as a
 * busy machine makes both longer. */
struct between {
    int64_t work;
    long long inside, outside;
};

static struct between between(uint32_t phase, const char *entries, const char *what)
{
    const struct fake_rank *r = run(phase, entries, what);
    struct between b = {.work = host_work(node(r, GRAPH_COMM, 1))};
    const char *said = strstr(r->output, "inside");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "inside %lld outside %lld", &b.inside, &b.outside), 2);
    return b;
}

static void waits_are_no_work(const char *entries, const char *what)
{
    struct between b = between(PHASE_CALIBRATE, entries, what);
    assert_true(b.work - b.outside < b.inside / 2);
}

/* 26 of 30 kernels of 20 ms are waited for in their launches. */
static void waiting_for_room_is_no_work(void **state)
{
    (void)state;
    waits_are_no_work("4", NULL);
}

/* What the test above rests on: without it, it is work. */
static void the_queue_is_waited_for(void **state)
{
    (void)state;
    struct between b = between(PHASE_EMULATE, "4", NULL);
    assert_true(b.work >= b.inside + b.outside);
    assert_true(b.work >= 25 * 20000000);
}

/* The third place is taken by a copy, which waits for the kernel two before it. */
static void copies_wait_for_room_too(void **state)
{
    (void)state;
    waits_are_no_work("3", "copies");
}

/* What was waited for before a host's wait for an event, itself a node, is nothing of what follows; and 100 ms before it are work. */
static void work_around_a_wait_for_an_event(void **state)
{
    (void)state;
    const struct fake_rank *r = run(PHASE_CALIBRATE, "4", "event");
    assert_true(host_work(node(r, GRAPH_SYNC, 0)) >= 100000000);
    assert_true(host_work(node(r, GRAPH_COMM, 1)) >= 100000000);
}

/* --- nodes/put.h --- */

static bool second_operation_is_alone(uint32_t phase, const char *what, const char *blocking)
{
    const struct fake_rank *r = run_on(phase, "1000", what, blocking);
    uint32_t index = node(r, GRAPH_COMM, 1)->index;
    for (uint32_t i = 0; i < r->ntimes; i++)
        if (r->times[i].index == index)
            return r->times[i].alone;
    fail_msg("node %u has no times", index);
    return false;
}

static void nodes_say_whether_work_lies_in_front(void **state)
{
    (void)state;
    assert_true(second_operation_is_alone(PHASE_CALIBRATE, "nothing", NULL));
    assert_true(second_operation_is_alone(PHASE_CALIBRATE, "elsewhere", NULL));
    assert_false(second_operation_is_alone(PHASE_CALIBRATE, "kernel", NULL));
    assert_false(second_operation_is_alone(PHASE_CALIBRATE, "copy", NULL));
    assert_false(second_operation_is_alone(PHASE_CALIBRATE, "fill", NULL));
    assert_false(second_operation_is_alone(PHASE_CALIBRATE, "memory", NULL));
}

/* Megatron-LM's one hardware queue: it may lie behind what is on any stream. */
static void where_streams_share_queues_work_on_any_counts(void **state)
{
    (void)state;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    bool elsewhere = second_operation_is_alone(PHASE_CALIBRATE, "elsewhere", NULL), nothing = second_operation_is_alone(PHASE_CALIBRATE, "nothing", NULL);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    assert_false(elsewhere);
    assert_true(nothing);
}

/* It may wait for what lies on the default stream. */
static void nothing_is_said_of_streams_that_wait_for_the_default_one(void **state)
{
    (void)state;
    assert_false(second_operation_is_alone(PHASE_CALIBRATE, "nothing", "blocking"));
}

static void nccl_calls_that_wait_count_as_the_quickest(void **state)
{
    (void)state;
    struct blocked_nccl seen = {{0}};
    assert_int_equal(blocked_nccl(&seen, 0, 100), 100); /* copies only */
    assert_int_equal(blocked_nccl(&seen, 1, 900000), 900000); /* connects */
    assert_int_equal(blocked_nccl(&seen, 1, 20000), 20000);
    assert_int_equal(blocked_nccl(&seen, 1, 60000), 60000);
    assert_int_equal(blocked_nccl(&seen, 1, 5000000), 20000);
    /* Groups of many calls take longer by themselves. */
    assert_int_equal(blocked_nccl(&seen, 64, 400000), 400000);
    assert_int_equal(blocked_nccl(&seen, 100, 600000), 600000);
    assert_int_equal(blocked_nccl(&seen, 100, 5000000), 400000);
    assert_int_equal(blocked_nccl(&seen, 100000, 7000000), 7000000);
    assert_int_equal(blocked_nccl(&seen, 1, 10000), 10000);
    assert_int_equal(blocked_nccl(&seen, 1, 50000), 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_room_is_no_work),
        cmocka_unit_test(the_queue_is_waited_for),
        cmocka_unit_test(copies_wait_for_room_too),
        cmocka_unit_test(work_around_a_wait_for_an_event),
        cmocka_unit_test(nccl_calls_that_wait_count_as_the_quickest),
        cmocka_unit_test(nodes_say_whether_work_lies_in_front),
        cmocka_unit_test(where_streams_share_queues_work_on_any_counts),
        cmocka_unit_test(nothing_is_said_of_streams_that_wait_for_the_default_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
