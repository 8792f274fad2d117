/* blocked.c - host work in front of a node, of a program that is as far ahead as its stream's queue lets it (nodes/blocked.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/test/fake_prismd.h"

/* The host work before the second operation, as a share of the time since the first. */
static double host_share(uint32_t phase, const char *entries)
{
    static struct fake f;
    memset(&f, 0, sizeof f);
    f.phase = phase;
    f.world = 4;
    f.program = "test/preload_ahead";
    f.more_env[0][0] = "SOFTGPU_QUEUE_ENTRIES";
    f.more_env[0][1] = entries;
    fake_run(&f, 1, (const char *const[]){NULL});
    const struct fake_rank *r = &f.ranks[0];
    const struct msg_node *first = NULL, *second = NULL;
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status))
        fail_msg("wait status %#x; output: %s; fatal: %s", r->status, r->output, r->fatal);
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM)
            *(first ? &second : &first) = &r->nodes[i];
    assert_non_null(second);
    return (double)(second->enter_ns - second->leave_ns) / (double)(second->enter_ns - first->enter_ns);
}

/* 26 of 30 kernels of 20 ms are waited for in their launches. */
static void waiting_for_room_is_no_work(void **state)
{
    (void)state;
    assert_true(host_share(PHASE_CALIBRATE, "4") < 0.3);
}

/* What the test above rests on: without it, it is work. */
static void the_queue_is_waited_for(void **state)
{
    (void)state;
    assert_true(host_share(PHASE_EMULATE, "4") > 0.7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_room_is_no_work),
        cmocka_unit_test(the_queue_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
