#include "prismd/store.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "c10d/log.h"
#include "c10d/replay.h"
#include "c10d/server.h"
#include "common/log.h"
#include "prismd/folding/folding.h"
#include "prismd/capture/gloo.h"
#include "prismd/link/link.h"

#define PORTS    65536
#define LOOPBACK "127.0.0.1"

/* A client's connection. Its rank is what that rank's preload library reported for the local port (and node: ports of
 * different machines may be equal), which may be before or after the connection is seen here. */
struct connection {
    uint32_t node;   /* NO_NODE = its address tells nothing */
    uint32_t author; /* world rank; C10D_AUTHOR_NONE = not reported */
    struct connection *before; /* of the same port */
};

/* A report without a connection yet. */
struct report_of_port {
    uint32_t node, rank;
    struct report_of_port *next;
};

struct logged {
    struct connection *connection;
    struct c10d_mutation mutation; /* owned key and value */
};

struct store {
    struct daemon *daemon;
    struct c10d_server *server; /* coordinator only, as all below */
    char *host;
    uint16_t port;
    struct connection nobody;        /* what absent ranks of a folded capture add has no author that ran */
    struct connection **connections; /* owned; by port, newest first, kept to the end */
    struct report_of_port **reports; /* owned; by port */
    struct logged *log;              /* capture: all; later phases: those whose author is not known yet */
    size_t nlog, log_cap;
    struct c10d_log *recorded; /* later phases */
    struct c10d_replay *replay;
};

static void *copy(const void *data, size_t len)
{
    void *p = malloc(len + 1);
    if (!p)
        abort();
    memcpy(p, data ? data : "", len);
    return p;
}

static bool may_be_same(uint32_t node, uint32_t other)
{
    return node == other || node == LINK_NO_NODE || other == LINK_NO_NODE;
}

static void on_connect(void *ctx, struct c10d_peer *peer)
{
    struct store *s = ctx;
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct connection){link_node_of_address(s->daemon, peer->address), C10D_AUTHOR_NONE, s->connections[peer->port]};
    s->connections[peer->port] = c;
    peer->user = c;
    for (struct report_of_port **at = &s->reports[peer->port]; *at; at = &(*at)->next) {
        struct report_of_port *r = *at;
        if (!may_be_same(r->node, c->node))
            continue;
        c->author = r->rank;
        *at = r->next;
        free(r);
        return;
    }
}

static void keep(struct store *s, struct connection *c, const struct c10d_mutation *m)
{
    if (s->nlog == s->log_cap) {
        s->log_cap = s->log_cap ? s->log_cap * 2 : 256;
        s->log = realloc(s->log, s->log_cap * sizeof *s->log);
        if (!s->log)
            abort();
    }
    struct logged *l = &s->log[s->nlog++];
    *l = (struct logged){.connection = c, .mutation = *m};
    l->mutation.key = copy(m->key, m->key_len);
    l->mutation.value = copy(m->value, m->value_len);
}

static void logged_free(struct logged *l)
{
    free((void *)(uintptr_t)l->mutation.key);
    free((void *)(uintptr_t)l->mutation.value);
}

static void happened(struct store *s, uint32_t rank, const struct c10d_mutation *m)
{
    struct prism_error err = {0};
    if (c10d_replay_happened(s->replay, rank, m->key, m->key_len, &err))
        log_warn("store: %s", err.text);
}

/* A key's virtual mutations wait for sandbox mutations of that key, counted per author: one whose author is not known
 * yet waits for the report. */
/* Of a folded capture: its rank has reported the connection before it said anything here, which may not have been read yet. */
static bool knows_author(struct store *s, const struct connection *c)
{
    if (c->author == C10D_AUTHOR_NONE)
        folding_hear(s->daemon);
    return c->author != C10D_AUTHOR_NONE;
}

static void on_mutation(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    struct store *s = ctx;
    struct connection *c = peer->user;
    if (m->kind == C10D_SET && knows_author(s, c))
        folding_store_set(s->daemon, c->author, m->key, m->key_len);
    if (s->replay && c->author != C10D_AUTHOR_NONE)
        happened(s, c->author, m);
    else
        keep(s, c, m);
}

/* Folded capture: what the ranks that this one stands for add, in front of its own. */
static uint32_t on_add(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    struct store *s = ctx;
    const struct connection *c = peer->user;
    knows_author(s, c);
    uint32_t others = folding_store_others(s->daemon, c->author, m);
    for (uint32_t i = 0; i < others; i++)
        keep(s, &s->nobody, m);
    return others;
}

static void on_warning(void *ctx, const char *text)
{
    (void)ctx;
    log_warn("store: %s", text);
}

/* The connection has an author now: what waited for that goes on. */
static void replay_kept(struct store *s, const struct connection *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->nlog; i++) {
        struct logged *l = &s->log[i];
        if (l->connection != c) {
            s->log[kept++] = *l;
            continue;
        }
        happened(s, c->author, &l->mutation);
        logged_free(l);
    }
    s->nlog = kept;
}

/* The report is of the newest connection of that port that has none, or of one to come. A port that a rank reported
 * without connecting (refused, or another service of that port) is reported anew by the next. */
static void take_report(struct store *s, uint32_t port, uint32_t node, uint32_t rank)
{
    for (struct connection *c = s->connections[port]; c; c = c->before)
        if (c->author == C10D_AUTHOR_NONE && may_be_same(c->node, node)) {
            c->author = rank;
            if (s->replay)
                replay_kept(s, c);
            return;
        }
    struct report_of_port *r = s->reports[port];
    while (r && r->node != node)
        r = r->next;
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r)
            abort();
        r->next = s->reports[port];
        s->reports[port] = r;
    }
    r->node = node;
    r->rank = rank;
}

void store_rank_connected(struct store *s, uint32_t port, uint32_t rank)
{
    if (!s || port >= PORTS)
        return;
    if (s->server) {
        take_report(s, port, s->daemon->conf->node, rank);
        return;
    }
    struct bytes b = {0};
    bytes_put_u32(&b, port);
    bytes_put_u32(&b, rank);
    link_send(s->daemon, 0, LINK_PORT, &b);
    bytes_free(&b);
}

static void on_port(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    uint32_t port = bytes_get_u32(b), rank = bytes_get_u32(b);
    if (!b->bad && port < PORTS && rank < d->conf->world && d->store && d->store->server)
        take_report(d->store, port, from, rank);
}

/* Not every machine knows its own name. */
static bool resolves(const char *host)
{
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    bool known = !getaddrinfo(host, NULL, &hints, &found);
    if (found)
        freeaddrinfo(found);
    return known;
}

struct store *store_create(struct daemon *d, struct prism_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s || !(s->connections = calloc(PORTS, sizeof(struct connection *))) ||
        !(s->reports = calloc(PORTS, sizeof(struct report_of_port *))))
        abort();
    s->daemon = d;
    s->nobody.author = C10D_AUTHOR_NONE;
    struct c10d_hooks hooks = {
        .ctx = s, .on_connect = on_connect, .on_mutation = on_mutation, .on_add = on_add, .on_warning = on_warning};
    /* Alone, only this machine's ranks connect: keep the store off the network. */
    s->server = c10d_server_create(d->base, d->conf->nodes > 1 ? NULL : "127.0.0.1", 0, &hooks, err);
    if (!s->server) {
        store_destroy(s);
        return NULL;
    }
    char host[256] = LOOPBACK;
    if (d->conf->nodes > 1 && (gethostname(host, sizeof host - 1) || !resolves(host)))
        strcpy(host, LOOPBACK);
    s->host = strdup(host);
    s->port = c10d_server_port(s->server);
    link_on(LINK_PORT, on_port);
    return s;
}

struct store *store_remote(struct daemon *d, const char *host, uint16_t port)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->daemon = d;
    /* A name that means nothing here, or means this machine, stands for the address at which the coordinator was reached. */
    s->host = strdup(strcmp(host, LOOPBACK) && resolves(host) ? host : link_address(d, 0));
    s->port = port;
    return s;
}

static void free_ports(struct store *s)
{
    for (size_t i = 0; s->connections && i < PORTS; i++) {
        for (struct connection *c = s->connections[i], *before; c; c = before) {
            before = c->before;
            free(c);
        }
        for (struct report_of_port *r = s->reports[i], *next; r; r = next) {
            next = r->next;
            free(r);
        }
    }
    free(s->connections);
    free(s->reports);
}

void store_destroy(struct store *s)
{
    if (!s)
        return;
    c10d_replay_destroy(s->replay);
    c10d_log_destroy(s->recorded);
    c10d_server_destroy(s->server);
    for (size_t i = 0; i < s->nlog; i++)
        logged_free(&s->log[i]);
    free(s->log);
    free_ports(s);
    free(s->host);
    free(s);
}

const char *store_host(const struct store *s)
{
    return s->host;
}

uint16_t store_port(const struct store *s)
{
    return s->port;
}

struct sought {
    uint32_t rank;
    bool found;
    char *key;
    size_t size;
};

static void look_at_waiting(void *ctx, const struct c10d_peer *peer, const void *key, size_t len)
{
    struct sought *w = ctx;
    const struct connection *c = peer->user;
    if (!c || c->author != w->rank || w->found)
        return;
    w->found = true;
    if (w->size)
        snprintf(w->key, w->size, "%.*s", (int)len, (const char *)key);
}

bool store_has_waiting(const struct store *s, uint32_t rank, char *key, size_t size)
{
    struct sought w = {.rank = rank, .key = key, .size = size};
    if (s && s->server)
        c10d_server_each_waiting(s->server, look_at_waiting, &w);
    return w.found;
}

void store_log_encode(struct store *s, struct bytes *out)
{
    struct c10d_log *log = c10d_log_create();
    /* What absent ranks of a folded capture add waits for nobody: in front, or it would wait for the order in which live ones came. */
    for (size_t i = 0; i < 2 * s->nlog; i++) {
        struct prism_error err = {0};
        if ((i < s->nlog) == (s->log[i % s->nlog].connection != &s->nobody))
            continue;
        if (c10d_log_append(log, s->log[i % s->nlog].connection->author, &s->log[i % s->nlog].mutation, &err))
            log_warn("store log: %s", err.text);
    }
    c10d_log_encode(log, out);
    c10d_log_destroy(log);
}

int store_replay(struct store *s, const void *log, size_t len, const uint32_t *live, uint32_t nlive,
                 struct prism_error *err)
{
    s->recorded = c10d_log_decode(log, len, err);
    if (!s->recorded || gloo_check(s->recorded, live, nlive, err))
        return -1;
    s->replay = c10d_replay_create(s->recorded, live, nlive, c10d_replay_apply_to_server, s->server);
    return c10d_replay_start(s->replay, err);
}
