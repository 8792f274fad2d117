/* Descriptors of device memory: out of the program's way, no more than its limit allows, and not in its children. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/memory/keep.h"
#include "preload/preload.h"

struct session session;

void session_fatal(int code, const char *format, ...)
{
    fail_msg("%s (%d)", format, code);
    abort();
}

static void kept_and_closed(void **state)
{
    (void)state;
    struct rlimit limit = {256, 256};
    for (int fd = 3; fd < 1024; fd++)
        close(fd); /* whatever was inherited */
    int fds[KEEP_MOST], n = 0, any = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0); /* for good: the process is the test's */
    while ((fds[n] = keep_reserve(any)) >= 0)
        assert_true(fds[n++] >= 128);
    assert_int_equal(n, 128);
    int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_in_range(low, 0, 127); /* the program's own are as low as ever */
    keep_put(fds[5], low);
    assert_int_equal(fcntl(low, F_GETFD), -1);
    keep_close(fds[7]);
    keep_close(-1);
    assert_int_equal(keep_reserve(any), fds[7]);
    for (int i = 0; i < n; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
    pid_t child = fork();
    if (!child) {
        int open_ones = 0;
        keep_forget();
        for (int i = 0; i < n; i++)
            open_ones += fcntl(fds[i], F_GETFD) >= 0;
        _exit(open_ones || fcntl(any, F_GETFD) < 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < n; i++)
        keep_close(fds[i]);
    assert_int_equal(keep_reserve(any), fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_and_closed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
