/* device.c - logical devices: preload_devices as a rank and as a helper, with several views of its own. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/test/fake_prismd.h"

static const char *double_of(const char *name, char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 64);
    assert_true(n > 0);
    path[n] = '\0';
    sprintf(strrchr(path, '/') + 1, "doubles/%s", name);
    return path;
}

/* A node of eight, physical device 1; visible: CUDA_VISIBLE_DEVICES, NULL = unset. */
static struct fake_rank *run(const char *ordinal, const char *visible, bool helper)
{
    static struct fake f;
    char native[PATH_MAX], nvml[PATH_MAX];
    memset(&f, 0, sizeof f);
    f.phase = PHASE_CAPTURE;
    f.program = "test/preload_devices";
    f.inert = helper;
    f.more_env[0][0] = "PRISM_DEVICE";
    f.more_env[0][1] = "1";
    f.more_env[1][0] = "PRISM_LOGICAL_DEVICES";
    f.more_env[1][1] = "8";
    f.more_env[2][0] = visible ? "CUDA_VISIBLE_DEVICES" : NULL;
    f.more_env[2][1] = visible;
    const char *args[] = {ordinal, double_of("libcutest.so", native), double_of("libnvidia-ml.so.1", nvml), NULL};
    fake_run(&f, 1, args);
    return &f.ranks[0];
}

static void all_true(const struct fake_rank *r, const char *view)
{
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) || !strstr(r->output, "all true\n") || !strstr(r->output, view))
        fail_msg("no \"%s\" and \"all true\" in: %s%s", view, r->output, r->fatal);
    /* NVIDIA's libraries and NVML's functions that pass through have the physical device. */
    assert_non_null(strstr(r->output, "native 1 1 0 0000:02:00.0\n"));
    assert_non_null(strstr(r->output, "nvml 8 physical-1 GPU-50726973-6d00-8000-8000-000000000007\n"));
}

static void every_ordinal(void **state)
{
    all_true(run("0", NULL, false), "count 8 visible unset\n");
    all_true(run("3", NULL, false), "count 8 visible unset\n");
    all_true(run("7", "0,1,2,3,4,5,6,7", false), "count 8 visible 0,1,2,3,4,5,6,7\n");
}

static void fewer_than_the_node(void **state)
{
    all_true(run("0", "5", false), "count 1 visible 5\n");
    all_true(run("1", "5,2,x,1", false), "count 2 visible 5,2,x,1\n");
    all_true(run("0", "GPU-50726973-6d00-8000-8000-000000000003", false), "count 1 visible GPU-");
    const struct fake_rank *r = run("0", "", false);
    if (!strstr(r->output, "not true: !(int)(cudaGetDeviceCount(&count))"))
        fail_msg("devices although none is visible: %s", r->output);
}

static void helpers_see_the_same(void **state)
{
    const struct fake_rank *r = run("6", NULL, true);
    all_true(r, "count 8 visible unset\n");
    assert_int_equal(r->hellos, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ordinal),
        cmocka_unit_test(fewer_than_the_node),
        cmocka_unit_test(helpers_see_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
