#include "prismd/switching/movers.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/ranks/child.h"
#include "prismd/ranks/sched.h"
#include "prismd/switching/tell.h"

#define END_SECONDS   10 /* giving back pinned memory takes its time */
#define MOST_RANKS    256u
#define LINE_NS       (10 * NSEC_PER_SEC) /* between lines of progress */
#define SAFETY        50 /* a fiftieth of the device is left free */
#define CONTEXT_BYTES (700ull << 20) /* a process's context, PyTorch's modules included: 0.6 GB measured */

extern char **environ;

enum mover_state { NONE, STARTING, READY };

/* A device's. */
struct mover {
    struct daemon *daemon;
    uint32_t device, ranks; /* ranks of this node that use it */
    enum mover_state state;
    pid_t pid; /* 0 = gone */
    int socket;
    struct event *readable;
    struct resident *resident;
    int64_t line_ns; /* of the next line of progress */
};

static struct mover *movers; /* by device */
static uint32_t nmovers, running; /* devices; processes started */
static struct resident_counts total;

static struct mover *mover_of(const struct rank *r)
{
    struct mover *m = r->daemon->phase == PHASE_CAPTURE && movers ? &movers[r->device] : NULL;
    return m && m->state != NONE ? m : NULL;
}

/* --- what is told --- */

static void tell(const struct mover *m, const struct mover_message *message)
{
    char line[200];
    if (tell_message(message, line, sizeof line))
        log_debug("device %s: %s", m->daemon->conf->devices[m->device], line);
}

static void tell_now(struct mover *m, int64_t now)
{
    struct resident_state state = resident_look_at(m->resident);
    char line[400];
    m->line_ns = now + LINE_NS;
    tell_progress(&state, resident_count(m->resident), line, sizeof line);
    log_info("device %s: %s", m->daemon->conf->devices[m->device], line);
}

/* --- what the policy decides --- */

static void send_message(struct mover *m, const struct mover_message *message, int fd)
{
    if (m->socket >= 0 && mover_send(m->socket, message, fd, NULL))
        log_debug("mover of device %s: cannot send: %s", m->daemon->conf->devices[m->device], strerror(errno));
}

static void on_send(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag)
{
    struct mover_message message = {.type = type, .rank = rank, .bytes = bytes, .flag = flag};
    tell(arg, &message);
    send_message(arg, &message, -1);
}

static void on_start(void *arg, uint32_t rank)
{
    struct mover *m = arg;
    sched_may_start(m->daemon, m->daemon->ranks[rank]);
}

/* Whether every stream with operations under way has come to the gate of the first. What may arrive before its turn is not waited
 * for: a rank is parked behind all that it can still do. */
static bool all_stand(const struct rank *r)
{
    bool any = false;
    for (uint32_t s = 0; s < r->nstreams; s++) {
        const struct group *g = r->streams[s];
        if (g && !g->arrived)
            return false;
        any |= g != NULL;
    }
    return any;
}

static struct resident_look on_look(void *arg, uint32_t rank)
{
    const struct mover *m = arg;
    const struct rank *r = m->daemon->ranks[rank];
    return (struct resident_look){.standing = all_stand(r), .blocked = r->state == RANK_BLOCKED,
                                  .active_ns = r->running_since_ns};
}

static void on_hopeless(void *arg, uint32_t rank, uint64_t bytes)
{
    const struct mover *m = arg;
    daemon_fail(m->daemon, PRISM_EXIT_UNSUPPORTED,
                "rank %u: its %llu MiB of device memory do not fit beside memory of other ranks that cannot be moved off device %s "
                "(shared with other processes, for one); use more devices",
                rank, (unsigned long long)(bytes >> 20), m->daemon->conf->devices[m->device]);
}

static const struct resident_calls calls = {.hopeless = on_hopeless, .send = on_send, .start = on_start, .look = on_look};

/* --- the end of a mover --- */

static void close_socket(struct mover *m)
{
    if (m->readable)
        event_free(m->readable);
    if (m->socket >= 0)
        close(m->socket); /* the mover leaves */
    m->readable = NULL;
    m->socket = -1;
}

/* The device is not switched: its ranks start as they would. */
static void do_without(struct mover *m)
{
    struct daemon *d = m->daemon;
    close_socket(m);
    m->state = NONE;
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->device == m->device && !d->ranks[i]->pid && d->ranks[i]->state == RANK_WAITING &&
            !d->ranks[i]->deferred)
            sched_may_start(d, d->ranks[i]);
}

static void failed(struct mover *m, const char *why)
{
    struct daemon *d = m->daemon;
    if (d->stopping)
        return;
    if (m->state == READY) {
        daemon_fail(d, PRISM_EXIT_DAEMON, "switching memory of device %s of node %u: %s", d->conf->devices[m->device],
                    d->conf->node, why);
        return;
    }
    log_warn("memory of device %s of node %u is not switched, so its %u ranks must fit together: %s",
             d->conf->devices[m->device], d->conf->node, m->ranks, why);
    do_without(m);
}

/* --- what the mover says --- */

/* Sets what is divided among the ranks; -1 when contexts alone fill the device. */
static int make_resident(struct mover *m, const struct mover_message *ready)
{
    const struct conf *c = m->daemon->conf;
    struct resident_setting set = {.ranks = m->ranks, .seed = c->eviction_seed};
    uint64_t spare = ready->total / SAFETY, own = ready->total - ready->bytes;
    set.capacity = c->device_memory ? c->device_memory : ready->bytes > spare ? ready->bytes - spare : 0;
    set.context = c->context_bytes != UINT64_MAX ? c->context_bytes : ready->flag ? own : CONTEXT_BYTES;
    if (set.context * m->ranks >= set.capacity)
        return daemon_fail(m->daemon, PRISM_EXIT_UNSUPPORTED,
                           "%u ranks share device %s of node %u: their contexts of %llu MiB each do not fit into %llu MiB; "
                           "use more devices (PRISM_CONTEXT_BYTES if a context is smaller)",
                           m->ranks, c->devices[m->device], c->node, (unsigned long long)(set.context >> 20),
                           (unsigned long long)(set.capacity >> 20));
    m->resident = resident_create(&set, &calls, m);
    m->state = READY;
    m->line_ns = clock_now_ns() + LINE_NS;
    log_info("device %s: %u ranks share %llu MiB", c->devices[m->device], m->ranks,
             (unsigned long long)(set.capacity >> 20));
    return 0;
}

static void take_ready(struct mover *m, const struct mover_message *ready)
{
    struct daemon *d = m->daemon;
    if (d->conf->switching == CONF_SWITCHING_AUTO && ready->flag && !d->conf->device_memory) {
        do_without(m);
        return;
    }
    if (make_resident(m, ready))
        return;
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->device == m->device)
            resident_want_start(m->resident, i, clock_now_ns());
}

static void take_message(struct mover *m, const struct mover_message *message, const char *text)
{
    struct daemon *d = m->daemon;
    if (message->type == MOVER_FAILED) {
        failed(m, text);
    } else if (message->type == MOVER_READY && m->state == STARTING) {
        take_ready(m, message);
    } else if (m->resident && message->rank < d->conf->world && d->ranks[message->rank]) {
        tell(m, message);
        resident_message(m->resident, message, clock_now_ns());
        /* Gates that became ready meanwhile are held, also those of a rank that was to leave and has stayed. */
        if (message->type == MOVER_RESTORED || message->type == MOVER_CANCELLED)
            sched_is_in(d, d->ranks[message->rank]);
    }
}

/* Its end is for SIGCHLD to tell. */
static void take_messages(struct mover *m)
{
    struct mover_message message;
    char text[MOVER_TEXT + 1];
    int fd, rc = 1;
    while (m->socket >= 0 && (rc = mover_receive(m->socket, &message, &fd, text, MSG_DONTWAIT)) > 0) {
        if (fd >= 0)
            close(fd);
        take_message(m, &message, text);
    }
    if (m->readable && (rc == 0 || (rc < 0 && errno != EAGAIN)))
        event_del(m->readable);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct mover *m = arg;
    struct daemon *d = m->daemon;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&d->lock);
    take_messages(m);
    pthread_mutex_unlock(&d->lock);
}

/* --- the process --- */

static void become_mover(const struct mover *m, pid_t parent, const char *program, int fd, uint32_t share)
{
    const struct conf *c = m->daemon->conf;
    char numbers[3][16], *argv[] = {(char *)(uintptr_t) "prism-mover", numbers[0], numbers[1], numbers[2], NULL};
    child_detach(parent);
    child_keep(fd);
    child_drop_preload(c->library);
    setenv("CUDA_VISIBLE_DEVICES", c->devices[m->device], 1);
    setenv("PRISM_TRACE", c->trace, 1);
    snprintf(numbers[0], sizeof numbers[0], "%d", fd);
    snprintf(numbers[1], sizeof numbers[1], "%u", share);
    snprintf(numbers[2], sizeof numbers[2], "%u", running);
    execve(program, argv, environ);
    _exit(127);
}

static void start(struct mover *m, uint32_t share)
{
    char program[PATH_MAX] = "", why[PATH_MAX + 64];
    int pair[2] = {-1, -1};
    pid_t parent = getpid();
    m->state = STARTING;
    if (child_find("prism-mover", program))
        snprintf(why, sizeof why, "%s is missing: the installation is not complete", program);
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) || (m->pid = fork()) < 0)
        snprintf(why, sizeof why, "cannot start a process: %s", strerror(errno));
    else if (!m->pid)
        become_mover(m, parent, program, pair[1], share);
    if (pair[1] >= 0)
        close(pair[1]);
    m->socket = pair[0];
    if (m->pid <= 0) {
        m->pid = 0;
        failed(m, why);
        return;
    }
    setpgid(m->pid, m->pid);
    running++;
    m->readable = event_new(m->daemon->base, m->socket, EV_READ | EV_PERSIST, on_readable, m);
    event_add(m->readable, NULL);
}

static bool is_wanted(const struct mover *m)
{
    switch (m->daemon->conf->switching) {
    case CONF_SWITCHING_OFF:
        return false;
    case CONF_SWITCHING_ON:
        return m->ranks > 0;
    default:
        return m->ranks >= 2 && m->ranks <= MOST_RANKS;
    }
}

void movers_begin(struct daemon *d)
{
    total = (struct resident_counts){0};
    nmovers = d->conf->ndevices;
    running = 0;
    movers = calloc(nmovers, sizeof *movers);
    if (!movers)
        abort();
    uint32_t share = 0;
    for (uint32_t i = 0; i < nmovers; i++)
        movers[i] = (struct mover){.daemon = d, .device = i, .socket = -1};
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i])
            movers[d->ranks[i]->device].ranks++;
    for (uint32_t i = 0; i < nmovers; i++)
        share += is_wanted(&movers[i]);
    for (uint32_t i = 0; i < nmovers; i++)
        if (is_wanted(&movers[i]))
            start(&movers[i], share);
}

static void await_end(struct mover *m)
{
    int64_t deadline = clock_now_ns() + END_SECONDS * NSEC_PER_SEC;
    while (waitpid(m->pid, NULL, WNOHANG) == 0) {
        if (clock_now_ns() > deadline)
            kill(m->pid, SIGKILL);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    m->pid = 0;
}

void movers_end(struct daemon *d)
{
    (void)d;
    for (uint32_t i = 0; movers && i < nmovers; i++) {
        struct mover *m = &movers[i];
        close_socket(m);
        if (m->resident)
            tell_add_counts(&total, resident_count(m->resident));
        resident_destroy(m->resident);
    }
    for (uint32_t i = 0; movers && i < nmovers; i++)
        if (movers[i].pid)
            await_end(&movers[i]);
    free(movers);
    movers = NULL;
}

struct resident_counts movers_count(void)
{
    return total;
}

/* --- of the ranks --- */

bool movers_may_start(struct daemon *d, struct rank *r)
{
    (void)d;
    return !mover_of(r);
}

void movers_joined(struct daemon *d, struct rank *r, struct resident_operation op, const int32_t *members, uint32_t n)
{
    struct mover *m = mover_of(r);
    (void)d;
    if (m && m->resident)
        resident_joined(m->resident, r->number, op, members, n, clock_now_ns());
}

bool movers_gate_ready(struct daemon *d, struct rank *r)
{
    struct mover *m = mover_of(r);
    (void)d;
    if (!m || !m->resident)
        return true;
    resident_gate_ready(m->resident, r->number, clock_now_ns());
    return resident_is_in(m->resident, r->number);
}

bool movers_is_in(const struct daemon *d, const struct rank *r)
{
    const struct mover *m = mover_of(r);
    (void)d;
    return !m || !m->resident || resident_is_in(m->resident, r->number);
}

void movers_gate_opened(struct daemon *d, struct rank *r)
{
    struct mover *m = mover_of(r);
    (void)d;
    if (m && m->resident)
        resident_gate_opened(m->resident, r->number, clock_now_ns());
}

void movers_look(struct daemon *d, struct rank *r)
{
    struct mover *m = mover_of(r);
    if (m && m->resident && !d->stopping)
        resident_tick(m->resident, clock_now_ns());
}

void movers_rank_ended(struct daemon *d, struct rank *r)
{
    struct mover *m = mover_of(r);
    struct mover_message message = {.type = MOVER_DETACH, .rank = r->number};
    (void)d;
    if (!m || !m->resident)
        return;
    send_message(m, &message, -1);
    resident_ended(m->resident, r->number, clock_now_ns());
}

void movers_tick(struct daemon *d)
{
    int64_t now = clock_now_ns();
    for (uint32_t i = 0; movers && i < nmovers && !d->stopping; i++) {
        if (!movers[i].resident)
            continue;
        resident_tick(movers[i].resident, now);
        if (now >= movers[i].line_ns)
            tell_now(&movers[i], now);
    }
}

bool movers_switch(void)
{
    for (uint32_t i = 0; movers && i < nmovers; i++)
        if (movers[i].resident)
            return true;
    return false;
}

int movers_attach(struct daemon *d, struct rank *r)
{
    struct mover *m = mover_of(r);
    int pair[2];
    (void)d;
    if (!m || !m->resident || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    struct mover_message message = {.type = MOVER_ATTACH, .rank = r->number};
    message.total = resident_capacity(m->resident);
    send_message(m, &message, pair[1]);
    close(pair[1]);
    return pair[0];
}

void movers_hear(struct daemon *d)
{
    (void)d;
    for (uint32_t i = 0; movers && i < nmovers; i++)
        take_messages(&movers[i]);
}

bool movers_reaped(struct daemon *d, pid_t pid, int status)
{
    (void)d;
    for (uint32_t i = 0; movers && i < nmovers; i++) {
        struct mover *m = &movers[i];
        char why[128];
        if (m->pid != pid)
            continue;
        m->pid = 0;
        take_messages(m); /* what it had to say comes before how it ended */
        if (m->socket < 0)
            return true;
        if (WIFSIGNALED(status))
            snprintf(why, sizeof why, "prism-mover was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else
            snprintf(why, sizeof why, "prism-mover ended with exit code %d", WEXITSTATUS(status));
        failed(m, why);
        return true;
    }
    return false;
}
