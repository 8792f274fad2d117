/* control.c - control mode in real processes on the software GPU, with a double of prismd: what it does not keep is asked for by no byte,
 * has no room in the region, and is made on the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/test/fake_prismd.h"

#define LARGE 800001 /* elements, as controlled.c has them */

/* One rank of four. The region has room for slots and for what is small. name: of a variable more, NULL = none. */
static const struct fake_rank *run(uint32_t phase, uint32_t transport, const char *name, const char *value)
{
    static struct fake f;
    f = (struct fake){.phase = phase, .transport = transport, .control = true, .world = 4, .region_size = 1 << 20, .program = "test/preload_controlled"};
    f.more_env[0][0] = name;
    f.more_env[0][1] = value;
    fake_run(&f, 1, (const char *const[]){"control", NULL});
    const struct fake_rank *r = &f.ranks[0];
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status))
        fail_msg("wait status %#x; output: %s; fatal: %s", r->status, r->output, r->fatal);
    return r;
}

static void assert_line(const char *output, int pattern, const char *small)
{
    char line[128];
    snprintf(line, sizeof line, "floats %d halves %d inputs %d, small %s\n", pattern, pattern, LARGE, small);
    assert_string_equal(output, line);
}

static void assert_output(const struct fake_rank *r, int pattern, const char *small)
{
    assert_line(r->output, pattern, small);
}

/* Also where gates are kernels, which wait and write by themselves. */
static void results_are_made_on_the_device(void **state)
{
    (void)state;
    for (int kernels = 0; kernels < 2; kernels++) {
        const struct fake_rank *r = run(PHASE_EMULATE, TRANSPORT_PACED, kernels ? "CUDA_DEVICE_MAX_CONNECTIONS" : NULL, "1");
        assert_output(r, LARGE, "7 7");
        assert_int_equal(fake_count(r, GRAPH_COMM), 2);
        for (uint32_t i = 0; i < r->nnodes; i++)
            if (r->nodes[i].kind == GRAPH_COMM)
                assert_true(r->first_parts[i].count == LARGE && r->first_parts[i].synthetic && !r->first_parts[i].out_bytes);
    }
}

/* By copies then, and it says so once. */
static void without_a_kernel(void **state)
{
    (void)state;
    const struct fake_rank *r = run(PHASE_EMULATE, TRANSPORT_PACED, "SOFTGPU_PTX_COMPILER", "0");
    const char *said = strstr(r->output, "the kernel prism_fill (error 221, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)"),
               *line = strstr(r->output, "floats ");
    if (!said || strstr(said + strlen("the kernel prism_fill"), "prism_fill") || !line)
        fail_msg("%s", r->output);
    assert_line(line, LARGE, "7 7");
}

/* Real NCCL's results are left alone; in calibration what is recorded takes their place. */
static void real_communication(void **state)
{
    (void)state;
    assert_output(run(PHASE_EMULATE, TRANSPORT_NCCL, NULL, NULL), 0, "11 1010"); /* zeros; 1 and 1000, and 10 of the assistant */
    assert_output(run(PHASE_CALIBRATE, TRANSPORT_NCCL, NULL, NULL), LARGE, "7 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_made_on_the_device),
        cmocka_unit_test(without_a_kernel),
        cmocka_unit_test(real_communication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
