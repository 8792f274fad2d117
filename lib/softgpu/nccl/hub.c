#include "softgpu/nccl/hub_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_LIMIT (1ull << 40)
#define STACK_BYTES (512 << 10)

static struct {
    pthread_mutex_t lock; /* of what other threads touch: started, id, served, activity */
    pthread_cond_t idle;
    bool started;
    struct sgn_id id; /* serial is the last one given out */
    int served;
    int64_t activity; /* seconds of CLOCK_MONOTONIC */
    int epoll_fd, local_fd, tcp_fd;
    struct hub_conn *conns;
} hub = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .idle = PTHREAD_COND_INITIALIZER,
         .epoll_fd = -1,
         .local_fd = -1,
         .tcp_fd = -1};

/* --- sending --- */

struct hub_chunk *hub_chunk_create(uint32_t type, size_t bytes)
{
    struct hub_chunk *chunk = malloc(sizeof(*chunk) + sizeof(struct sgn_frame) + bytes);
    if (!chunk)
        return NULL;
    *chunk = (struct hub_chunk){.bytes = sizeof(struct sgn_frame) + bytes};
    memcpy(chunk->data, &(struct sgn_frame){.type = type, .bytes = bytes}, sizeof(struct sgn_frame));
    return chunk;
}

static void watch(struct hub_conn *conn, bool writing)
{
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = conn};
    conn->writing = writing;
    epoll_ctl(hub.epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

static void flush(struct hub_conn *conn)
{
    while (conn->out && !conn->dead) {
        struct hub_chunk *chunk = conn->out;
        ssize_t sent = send(conn->fd, chunk->data + chunk->done, chunk->bytes - chunk->done,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (sent < 0)
            return; /* the read side will tell */
        chunk->done += (size_t)sent;
        if (chunk->done == chunk->bytes) {
            conn->out = chunk->next;
            if (!conn->out)
                conn->out_tail = &conn->out;
            free(chunk);
        }
    }
    if (!conn->dead && conn->writing != (conn->out != NULL))
        watch(conn, conn->out != NULL);
}

void hub_send_chunk(struct hub_conn *conn, struct hub_chunk *chunk)
{
    if (!chunk || conn->dead) {
        free(chunk);
        hub_drop(conn);
        return;
    }
    *conn->out_tail = chunk;
    conn->out_tail = &chunk->next;
    flush(conn);
}

void hub_send(struct hub_conn *conn, uint32_t type, const void *data, size_t bytes)
{
    struct hub_chunk *chunk = hub_chunk_create(type, bytes);
    if (chunk)
        memcpy(chunk->data + sizeof(struct sgn_frame), data, bytes);
    hub_send_chunk(conn, chunk);
}

void hub_drop(struct hub_conn *conn)
{
    conn->dead = true;
}

/* --- receiving --- */

static void handle_hello(struct hub_conn *conn, const struct sgn_reader *reader)
{
    struct sgn_hello hello;
    if (reader->frame.bytes != sizeof(hello)) {
        hub_drop(conn);
        return;
    }
    memcpy(&hello, reader->body, sizeof(hello));
    if (hello.arena && reader->fd >= 0 && !conn->arena)
        conn->arena = sgn_arena_map(reader->fd);
    hub_comm_hello(conn, &hello, hub.id.secret);
}

static void handle_frame(struct hub_conn *conn)
{
    struct sgn_reader *reader = &conn->reader;
    if (!conn->comm && reader->frame.type == SGN_HELLO)
        handle_hello(conn, reader);
    else if (!conn->comm)
        hub_drop(conn);
    else if (reader->frame.type == SGN_BATCH) {
        uint8_t *body = reader->body;
        reader->body = NULL;
        hub_match_post(conn, body, reader->frame.bytes);
    } else if (reader->frame.type == SGN_CONTROL)
        hub_comm_control(conn, reader->body, reader->frame.bytes);
    else if (reader->frame.type == SGN_REVOKE)
        hub_comm_revoke(conn);
    else if (reader->frame.type == SGN_LEAVE)
        hub_comm_leave(conn);
    else
        hub_drop(conn);
}

/* One frame: there is rarely a second one, and epoll tells if there is. */
static void receive(struct hub_conn *conn)
{
    /* Before HELLO the peer may be anybody. */
    uint64_t limit = conn->comm ? FRAME_LIMIT : sizeof(struct sgn_hello);
    enum sgn_read got = conn->dead ? SGN_READ_MORE : sgn_reader_step(&conn->reader, conn->fd, limit);
    if (got == SGN_READ_END) {
        hub_drop(conn);
    } else if (got == SGN_READ_FRAME) {
        handle_frame(conn);
        sgn_reader_next(&conn->reader);
    }
}

static void accept_all(int listener)
{
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct hub_conn *conn = calloc(1, sizeof(*conn));
        if (!conn) {
            close(fd);
            return;
        }
        if (listener == hub.tcp_fd)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        conn->fd = fd;
        conn->reader.fd = -1;
        conn->out_tail = &conn->out;
        conn->next = hub.conns;
        if (hub.conns)
            hub.conns->prev = conn;
        hub.conns = conn;
        epoll_ctl(hub.epoll_fd, EPOLL_CTL_ADD, fd,
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = conn});
    }
}

static void free_conn(struct hub_conn *conn)
{
    if (conn->comm)
        hub_comm_gone(conn);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        hub.conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    while (conn->out) {
        struct hub_chunk *next = conn->out->next;
        free(conn->out);
        conn->out = next;
    }
    if (conn->reader.fd >= 0)
        close(conn->reader.fd);
    sgn_reader_next(&conn->reader);
    sgn_arena_unmap(conn->arena);
    close(conn->fd);
    free(conn);
}

static void free_dead(void)
{
    bool again = true;
    while (again) { /* one that goes may fail its communicator and drop others */
        again = false;
        for (struct hub_conn *conn = hub.conns, *next; conn && !again; conn = next) {
            next = conn->next;
            if (conn->dead) {
                free_conn(conn);
                again = true;
            }
        }
    }
}

static int64_t now_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

void hub_served(int change)
{
    pthread_mutex_lock(&hub.lock);
    hub.served += change;
    pthread_cond_broadcast(&hub.idle);
    pthread_mutex_unlock(&hub.lock);
}

static void *run(void *unused)
{
    struct epoll_event events[64];
    for (;;) {
        int got = epoll_wait(hub.epoll_fd, events, 64, -1);
        if (got < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i < got; i++) {
            struct hub_conn *conn = events[i].data.ptr;
            if (!conn) {
                accept_all(hub.local_fd);
                accept_all(hub.tcp_fd);
                continue;
            }
            if (events[i].events & EPOLLOUT)
                flush(conn);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive(conn);
        }
        free_dead();
        pthread_mutex_lock(&hub.lock);
        hub.activity = now_seconds();
        pthread_mutex_unlock(&hub.lock);
    }
}

/* --- from other threads --- */

static int start(char text[SGN_TEXT])
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sgn_process_init();
    hub.id = (struct sgn_id){.magic = SGN_ID_MAGIC};
    if (sgn_net_listen(&hub.id, &hub.local_fd, &hub.tcp_fd, text))
        return -1;
    hub.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (hub.local_fd >= 0)
        epoll_ctl(hub.epoll_fd, EPOLL_CTL_ADD, hub.local_fd, &event);
    epoll_ctl(hub.epoll_fd, EPOLL_CTL_ADD, hub.tcp_fd, &event);
    sigfillset(&all); /* the program's signal handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&thread, &attributes, run, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        snprintf(text, SGN_TEXT, "cannot start the thread that serves communicators: %s", strerror(error));
    return error ? -1 : 0;
}

int sgn_hub_new_id(struct sgn_id *id, char text[SGN_TEXT])
{
    int result = 0;
    pthread_mutex_lock(&hub.lock);
    if (!hub.started)
        result = start(text);
    if (!result) {
        hub.started = true;
        hub.id.serial++;
        *id = hub.id;
    }
    pthread_mutex_unlock(&hub.lock);
    return result;
}

void sgn_hub_linger(int idle_seconds)
{
    pthread_mutex_lock(&hub.lock);
    while (hub.started && hub.served > 0 && now_seconds() - hub.activity < idle_seconds) {
        struct timespec deadline;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += 1;
        pthread_cond_timedwait(&hub.idle, &hub.lock, &deadline);
    }
    pthread_mutex_unlock(&hub.lock);
}

void sgn_hub_forked(void)
{
    pthread_mutex_init(&hub.lock, NULL);
    pthread_cond_init(&hub.idle, NULL);
    if (hub.started) {
        for (struct hub_conn *conn = hub.conns; conn; conn = conn->next)
            close(conn->fd);
        close(hub.epoll_fd);
        close(hub.tcp_fd);
        if (hub.local_fd >= 0)
            close(hub.local_fd);
    }
    hub.started = false;
    hub.conns = NULL;
    hub.served = 0;
    hub.epoll_fd = hub.tcp_fd = hub.local_fd = -1;
}
