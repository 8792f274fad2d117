#include "prismd/link/link.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/link/link_setup.h"

#define MESSAGE_MAX (1ull << 41) /* more than one operation's data can be (ranks/region.h) */
#define HEADER      12 /* u32 type, u64 length */

struct peer {
    struct link *link;
    uint32_t node;
    char name[LINK_NAME_MAX];
    char address[46]; /* numeric */
    struct bufferevent *channel;
    bool lost;
    bool failed; /* it has told us of a failure, or that it told the user */
};

struct link {
    struct daemon *daemon;
    uint32_t nodes;
    struct peer *peers; /* by node */
    int64_t clock_offset_ns, clock_error_ns;
    bool closing, told;
    uint32_t lost;
};

static link_handler handlers[LINK_TYPES];

void link_on(enum link_type type, link_handler handler)
{
    handlers[type] = handler;
}

static void handle(struct daemon *d, uint32_t from, uint32_t type, const void *body, size_t len)
{
    struct bytes_reader reader = bytes_reader_init(body, len);
    if (!link_allowed(type, d->conf->node, from)) {
        daemon_fail(d, PRISM_EXIT_DAEMON, "node %u: malformed message on its link (type %u)", from, type);
        return;
    }
    if ((type == LINK_FAIL || type == LINK_SPOKEN) && d->link)
        d->link->peers[from].failed = true;
    if (handlers[type])
        handlers[type](d, from, &reader);
}

static void lost(struct peer *p)
{
    struct daemon *d = p->link->daemon;
    p->link->lost++;
    p->lost = true;
    bufferevent_disable(p->channel, EV_READ | EV_WRITE);
    /* Between two followers outside a phase a lost link is no news: at the end of the run they leave in any order. The
     * coordinator knows. */
    if (p->link->closing || (d->conf->node && p->node && !d->ops))
        return;
    daemon_fail(d, PRISM_EXIT_DAEMON,
                "node %u (%s): its prismd has ended or cannot be reached; was it killed there (memory limit, administrator)?",
                p->node, p->name);
    /* Not when the phase has ended: Slurm ends the step soon after its first task, and what is said then is lost. */
    if (!p->node && d->ops && link_speaks(d))
        link_tell(d);
    /* A failure that came before does not wake the loop again, and nobody will say done or quit. */
    if (!d->ops && (!p->node || !d->conf->node))
        event_base_loopbreak(d->base);
}

static void on_readable(struct bufferevent *channel, void *arg)
{
    struct peer *p = arg;
    struct evbuffer *in = bufferevent_get_input(channel);
    uint8_t header[HEADER];
    while (evbuffer_get_length(in) >= HEADER) {
        evbuffer_copyout(in, header, HEADER);
        struct bytes_reader r = bytes_reader_init(header, HEADER);
        uint32_t type = bytes_get_u32(&r);
        uint64_t len = bytes_get_u64(&r);
        if (len > MESSAGE_MAX) {
            pthread_mutex_lock(&p->link->daemon->lock);
            daemon_fail(p->link->daemon, PRISM_EXIT_DAEMON, "node %u: malformed message on its link", p->node);
            pthread_mutex_unlock(&p->link->daemon->lock);
            bufferevent_disable(channel, EV_READ);
            return;
        }
        if (evbuffer_get_length(in) < HEADER + len)
            return;
        evbuffer_drain(in, HEADER);
        void *body = evbuffer_pullup(in, (ev_ssize_t)len);
        pthread_mutex_lock(&p->link->daemon->lock);
        handle(p->link->daemon, p->node, type, body, len);
        pthread_mutex_unlock(&p->link->daemon->lock);
        evbuffer_drain(in, len);
    }
}

static void on_event(struct bufferevent *channel, short what, void *arg)
{
    struct peer *p = arg;
    (void)channel;
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    pthread_mutex_lock(&p->link->daemon->lock);
    lost(p);
    pthread_mutex_unlock(&p->link->daemon->lock);
}

static void read_address(int fd, char *address)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&a, &len) ||
        getnameinfo((struct sockaddr *)&a, len, address, 46, NULL, 0, NI_NUMERICHOST))
        *address = 0;
}

/* Signals are handled by the event loop, which does not run yet. */
static bool setup_interrupted(void *ctx)
{
    struct daemon *d = ctx;
    event_base_loop(d->base, EVLOOP_NONBLOCK);
    return d->failure.code != 0;
}

int link_create(struct daemon *d, struct link **out, struct prism_error *err)
{
    *out = NULL;
    if (d->conf->nodes < 2)
        return 0;
    struct link_peers peers;
    if (link_setup(d->conf, setup_interrupted, d, &peers, err))
        return -1;
    struct link *l = calloc(1, sizeof *l);
    if (!l || !(l->peers = calloc(d->conf->nodes, sizeof *l->peers)))
        abort();
    l->daemon = d;
    l->nodes = d->conf->nodes;
    l->clock_offset_ns = peers.clock_offset_ns;
    l->clock_error_ns = peers.clock_error_ns;
    for (uint32_t i = 0; i < l->nodes; i++) {
        struct peer *p = &l->peers[i];
        *p = (struct peer){.link = l, .node = i};
        memcpy(p->name, peers.names[i], LINK_NAME_MAX);
        read_address(peers.sockets[i], p->address);
        if (peers.sockets[i] < 0)
            continue;
        evutil_make_socket_nonblocking(peers.sockets[i]);
        p->channel = bufferevent_socket_new(d->base, peers.sockets[i],
                                            BEV_OPT_CLOSE_ON_FREE | BEV_OPT_THREADSAFE | BEV_OPT_DEFER_CALLBACKS |
                                                BEV_OPT_UNLOCK_CALLBACKS);
        bufferevent_setcb(p->channel, on_readable, NULL, on_event, p);
        bufferevent_enable(p->channel, EV_READ | EV_WRITE);
    }
    free(peers.sockets);
    free(peers.names);
    *out = l;
    return 0;
}

void link_destroy(struct link *l)
{
    if (!l)
        return;
    l->closing = true;
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->peers[i].channel)
            bufferevent_free(l->peers[i].channel);
    free(l->peers);
    free(l);
}

/* At once where nothing else waits to leave, and the event loop need not come round first: it may be at something that takes seconds. What is
 * left over, or refused, is the loop's. Returns what has left. The channel is locked. */
static size_t send_now(struct bufferevent *channel, const struct bytes *header, const struct bytes *body)
{
    struct iovec parts[] = {{header->data, header->len}, {body->data, body->len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = body->len ? 2 : 1};
    if (evbuffer_get_length(bufferevent_get_output(channel)))
        return 0;
    ssize_t n = sendmsg(bufferevent_getfd(channel), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n > 0 ? (size_t)n : 0;
}

static void put(struct link *l, uint32_t node, enum link_type type, const struct bytes *body)
{
    struct bytes header = {0};
    bytes_put_u32(&header, type);
    bytes_put_u64(&header, body->len);
    struct bufferevent *channel = l->peers[node].channel;
    bufferevent_lock(channel);
    size_t n = send_now(channel, &header, body);
    if (n < header.len)
        bufferevent_write(channel, header.data + n, header.len - n);
    size_t of_body = n > header.len ? n - header.len : 0;
    if (of_body < body->len)
        bufferevent_write(channel, body->data + of_body, body->len - of_body);
    bufferevent_unlock(channel);
    bytes_free(&header);
}

void link_send(struct daemon *d, uint32_t node, enum link_type type, const struct bytes *body)
{
    if (node == d->conf->node)
        handle(d, node, type, body->data, body->len);
    else if (d->link)
        put(d->link, node, type, body);
}

void link_broadcast(struct daemon *d, enum link_type type, const struct bytes *body)
{
    for (uint32_t i = 0; d->link && i < d->link->nodes; i++)
        if (i != d->conf->node)
            put(d->link, i, type, body);
}

void link_announce(struct daemon *d, enum link_type type, const struct bytes *body)
{
    link_broadcast(d, type, body);
    handle(d, d->conf->node, type, body->data, body->len);
}

static size_t unsent(const struct link *l)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->peers[i].channel && (bufferevent_get_enabled(l->peers[i].channel) & EV_WRITE))
            n += evbuffer_get_length(bufferevent_get_output(l->peers[i].channel));
    return n;
}

void link_flush(struct daemon *d, int timeout_ms)
{
    if (!d->link)
        return;
    d->link->closing = true;
    int64_t deadline = clock_now_ns() + timeout_ms * 1000000LL;
    while (unsent(d->link) && clock_now_ns() < deadline) {
        struct timeval step = {0, 10000};
        event_base_loopexit(d->base, &step);
        event_base_dispatch(d->base);
    }
}

uint32_t link_lost(const struct daemon *d)
{
    return d->link ? d->link->lost : 0;
}

bool link_coordinator_lost(const struct daemon *d)
{
    return d->link && d->conf->node && d->link->peers[0].lost;
}

bool link_speaks(const struct daemon *d)
{
    if (!link_coordinator_lost(d))
        return !d->conf->node;
    for (uint32_t i = 1; i < d->conf->node; i++)
        if (!d->link->peers[i].lost || d->link->peers[i].failed)
            return false;
    return true;
}

void link_tell(struct daemon *d)
{
    if (!d->link->told)
        log_error("%s", d->failure.text);
    d->link->told = true;
}

uint32_t link_nodes_here(const struct daemon *d)
{
    uint32_t n = 1;
    for (uint32_t i = 0; d->link && i < d->link->nodes; i++)
        n += i != d->conf->node && (!strncmp(d->link->peers[i].address, "127.", 4) || !strcmp(d->link->peers[i].address, "::1"));
    return n;
}

const char *link_address(const struct daemon *d, uint32_t node)
{
    return d->link && node < d->link->nodes ? d->link->peers[node].address : "127.0.0.1";
}

uint32_t link_node_of_address(const struct daemon *d, const char *address)
{
    uint32_t found = LINK_NO_NODE;
    for (uint32_t i = 0; d->link && i < d->link->nodes; i++)
        if (!strcmp(d->link->peers[i].address, address)) {
            if (found != LINK_NO_NODE)
                return LINK_NO_NODE;
            found = i;
        }
    return found;
}

int64_t link_clock_offset_ns(const struct daemon *d, int64_t *error_ns)
{
    if (error_ns)
        *error_ns = d->link ? d->link->clock_error_ns : 0;
    return d->link ? d->link->clock_offset_ns : 0;
}
