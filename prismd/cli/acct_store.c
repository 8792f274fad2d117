/* acct_store.c - `prism acct --store JOB`: what prismd starts beside itself (prismd/report/accounting.h). Lines of standard input are
 * texts for the job's Comment; the newest is stored, behind the user's own comment, as often as slurmctld takes it. It ends
 * when its input does and the last line is stored, or cannot be within some seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "acct.h"
#include "cli.h"
#include "command.h"
#include "common/clock.h"
#include "prismd/report/accounting_text.h"

#define CALL_SECONDS  5 /* for one question to slurmctld */
#define RETRY_SECONDS 2
#define TURN_SECONDS  6 /* for other steps of the job, of which one may wait for a busy slurmctld: else its sums are lost */
#define END_SECONDS   8 /* of trying after the end of the input; prismd waits for ten */

struct store {
    const char *job;
    char line[ACCOUNTING_MAX + 2]; /* newest complete text */
    char part[ACCOUNTING_MAX + 2]; /* of a line that is still coming */
    size_t part_len;
    bool fresh, ended;
    bool closed; /* scancel or a time limit has struck: slurmctld takes nothing more */
    struct accounting_share share; /* of this step in the job's sums */
    char why[256];  /* the last attempt failed */
};

static void take_bytes(struct store *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n') {
            if (s->part_len + 1 < sizeof(s->part))
                s->part[s->part_len++] = text[i];
            continue;
        }
        s->part[s->part_len] = '\0';
        strcpy(s->line, s->part);
        s->part_len = 0;
        s->fresh = true;
    }
}

/* Waits at most that long (-1 = for ever) for something to come. */
static void take_input(struct store *s, int milliseconds)
{
    struct pollfd in = { .fd = 0, .events = POLLIN };
    char buffer[8192];
    if (s->ended || poll(&in, 1, milliseconds) <= 0)
        return;
    ssize_t n = read(0, buffer, sizeof(buffer));
    if (n > 0)
        take_bytes(s, buffer, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        s->ended = true;
}

static int fail(struct store *s, const char *command, int code, struct bytes *err)
{
    snprintf(s->why, sizeof(s->why), "%s: %.200s", command,
             code == 127 ? "there is no such program here" : code == 124 ? "no answer" : command_line(err));
    return -1;
}

/* The comment as it is now; "(null)" is how squeue writes none. */
static int read_comment(struct store *s, struct bytes *comment, struct bytes *err)
{
    const char *const squeue[] = { "squeue", "--noheader", "--states=all", "--format=%k", "--jobs", s->job, NULL };
    int code = command_run(squeue, CALL_SECONDS, comment, err);
    if (code != 0 || comment->len == 0)
        return fail(s, "squeue", code, err);
    char *text = (char *)comment->data;
    text[comment->len - (text[comment->len - 1] == '\n')] = '\0';
    if (strcmp(text, "(null)") == 0)
        text[0] = '\0';
    return 0;
}

static int write_comment(struct store *s, const char *comment, struct bytes *err)
{
    char job[128], text[ACCOUNTING_MAX + 16];
    snprintf(job, sizeof(job), "JobId=%s", s->job);
    snprintf(text, sizeof(text), "Comment=%s", comment);
    const char *const scontrol[] = { "scontrol", "update", job, text, NULL };
    int code = command_run(scontrol, CALL_SECONDS, NULL, err);
    if (code == 0)
        return 0;
    fail(s, "scontrol", code, err);
    s->closed = strstr(s->why, "already finished") || strstr(s->why, "already completing");
    return -1;
}

/* Steps of a job that run at once change its Comment one after the other: they have their first node in common. The abstract
 * socket goes with its process. One who only stands in the way is not waited for for long. */
static int take_turn(const struct store *s)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "prism-acct-%u-%.60s", (unsigned)getuid(), s->job);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int64_t until = clock_now_ns() + TURN_SECONDS * NSEC_PER_SEC;
    while (fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0 && errno == EADDRINUSE && clock_now_ns() < until)
        clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC / 100);
    return fd;
}

static int store(struct store *s)
{
    struct bytes comment = { 0 }, err = { 0 };
    struct accounting_share share;
    char merged[ACCOUNTING_MAX];
    int turn = take_turn(s);
    int rc = read_comment(s, &comment, &err);
    if (rc == 0) {
        rc = accounting_merge((char *)comment.data, s->line, &s->share, &share, merged);
        if (rc != 0)
            snprintf(s->why, sizeof(s->why), "the job's own comment leaves no room for the results");
    }
    if (rc == 0 && strcmp(merged, (char *)comment.data) != 0)
        rc = write_comment(s, merged, &err);
    if (rc == 0)
        s->share = share;
    if (turn >= 0)
        close(turn);
    bytes_free(&comment);
    bytes_free(&err);
    return rc;
}

/* Slurm's signals to the step's processes are for the program; filters of the user's would hide the job. */
static void prepare(void)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT };
    static const char *const filters[] = { "SQUEUE_ACCOUNT", "SQUEUE_CLUSTERS", "SQUEUE_LICENSES", "SQUEUE_NAMES",
                                           "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_USERS", "SQUEUE_ARRAY",
                                           "SQUEUE_ARRAY_UNIQUE" };
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        unsetenv(filters[i]);
}

int acct_store(const char *job)
{
    struct store s = { .job = job };
    int64_t give_up = INT64_MAX;
    int rc = 0;
    prepare();
    while (!s.ended || s.fresh) {
        /* New lines at once; one that failed again after a while, or instead of it the next. */
        take_input(&s, s.ended ? 0 : rc && s.fresh ? RETRY_SECONDS * 1000 : s.fresh ? 0 : -1);
        if (s.ended && give_up == INT64_MAX)
            give_up = clock_now_ns() + END_SECONDS * NSEC_PER_SEC;
        if (!s.fresh)
            continue;
        rc = store(&s);
        s.fresh = rc != 0;
        if (s.closed)
            return 0; /* as documented; prismd need not wait for it */
        if (rc && s.ended && clock_now_ns() > give_up)
            return cli_fail("acct", PRISM_EXIT_SYSTEM, "job %s: %s", job, s.why);
        if (rc && s.ended)
            clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC);
    }
    return 0;
}
