#include "prismd/link_setup.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"

#define KEY_LEN   64 /* hexadecimal */
#define MAGIC     0x4c6d7350u
#define HOST_MAX_ 256
#define CREDENTIAL_MAX 4096
#define PINGS     16

/* First bytes on every connection, both ways. */
struct greeting {
    uint32_t magic, version;
    uint32_t node, nodes;
    uint32_t port; /* where the sender listens */
    uint32_t credential_len;
    char host[HOST_MAX_];
    char step[128];
    char key[KEY_LEN];
    char credential[CREDENTIAL_MAX];
};

struct setup {
    const struct conf *conf;
    struct link_peers *peers;
    int listener;
    uint16_t port;
    char key[KEY_LEN + 1];
    char (*hosts)[HOST_MAX_];
    uint32_t *ports;
    int64_t deadline_ns;
};

static int64_t left_ms(const struct setup *s)
{
    int64_t ms = (s->deadline_ns - clock_now_ns()) / 1000000;
    return ms > 0 ? ms : 0;
}

static int full_io(const struct setup *s, int fd, void *data, size_t len, bool out)
{
    char *p = data;
    while (len) {
        struct pollfd pfd = {fd, out ? POLLOUT : POLLIN, 0};
        if (poll(&pfd, 1, (int)left_ms(s)) <= 0)
            return -1;
        ssize_t n = out ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int listen_any(struct setup *s, struct prism_error *err)
{
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, sizeof a) || listen(s->listener, 128) ||
        getsockname(s->listener, (struct sockaddr *)&a, &len))
        return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: cannot listen for the other nodes: %s", s->conf->node,
                               strerror(errno));
    s->port = ntohs(a.sin_port);
    return 0;
}

static void rendezvous_path(const struct conf *c, char *path)
{
    snprintf(path, PATH_MAX, "%s/.prismd-%s", c->trace, c->step);
}

static int publish(struct setup *s, struct prism_error *err)
{
    uint8_t raw[KEY_LEN / 2];
    char path[PATH_MAX], host[HOST_MAX_] = "localhost", text[HOST_MAX_ + KEY_LEN + 32];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(s->key + 2 * i, 3, "%02x", raw[i]);
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "%s %u %s\n", host, s->port, s->key);
    rendezvous_path(s->conf, path);
    return file_write_atomic(path, text, (size_t)n, 0600, err);
}

static int read_rendezvous(struct setup *s, char *host, uint32_t *port)
{
    char path[PATH_MAX];
    struct bytes b = {0};
    rendezvous_path(s->conf, path);
    int rc = -1;
    if (!file_read(path, 4096, &b, NULL)) {
        bytes_put_u8(&b, 0);
        rc = sscanf((char *)b.data, "%255s %u %64s", host, port, s->key) == 3 ? 0 : -1;
    }
    bytes_free(&b);
    return rc;
}

static int connect_to(const char *host, uint32_t port)
{
    char own[HOST_MAX_] = "", service[16];
    gethostname(own, sizeof own - 1);
    snprintf(service, sizeof service, "%u", port);
    /* On one machine (several slurmds of a test cluster) the name need not resolve. */
    const char *target = !strcmp(own, host) ? "127.0.0.1" : host;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list = NULL;
    if (getaddrinfo(target, service, &hints, &list))
        return -1;
    int fd = -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static void fill_greeting(const struct setup *s, struct greeting *g)
{
    memset(g, 0, sizeof *g);
    g->magic = MAGIC;
    g->version = MSG_VERSION;
    g->node = s->conf->node;
    g->nodes = s->conf->nodes;
    g->port = s->port;
    gethostname(g->host, sizeof g->host - 1);
    snprintf(g->step, sizeof g->step, "%s", s->conf->step);
    memcpy(g->key, s->key, KEY_LEN);
    char *credential = link_credential_make(s->key);
    if (credential && strlen(credential) < CREDENTIAL_MAX) {
        g->credential_len = (uint32_t)strlen(credential);
        memcpy(g->credential, credential, g->credential_len);
    }
    free(credential);
}

static int check_greeting(const struct setup *s, struct greeting *g)
{
    unsigned diff = 0;
    for (int i = 0; i < KEY_LEN; i++)
        diff |= (unsigned)(g->key[i] ^ s->key[i]);
    g->step[sizeof g->step - 1] = g->host[sizeof g->host - 1] = 0;
    g->credential[CREDENTIAL_MAX - 1] = 0;
    if (diff || g->magic != MAGIC || g->version != MSG_VERSION || g->nodes != s->conf->nodes || g->node >= g->nodes ||
        strcmp(g->step, s->conf->step))
        return -1;
    return g->credential_len ? link_credential_check(g->credential, s->key) : 0;
}

/* Exchange greetings; returns the peer's node, or -1 (the connection is closed). */
static int greet(struct setup *s, int fd)
{
    struct greeting mine, theirs;
    fill_greeting(s, &mine);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (full_io(s, fd, &mine, sizeof mine, true) || full_io(s, fd, &theirs, sizeof theirs, false) ||
        check_greeting(s, &theirs) || s->peers->sockets[theirs.node] >= 0 || theirs.node == s->conf->node) {
        close(fd);
        return -1;
    }
    s->peers->sockets[theirs.node] = fd;
    memcpy(s->hosts[theirs.node], theirs.host, HOST_MAX_);
    s->ports[theirs.node] = theirs.port;
    return (int)theirs.node;
}

static int accept_peers(struct setup *s, uint32_t count, struct prism_error *err)
{
    while (count) {
        struct pollfd p = {s->listener, POLLIN, 0};
        if (poll(&p, 1, (int)left_ms(s)) <= 0)
            return prism_error_set(err, PRISM_EXIT_DAEMON,
                                   "node %u: %u of %u nodes did not connect within %d s; is prismd installed there, and is the trace folder "
                                   "%s on a file system that all nodes share?",
                                   s->conf->node, count, s->conf->nodes, LINK_SETUP_SECONDS, s->conf->trace);
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && greet(s, fd) >= 0)
            count--;
    }
    return 0;
}

static int connect_coordinator(struct setup *s, struct prism_error *err)
{
    char host[HOST_MAX_] = "?";
    uint32_t port = 0;
    while (left_ms(s)) {
        if (!read_rendezvous(s, host, &port)) {
            int fd = connect_to(host, port);
            if (fd >= 0 && greet(s, fd) == 0)
                return 0;
        }
        clock_sleep_until_ns(clock_now_ns() + 50000000);
    }
    return prism_error_set(err, PRISM_EXIT_DAEMON,
                           "node %u: no contact with the first node's prismd (%s) within %d s; is the trace folder %s on a file "
                           "system that all nodes share?",
                           s->conf->node, host, LINK_SETUP_SECONDS, s->conf->trace);
}

/* The coordinator tells everyone where everyone listens; node i connects to the nodes 1 .. i-1. */
static int share_addresses(struct setup *s, struct prism_error *err)
{
    uint32_t n = s->conf->nodes;
    for (uint32_t i = 1; i < n && s->conf->node == 0; i++)
        if (full_io(s, s->peers->sockets[i], s->hosts, n * HOST_MAX_, true) ||
            full_io(s, s->peers->sockets[i], s->ports, n * sizeof *s->ports, true))
            return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u was lost while the nodes connected", i);
    if (s->conf->node && (full_io(s, s->peers->sockets[0], s->hosts, n * HOST_MAX_, false) ||
                          full_io(s, s->peers->sockets[0], s->ports, n * sizeof *s->ports, false)))
        return prism_error_set(err, PRISM_EXIT_DAEMON, "the first node was lost while the nodes connected");
    for (uint32_t i = 1; i < s->conf->node; i++) {
        int fd = connect_to(s->hosts[i], s->ports[i]);
        if (fd < 0 || greet(s, fd) != (int)i)
            return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u cannot reach node %u at %s port %u", s->conf->node, i,
                                   s->hosts[i], s->ports[i]);
    }
    return s->conf->node ? accept_peers(s, n - 1 - s->conf->node, err) : 0;
}

/* The coordinator answers each node's pings in turn; the best round trip gives the offset. */
static int align_clocks(struct setup *s, struct prism_error *err)
{
    int64_t best = INT64_MAX;
    for (uint32_t i = 1; i < s->conf->nodes && !s->conf->node; i++)
        for (int k = 0; k < PINGS; k++) {
            int64_t ping, pong;
            if (full_io(s, s->peers->sockets[i], &ping, sizeof ping, false))
                return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u was lost while clocks were aligned", i);
            pong = clock_now_ns();
            if (full_io(s, s->peers->sockets[i], &pong, sizeof pong, true))
                return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u was lost while clocks were aligned", i);
        }
    for (int k = 0; k < PINGS && s->conf->node; k++) {
        int64_t sent = clock_now_ns(), theirs;
        if (full_io(s, s->peers->sockets[0], &sent, sizeof sent, true) ||
            full_io(s, s->peers->sockets[0], &theirs, sizeof theirs, false))
            return prism_error_set(err, PRISM_EXIT_DAEMON, "the first node was lost while clocks were aligned");
        int64_t now = clock_now_ns();
        if (now - sent < best) {
            best = now - sent;
            s->peers->clock_offset_ns = theirs - (sent + best / 2);
            s->peers->clock_error_ns = best / 2;
        }
    }
    return 0;
}

int link_setup(const struct conf *c, struct link_peers *out, struct prism_error *err)
{
    struct setup s = {.conf = c, .peers = out, .listener = -1,
                      .deadline_ns = clock_now_ns() + LINK_SETUP_SECONDS * NSEC_PER_SEC};
    *out = (struct link_peers){.sockets = malloc(c->nodes * sizeof *out->sockets)};
    s.hosts = calloc(c->nodes, HOST_MAX_);
    s.ports = calloc(c->nodes, sizeof *s.ports);
    if (!out->sockets || !s.hosts || !s.ports)
        abort();
    for (uint32_t i = 0; i < c->nodes; i++)
        out->sockets[i] = -1;
    int rc = listen_any(&s, err);
    if (!rc && !c->node)
        rc = publish(&s, err) || accept_peers(&s, c->nodes - 1, err) ? -1 : 0;
    else if (!rc)
        rc = connect_coordinator(&s, err);
    if (!rc)
        rc = share_addresses(&s, err);
    if (!rc)
        rc = align_clocks(&s, err);
    char path[PATH_MAX];
    rendezvous_path(c, path);
    if (!c->node)
        unlink(path);
    if (s.listener >= 0)
        close(s.listener);
    free(s.hosts);
    free(s.ports);
    return rc ? -1 : 0;
}
