#include "prismd/local.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/cores.h"
#include "common/file.h"
#include "common/log.h"
#include "prismd/report/accounting.h"
#include "prismd/assistants/assist.h"
#include "prismd/gates/board.h"
#include "prismd/capture/capture.h"
#include "prismd/replay/beginning.h"
#include "prismd/replay/emulate.h"
#include "prismd/capture/enough.h"
#include "prismd/folding/folding.h"
#include "prismd/capture/hang.h"
#include "prismd/ranks/limits.h"
#include "prismd/link/link.h"
#include "prismd/ranks/listen.h"
#include "prismd/switching/movers.h"
#include "prismd/place.h"
#include "prismd/pmix/pmix.h"
#include "prismd/capture/progress.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/region.h"
#include "prismd/report/result.h"
#include "prismd/capture/settling.h"
#include "prismd/ranks/sched.h"
#include "prismd/ranks/starter.h"
#include "prismd/replay/stall.h"
#include "prismd/ranks/tasks.h"
#include "prismd/gates/watch.h"

#define GRACE_SECONDS 3 /* between the polite signal and SIGKILL */
#define TAIL_BYTES    4096

/* Cores that a live rank or an assistant wants: its host thread, and the driver's or the program's others. */
#define PROCESS_CORES 2

static struct {
    struct event *child, *interrupt, *terminate, *hangup, *wake, *kill_timer, *tick;
    local_done done;
    bool running, told;
    int stop_signal;
} local;

static struct rank *rank_of_pid(struct daemon *d, pid_t pid)
{
    for (uint32_t i = 0; d->ranks && i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->pid == pid)
            return d->ranks[i];
    return NULL;
}

/* The end of a rank's output, which otherwise lies in the trace's logs. */
static void show_tail(const struct rank *r)
{
    FILE *f = r->log_path ? fopen(r->log_path, "r") : NULL;
    if (!f)
        return;
    char text[TAIL_BYTES];
    if (!fseek(f, 0, SEEK_END) && ftell(f) > TAIL_BYTES)
        fseek(f, -TAIL_BYTES, SEEK_END);
    else
        rewind(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    if (n) {
        log_error("rank %u: its output ends with (all of it: %s)", r->number, r->log_path);
        fwrite(text, 1, n, stderr);
        if (text[n - 1] != '\n')
            fputc('\n', stderr);
    }
}

static void judge_exit(struct daemon *d, struct rank *r)
{
    int status = r->exit_status;
    if (tasks_took_end(d, r, status) || d->stopping || (WIFEXITED(status) && !WEXITSTATUS(status)))
        return;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!d->failure.code)
        d->program_exit = code;
    /* A signal that asks to end comes from outside (Slurm sends it to all of a step's processes): no fault to explain. */
    if (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGINT && WTERMSIG(status) != SIGHUP))
        show_tail(r);
    if (WIFEXITED(status))
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u ended with exit code %d in %s", r->number, code, d->ops->name);
    else
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u was ended by signal %d (%s) in %s", r->number, WTERMSIG(status),
                    strsignal(WTERMSIG(status)), d->ops->name);
}

static bool any_waiting(const struct daemon *d)
{
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->state == RANK_WAITING && !d->ranks[i]->pid && !d->ranks[i]->deferred)
            return true;
    return false;
}

static void destroy_ranks(struct daemon *d)
{
    for (uint32_t i = 0; i < d->conf->world; i++)
        rank_destroy(d->ranks[i]);
    free(d->ranks);
    d->ranks = NULL;
    board_destroy(d);
}

static void wind_up(struct daemon *d)
{
    struct bytes result = {0};
    struct prism_error err = {0};
    local.running = false;
    evtimer_del(local.kill_timer);
    evtimer_del(local.tick);
    sched_end(d);
    starter_end();
    pmix_end(d);
    hang_end(d);
    if (d->phase == PHASE_CAPTURE) {
        movers_end(d);
        if (capture_end(d, !d->failure.code, &err))
            daemon_fail(d, err.code, "%s", err.text);
        result_put_capture(d, &result);
    } else {
        result_put_emulate(d, &result);
    }
    destroy_ranks(d);
    d->ops = NULL;
    local.done(d, &result);
    bytes_free(&result);
}

static void finish_if_over(struct daemon *d)
{
    if (local.running && !d->live && (d->stopping || (!any_waiting(d) && emulate_may_end(d))))
        wind_up(d);
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    int status;
    pid_t pid;
    pthread_mutex_lock(&d->lock);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct rank *r = rank_of_pid(d, pid);
        if (!r && !starter_reaped(pid) && !accounting_reaped(pid, status) && !movers_reaped(d, pid, status) && !pmix_reaped(d, pid, status))
            assist_reaped(d, pid, status);
        if (!r || r->state == RANK_ENDED)
            continue;
        listen_drain(r);
        /* First its own exit code, then what its leaving does to the others. */
        r->exit_status = status;
        judge_exit(d, r);
        pmix_rank_ended(d, r);
        rank_reaped(r, status);
    }
    finish_if_over(d);
    pthread_mutex_unlock(&d->lock);
}

static void signal_all(struct daemon *d, int sig)
{
    for (uint32_t i = 0; d->ranks && i < d->conf->world; i++)
        if (d->ranks[i])
            rank_signal(d->ranks[i], sig);
}

void local_stop(struct daemon *d)
{
    if (!local.running)
        return;
    d->stopping = true;
    signal_all(d, local.stop_signal ? local.stop_signal : SIGTERM);
    struct timeval grace = {GRACE_SECONDS, 0};
    evtimer_add(local.kill_timer, &grace);
    finish_if_over(d);
}

static void on_kill_timer(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&d->lock);
    signal_all(d, SIGKILL);
    pthread_mutex_unlock(&d->lock);
}

static void tell_others(struct daemon *d)
{
    if (local.told)
        return;
    local.told = true;
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)d->failure.code);
    bytes_put_u32(&b, (uint32_t)d->program_exit);
    bytes_put_string(&b, d->failure.text);
    link_broadcast(d, LINK_FAIL, &b);
    bytes_free(&b);
}

void local_refuse(struct daemon *d, local_done done)
{
    struct bytes none = {0};
    local.told = false;
    tell_others(d);
    done(d, &none);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&d->lock);
    if (d->failure.code) {
        tell_others(d);
        local_stop(d);
        if (!local.running)
            event_base_loopbreak(d->base);
    }
    pthread_mutex_unlock(&d->lock);
}

static void on_peer_fail(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    int code = (int)bytes_get_u32(b);
    int program_exit = (int)bytes_get_u32(b);
    char *text = bytes_get_string(b);
    if (!d->failure.code) {
        d->program_exit = program_exit;
        d->failure.code = text && code > 0 ? code : PRISM_EXIT_DAEMON;
        snprintf(d->failure.text, sizeof d->failure.text, "%s", text && *text ? text : "another node has failed");
    }
    free(text);
    /* Its origin has told all, but between phases: who began the next one since then needs to hear it behind that. */
    if (!d->conf->node)
        tell_others(d);
    local.told = true;
    local_stop(d);
}

int daemon_fail(struct daemon *d, int code, const char *fmt, ...)
{
    if (d->failure.code)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->failure.text, sizeof d->failure.text, fmt, ap);
    va_end(ap);
    d->failure.code = code ? code : PRISM_EXIT_DAEMON;
    d->stopping = true;
    event_active(local.wake, EV_READ, 0);
    return -1;
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
    struct daemon *d = arg;
    (void)what;
    pthread_mutex_lock(&d->lock);
    local.stop_signal = (int)sig;
    if (!d->failure.code)
        d->program_exit = 128 + (int)sig;
    daemon_fail(d, PRISM_EXIT_INTERRUPTED, "ended by signal %d (%s) in %s", (int)sig, strsignal((int)sig),
                d->ops ? d->ops->name : "preparation");
    if (!local.running)
        event_base_loopbreak(d->base);
    pthread_mutex_unlock(&d->lock);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&d->lock);
    if (local.running) {
        sched_tick(d);
        stall_tick(d);
        beginning_tick(d);
        hang_tick(d);
        progress_tick(d);
        folding_tick(d);
        settling_tick(d);
        enough_tick(d);
        finish_if_over(d);
    }
    pthread_mutex_unlock(&d->lock);
}

/* Where the watch thread spins all the time, so does this one: to sleep and be woken takes the announcement of an operation longer than
 * the operation itself may last (50 to 100 us on a virtual machine). */
int local_handle_events(struct daemon *d)
{
    int rc = 0;
    do
        rc = event_base_loop(d->base, watch_spins(d->watch) ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
    while (!rc && !event_base_got_break(d->base));
    return rc;
}

/* For time to be right there are two threads that spin, if there are cores for them. */
static void set_watch(struct daemon *d)
{
    uint32_t processes = d->here + (d->transport == TRANSPORT_NCCL && d->conf->assistants > 0 ? (uint32_t)d->conf->assistants : 0);
    uint32_t daemons = link_nodes_here(d); /* share the cores */
    enum watch_spin spin = cores_usable() >= daemons * (2 + PROCESS_CORES * processes) ? WATCH_SPINS : WATCH_SPINS_AT_GATES;
    if (d->phase == PHASE_CAPTURE)
        watch_set_poll(d->watch, 1000000, WATCH_SLEEPS);
    else
        watch_set_poll(d->watch, 250000, spin);
}

int local_init(struct daemon *d, struct prism_error *err)
{
    local.child = evsignal_new(d->base, SIGCHLD, on_child, d);
    local.interrupt = evsignal_new(d->base, SIGINT, on_signal, d);
    local.terminate = evsignal_new(d->base, SIGTERM, on_signal, d);
    local.hangup = evsignal_new(d->base, SIGHUP, on_signal, d);
    local.wake = event_new(d->base, -1, EV_PERSIST, on_wake, d);
    local.kill_timer = evtimer_new(d->base, on_kill_timer, d);
    local.tick = event_new(d->base, -1, EV_PERSIST, on_tick, d);
    if (!local.child || !local.interrupt || !local.terminate || !local.hangup || !local.wake || !local.kill_timer ||
        !local.tick)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot set up the event loop");
    evsignal_add(local.child, NULL);
    evsignal_add(local.interrupt, NULL);
    evsignal_add(local.terminate, NULL);
    evsignal_add(local.hangup, NULL);
    signal(SIGPIPE, SIG_IGN);
    link_on(LINK_FAIL, on_peer_fail);
    return 0;
}

void local_fini(struct daemon *d)
{
    (void)d;
    struct event *all[] = {local.child, local.interrupt, local.terminate, local.hangup,
                           local.wake,  local.kill_timer, local.tick};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            event_free(all[i]);
    memset(&local, 0, sizeof local);
}

static char *log_path(const struct daemon *d, uint32_t rank)
{
    if (d->phase == PHASE_EMULATE)
        return NULL;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/logs/%s.rank%u", d->conf->trace, d->phase == PHASE_CAPTURE ? "capture" : "calibrate",
             rank);
    return strdup(path);
}

static void make_ranks(struct daemon *d, const struct local_phase *p)
{
    d->here = 0;
    d->ranks = calloc(d->conf->world, sizeof *d->ranks);
    if (!d->ranks)
        abort();
    for (uint32_t i = 0; i < p->nlive; i++) {
        uint32_t node = p->kind == PHASE_CAPTURE ? place_capture_node(d->conf, p->live[i])
                                                 : place_live_node(d->conf, i, p->nlive);
        if (node == d->conf->node)
            rank_create(d, p->live[i], d->here++ % d->conf->ndevices, log_path(d, p->live[i]));
    }
    d->staging = rank_staging(d->conf->staging, d->here, limits_read().memory);
}

static int check_limits(struct daemon *d, struct prism_error *err)
{
    struct limits limits = limits_read();
    return limits_check(&limits, d->conf->world, d->here, link_nodes_here(d), !d->conf->node, err);
}

void local_begin(struct daemon *d, const struct local_phase *p, local_done done)
{
    struct prism_error err = {0};
    local.done = done;
    local.running = true;
    local.told = false;
    d->phase = p->kind;
    d->transport = p->transport;
    d->record_times = p->kind != PHASE_CAPTURE;
    d->stopping = false;
    d->live = 0;
    d->ops = p->kind == PHASE_CAPTURE ? &capture_ops : &emulate_ops;
    tasks_begin(d);
    make_ranks(d, p);
    set_watch(d);
    sched_begin(d, p->kind == PHASE_CAPTURE ? d->conf->runnable : 0);
    stall_begin(d);
    hang_begin(d);
    progress_begin(d);
    enough_begin(d);
    int rc = p->kind == PHASE_CAPTURE ? check_limits(d, &err) || board_create(d, &err) || capture_begin(d, &err) : emulate_begin(d, p->live, p->nlive, &err);
    if (!rc)
        rc = pmix_begin(d, p->live, p->nlive, &err);
    struct timeval tick = {0, SCHED_QUIET_MS * 1000};
    evtimer_add(local.tick, &tick);
    if (rc) {
        daemon_fail(d, err.code, "%s", err.text);
        return;
    }
    if (p->kind == PHASE_CAPTURE)
        movers_begin(d);
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && !(d->ranks[i]->deferred = tasks_defers(d, i)))
            sched_want_start(d, d->ranks[i]);
}
