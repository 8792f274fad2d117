/* What the node and its control groups leave, told from files that the test writes; how much of it is kept free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/mover/available.h"
#include "prismd/mover/limit.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static char root[] = "/tmp/prism-available-test.XXXXXX";

static void run(const char *command, const char *path)
{
    char line[512];
    snprintf(line, sizeof line, "%s '%s/%s'", command, root, path);
    assert_int_equal(system(line), 0);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    run("mkdir -p", folder);
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_number(const char *folder, const char *name, uint64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)n);
    put(folder, name, text);
}

/* A node of 32 GiB with 20 available, and no groups. */
static int set_up(void **state)
{
    (void)state;
    run("rm -rf", "");
    put("proc", "meminfo", "MemTotal:       33554432 kB\nMemFree:         1048576 kB\nMemAvailable:   20971520 kB\n");
    unsetenv("PRISM_HOST_POOL");
    unsetenv("PRISM_HOST_RESERVE");
    return setenv("PRISM_TEST_MEMORY", root, 1);
}

static void expect(uint64_t bytes, uint64_t total)
{
    struct available a;
    available_look(&a);
    assert_int_equal(a.bytes, bytes);
    assert_int_equal(a.total, total);
}

static void node(void **state)
{
    (void)state;
    expect(20 * GIB, 32 * GIB);
    put("proc/self", "cgroup", "0::/\n");
    expect(20 * GIB, 32 * GIB);
    run("rm", "proc/meminfo");
    expect(UINT64_MAX, UINT64_MAX);
    assert_int_equal(limit_pinned(1), 0);
}

static void second_version(void **state)
{
    (void)state;
    const char *job = "sys/fs/cgroup/slurm/job", *step = "sys/fs/cgroup/slurm/job/step";
    put("proc/self", "cgroup", "0::/slurm/job/step\n");
    put(step, "memory.max", "max\n");
    put_number(step, "memory.current", 5 * GIB);
    expect(20 * GIB, 32 * GIB);
    put_number(job, "memory.max", 12 * GIB);
    put_number(job, "memory.current", 9 * GIB);
    expect(3 * GIB, 12 * GIB);
    /* Pages of files that were not used lately. */
    put(job, "memory.stat", "anon 123\nfile 3221225472\ninactive_file 2147483648\nactive_file 1073741824\n");
    expect(5 * GIB, 12 * GIB);
    put_number(step, "memory.high", 6 * GIB);
    expect(1 * GIB, 6 * GIB);
    put_number(step, "memory.current", 7 * GIB);
    expect(0, 6 * GIB);
    /* More than the node has. */
    run("rm", "sys/fs/cgroup/slurm/job/step/memory.high");
    put_number(job, "memory.max", 64 * GIB);
    expect(20 * GIB, 32 * GIB);
}

static void first_version(void **state)
{
    (void)state;
    const char *top = "sys/fs/cgroup/memory", *job = "sys/fs/cgroup/memory/slurm/job";
    put("proc/self", "cgroup", "9:name=systemd:/elsewhere\n4:hugetlb,memory:/slurm/job\n2:cpu,cpuacct:/slurm\n0::/\n");
    put(top, "memory.limit_in_bytes", "9223372036854771712\n");
    put_number(top, "memory.usage_in_bytes", 30 * GIB);
    put_number(job, "memory.limit_in_bytes", 16 * GIB);
    put_number(job, "memory.usage_in_bytes", 10 * GIB);
    put(job, "memory.stat", "inactive_file 5\ntotal_inactive_file 1073741824\n");
    expect(7 * GIB, 16 * GIB);
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(limit_reserve(132 * GIB), 132 * GIB / 32);
    assert_int_equal(limit_reserve(31 * GIB), GIB);
    assert_int_equal(limit_reserve(8 * GIB), GIB);
    assert_int_equal(limit_reserve(2 * GIB), 256 * MIB);
    assert_int_equal(limit_pinned(4), 20 * GIB / 10 * 6 / 4);
    assert_false(limit_is_given());
    setenv("PRISM_HOST_POOL", "1000", 1);
    setenv("PRISM_HOST_RESERVE", "0", 1);
    assert_int_equal(limit_reserve(132 * GIB), 0);
    assert_int_equal(limit_pinned(2), 500);
    assert_true(limit_is_given());
}

static int make_root(void **state)
{
    (void)state;
    return !mkdtemp(root);
}

static int remove_root(void **state)
{
    (void)state;
    run("rm -rf", "");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(node, set_up),
        cmocka_unit_test_setup(second_version, set_up),
        cmocka_unit_test_setup(first_version, set_up),
        cmocka_unit_test_setup(limits, set_up),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
