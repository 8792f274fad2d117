/* starter.c - ranks forked by a process beside prismd: whose children they are, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sanitized.h"
#include "prismd/ranks/child.h"
#include "prismd/ranks/starter.h"

#define USED (!SANITIZED_THREAD && !SANITIZED_ADDRESS) /* ranks are forked from prismd else */
#define STRANGER 99 /* exit code of what is not prismd's own child */

static struct conf conf;
static struct daemon prismd = {.conf = &conf};
static struct rank ranks[3] = {{.daemon = &prismd, .number = 10}, {.daemon = &prismd, .number = 11}, {.daemon = &prismd, .number = 12}};
static int many; /* stands for a board: only whether there is one is looked at */

static pid_t test;      /* this process, where the starter is to end before it answers */

/* In place of libc's. The starter speaks of another process, a rank of itself. */
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    pid_t self = getpid();
    if (test && self != test && !memmem(bytes, n, &self, sizeof self))
        raise(SIGKILL);
    return syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
}

static int set_up(void **state)
{
    setenv("PRISM_CONTAINER", "0", 1);
    prismd.board = (struct node_board *)&many;
    return 0;
}

static int tear_down(void **state)
{
    starter_end();
    return 0;
}

static void become(struct rank *r, pid_t parent)
{
    sigset_t now;
    child_begin(parent);
    sigprocmask(SIG_SETMASK, NULL, &now);
    _exit(getppid() == parent && getpgrp() == getpid() && !sigismember(&now, SIGTERM) ? (int)r->number : STRANGER);
}

static void expect_started(struct rank *r)
{
    int status;
    pid_t pid = starter_fork(r, become);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), r->number);
}

/* When all ranks have been waited for. 0: there is none. */
static pid_t find_starter(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)syscall(SYS_gettid));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    fclose(f);
    return pid;
}

/* Not prismd's: who looks for that, to signal or to count, finds one a node. */
static void expect_name(pid_t pid, const char *name)
{
    char path[64], now[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(now, sizeof now, f));
    fclose(f);
    now[strcspn(now, "\n")] = '\0';
    assert_string_equal(now, name);
}

static void test_ranks_are_children_of_prismd(void **state)
{
    for (int i = 0; i < 3; i++)
        expect_started(&ranks[i]);
    pid_t first = find_starter();
    assert_int_equal(first > 0, USED);
    if (USED)
        expect_name(first, "prism-starter");
    expect_started(&ranks[0]);
    assert_int_equal(find_starter(), first);
    starter_end();
    assert_int_equal(find_starter(), 0);
    expect_started(&ranks[1]); /* of the next phase */
    assert_int_equal(find_starter() > 0, USED);
}

static void test_it_holds_no_connection_open(void **state)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    expect_started(&ranks[0]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void test_prismd_goes_on_without_it(void **state)
{
    expect_started(&ranks[0]);
    pid_t pid = find_starter();
    if (USED)
        assert_int_equal(kill(pid, SIGKILL), 0);
    expect_started(&ranks[1]);
    assert_int_equal(find_starter(), 0);
    expect_started(&ranks[2]);
    assert_int_equal(find_starter(), 0);
}

static void test_a_rank_is_known_whose_starter_ends(void **state)
{
    test = getpid();
    expect_started(&ranks[0]);
    starter_end();
    test = 0;
    assert_int_equal(find_starter(), 0); /* nor is there a second rank */
}

/* Another process may have its number then: prismd must not wait for that. */
static void test_its_end_may_be_seen_by_prismd(void **state)
{
    expect_started(&ranks[0]);
    pid_t pid = find_starter();
    assert_false(starter_reaped(pid + 1));
    if (USED) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_int_equal(starter_reaped(pid), USED);
    assert_false(starter_reaped(pid));
    expect_started(&ranks[1]);
    assert_int_equal(find_starter(), 0);
}

/* From here on clone() with CLONE_PARENT fails, as it may in a container; fork() does not use it. */
static int forbid_siblings(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_PARENT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void test_prismd_goes_on_where_it_may_not_clone(void **state)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        if (forbid_siblings())
            _exit(77);
        pid = starter_fork(&ranks[0], become);
        _exit(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : STRANGER);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), ranks[0].number);
}

static void test_few_ranks_need_none(void **state)
{
    prismd.board = NULL;
    expect_started(&ranks[0]);
    assert_int_equal(find_starter(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranks_are_children_of_prismd, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_holds_no_connection_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prismd_goes_on_without_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_rank_is_known_whose_starter_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_its_end_may_be_seen_by_prismd, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prismd_goes_on_where_it_may_not_clone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_ranks_need_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
