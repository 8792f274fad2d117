/* context.c - contexts that a rank does not have from CUDA's runtime: preload_contexts in all phases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/test/fake_prismd.h"

/* Whatever a program does to contexts, the rank says goodbye, with nothing left of the memory it had. */
static void run(const char *act, uint32_t operations)
{
    for (uint32_t phase = PHASE_CAPTURE; phase <= PHASE_EMULATE; phase++) {
        static struct fake f;
        memset(&f, 0, sizeof f);
        f.phase = phase;
        f.program = "test/preload_contexts";
        f.world = 2;
        fake_run(&f, phase == PHASE_CAPTURE ? 2 : 1, (const char *const[]){act, NULL});
        for (uint32_t i = 0; i < f.nranks; i++) {
            const struct fake_rank *r = &f.ranks[i];
            if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) || !r->bye)
                fail_msg("phase %u: wait status %#x; output: %s; fatal: %s", phase, (unsigned)r->status, r->output, r->fatal);
            assert_int_equal(fake_count(r, GRAPH_COMM), operations);
            assert_int_equal(r->live_bytes, 0);
            assert_int_equal(r->peak_bytes, 4000);
        }
    }
}

static void current_before_it_is_retained(void **state)
{
    run("half", 1);
}

static void threads_that_have_none(void **state)
{
    run("threads", 1);
}

static void reset_by_the_driver(void **state)
{
    run("reset", 2);
}

static void destroyed_by_the_program(void **state)
{
    run("own", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(current_before_it_is_retained),
        cmocka_unit_test(threads_that_have_none),
        cmocka_unit_test(reset_by_the_driver),
        cmocka_unit_test(destroyed_by_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
