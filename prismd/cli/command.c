/* command.c - see command.h. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

#define OUTPUT_MAX (256u << 20)

bool command_exists(const char *name)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (size_t len; path; path = path[len] ? path + len + 1 : NULL) {
        len = strcspn(path, ":");
        snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)len, path, len ? "/" : "", name);
        if (access(candidate, X_OK) == 0)
            return true;
    }
    return false;
}

static void run_child(const char *const argv[], int out, int err)
{
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(out >= 0 ? out : nowhere, 1);
    dup2(err >= 0 ? err : nowhere, 2);
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* One of the pipes has something to say. Closed ones get fd -1. */
static void drain(struct pollfd *from, struct bytes *to)
{
    char buffer[65536];
    ssize_t n = read(from->fd, buffer, sizeof(buffer));
    if (n > 0) {
        if (to && to->len < OUTPUT_MAX)
            bytes_put(to, buffer, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        close(from->fd);
        from->fd = -1;
    }
}

/* Until both pipes are closed; false when the time is up before. */
static bool collect(struct pollfd pipes[2], struct bytes *out, struct bytes *err, int64_t until)
{
    struct bytes *const to[2] = { out, err };
    while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
        int64_t left = (until - clock_now_ns()) / 1000000;
        if (left <= 0)
            return false;
        if (poll(pipes, 2, (int)left) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++)
            if (pipes[i].fd >= 0 && pipes[i].revents)
                drain(&pipes[i], to[i]);
    }
    return true;
}

static int await(pid_t pid, int64_t until)
{
    int status;
    bool ended = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (!ended && clock_now_ns() > until) {
            kill(pid, SIGKILL);
            ended = true;
        }
        clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC / 1000);
    }
    if (ended)
        return 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void finish(struct bytes *b)
{
    if (!b)
        return;
    bytes_put_u8(b, 0);
    b->len--;
}

int command_run(const char *const argv[], int seconds, struct bytes *out, struct bytes *err)
{
    int to_out[2], to_err[2];
    int64_t until = clock_now_ns() + seconds * NSEC_PER_SEC;
    if (out)
        bytes_clear(out);
    if (err)
        bytes_clear(err);
    if (pipe2(to_out, O_CLOEXEC) != 0)
        return 127;
    if (pipe2(to_err, O_CLOEXEC) != 0) {
        close(to_out[0]), close(to_out[1]);
        return 127;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_child(argv, out ? to_out[1] : -1, err ? to_err[1] : -1);
    close(to_out[1]), close(to_err[1]);
    struct pollfd pipes[2] = { { .fd = to_out[0], .events = POLLIN }, { .fd = to_err[0], .events = POLLIN } };
    if (pid > 0 && !collect(pipes, out, err, until))
        until = 0;
    for (int i = 0; i < 2; i++)
        if (pipes[i].fd >= 0)
            close(pipes[i].fd);
    finish(out);
    finish(err);
    return pid > 0 ? await(pid, until) : 127;
}

const char *command_line(struct bytes *b)
{
    if (!b->data || !b->len)
        return "";
    b->data[strcspn((char *)b->data, "\n")] = '\0';
    return (char *)b->data;
}
