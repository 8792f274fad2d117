/* cores.c - usable processors, on a machine larger than this one, and in cgroups of other machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cores.h"
#include "common/file.h"

static size_t of_kernel; /* processors that it can have */

/* In place of libc's: the last three of them. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    if (size * 8 < of_kernel) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, size);
    for (size_t i = of_kernel - 3; i < of_kernel; i++)
        CPU_SET_S(i, size, set);
    return 0;
}

static void large_machines(void **state)
{
    (void)state;
    for (of_kernel = 4; of_kernel <= 8192; of_kernel *= 2)
        assert_int_equal(cores_usable_below("/no/such/folder"), 3);
    assert_in_range(cores_usable(), 1, 3);
}

/* A file of the system below root, with the folders that it lies in. */
static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void quotas(void **state)
{
#define V2(path) "0::" path "\n"
#define V1(path) "3:memory:/else\n2:cpu,cpuacct:" path "\n0::/else\n"
    static const struct {
        const char *groups, *file, *text;
        uint32_t cores;
    } cases[] = {
        {V2("/a/b"), "a/b/cpu.max", "200000 100000\n", 2},
        {V2("/a/b"), "a/b/cpu.max", "max 100000\n", 3},
        {V2("/a/b"), "a/b/cpu.max", "150000 100000\n", 2}, /* one and a half */
        {V2("/a/b"), "a/b/cpu.max", "1000 100000\n", 1},
        {V2("/a/b"), "a/b/cpu.max", "12800000 100000\n", 3}, /* more than it has */
        {V2("/a/b"), "a/cpu.max", "200000 100000\n", 2}, /* of the group above */
        {V2("/"), "cpu.max", "200000 100000\n", 2}, /* a container */
        {V2("/a/b"), "cpu.max", "200000 100000\n", 2}, /* one that shows the host's path */
        {V2("/a/b"), "a/c/cpu.max", "100000 100000\n", 3}, /* another's */
        {V2("/a/b"), "a/b/cpu.max", "nothing", 3},
        {"nothing", "a/b/cpu.max", "100000 100000\n", 3},
        {V1("/a/b"), "cpu/a/b/cpu.cfs_quota_us", "150000\n", 2},
        {V1("/a/b"), "cpu/a/b/cpu.cfs_quota_us", "-1\n", 3},
        {V1("/a/b"), "cpu/cpu.cfs_quota_us", "100000\n", 1},
    };
    (void)state;
    of_kernel = 64;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char root[] = "/tmp/prism-cores-XXXXXX", name[128];
        assert_non_null(mkdtemp(root));
        put(root, "proc/self/cgroup", cases[i].groups);
        snprintf(name, sizeof name, "sys/fs/cgroup/%s", cases[i].file);
        put(root, name, cases[i].text);
        put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        put(root, "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
        if (cores_usable_below(root) != cases[i].cores)
            fail_msg("case %zu: %u", i, cores_usable_below(root));
        file_remove_tree(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_machines), cmocka_unit_test(quotas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
