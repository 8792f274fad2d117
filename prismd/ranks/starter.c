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
#include "common/sanitized.h"
#include "prismd/ranks/container.h"

#define DESCRIPTORS_MOST 65536 /* looked at; before the first rank they are few */

struct question {
    struct rank *r;
    uint32_t number; /* counts questions */
};

struct answer {
    uint32_t number;
    int32_t pid; /* -1: it cannot be cloned */
};

static struct {
    pid_t pid; /* 0: none */
    int socket;
    uint32_t asked;
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

/* A rank answers itself, too: then it is known even where the starter is ended between its clone and its answer, and prismd starts no
 * second one. Either answer may be the first; where there is no room for the rank's, prismd reads none and has the starter's. */
static void answer_as_rank(int socket, uint32_t number)
{
    struct answer a = {number, getpid()};
    send(socket, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(socket); /* else prismd would not see the starter's end before the rank's exec */
}

/* Signals stay blocked, as prismd is told of them; child_begin lets the ranks have them. */
static void serve(int socket, pid_t parent, void (*become)(struct rank *r, pid_t parent))
{
    struct question q;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "prism-starter");
    if (getppid() != parent)
        _exit(PRISM_EXIT_DAEMON);
    close_inherited(socket);
    while (recv(socket, &q, sizeof q, 0) == sizeof q) {
        struct answer a = {q.number, (int32_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL)};
        if (!a.pid) {
            answer_as_rank(socket, q.number);
            become(q.r, parent);
        }
        if (send(socket, &a, sizeof a, MSG_NOSIGNAL) != sizeof a)
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
#if SANITIZED_THREAD || SANITIZED_ADDRESS /* a clone passes them by */
    return false;
#endif
    return r->daemon->board && !container_entered(r->daemon->conf);
}

/* -1: it is gone, or may not clone: a filter of system calls need not know CLONE_PARENT. */
static pid_t ask(struct rank *r)
{
    struct question q = {r, ++starter.asked};
    struct answer a;
    ssize_t n;
    if (send(starter.socket, &q, sizeof q, MSG_NOSIGNAL) != sizeof q)
        return -1;
    do
        n = recv(starter.socket, &a, sizeof a, 0);
    while (n < 0 ? errno == EINTR : n == sizeof a && a.number != q.number); /* second answers to what was asked before */
    return n == sizeof a ? a.pid : -1;
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
