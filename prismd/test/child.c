/* child.c - what processes beside the ranks keep of prismd's surroundings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prismd/ranks/child.h"

static void test_programs_lie_beside_prismd(void **state)
{
    char path[PATH_MAX];
    assert_int_equal(child_find("prismd_child", path), 0); /* this program's own folder */
    assert_int_equal(child_find("prism-nothing", path), -1);
    assert_string_equal(strrchr(path, '/'), "/prism-nothing");
}

static void expect_preload(const char *before, const char *after)
{
    setenv("LD_PRELOAD", before, 1);
    child_drop_preload("/opt/prism/own.so");
    const char *now = getenv("LD_PRELOAD");
    if (after)
        assert_string_equal(now, after);
    else
        assert_null(now);
    unsetenv("LD_PRELOAD");
}

static void test_only_our_library_leaves(void **state)
{
    expect_preload("/opt/prism/own.so", NULL);
    expect_preload("/elsewhere/libprism.so", NULL);
    expect_preload("/usr/lib/liba.so:/opt/prism/own.so libb.so", "/usr/lib/liba.so:libb.so");
    expect_preload("/opt/prism/own.so.1", "/opt/prism/own.so.1");
    unsetenv("LD_PRELOAD");
    child_drop_preload("/opt/prism/own.so");
    assert_null(getenv("LD_PRELOAD"));
}

/* In a process of its own: 0 = all is as child.h says. */
static int detached(pid_t parent, int kept)
{
    sigset_t all, now;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    child_detach(parent);
    child_keep(kept);
    sigprocmask(SIG_SETMASK, NULL, &now);
    char byte;
    return getpgrp() != getpid() || sigismember(&now, SIGTERM) || signal(SIGPIPE, SIG_DFL) != SIG_DFL ||
           read(STDIN_FILENO, &byte, 1) != 0 || fcntl(kept, F_GETFD) != 0;
}

static void test_detached(void **state)
{
    int status, kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t parent = getpid(), pid = fork();
    if (!pid)
        _exit(detached(parent, kept));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_lie_beside_prismd),
        cmocka_unit_test(test_only_our_library_leaves),
        cmocka_unit_test(test_detached),
    };
    return cmocka_run_group_tests_name("prismd: child", tests, NULL, NULL);
}
