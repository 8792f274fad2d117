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
    if (getppid() != parent)
        _exit(PRISM_EXIT_DAEMON);
    close_inherited(socket);
    while (recv(socket, &r, sizeof r, 0) == sizeof r) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        int32_t answer = pid < 0 ? -errno : pid;
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

/* False: it is gone. */
static bool ask(struct rank *r, int32_t *answer)
{
    ssize_t n;
    if (send(starter.socket, &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
        return false;
    do
        n = recv(starter.socket, answer, sizeof *answer, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof *answer;
}

pid_t starter_fork(struct rank *r, void (*become)(struct rank *r, pid_t parent))
{
    pid_t parent = getpid(), pid;
    int32_t answer;
    if (is_wanted(r) && !starter.failed) {
        if (!starter.pid)
            begin(become);
        if (starter.pid && ask(r, &answer)) {
            errno = answer < 0 ? -answer : 0;
            return answer < 0 ? -1 : answer;
        }
        log_debug("the process that starts ranks is gone; prismd starts them itself");
        starter_end();
        starter.failed = true;
    }
    pid = fork();
    if (!pid)
        become(r, parent);
    return pid;
}

void starter_end(void)
{
    if (starter.pid) {
        close(starter.socket);
        waitpid(starter.pid, NULL, 0); /* or its end was seen before */
    }
    starter.pid = 0;
    starter.failed = false;
}
