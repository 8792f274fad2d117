/* reader.c - the thread that reads what hubs send to this process's ranks, and what happens at exit and fork.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softgpu/nccl/comm.h"
#include "softgpu/nccl/hub.h"

#define FRAME_LIMIT    (1ull << 40)
#define STACK_BYTES    (512 << 10)
#define LINGER_SECONDS 30 /* without any message, at a normal exit */

struct watched {
    struct watched *next;
    uint64_t key;
    struct ncclComm *comm;
    int socket;
    struct sgn_reader reader;
};

/* Held while a frame is handled, so that forget() is a barrier. Taken before any communicator's lock. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct watched *table;
static uint64_t last_key;
static int epoll_fd = -1;
static bool started;
static pthread_t reader_thread;

static void unwatch(struct watched *watched)
{
    struct watched **at = &table;
    while (*at != watched)
        at = &(*at)->next;
    *at = watched->next;
    close(watched->socket); /* leaves epoll too */
    if (watched->reader.fd >= 0)
        close(watched->reader.fd);
    sgn_reader_next(&watched->reader);
    free(watched);
}

/* --- frames --- */

static void on_ready(struct ncclComm *comm, const uint8_t *body, size_t bytes)
{
    struct sgn_ready ready;
    size_t places = (size_t)comm->ranks * sizeof(struct sgn_place);
    if (bytes != sizeof(ready) + places)
        return;
    memcpy(&ready, body, sizeof(ready));
    pthread_mutex_lock(&comm->lock);
    comm->seed = ready.seed;
    comm->places = malloc(places);
    if (comm->places)
        memcpy(comm->places, body + sizeof(ready), places);
    if (!comm->places || sgn_ring_init(&comm->ring, comm->ranks, comm->places))
        sgn_comm_fail_locked(comm, ncclSystemError, "out of memory while setting up a communicator");
    else if (comm->state == COMM_JOINING)
        comm->state = COMM_READY;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static struct ncclComm *take_child(struct ncclComm *parent, uint64_t control)
{
    struct ncclComm **at, *child;
    pthread_mutex_lock(&parent->lock);
    for (at = &parent->children; *at && (*at)->control != control; at = &(*at)->next_child)
        ;
    child = *at;
    if (child)
        *at = child->next_child;
    pthread_mutex_unlock(&parent->lock);
    return child;
}

static void fail_child(struct ncclComm *child, ncclResult_t result, const char *text)
{
    pthread_mutex_lock(&child->lock);
    child->control = 0;
    sgn_comm_fail_locked(child, result, text);
    pthread_mutex_unlock(&child->lock);
    sgn_comm_unref(child);
}

static int watch_locked(struct ncclComm *comm);

static void on_child(struct ncclComm *parent, const uint8_t *body, size_t bytes)
{
    struct sgn_child answer;
    if (bytes != sizeof(answer))
        return;
    memcpy(&answer, body, sizeof(answer));
    struct ncclComm *child = take_child(parent, answer.id);
    if (!child)
        return;
    pthread_mutex_lock(&child->lock);
    child->rank = answer.rank;
    child->ranks = answer.ranks;
    child->control = 0;
    pthread_mutex_unlock(&child->lock);
    if (sgn_comm_join(child, &answer.child) == ncclSuccess)
        watch_locked(child);
    sgn_comm_unref(child);
}

static void on_failed(struct ncclComm *comm, const uint8_t *body, size_t bytes)
{
    struct sgn_failed failure;
    if (bytes != sizeof(failure))
        return;
    memcpy(&failure, body, sizeof(failure));
    failure.text[SGN_TEXT - 1] = '\0';
    if (failure.control) {
        struct ncclComm *child = take_child(comm, failure.control);
        if (child)
            fail_child(child, (ncclResult_t)failure.result, failure.text);
        return;
    }
    pthread_mutex_lock(&comm->lock);
    sgn_comm_fail_locked(comm, (ncclResult_t)failure.result, failure.text);
    pthread_mutex_unlock(&comm->lock);
}

static void on_end(struct watched *watched)
{
    struct ncclComm *comm = watched->comm, *children;
    static const char text[] =
        "the process that serves the communicator (the one that made its unique id) is gone";
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watched->socket, NULL); /* closed by forget() */
    pthread_mutex_lock(&comm->lock);
    sgn_comm_fail_locked(comm, ncclRemoteError, text);
    children = comm->children;
    comm->children = NULL;
    pthread_mutex_unlock(&comm->lock);
    while (children) {
        struct ncclComm *next = children->next_child;
        fail_child(children, ncclRemoteError, text);
        children = next;
    }
}

static void handle(struct watched *watched)
{
    struct ncclComm *comm = watched->comm;
    struct sgn_reader *reader = &watched->reader;
    switch (reader->frame.type) {
    case SGN_READY:
        on_ready(comm, reader->body, reader->frame.bytes);
        break;
    case SGN_ANSWER:
        sgn_batch_answered(comm, &reader->body, reader->frame.bytes);
        break;
    case SGN_CHILD:
        on_child(comm, reader->body, reader->frame.bytes);
        break;
    case SGN_FAILED:
        on_failed(comm, reader->body, reader->frame.bytes);
        break;
    default:
        break;
    }
    sgn_reader_next(reader);
}

static void read_one(uint64_t key)
{
    struct watched *watched = table;
    while (watched && watched->key != key)
        watched = watched->next;
    enum sgn_read got =
        watched ? sgn_reader_step(&watched->reader, watched->socket, FRAME_LIMIT) : SGN_READ_MORE;
    if (got == SGN_READ_FRAME) /* if there are more, epoll tells */
        handle(watched);
    else if (got == SGN_READ_END)
        on_end(watched);
}

static void *run(void *unused)
{
    struct epoll_event events[32];
    for (;;) {
        int got = epoll_wait(epoll_fd, events, 32, -1);
        if (got < 0 && errno != EINTR)
            return NULL;
        pthread_mutex_lock(&table_lock);
        for (int i = 0; i < got; i++)
            read_one(events[i].data.u64);
        pthread_mutex_unlock(&table_lock);
    }
}

/* --- exit and fork --- */

/* exit(0) without ncclCommDestroy is common: say that the ranks left, and serve the others until they are
 * done. Any other end looks like what it is, a death. */
static void at_exit(int status, void *unused)
{
    if (status != 0)
        return;
    pthread_mutex_lock(&table_lock);
    for (struct watched *watched = table; watched; watched = watched->next) {
        sgn_comm_leave(watched->comm);
        shutdown(watched->socket, SHUT_WR);
    }
    pthread_mutex_unlock(&table_lock);
    sgn_hub_linger(LINGER_SECONDS);
}

static void forked(void)
{
    pthread_mutex_init(&table_lock, NULL);
    for (struct watched *watched = table; watched; watched = watched->next)
        close(watched->socket);
    if (epoll_fd >= 0)
        close(epoll_fd);
    table = NULL;
    epoll_fd = -1;
    started = false;
    sgn_hub_forked();
}

static void register_handlers(void)
{
    on_exit(at_exit, NULL);
    pthread_atfork(NULL, NULL, forked);
}

void sgn_process_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_handlers);
}

static int start(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sgn_process_init();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&reader_thread, &attributes, run, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        close(epoll_fd);
        epoll_fd = -1;
        return -1;
    }
    started = true;
    return 0;
}

/* --- from communicators --- */

static int watch_locked(struct ncclComm *comm)
{
    struct watched *watched = calloc(1, sizeof(*watched));
    if (!watched || (!started && start())) {
        free(watched);
        return -1;
    }
    *watched = (struct watched){table, ++last_key, comm, comm->socket, {.fd = -1}};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = watched->key};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, comm->socket, &event)) {
        free(watched);
        return -1;
    }
    table = watched;
    comm->key = watched->key;
    return 0;
}

int sgn_reader_watch(struct ncclComm *comm)
{
    pthread_mutex_lock(&table_lock);
    int result = watch_locked(comm);
    pthread_mutex_unlock(&table_lock);
    return result;
}

void sgn_reader_forget(struct ncclComm *comm)
{
    pthread_mutex_lock(&table_lock);
    struct watched *watched = table;
    while (watched && watched->comm != comm)
        watched = watched->next;
    pthread_mutex_lock(&comm->send_lock);
    if (watched)
        unwatch(watched);
    else if (comm->socket >= 0)
        close(comm->socket);
    comm->socket = -1;
    pthread_mutex_unlock(&comm->send_lock);
    comm->key = 0;
    pthread_mutex_unlock(&table_lock);
}
