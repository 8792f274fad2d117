#include "prismd/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10d/log.h"
#include "c10d/replay.h"
#include "c10d/server.h"
#include "common/log.h"
#include "prismd/link.h"

#define PORTS 65536

/* A mutation whose author is not known yet: the rank's report may come after its first mutation. */
struct logged {
    uint16_t port;
    struct c10d_mutation mutation; /* owned key and value */
};

struct store {
    struct daemon *daemon;
    struct c10d_server *server; /* coordinator only */
    char *host;
    uint16_t port;
    uint32_t *author_of_port; /* world rank + 1; 0 = unknown */
    struct logged *log;
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

static void keep(struct store *s, uint16_t port, const struct c10d_mutation *m)
{
    if (s->nlog == s->log_cap) {
        s->log_cap = s->log_cap ? s->log_cap * 2 : 256;
        s->log = realloc(s->log, s->log_cap * sizeof *s->log);
        if (!s->log)
            abort();
    }
    struct logged *l = &s->log[s->nlog++];
    *l = (struct logged){.port = port, .mutation = *m};
    l->mutation.key = copy(m->key, m->key_len);
    l->mutation.value = copy(m->value, m->value_len);
}

static uint32_t author(const struct store *s, uint16_t port)
{
    uint32_t known = s->author_of_port[port];
    return known ? known - 1 : C10D_AUTHOR_NONE;
}

/* A key's virtual mutations wait for sandbox mutations of that key, whoever made them: replay counts per author, so an
 * author not reported yet is taken to be the only live rank there is, or waits for the report. */
static void on_mutation(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    struct store *s = ctx;
    if (!s->replay) {
        keep(s, peer->port, m);
        return;
    }
    struct prism_error err = {0};
    uint32_t who = author(s, peer->port);
    if (who == C10D_AUTHOR_NONE) {
        keep(s, peer->port, m);
        return;
    }
    if (c10d_replay_happened(s->replay, who, m->key, m->key_len, &err))
        log_warn("store: %s", err.text);
}

static void on_warning(void *ctx, const char *text)
{
    (void)ctx;
    log_warn("store: %s", text);
}

void store_rank_connected(struct store *s, uint32_t port, uint32_t rank)
{
    if (!s || port >= PORTS)
        return;
    if (!s->server) {
        struct bytes b = {0};
        bytes_put_u32(&b, port);
        bytes_put_u32(&b, rank);
        link_send(s->daemon, 0, LINK_PORT, &b);
        bytes_free(&b);
        return;
    }
    s->author_of_port[port] = rank + 1;
    if (!s->replay)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < s->nlog; i++) {
        struct logged *l = &s->log[i];
        if (l->port != port) {
            s->log[kept++] = *l;
            continue;
        }
        struct prism_error err = {0};
        if (c10d_replay_happened(s->replay, rank, l->mutation.key, l->mutation.key_len, &err))
            log_warn("store: %s", err.text);
        free((void *)(uintptr_t)l->mutation.key);
        free((void *)(uintptr_t)l->mutation.value);
    }
    s->nlog = kept;
}

static void on_port(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t port = bytes_get_u32(b), rank = bytes_get_u32(b);
    if (!b->bad)
        store_rank_connected(d->store, port, rank);
}

struct store *store_create(struct daemon *d, struct prism_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s || !(s->author_of_port = calloc(PORTS, sizeof *s->author_of_port)))
        abort();
    s->daemon = d;
    struct c10d_hooks hooks = {.ctx = s, .on_mutation = on_mutation, .on_warning = on_warning};
    /* Alone, only this machine's ranks connect: keep the store off the network. */
    s->server = c10d_server_create(d->base, d->conf->nodes > 1 ? NULL : "127.0.0.1", 0, &hooks, err);
    if (!s->server) {
        store_destroy(s);
        return NULL;
    }
    char host[256] = "127.0.0.1";
    if (d->conf->nodes > 1 && gethostname(host, sizeof host - 1))
        strcpy(host, "127.0.0.1");
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
    s->host = strdup(host);
    s->port = port;
    return s;
}

void store_destroy(struct store *s)
{
    if (!s)
        return;
    c10d_replay_destroy(s->replay);
    c10d_log_destroy(s->recorded);
    c10d_server_destroy(s->server);
    for (size_t i = 0; i < s->nlog; i++) {
        free((void *)(uintptr_t)s->log[i].mutation.key);
        free((void *)(uintptr_t)s->log[i].mutation.value);
    }
    free(s->log);
    free(s->author_of_port);
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

void store_log_encode(struct store *s, struct bytes *out)
{
    struct c10d_log *log = c10d_log_create();
    for (size_t i = 0; i < s->nlog; i++) {
        struct prism_error err = {0};
        if (c10d_log_append(log, author(s, s->log[i].port), &s->log[i].mutation, &err))
            log_warn("store log: %s", err.text);
    }
    c10d_log_encode(log, out);
    c10d_log_destroy(log);
}

int store_replay(struct store *s, const void *log, size_t len, const uint32_t *live, uint32_t nlive,
                 struct prism_error *err)
{
    s->recorded = c10d_log_decode(log, len, err);
    if (!s->recorded)
        return -1;
    s->replay = c10d_replay_create(s->recorded, live, nlive, c10d_replay_apply_to_server, s->server);
    return c10d_replay_start(s->replay, err);
}
