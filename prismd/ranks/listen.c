/* listen.c - the socket on which processes become their ranks. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/gates/board.h"
#include "prismd/ranks/dispatch.h"
#include "prismd/ranks/listen.h"
#include "prismd/switching/movers.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/region.h"
#include "prismd/capture/settling.h"
#include "prismd/ranks/tasks.h"

static void drop_connection(struct rank *r)
{
    event_free(r->readable);
    r->readable = NULL;
    close(r->socket);
    r->socket = -1;
}

/* One message or several (proto/message.h); one with an impossible size is refused as a whole by dispatch_message. */
static void take_datagram(struct rank *r, const uint8_t *data, size_t len)
{
    while (len) {
        uint32_t size = (uint32_t)len;
        if (len >= sizeof(struct msg_header))
            memcpy(&size, data + offsetof(struct msg_header, size), sizeof size);
        if (size < sizeof(struct msg_header) || size > len || size % 8)
            size = (uint32_t)len; /* the last may have any length: text */
        dispatch_message(r->daemon, r, data, size);
        data += size;
        len -= size;
    }
}

/* Up to `most` datagrams; false when there is nothing more to come. */
static bool take_messages(struct rank *r, int most)
{
    static _Alignas(8) uint8_t buffer[MSG_MAX];
    for (int i = 0; i < most && r->socket >= 0; i++) {
        ssize_t n = recv(r->socket, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0) {
            drop_connection(r);
            return false;
        }
        take_datagram(r, buffer, (size_t)n);
    }
    return r->socket >= 0;
}

static void on_rank_readable(evutil_socket_t fd, short what, void *arg)
{
    struct rank *r = arg;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&r->daemon->lock);
    take_messages(r, 64);
    pthread_mutex_unlock(&r->daemon->lock);
}

void listen_drain(struct rank *r)
{
    while (take_messages(r, 64))
        ;
}

static void send_welcome(struct rank *r)
{
    struct daemon *d = r->daemon;
    struct msg_welcome w = {
        .h = {MSG_WELCOME, sizeof w},
        .phase = d->phase,
        .transport = d->transport,
        .world = d->conf->world,
        .rank = r->number,
        .record_times = d->record_times,
        .max_waiting = UINT32_MAX, /* prismd counts at arrival, which is exact: capture.c */
        .region_size = r->region_size,
        .staging = d->staging,
        .control = d->phase != PHASE_CAPTURE && d->conf->payload == TRACE_PAYLOAD_CONTROL,
        .seats = board_seats(d),
        .seat = r->seat,
    };
    /* The region, and in capture the socket to the mover and the board if there are any. */
    int fds[3] = {r->region_fd}, n = 1, mover = movers_attach(d, r);
    if (mover >= 0)
        fds[n++] = mover;
    if (board_fd(d) >= 0)
        fds[n++] = board_fd(d);
    size_t fds_bytes = (size_t)n * sizeof fds[0];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {0};
    struct iovec iov = {&w, sizeof w};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(fds_bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds_bytes);
    memcpy(CMSG_DATA(c), fds, fds_bytes);
    if (sendmsg(r->socket, &mh, MSG_NOSIGNAL) < 0)
        log_debug("rank %u: cannot welcome: %s", r->number, strerror(errno));
    if (mover >= 0)
        close(mover);
    close(r->region_fd); /* both ends have it mapped or in hand: one descriptor less a rank */
    r->region_fd = -1;
}

static void refuse(int fd)
{
    struct msg_header h = {MSG_REFUSED, sizeof h};
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) < 0)
        log_debug("cannot refuse a connection: %s", strerror(errno));
    close(fd);
}

static bool same_user(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == geteuid();
}

/* The bytes of the key are compared in constant time: the socket's name is guessable, the key is not. */
static bool same_key(const char *a, const char *b)
{
    unsigned diff = 0;
    for (int i = 0; i < MSG_KEY_LEN; i++)
        diff |= (unsigned)(a[i] ^ b[i]);
    return !diff;
}

static void take_hello(struct daemon *d, int fd)
{
    struct msg_hello m;
    if (!same_user(fd) || recv(fd, &m, sizeof m, MSG_DONTWAIT) != (ssize_t)sizeof m ||
        m.h.type != MSG_HELLO || !same_key(m.key, d->key)) {
        close(fd);
        return;
    }
    struct rank *r = m.rank < d->conf->world && d->ranks ? d->ranks[m.rank] : NULL;
    if (m.version != MSG_VERSION || !r || r->hello || r->state == RANK_ENDED) {
        refuse(fd);
        return;
    }
    if (rank_region_make(r)) {
        daemon_fail(d, PRISM_EXIT_SYSTEM, "rank %u: cannot make its %zu bytes of shared memory: %s", r->number,
                    r->region_size, strerror(errno));
        refuse(fd);
        return;
    }
    r->hello = true;
    settling_started(r);
    log_debug("rank %u has become its rank", r->number);
    r->running_since_ns = clock_now_ns();
    r->socket = fd;
    r->readable = event_new(d->base, fd, EV_READ | EV_PERSIST, on_rank_readable, r);
    event_add(r->readable, NULL);
    send_welcome(r);
    tasks_became(d);
}

static void on_hello(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    if (what & EV_TIMEOUT) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&d->lock);
    take_hello(d, fd);
    pthread_mutex_unlock(&d->lock);
}

/* A rank that has connected speaks at once, but on a machine with thousands of them it may be a while before it runs again: nobody waits for it. */
static void on_connection(evutil_socket_t listener, short what, void *arg)
{
    const struct timeval patience = {20, 0};
    (void)what;
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (event_base_once(((struct daemon *)arg)->base, fd, EV_READ | EV_TIMEOUT, on_hello, arg, &patience))
            close(fd);
    }
}

static int random_hex(char *out, size_t digits)
{
    uint8_t raw[32];
    if (getrandom(raw, digits / 2, 0) != (ssize_t)(digits / 2))
        return -1;
    for (size_t i = 0; i < digits / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

int rank_listen(struct daemon *d, struct prism_error *err)
{
    char name[17];
    if (random_hex(name, 16) || random_hex(d->key, MSG_KEY_LEN))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "no random numbers: %s", strerror(errno));
    snprintf(d->socket_name, sizeof d->socket_name, "prism-%s", name);
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, d->socket_name, strlen(d->socket_name));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(d->socket_name));
    if (d->listener < 0 || bind(d->listener, (struct sockaddr *)&a, len) || listen(d->listener, 4096))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot listen for ranks: %s", strerror(errno));
    d->accepting = event_new(d->base, d->listener, EV_READ | EV_PERSIST, on_connection, d);
    event_add(d->accepting, NULL);
    return 0;
}

void rank_unlisten(struct daemon *d)
{
    if (d->accepting)
        event_free(d->accepting);
    if (d->listener >= 0)
        close(d->listener);
    d->accepting = NULL;
    d->listener = -1;
}
