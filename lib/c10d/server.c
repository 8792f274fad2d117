/* server.c - sockets of the store: listening, connections, flow control. */
#include "c10d/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "c10d/server_private.h"

#define OUTPUT_MAX      (64u << 20) /* replies a client may leave unread before it is no longer read from */
#define READ_AT_ONCE    (256u << 10)
#define ACCEPT_PAUSE_MS 100

static void connection_close(struct connection *c)
{
    struct c10d_server *server = c->server;
    if (server->hooks.on_disconnect)
        server->hooks.on_disconnect(server->hooks.ctx, &c->peer);
    c10d_store_leave(server->store, &c->waiter);
    DL_DELETE(server->connections, c);
    server->connection_count--;
    bufferevent_free(c->stream);
    free(c);
}

static void warn(struct c10d_server *server, const char *text)
{
    if (server->hooks.on_warning)
        server->hooks.on_warning(server->hooks.ctx, text);
}

static void connection_refuse(struct connection *c, const char *why)
{
    char text[256];
    snprintf(text, sizeof text, "store: client %s port %u sent a bad request (%s); its connection is closed",
             c->peer.address, c->peer.port, why);
    warn(c->server, text);
    connection_close(c);
}

static bool output_full(const struct connection *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->stream)) > OUTPUT_MAX;
}

/* Serve what is whole in data. Returns the bytes used, -1 when the connection must be closed. */
static int64_t serve(struct connection *c, const uint8_t *data, size_t len, const char **why)
{
    size_t used = 0;
    if (c->dialect == C10D_DIALECT_UNKNOWN)
        c->dialect = c10d_wire_detect(data, len);
    if (c->dialect == C10D_DIALECT_UNKNOWN) {
        c->need = 5;
        return 0;
    }
    while (used < len && !output_full(c)) {
        struct c10d_request request;
        int64_t n = c10d_wire_decode(c->dialect, data + used, len - used, &request, &c->need, why);
        if (n < 0)
            return -1;
        if (n == 0)
            return (int64_t)used;
        c->need = 1;
        if (c10d_dispatch(c, &request, why))
            return -1;
        used += (size_t)n;
    }
    return (int64_t)used;
}

static void on_readable(struct bufferevent *stream, void *ctx)
{
    struct connection *c = ctx;
    struct evbuffer *in = bufferevent_get_input(stream);
    size_t len = evbuffer_get_length(in);
    const char *why = "?";
    if (len < c->need || len == 0)
        return;
    int64_t used = serve(c, evbuffer_pullup(in, -1), len, &why);
    if (used < 0) {
        connection_refuse(c, why);
        return;
    }
    evbuffer_drain(in, (size_t)used);
    if (output_full(c)) {
        c->paused = true;
        bufferevent_disable(stream, EV_READ);
    }
}

static void on_drained(struct bufferevent *stream, void *ctx)
{
    struct connection *c = ctx;
    if (!c->paused)
        return;
    c->paused = false;
    bufferevent_enable(stream, EV_READ);
    on_readable(stream, c); /* what had arrived already raises no event */
}

static void on_event(struct bufferevent *stream, short what, void *ctx)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        connection_close(ctx);
}

static void peer_init(struct c10d_peer *peer, const struct sockaddr *address, uint64_t id)
{
    peer->id = id;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, peer->address, sizeof peer->address);
        peer->port = ntohs(in->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        const void *from = mapped ? (const void *)&in6->sin6_addr.s6_addr[12] : &in6->sin6_addr;
        inet_ntop(mapped ? AF_INET : AF_INET6, from, peer->address, sizeof peer->address);
        peer->port = ntohs(in6->sin6_port);
    }
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int len,
                      void *ctx)
{
    struct c10d_server *server = ctx;
    int on = 1;
    struct connection *c = calloc(1, sizeof *c);
    struct bufferevent *stream = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c || !stream) {
        free(c);
        if (stream)
            bufferevent_free(stream);
        else
            close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->server = server;
    c->stream = stream;
    c->need = 1;
    peer_init(&c->peer, address, ++server->last_id);
    DL_APPEND(server->connections, c);
    server->connection_count++;
    bufferevent_set_max_single_read(stream, READ_AT_ONCE);
    bufferevent_setcb(stream, on_readable, on_drained, on_event, c);
    if (server->hooks.on_connect)
        server->hooks.on_connect(server->hooks.ctx, &c->peer);
    bufferevent_enable(stream, EV_READ | EV_WRITE);
}

/* Out of file descriptors: the pending connection stays in the kernel's queue and would wake us without end. */
static void on_accept_error(struct evconnlistener *listener, void *ctx)
{
    struct c10d_server *server = ctx;
    struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    char text[128];
    snprintf(text, sizeof text, "store: cannot accept a client: %s; raise the limit of open files",
             strerror(errno));
    warn(server, text);
    evconnlistener_disable(listener);
    event_add(server->accept_again, &pause);
}

static void on_accept_again(evutil_socket_t fd, short what, void *ctx)
{
    struct c10d_server *server = ctx;
    evconnlistener_enable(server->listener);
}

static int listen_socket(const struct addrinfo *ai)
{
    int on = 1, off = 0;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, SOMAXCONN)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* Without an address: IPv6's any, which takes IPv4 as well, where the machine has IPv6. */
static int open_listener(const char *address, uint16_t port, struct prism_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list, *ai;
    char service[8];
    int fd = -1;
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(address, service, &hints, &list);
    if (rc)
        return prism_error_set(err, PRISM_EXIT_SYSTEM,
                               "store: cannot resolve the address '%s' to listen on: %s",
                               address ? address : "any", gai_strerror(rc));
    for (int pass = 0; pass < 2 && fd < 0; pass++)
        for (ai = list; ai && fd < 0; ai = ai->ai_next)
            if ((ai->ai_family == AF_INET6) == (pass == 0))
                fd = listen_socket(ai);
    if (fd < 0)
        prism_error_set(err, PRISM_EXIT_SYSTEM, "store: cannot listen on %s port %u: %s",
                        address ? address : "any", port, strerror(errno));
    freeaddrinfo(list);
    return fd;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &len))
        return 0;
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

struct c10d_server *c10d_server_create(struct event_base *base, const char *address, uint16_t port,
                                       const struct c10d_hooks *hooks, struct prism_error *err)
{
    int fd = open_listener(address, port, err);
    if (fd < 0)
        return NULL;
    struct c10d_server *server = calloc(1, sizeof *server);
    if (!server)
        abort();
    server->base = base;
    server->hooks = hooks ? *hooks : (struct c10d_hooks){0};
    server->store = c10d_store_create(c10d_dispatch_events());
    server->port = bound_port(fd);
    server->accept_again = evtimer_new(base, on_accept_again, server);
    server->listener =
        evconnlistener_new(base, on_accept, server, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!server->listener || !server->accept_again) {
        if (!server->listener)
            close(fd);
        c10d_server_destroy(server);
        prism_error_set(err, PRISM_EXIT_SYSTEM, "store: libevent has no room for a listener");
        return NULL;
    }
    evconnlistener_set_error_cb(server->listener, on_accept_error);
    return server;
}

void c10d_server_destroy(struct c10d_server *server)
{
    if (!server)
        return;
    while (server->connections)
        connection_close(server->connections);
    if (server->listener)
        evconnlistener_free(server->listener);
    if (server->accept_again)
        event_free(server->accept_again);
    c10d_store_destroy(server->store);
    bytes_free(&server->popped);
    free(server);
}

uint16_t c10d_server_port(const struct c10d_server *server)
{
    return server->port;
}

size_t c10d_server_connections(const struct c10d_server *server)
{
    return server->connection_count;
}
