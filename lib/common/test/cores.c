/* cores.c - usable processors, on a machine larger than this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/cores.h"

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
        assert_int_equal(cores_usable(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_machines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
