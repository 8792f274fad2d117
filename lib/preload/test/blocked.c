/* blocked.c - host work in front of a node, of a program that is as far ahead as its stream's queue lets it (nodes/blocked.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/test/fake_prismd.h"

static const struct fake_rank *run(uint32_t phase, const char *entries, const char *what)
{
    static struct fake f;
    memset(&f, 0, sizeof f);
    f.phase = phase;
    f.world = 4;
    f.program = "test/preload_ahead";
    f.more_env[0][0] = "SOFTGPU_QUEUE_ENTRIES";
    f.more_env[0][1] = entries;
    fake_run(&f, 1, (const char *const[]){what, NULL});
    const struct fake_rank *r = &f.ranks[0];
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status))
        fail_msg("wait status %#x; output: %s; fatal: %s", r->status, r->output, r->fatal);
    return r;
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

/* The host work before the second operation, as a share of the time since the first. */
static double host_share(uint32_t phase, const char *entries, const char *what)
{
    const struct fake_rank *r = run(phase, entries, what);
    const struct msg_node *first = node(r, GRAPH_COMM, 0), *second = node(r, GRAPH_COMM, 1);
    return (double)host_work(second) / (double)(second->enter_ns - first->enter_ns);
}

/* 26 of 30 kernels of 20 ms are waited for in their launches. */
static void waiting_for_room_is_no_work(void **state)
{
    (void)state;
    assert_true(host_share(PHASE_CALIBRATE, "4", NULL) < 0.3);
}

/* What the test above rests on: without it, it is work. */
static void the_queue_is_waited_for(void **state)
{
    (void)state;
    assert_true(host_share(PHASE_EMULATE, "4", NULL) > 0.7);
}

/* The third place is taken by a copy, which waits for the kernel two before it. */
static void copies_wait_for_room_too(void **state)
{
    (void)state;
    assert_true(host_share(PHASE_CALIBRATE, "3", "copies") < 0.3);
}

/* What was waited for before a host's wait for an event, itself a node, is nothing of what follows; and 100 ms before it are work. */
static void work_around_a_wait_for_an_event(void **state)
{
    (void)state;
    const struct fake_rank *r = run(PHASE_CALIBRATE, "4", "event");
    assert_true(host_work(node(r, GRAPH_SYNC, 0)) >= 100000000);
    assert_true(host_work(node(r, GRAPH_COMM, 1)) >= 100000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_room_is_no_work),
        cmocka_unit_test(the_queue_is_waited_for),
        cmocka_unit_test(copies_wait_for_room_too),
        cmocka_unit_test(work_around_a_wait_for_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
