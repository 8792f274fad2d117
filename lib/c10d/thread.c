/* thread.c - a server on a thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10d/server_private.h"

struct c10d_server_thread {
    pthread_t thread;
    struct event_base *base;
    struct c10d_server *server;
    struct event *stop;
    int pipe[2]; /* closing the write end ends the loop: libevent's own wake-up needs its thread support */
};

static void on_stop(evutil_socket_t fd, short what, void *ctx)
{
    event_base_loopbreak(ctx);
}

static void *run(void *ctx)
{
    struct c10d_server_thread *t = ctx;
    event_base_dispatch(t->base);
    return NULL;
}

static void thread_free(struct c10d_server_thread *t)
{
    c10d_server_destroy(t->server);
    if (t->stop)
        event_free(t->stop);
    if (t->base)
        event_base_free(t->base);
    for (int i = 0; i < 2; i++)
        if (t->pipe[i] >= 0)
            close(t->pipe[i]);
    free(t);
}

static int thread_launch(struct c10d_server_thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct c10d_server_thread *c10d_server_start_thread(const char *address, uint16_t port,
                                                    const struct c10d_hooks *hooks, struct prism_error *err)
{
    struct c10d_server_thread *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->pipe[0] = t->pipe[1] = -1;
    t->base = event_base_new();
    if (!t->base || pipe2(t->pipe, O_CLOEXEC) ||
        !(t->stop = event_new(t->base, t->pipe[0], EV_READ, on_stop, t->base)) || event_add(t->stop, NULL)) {
        prism_error_set(err, PRISM_EXIT_SYSTEM, "store: cannot make an event loop: %s", strerror(errno));
        thread_free(t);
        return NULL;
    }
    t->server = c10d_server_create(t->base, address, port, hooks, err);
    int rc = t->server ? thread_launch(t) : -1;
    if (rc) {
        prism_error_set(err, PRISM_EXIT_SYSTEM, "store: cannot start its thread: %s", strerror(rc));
        thread_free(t);
        return NULL;
    }
    return t;
}

uint16_t c10d_server_thread_port(const struct c10d_server_thread *thread)
{
    return c10d_server_port(thread->server);
}

void c10d_server_stop_thread(struct c10d_server_thread *thread)
{
    if (!thread)
        return;
    close(thread->pipe[1]);
    thread->pipe[1] = -1;
    pthread_join(thread->thread, NULL);
    thread_free(thread);
}
