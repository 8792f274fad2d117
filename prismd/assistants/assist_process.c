#include "prismd/assistants/assist_process.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "common/clock.h"
#include "prismd/ranks/child.h"

#define END_SECONDS 3 /* for a process to leave by itself */
#define ANSWER_MAX  65536u

extern char **environ;

struct assistant {
    struct daemon *daemon;
    uint32_t number, device;
    pid_t pid; /* 0 = gone */
    struct bufferevent *channel;
    struct order_shared *shared;
    struct assistant_events on;
};

/* --- the process --- */

static void become_assistant(const struct assistant *a, pid_t parent, const char *program, int fd, int counts)
{
    const struct conf *c = a->daemon->conf;
    char numbers[3][16],
        *argv[] = {(char *)(uintptr_t) "prism-assistant", numbers[0], numbers[1], numbers[2], NULL};
    child_detach(parent);
    child_keep(fd);
    child_keep(counts);
    child_drop_preload(c->library);
    setenv("CUDA_VISIBLE_DEVICES", c->devices[a->device], 1);
    setenv("PRISM_TRACE", c->trace, 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    snprintf(numbers[0], sizeof numbers[0], "%d", fd);
    snprintf(numbers[1], sizeof numbers[1], "%d", counts);
    snprintf(numbers[2], sizeof numbers[2], "%u", a->daemon->trace_nodes);
    execve(program, argv, environ);
    dprintf(STDERR_FILENO, "prism: cannot run %s: %s\n", program, strerror(errno));
    _exit(PRISM_EXIT_SYSTEM);
}

/* --- answers --- */

static void take_answer(struct assistant *a, const struct order_header *h)
{
    struct daemon *d = a->daemon;
    if (h->type == ORDER_ID && h->size == sizeof(struct order_id)) {
        a->on.made(d, h->communicator, ((const struct order_id *)h)->id);
    } else if (h->type == ORDER_TIME && h->size == sizeof(struct order_time)) {
        const struct order_time *t = (const struct order_time *)h;
        a->on.timed(d, t->tag, t->ns);
    } else if (h->type == ORDER_DONE) {
        a->on.done(d);
    } else if (h->type == ORDER_FAILED && h->size >= sizeof(struct order_failed)) {
        const struct order_failed *f = (const struct order_failed *)h;
        if (d->stopping) /* its ranks have been ended under it */
            return;
        daemon_fail(d, (int)f->code, "assistant %u (device %s of node %u): %.*s", a->number,
                    d->conf->devices[a->device], d->conf->node, (int)(h->size - sizeof *f),
                    (const char *)(f + 1));
    } else {
        daemon_fail(d, PRISM_EXIT_DAEMON, "assistant %u: malformed answer", a->number);
    }
}

static void take_answers(struct assistant *a)
{
    struct evbuffer *in = bufferevent_get_input(a->channel);
    struct order_header h;
    while (evbuffer_copyout(in, &h, sizeof h) == (ev_ssize_t)sizeof h) {
        if (h.size < sizeof h || h.size > ANSWER_MAX) { /* not waited for */
            daemon_fail(a->daemon, PRISM_EXIT_DAEMON, "assistant %u: malformed answer", a->number);
            return;
        }
        if (evbuffer_get_length(in) < h.size)
            return;
        void *answer = malloc(h.size);
        if (!answer)
            abort();
        evbuffer_remove(in, answer, h.size);
        take_answer(a, answer);
        free(answer);
    }
}

static void on_readable(struct bufferevent *channel, void *arg)
{
    struct assistant *a = arg;
    (void)channel;
    pthread_mutex_lock(&a->daemon->lock);
    take_answers(a);
    pthread_mutex_unlock(&a->daemon->lock);
}

/* --- from the daemon --- */

static int make_shared(struct assistant *a, int sockets[2], int *counts, struct prism_error *err)
{
    *counts = memfd_create("prism-assistant", MFD_CLOEXEC);
    if (*counts < 0 || ftruncate(*counts, sizeof *a->shared) ||
        (a->shared = mmap(NULL, sizeof *a->shared, PROT_READ | PROT_WRITE, MAP_SHARED, *counts, 0)) ==
            MAP_FAILED) {
        a->shared = NULL;
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make shared memory: %s", strerror(errno));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make a socket: %s", strerror(errno));
    a->channel = bufferevent_socket_new(a->daemon->base, sockets[0],
                                        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_THREADSAFE | BEV_OPT_DEFER_CALLBACKS |
                                            BEV_OPT_UNLOCK_CALLBACKS);
    if (!a->channel)
        abort();
    evutil_make_socket_nonblocking(sockets[0]);
    bufferevent_setcb(a->channel, on_readable, NULL, NULL, a); /* its end is for SIGCHLD to tell */
    bufferevent_enable(a->channel, EV_READ | EV_WRITE);
    return 0;
}

struct assistant *assistant_start(struct daemon *d, uint32_t number, uint32_t device,
                                  const struct assistant_events *events, struct prism_error *err)
{
    char program[PATH_MAX];
    int sockets[2] = {-1, -1}, counts = -1;
    struct assistant *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    *a = (struct assistant){.daemon = d, .number = number, .device = device, .on = *events};
    pid_t parent = getpid();
    int rc = child_find("prism-assistant", program)
                 ? prism_error_set(err, PRISM_EXIT_SYSTEM, "%s is missing: the installation is not complete",
                                   program)
                 : make_shared(a, sockets, &counts, err);
    if (!rc && (a->pid = fork()) < 0)
        rc =
            prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot start assistant %u: %s", number, strerror(errno));
    if (!rc && !a->pid)
        become_assistant(a, parent, program, sockets[1], counts);
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (counts >= 0)
        close(counts);
    if (rc) {
        a->pid = 0;
        assistant_end(a);
        return NULL;
    }
    setpgid(a->pid, a->pid);
    return a;
}

static void await_end(struct assistant *a)
{
    int64_t deadline = clock_now_ns() + END_SECONDS * NSEC_PER_SEC;
    while (waitpid(a->pid, NULL, WNOHANG) == 0) {
        if (clock_now_ns() > deadline) {
            kill(a->pid, SIGKILL);
            waitpid(a->pid, NULL, 0);
            break;
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    a->pid = 0;
}

void assistant_end(struct assistant *a)
{
    if (!a)
        return;
    if (a->channel)
        bufferevent_free(a->channel); /* the assistant leaves when its socket ends */
    if (a->pid && (a->daemon->failure.code || a->daemon->stopping))
        kill(a->pid, SIGKILL); /* it may stand in a call that never ends */
    if (a->pid)
        await_end(a);
    if (a->shared)
        munmap(a->shared, sizeof *a->shared);
    free(a);
}

/* Straight into the socket where there is room: through the event loop it would be later by a thread's
 * wake-up. */
void assistant_order(struct assistant *a, const void *order, size_t size)
{
    ssize_t sent = 0;
    bufferevent_lock(a->channel);
    if (!evbuffer_get_length(bufferevent_get_output(a->channel)))
        sent = send(bufferevent_getfd(a->channel), order, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        sent = 0;
    if ((size_t)sent < size)
        bufferevent_write(a->channel, (const char *)order + sent, size - (size_t)sent);
    bufferevent_unlock(a->channel);
}

uint32_t *assistant_gate(struct assistant *a, uint32_t gate)
{
    return &a->shared->go[gate];
}

pid_t assistant_pid(const struct assistant *a)
{
    return a->pid;
}

void assistant_reaped(struct assistant *a, int status)
{
    struct daemon *d = a->daemon;
    a->pid = 0;
    if (d->stopping)
        return;
    /* What it had to say comes before how it ended. */
    evbuffer_read(bufferevent_get_input(a->channel), bufferevent_getfd(a->channel), -1);
    take_answers(a);
    const char *where = d->conf->devices[a->device];
    if (WIFSIGNALED(status))
        daemon_fail(d, PRISM_EXIT_DAEMON, "assistant %u (device %s of node %u) was ended by signal %d (%s)",
                    a->number, where, d->conf->node, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        daemon_fail(d, PRISM_EXIT_DAEMON, "assistant %u (device %s of node %u) ended with exit code %d",
                    a->number, where, d->conf->node, WEXITSTATUS(status));
}

void assistant_count(const struct assistant *a, struct order_counts *sum)
{
    sum->runs += __atomic_load_n(&a->shared->counts.runs, __ATOMIC_RELAXED);
    sum->hits += __atomic_load_n(&a->shared->counts.hits, __ATOMIC_RELAXED);
    sum->kept += __atomic_load_n(&a->shared->counts.kept, __ATOMIC_RELAXED);
    sum->late += __atomic_load_n(&a->shared->counts.late, __ATOMIC_RELAXED);
    sum->misses += __atomic_load_n(&a->shared->counts.misses, __ATOMIC_RELAXED);
    sum->payload_bytes += __atomic_load_n(&a->shared->counts.payload_bytes, __ATOMIC_RELAXED);
}

char *assistant_find_library(pid_t pid, uint64_t address)
{
    char path[64], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "r");
    char *found = NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        uint64_t begin = 0, end = 0;
        const char *file = strchr(line, '/');
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &begin, &end) == 2 && address >= begin && address < end)
            found = strdup(file && !strstr(file, " (deleted)") ? file : "");
    }
    if (f)
        fclose(f);
    return found ? found : strdup("");
}
