#include "prismd/ranks/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "prismd/ranks/container.h"

#define DESCRIPTORS_MOST 65536 /* looked at; before the first rank they are few */

static struct {
    pid_t pid; /* 0: none */
    int socket;
    bool failed; /* in this phase: then ranks are forked from prismd */
} starter;

/* What an exec would close, but the socket: else a connection that prismd closes would stay open here. */
static void close_inherited(int socket)
{
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MOST; fd++) {
        int flags = fd == socket ? -1 : fcntl(fd, F_GETFD);
        if (flags >= 0 && flags & FD_CLOEXEC)
            close(fd);
    }
}

/* Signals stay blocked, as prismd is told of them; child_begin lets the ranks have them. */
static void serve(int socket, pid_t parent, void (*become)(struct rank *r, pid_t parent))
{
    struct rank *r;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "prism-starter");
    if (getppid() != parent)
        _exit(PRISM_EXIT_DAEMON);
    close_inherited(socket);
    while (recv(socket, &r, sizeof r, 0) == sizeof r) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        int32_t answer = pid;
        if (!pid)
            become(r, parent);
        if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
            break;
    }
    _exit(0);
}

static void begin(void (*become)(struct rank *r, pid_t parent))
{
    int ends[2];
    pid_t parent = getpid();
    starter.failed = true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return;
    pid_t pid = fork();
    if (!pid)
        serve(ends[1], parent, become);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    starter.pid = pid;
    starter.socket = ends[0];
    starter.failed = false;
}

/* Few ranks are not worth it; and in a container ranks take a descriptor with them (container_environment). */
static bool is_wanted(const struct rank *r)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* a clone passes them by */
    return false;
#endif
    return r->daemon->board && !container_entered(r->daemon->conf);
}

/* -1: it is gone, or may not clone: a filter of system calls need not know CLONE_PARENT. */
static pid_t ask(struct rank *r)
{
    int32_t answer;
    ssize_t n;
    if (send(starter.socket, &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
        return -1;
    do
        n = recv(starter.socket, &answer, sizeof answer, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof answer ? answer : -1;
}

pid_t starter_fork(struct rank *r, void (*become)(struct rank *r, pid_t parent))
{
    pid_t parent = getpid(), pid;
    if (is_wanted(r) && !starter.failed) {
        if (!starter.pid)
            begin(become);
        if (starter.pid && (pid = ask(r)) > 0)
            return pid;
        log_debug("no process that starts ranks; prismd starts them itself");
        starter_end();
        starter.failed = true;
    }
    pid = fork();
    if (!pid)
        become(r, parent);
    return pid;
}

bool starter_reaped(pid_t pid)
{
    if (!starter.pid || pid != starter.pid)
        return false;
    close(starter.socket);
    starter.pid = 0;
    starter.failed = true;
    return true;
}

void starter_end(void)
{
    if (starter.pid) {
        close(starter.socket);
        waitpid(starter.pid, NULL, 0);
    }
    starter.pid = 0;
    starter.failed = false;
}
