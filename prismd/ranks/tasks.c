#include "prismd/ranks/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/log.h"
#include "prismd/ranks/sched.h"

void tasks_begin(struct daemon *d)
{
    d->tasks = (struct tasks){0};
}

bool tasks_defers(const struct daemon *d, uint32_t rank)
{
    bool first = true; /* of those of its logical node that run here */
    for (uint32_t i = rank; i > 0 && i % d->conf->gpus_per_node; i--)
        first &= !d->ranks[i - 1];
    return d->phase == PHASE_CAPTURE && d->conf->tasks < d->conf->world && !first;
}

void tasks_start_deferred(struct daemon *d)
{
    for (uint32_t i = 0; i < d->conf->world; i++) {
        struct rank *r = d->ranks[i];
        if (!r || !r->deferred)
            continue;
        r->deferred = false;
        sched_want_start(d, r);
    }
}

void tasks_became(struct daemon *d)
{
    if (d->phase != PHASE_CAPTURE || d->tasks.became++)
        return;
    if (d->tasks.failed) {
        d->program_exit = d->tasks.exit;
        daemon_fail(d, PRISM_EXIT_RANK, "%u processes had ended with exit code %d when the first one used CUDA",
                    d->tasks.failed, d->tasks.exit);
        return;
    }
    tasks_start_deferred(d);
}

static void start_no_more(struct daemon *d)
{
    log_error("%u tasks have failed and none has ended well: no more are started", d->tasks.failed);
    sched_end(d);
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->state == RANK_WAITING)
            d->ranks[i]->deferred = true;
}

bool tasks_took_end(struct daemon *d, const struct rank *r, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (d->phase != PHASE_CAPTURE || !d->conf->is_step || d->tasks.became || d->stopping)
        return false;
    if (!code) {
        d->tasks.well++;
        return true;
    }
    if (WIFSIGNALED(status))
        log_error("task %u was ended by signal %d (%s)", r->number, WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (code > d->tasks.exit)
        d->tasks.exit = code;
    if (++d->tasks.failed == TASKS_FAILURES_MAX && !d->tasks.well)
        start_no_more(d);
    return true;
}

void tasks_put(const struct daemon *d, struct bytes *out)
{
    bytes_put_u32(out, d->tasks.became);
    bytes_put_u32(out, d->tasks.well);
    bytes_put_u32(out, d->tasks.failed);
    bytes_put_u32(out, (uint32_t)d->tasks.exit);
}

void tasks_take(struct tasks *sum, struct bytes_reader *b)
{
    sum->became += bytes_get_u32(b);
    sum->well += bytes_get_u32(b);
    sum->failed += bytes_get_u32(b);
    int code = (int)bytes_get_u32(b);
    sum->exit = code > sum->exit ? code : sum->exit;
}

static void show_output(const char *path)
{
    char text[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    while (fd >= 0 && (n = read(fd, text, sizeof text)) > 0)
        for (ssize_t done = 0, w; done < n; done += w)
            if ((w = write(STDOUT_FILENO, text + done, (size_t)(n - done))) < 0) {
                close(fd);
                return; /* nobody listens any more */
            }
    if (fd >= 0)
        close(fd);
    unlink(path);
}

/* The trace that was asked for, while capture writes elsewhere. */
static char *aside;

static int leave_note(const struct daemon *d, const struct tasks *sum, struct prism_error *err)
{
    char path[PATH_MAX], when[32];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(path, sizeof path, "%s/steps.log", aside ? aside : d->conf->trace);
    FILE *f = fopen(path, "a");
    if (!f)
        return prism_error_set(err, PRISM_EXIT_TRACE, "cannot write %s: %s", path, strerror(errno));
    fprintf(f, "%s step %s: %s", when, d->conf->step, d->conf->argv[0]);
    for (char *const *arg = d->conf->argv + 1; *arg; arg++)
        fprintf(f, " %.200s", *arg);
    fprintf(f, ": %u tasks, no NCCL communicator, exit code %d: nothing to emulate, no trace\n",
            sum->became + sum->well + sum->failed, sum->exit);
    return fclose(f) ? prism_error_set(err, PRISM_EXIT_TRACE, "cannot write %s: %s", path, strerror(errno)) : 0;
}

int tasks_finish(const struct daemon *d, const struct tasks *sum, struct prism_error *err)
{
    for (uint32_t i = 0; i < d->conf->world; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/logs/capture.rank%u", d->conf->trace, i);
        show_output(path);
    }
    log_info("%u tasks ended without NCCL: nothing to emulate", sum->became + sum->well + sum->failed);
    return leave_note(d, sum, err);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path) && errno != ENOENT ? -1 : 0;
}

void tasks_set_aside(struct daemon *d)
{
    aside = d->conf->trace;
    if (asprintf(&d->conf->trace, "%s/.step-%s", aside, d->conf->step) < 0)
        abort();
}

void tasks_put_back(struct daemon *d)
{
    if (!aside)
        return;
    nftw(d->conf->trace, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(d->conf->trace);
    d->conf->trace = aside;
    aside = NULL;
    rmdir(d->conf->trace); /* if it held nothing but that */
}
