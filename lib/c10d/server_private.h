/* server_private.h - what server.c (sockets) and dispatch.c (requests) share. */
#ifndef PRISM_C10D_SERVER_PRIVATE_H
#define PRISM_C10D_SERVER_PRIVATE_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "c10d/server.h"
#include "c10d/store.h"
#include "c10d/wire.h"

struct c10d_server {
    struct event_base *base; /* borrowed */
    struct c10d_hooks hooks;
    struct c10d_store *store;
    struct evconnlistener *listener;
    struct event *accept_again; /* timer: a failed accept (out of descriptors) pauses accepting */
    struct connection *connections;
    size_t connection_count;
    uint64_t last_id;
    uint16_t port;
    struct bytes popped; /* scratch of QUEUE_POP */
};

struct connection {
    struct connection *prev, *next;
    struct c10d_server *server;
    struct bufferevent *stream;
    enum c10d_dialect dialect;
    size_t need; /* bytes to have before the next request can be whole */
    bool paused; /* not read from until its replies are gone */
    struct c10d_waiter waiter;
    struct c10d_peer peer;
};

/* Serve one decoded request. -1 when the connection must be closed, *why then says what for. */
int c10d_dispatch(struct connection *connection, const struct c10d_request *request, const char **why);
/* The store's events, whose waiters are connections. */
struct c10d_store_events c10d_dispatch_events(void);

#endif
