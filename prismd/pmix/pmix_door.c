#include "prismd/pmix/pmix_door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#define FIRST_BYTES 16384 /* the name stands in the first few hundred */
#define SECONDS     10    /* for a connection to say it */

struct guest {
    struct pmix_door *door;
    struct bufferevent *connection;
    struct guest *next, **link;
};

struct pmix_door {
    struct daemon *daemon;
    char *name; /* owned */
    pmix_door_handler handler;
    struct evconnlistener *listener;
    uint16_t port;
    struct guest *guests; /* have not said who they are */
};

int64_t pmix_door_rank(const void *data, size_t len, const char *name)
{
    uint32_t rank;
    const char *at = memmem(data, len, name, strlen(name) + 1);
    if (!at || (size_t)(at - (const char *)data) + strlen(name) + 1 + sizeof rank > len)
        return -1;
    memcpy(&rank, at + strlen(name) + 1, sizeof rank);
    return ntohl(rank);
}

static struct bufferevent *dismiss(struct guest *g)
{
    struct bufferevent *connection = g->connection;
    *g->link = g->next;
    if (g->next)
        g->next->link = g->link;
    free(g);
    return connection;
}

static void on_bytes(struct bufferevent *connection, void *arg)
{
    struct guest *g = arg;
    struct pmix_door *door = g->door;
    struct evbuffer *in = bufferevent_get_input(connection);
    size_t len = evbuffer_get_length(in);
    int64_t rank = pmix_door_rank(evbuffer_pullup(in, -1), len, door->name);
    if (rank < 0 && len < FIRST_BYTES)
        return;
    dismiss(g);
    if (rank < 0) {
        bufferevent_free(connection);
        return;
    }
    bufferevent_set_timeouts(connection, NULL, NULL);
    door->handler(door->daemon, (uint32_t)rank, connection);
}

static void on_end(struct bufferevent *connection, short what, void *arg)
{
    (void)connection;
    (void)what;
    bufferevent_free(dismiss(arg));
}

static void on_guest(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int len, void *arg)
{
    struct pmix_door *door = arg;
    struct guest *g = calloc(1, sizeof *g);
    struct timeval patience = {SECONDS, 0};
    (void)listener;
    (void)from;
    (void)len;
    if (!g)
        abort();
    *g = (struct guest){.door = door, .next = door->guests, .link = &door->guests};
    if (door->guests)
        door->guests->link = &g->next;
    door->guests = g;
    g->connection = bufferevent_socket_new(door->daemon->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!g->connection)
        abort();
    bufferevent_setcb(g->connection, on_bytes, NULL, on_end, g);
    bufferevent_set_timeouts(g->connection, &patience, NULL);
    bufferevent_enable(g->connection, EV_READ | EV_WRITE);
}

struct pmix_door *pmix_door_create(struct daemon *d, const char *name, pmix_door_handler handler, struct prism_error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof a;
    struct pmix_door *door = calloc(1, sizeof *door);
    if (!door)
        abort();
    *door = (struct pmix_door){.daemon = d, .handler = handler, .name = strdup(name)};
    door->listener = evconnlistener_new_bind(d->base, on_guest, door, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 1024,
                                             (struct sockaddr *)&a, sizeof a);
    if (!door->listener || getsockname(evconnlistener_get_fd(door->listener), (struct sockaddr *)&a, &len)) {
        prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot listen on 127.0.0.1 for PMIx: %s (PRISM_PMIX=0 does without)",
                        strerror(errno));
        pmix_door_destroy(door);
        return NULL;
    }
    door->port = ntohs(a.sin_port);
    return door;
}

void pmix_door_destroy(struct pmix_door *door)
{
    if (!door)
        return;
    if (door->listener)
        evconnlistener_free(door->listener);
    while (door->guests)
        bufferevent_free(dismiss(door->guests));
    free(door->name);
    free(door);
}

uint16_t pmix_door_port(const struct pmix_door *door)
{
    return door->port;
}
