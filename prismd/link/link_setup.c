#include "prismd/link/link_setup.h"

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
#include "prismd/link/greeting.h"
#include "prismd/ranks/step.h"

#define KEY_LEN   GREETING_KEY
#define HOST_MAX_ GREETING_HOST
#define CREDENTIAL_MAX GREETING_CREDENTIAL
#define PINGS     16
#define CONFIRMED 0x06
#define GRACE_SECONDS 10 /* for nodes to come that can only be told that it will not work */
#define LOOK_MS   200 /* between looks whether the run was interrupted */

struct setup {
    const struct conf *conf;
    struct link_peers *peers;
    bool (*interrupted)(void *ctx);
    void *ctx;
    int listener;
    uint16_t port;
    char key[KEY_LEN + 1];
    char (*hosts)[HOST_MAX_];
    uint32_t *ports;
    int64_t deadline_ns;
    uint32_t others; /* nodes that have our key, but are of another build; the last one: */
    uint32_t other_version, other_node;
    char other_release[32];
};

static uint32_t seconds_allowed(const struct setup *s)
{
    return s->conf->link_seconds ? s->conf->link_seconds : LINK_SETUP_SECONDS;
}

/* A greeting takes milliseconds, on a busy machine seconds. */
static int64_t greeting_deadline_ns(const struct setup *s)
{
    uint32_t tenth = seconds_allowed(s) / 10;
    int64_t deadline = clock_now_ns() + (tenth ? tenth : 1) * NSEC_PER_SEC;
    return deadline < s->deadline_ns ? deadline : s->deadline_ns;
}

static bool is_interrupted(const struct setup *s)
{
    return s->interrupted && s->interrupted(s->ctx);
}

/* 0 when fd is ready; -1 when the time is over or the run was interrupted. */
static int wait_ready(const struct setup *s, int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left = (deadline_ns - clock_now_ns()) / 1000000;
        struct pollfd p = {fd, events, 0};
        if (left < 0 || is_interrupted(s))
            return -1;
        if (poll(&p, 1, left < LOOK_MS ? (int)left + 1 : LOOK_MS) > 0)
            return 0;
    }
}

static int full_io(const struct setup *s, int fd, void *data, size_t len, bool out, int64_t deadline_ns)
{
    char *p = data;
    while (len) {
        if (wait_ready(s, fd, out ? POLLOUT : POLLIN, deadline_ns))
            return -1;
        ssize_t n = out ? send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, p, len, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int give(const struct setup *s, int fd, const void *data, size_t len)
{
    return full_io(s, fd, (void *)(uintptr_t)data, len, true, s->deadline_ns);
}

static int take(const struct setup *s, int fd, void *data, size_t len)
{
    return full_io(s, fd, data, len, false, s->deadline_ns);
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
    g->magic = GREETING_MAGIC;
    g->version = MSG_VERSION;
    g->node = s->conf->node;
    g->nodes = s->conf->nodes;
    g->port = s->port;
    gethostname(g->host, sizeof g->host - 1);
    const char *name = getenv("SLURMD_NODENAME");
    snprintf(g->name, sizeof g->name, "%.*s", LINK_NAME_MAX - 1, name && *name ? name : g->host);
    snprintf(g->step, sizeof g->step, "%s", s->conf->step);
    snprintf(g->release, sizeof g->release, "%s", step_version);
    memcpy(g->key, s->key, KEY_LEN);
    char *credential = link_credential_make(s->key);
    if (credential && strlen(credential) < CREDENTIAL_MAX) {
        g->credential_len = (uint32_t)strlen(credential);
        memcpy(g->credential, credential, g->credential_len);
    }
    free(credential);
}

/* Where munge runs here it has to run there too. */
static int check_greeting(struct setup *s, const struct greeting *mine, struct greeting *g)
{
    enum greeting_of whose = greeting_check(mine, g);
    if (whose == GREETING_ANOTHER_BUILD) {
        s->others++;
        s->other_version = g->version;
        s->other_node = g->node;
        memcpy(s->other_release, g->release, sizeof g->release);
    }
    if (whose != GREETING_OURS || (mine->credential_len && !g->credential_len))
        return -1;
    return g->credential_len ? link_credential_check(g->credential, s->key) : 0;
}

static void no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* A greeting that is right and of a node not connected yet. */
static int check_peer(struct setup *s, const struct greeting *mine, struct greeting *theirs)
{
    if (check_greeting(s, mine, theirs) || theirs->node == s->conf->node || s->peers->sockets[theirs->node] >= 0)
        return -1;
    return 0;
}

static void take_peer(struct setup *s, const struct greeting *theirs, int fd)
{
    s->peers->sockets[theirs->node] = fd;
    memcpy(s->hosts[theirs->node], theirs->host, HOST_MAX_);
    memcpy(s->peers->names[theirs->node], theirs->name, LINK_NAME_MAX);
    s->ports[theirs->node] = theirs->port;
}

/* The side that connects: it shows the key first, having the address from where the key is, and confirms the answer, so
 * that the other side does not count a connection that was given up here. Returns the node, or -1 (fd is closed). */
static int greet(struct setup *s, int fd)
{
    struct greeting mine, theirs;
    uint8_t confirmation = CONFIRMED;
    fill_greeting(s, &mine);
    no_delay(fd);
    int64_t deadline = greeting_deadline_ns(s);
    if (full_io(s, fd, &mine, sizeof mine, true, deadline) || full_io(s, fd, &theirs, sizeof theirs, false, deadline) ||
        check_peer(s, &mine, &theirs) || full_io(s, fd, &confirmation, 1, true, deadline)) {
        close(fd);
        return -1;
    }
    take_peer(s, &theirs, fd);
    return (int)theirs.node;
}

/* --- the side that accepts: all callers at once, so that one that says nothing holds nobody up --- */

struct caller {
    int fd;
    int64_t deadline_ns;
    size_t have;    /* bytes of the greeting */
    bool answered;  /* waits for the confirmation */
    struct greeting greeting;
};

struct callers {
    struct caller **list; /* owned */
    struct pollfd *polls; /* owned; the listener first */
    uint32_t n, cap;
};

static void callers_add(const struct setup *s, struct callers *c, int fd)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 16;
        c->list = realloc(c->list, c->cap * sizeof *c->list);
        c->polls = realloc(c->polls, (c->cap + 1u) * sizeof *c->polls);
        if (!c->list || !c->polls)
            abort();
    }
    struct caller *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->fd = fd;
    x->deadline_ns = greeting_deadline_ns(s);
    no_delay(fd);
    c->list[c->n++] = x;
}

static void callers_drop(struct callers *c, uint32_t i, bool hang_up)
{
    if (hang_up)
        close(c->list[i]->fd);
    free(c->list[i]);
    c->list[i] = c->list[--c->n];
}

static void callers_clear(struct callers *c)
{
    while (c->n)
        callers_drop(c, 0, true);
    free(c->list);
    free(c->polls);
}

/* Something came: 1 = a peer now, 0 = more to come, -1 = no peer. */
static int hear(struct setup *s, struct caller *c)
{
    uint8_t confirmation = 0;
    void *into = c->answered ? (void *)&confirmation : (uint8_t *)&c->greeting + c->have;
    ssize_t n = recv(c->fd, into, c->answered ? 1 : sizeof c->greeting - c->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    struct greeting mine;
    if (c->answered) {
        if (confirmation != CONFIRMED || s->peers->sockets[c->greeting.node] >= 0)
            return -1;
        take_peer(s, &c->greeting, c->fd);
        return 1;
    }
    c->have += (size_t)n;
    if (c->have < sizeof c->greeting)
        return 0;
    fill_greeting(s, &mine);
    uint32_t others = s->others;
    int wrong = check_peer(s, &mine, &c->greeting);
    /* One of another build has the key, too: it shall know why, and not try again. Nobody else is shown ours, which holds it. */
    if (wrong && s->others > others)
        full_io(s, c->fd, &mine, sizeof mine, true, c->deadline_ns);
    if (wrong || full_io(s, c->fd, &mine, sizeof mine, true, c->deadline_ns))
        return -1;
    c->answered = true;
    return 0;
}

/* Waits a moment for news; returns how many peers came of it. */
static uint32_t hear_callers(struct setup *s, struct callers *c)
{
    struct pollfd alone = {s->listener, POLLIN, 0}, *polls = c->polls ? c->polls : &alone;
    uint32_t came = 0;
    polls[0] = alone;
    for (uint32_t i = 0; i < c->n; i++)
        polls[i + 1] = (struct pollfd){c->list[i]->fd, POLLIN, 0};
    if (poll(polls, c->n + 1u, LOOK_MS) < 0)
        return 0;
    bool calling = polls[0].revents;
    for (uint32_t i = c->n; i-- > 0;) {
        int rc = polls[i + 1].revents ? hear(s, c->list[i]) : 0;
        if (rc || clock_now_ns() > c->list[i]->deadline_ns)
            callers_drop(c, i, rc != 1);
        came += rc == 1;
    }
    int fd = calling ? accept4(s->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd >= 0)
        callers_add(s, c, fd);
    return came;
}

static int out_of_time(const struct setup *s, struct prism_error *err, const char *what)
{
    if (is_interrupted(s))
        return prism_error_set(err, PRISM_EXIT_INTERRUPTED, "interrupted while the nodes connected");
    return prism_error_set(err, PRISM_EXIT_DAEMON,
                           "node %u: %s within %u s (PRISM_LINK_SECONDS); is prismd installed there, and is the trace folder %s on "
                           "a file system that all nodes share?",
                           s->conf->node, what, seconds_allowed(s), s->conf->trace);
}

/* Names the nodes from `first` on that are not connected. */
static int peers_missing(const struct setup *s, uint32_t first, struct prism_error *err)
{
    char what[256] = "no connection from node";
    size_t len = strlen(what);
    const char *separator = " ";
    for (uint32_t i = first; i < s->conf->nodes && len < sizeof what - 16; i++)
        if (s->peers->sockets[i] < 0 && i != s->conf->node) {
            len += (size_t)snprintf(what + len, sizeof what - len, "%s%u", separator, i);
            separator = ", ";
        }
    if (len >= sizeof what - 16)
        snprintf(what + len, sizeof what - len, ", ...");
    return out_of_time(s, err, what);
}

static int another_build(const struct setup *s, struct prism_error *err)
{
    if (s->other_version != MSG_VERSION)
        return prism_error_set(err, PRISM_EXIT_DAEMON,
                               "node %u runs another version of Prism (protocol %u, here %u): install the same one on all nodes",
                               s->other_node, s->other_version, MSG_VERSION);
    return prism_error_set(err, PRISM_EXIT_DAEMON,
                           "node %u runs another version of Prism (%s, node %u %s): install the same one on all nodes", s->other_node,
                           s->other_release, s->conf->node, step_version);
}

/* All from `first` on. Where one is of another build the rest is waited for all the same, for a while: those who find nobody
 * would wait for much longer. */
static int accept_peers(struct setup *s, uint32_t first, struct prism_error *err)
{
    struct callers callers = {0};
    int rc = 0;
    int64_t grace = INT64_MAX;
    for (uint32_t count = s->conf->nodes - first; count && !rc;) {
        count -= hear_callers(s, &callers);
        if (s->others && grace == INT64_MAX)
            grace = clock_now_ns() + GRACE_SECONDS * NSEC_PER_SEC;
        if (s->others && (s->others >= count || clock_now_ns() > grace || is_interrupted(s)))
            rc = another_build(s, err);
        else if (count && !s->others && (clock_now_ns() > s->deadline_ns || is_interrupted(s)))
            rc = peers_missing(s, first, err);
    }
    callers_clear(&callers);
    return rc;
}

static int connect_coordinator(struct setup *s, struct prism_error *err)
{
    char host[HOST_MAX_] = "", what[HOST_MAX_ + 64];
    uint32_t port = 0;
    while (clock_now_ns() < s->deadline_ns && !is_interrupted(s)) {
        if (!read_rendezvous(s, host, &port)) {
            int fd = connect_to(host, port);
            if (fd >= 0 && greet(s, fd) == 0)
                return 0;
            if (s->others)
                return another_build(s, err);
        }
        clock_sleep_until_ns(clock_now_ns() + 50000000);
    }
    snprintf(what, sizeof what, "no contact with the first node's prismd%s%s", *host ? " on " : "", host);
    return out_of_time(s, err, what);
}

static int lost_meanwhile(const struct setup *s, uint32_t node, struct prism_error *err)
{
    if (is_interrupted(s))
        return prism_error_set(err, PRISM_EXIT_INTERRUPTED, "interrupted while the nodes connected");
    return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u (%s) was lost while the nodes connected", node,
                           s->peers->names[node]);
}

/* The coordinator tells everyone where everyone listens; node i connects to the nodes 1 .. i-1. */
static int share_addresses(struct setup *s, struct prism_error *err)
{
    uint32_t n = s->conf->nodes;
    for (uint32_t i = 1; i < n && s->conf->node == 0; i++)
        if (give(s, s->peers->sockets[i], s->hosts, n * HOST_MAX_) || give(s, s->peers->sockets[i], s->ports, n * sizeof *s->ports))
            return lost_meanwhile(s, i, err);
    if (s->conf->node &&
        (take(s, s->peers->sockets[0], s->hosts, n * HOST_MAX_) || take(s, s->peers->sockets[0], s->ports, n * sizeof *s->ports)))
        return lost_meanwhile(s, 0, err);
    for (uint32_t i = 1; i < s->conf->node; i++) {
        s->hosts[i][HOST_MAX_ - 1] = 0;
        int fd = connect_to(s->hosts[i], s->ports[i]);
        if (fd < 0 || greet(s, fd) != (int)i)
            return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u cannot reach node %u at %s port %u", s->conf->node, i,
                                   s->hosts[i], s->ports[i]);
    }
    return s->conf->node ? accept_peers(s, s->conf->node + 1, err) : 0;
}

/* Each node pings the coordinator; the best round trip gives the offset. The coordinator hears how far each may be off. */
static int align_clock(struct setup *s, struct prism_error *err)
{
    int64_t best = INT64_MAX;
    int fd = s->peers->sockets[0];
    for (int k = 0; k < PINGS; k++) {
        int64_t sent = clock_now_ns(), theirs;
        if (give(s, fd, &sent, sizeof sent) || take(s, fd, &theirs, sizeof theirs))
            return lost_meanwhile(s, 0, err);
        int64_t now = clock_now_ns();
        if (now - sent < best) {
            best = now - sent;
            s->peers->clock_offset_ns = theirs - (sent + best / 2);
            s->peers->clock_error_ns = (best + 1) / 2;
        }
    }
    return give(s, fd, &s->peers->clock_error_ns, sizeof s->peers->clock_error_ns) ? lost_meanwhile(s, 0, err) : 0;
}

static int answer_pings(struct setup *s, uint32_t node, struct prism_error *err)
{
    int64_t ping, pong, error;
    for (int k = 0; k < PINGS; k++) {
        if (take(s, s->peers->sockets[node], &ping, sizeof ping))
            return lost_meanwhile(s, node, err);
        pong = clock_now_ns();
        if (give(s, s->peers->sockets[node], &pong, sizeof pong))
            return lost_meanwhile(s, node, err);
    }
    if (take(s, s->peers->sockets[node], &error, sizeof error))
        return lost_meanwhile(s, node, err);
    if (error > s->peers->clock_error_ns)
        s->peers->clock_error_ns = error;
    return 0;
}

static int align_clocks(struct setup *s, struct prism_error *err)
{
    if (s->conf->node)
        return align_clock(s, err);
    for (uint32_t i = 1; i < s->conf->nodes; i++)
        if (answer_pings(s, i, err))
            return -1;
    return 0;
}

int link_setup(const struct conf *c, bool (*interrupted)(void *ctx), void *ctx, struct link_peers *out,
               struct prism_error *err)
{
    struct setup s = {.conf = c, .peers = out, .interrupted = interrupted, .ctx = ctx, .listener = -1};
    s.deadline_ns = clock_now_ns() + seconds_allowed(&s) * NSEC_PER_SEC;
    *out = (struct link_peers){.sockets = malloc(c->nodes * sizeof *out->sockets),
                               .names = calloc(c->nodes, sizeof *out->names)};
    s.hosts = calloc(c->nodes, HOST_MAX_);
    s.ports = calloc(c->nodes, sizeof *s.ports);
    if (!out->sockets || !out->names || !s.hosts || !s.ports)
        abort();
    for (uint32_t i = 0; i < c->nodes; i++)
        out->sockets[i] = -1;
    int rc = listen_any(&s, err);
    if (!rc && !c->node)
        rc = publish(&s, err) || accept_peers(&s, 1, err) ? -1 : 0;
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
    if (rc)
        link_peers_clear(c, out);
    return rc ? -1 : 0;
}

void link_peers_clear(const struct conf *c, struct link_peers *peers)
{
    for (uint32_t i = 0; i < c->nodes && peers->sockets; i++)
        if (peers->sockets[i] >= 0)
            close(peers->sockets[i]);
    free(peers->sockets);
    free(peers->names);
    *peers = (struct link_peers){0};
}
