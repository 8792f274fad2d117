#include "prismd/pmix/pmix_node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "common/bytes.h"
#include "prismd/ranks/child.h"

extern char **environ;

/* A rank's connection and the one behind it to the process. Main thread only. */
struct relay {
    struct pmix_node *node;
    struct bufferevent *rank, *server; /* server is NULL until the process listens */
    struct relay *next, **link;
};

struct pmix_node {
    struct daemon *daemon;
    uint32_t number, id;
    const struct pmix_node_events *on;
    uint16_t port; /* of the process; 0 = it does not listen yet */
    struct relay *relays;
    struct bufferevent *channel; /* NULL = not started */
    pid_t pid;
};

/* --- relays --- */

static void relay_free(struct relay *r)
{
    bufferevent_free(r->rank);
    if (r->server)
        bufferevent_free(r->server);
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    free(r);
}

static struct bufferevent *other_side(const struct relay *r, struct bufferevent *side)
{
    return side == r->rank ? r->server : r->rank;
}

static void on_bytes(struct bufferevent *from, void *arg)
{
    struct bufferevent *to = other_side(arg, from);
    if (to)
        bufferevent_write_buffer(to, bufferevent_get_input(from));
}

static void on_drained(struct bufferevent *side, void *arg)
{
    relay_free(arg);
}

static void on_bytes_end(struct bufferevent *from, short what, void *arg)
{
    struct relay *r = arg;
    struct bufferevent *to = other_side(r, from);
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    if (!to || !evbuffer_get_length(bufferevent_get_output(to))) {
        relay_free(r);
        return;
    }
    bufferevent_disable(from, EV_READ | EV_WRITE);
    bufferevent_setcb(to, NULL, on_drained, on_bytes_end, r);
}

static void connect_relay(struct relay *r)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(r->node->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->server = bufferevent_socket_new(r->node->daemon->base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!r->server)
        abort();
    bufferevent_setcb(r->server, on_bytes, NULL, on_bytes_end, r);
    bufferevent_write_buffer(r->server, bufferevent_get_input(r->rank)); /* what came before */
    if (bufferevent_socket_connect(r->server, (struct sockaddr *)&a, sizeof a)) {
        relay_free(r);
        return;
    }
    bufferevent_enable(r->server, EV_READ | EV_WRITE);
}

void pmix_node_connect(struct pmix_node *n, struct bufferevent *rank)
{
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    *r = (struct relay){.node = n, .rank = rank, .next = n->relays, .link = &n->relays};
    if (n->relays)
        n->relays->link = &r->next;
    n->relays = r;
    bufferevent_setcb(r->rank, on_bytes, NULL, on_bytes_end, r);
    if (n->port) {
        connect_relay(r);
        return;
    }
    pthread_mutex_lock(&n->daemon->lock);
    pmix_node_start(n);
    pthread_mutex_unlock(&n->daemon->lock);
}

/* --- the process --- */

static void become_server(const struct pmix_node *n, pid_t parent, const char *program, int fd)
{
    char number[16], *argv[] = {(char *)(uintptr_t) "prism-pmix", number, NULL};
    child_detach(parent);
    child_keep(fd);
    /* Another PMIx server may have started prismd: Slurm's. Its variables would make this one its client. */
    for (char **v = environ; *v;) {
        char *name = strndup(*v, strcspn(*v, "="));
        if (name && (!strncmp(name, "PMIX_", 5) || !strcmp(name, "LD_PRELOAD")))
            unsetenv(name); /* moves what follows here */
        else
            v++;
        free(name);
    }
    snprintf(number, sizeof number, "%d", fd);
    execve(program, argv, environ);
    dprintf(STDERR_FILENO, "prism: cannot run %s: %s\n", program, strerror(errno));
    _exit(PRISM_EXIT_SYSTEM);
}

static void take_ready(struct pmix_node *n, struct bytes_reader r)
{
    uint32_t port = bytes_get_u32(&r);
    if (r.bad || !port || port > 65535)
        return;
    n->port = (uint16_t)port;
    for (struct relay *relay = n->relays, *next; relay; relay = next) {
        next = relay->next;
        connect_relay(relay);
    }
}

static void take_messages(struct pmix_node *n)
{
    struct daemon *d = n->daemon;
    struct evbuffer *in = bufferevent_get_input(n->channel);
    uint8_t header[PMIX_WIRE_HEADER];
    while (evbuffer_copyout(in, header, sizeof header) == (ev_ssize_t)sizeof header) {
        struct bytes_reader r = bytes_reader_init(header, sizeof header);
        enum pmix_wire_type type = (enum pmix_wire_type)bytes_get_u32(&r);
        uint64_t len = bytes_get_u64(&r);
        if (len > PMIX_WIRE_MAX) {
            daemon_fail(d, PRISM_EXIT_DAEMON, "logical node %u: malformed message of its PMIx server", n->number);
            break;
        }
        if (evbuffer_get_length(in) < sizeof header + len)
            break;
        evbuffer_drain(in, sizeof header);
        r = bytes_reader_init(evbuffer_pullup(in, (ev_ssize_t)len), len);
        if (type == PMIX_WIRE_READY)
            take_ready(n, r);
        n->on->message(d, n->id, type, &r);
        evbuffer_drain(in, len);
    }
}

static void on_message(struct bufferevent *channel, void *arg)
{
    struct pmix_node *n = arg;
    (void)channel;
    pthread_mutex_lock(&n->daemon->lock);
    take_messages(n);
    pthread_mutex_unlock(&n->daemon->lock);
}

int pmix_node_start(struct pmix_node *n)
{
    struct daemon *d = n->daemon;
    char program[PATH_MAX];
    int sockets[2];
    if (n->channel)
        return 0;
    if (d->stopping)
        return -1;
    if (child_find("prism-pmix", program))
        return daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                           "a rank of logical node %u uses PMIx, and %s is missing: this Prism was built without PMIx; install "
                           "libpmix-dev and build it again", n->number, program);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        return daemon_fail(d, PRISM_EXIT_SYSTEM, "cannot make a socket: %s", strerror(errno));
    pid_t parent = getpid();
    n->pid = fork();
    if (!n->pid)
        become_server(n, parent, program, sockets[1]);
    close(sockets[1]);
    if (n->pid < 0) {
        close(sockets[0]);
        n->pid = 0;
        return daemon_fail(d, PRISM_EXIT_SYSTEM, "cannot start a PMIx server: %s", strerror(errno));
    }
    setpgid(n->pid, n->pid);
    evutil_make_socket_nonblocking(sockets[0]);
    n->channel = bufferevent_socket_new(d->base, sockets[0],
                                        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_THREADSAFE | BEV_OPT_DEFER_CALLBACKS |
                                            BEV_OPT_UNLOCK_CALLBACKS);
    if (!n->channel)
        abort();
    bufferevent_setcb(n->channel, on_message, NULL, NULL, n); /* its end is for SIGCHLD to tell */
    bufferevent_enable(n->channel, EV_READ | EV_WRITE);
    struct bytes job = {0};
    n->on->describe(d, n->id, &job);
    pmix_node_send(n, PMIX_WIRE_JOB, &job);
    bytes_free(&job);
    return 0;
}

bool pmix_node_started(const struct pmix_node *n)
{
    return n->channel != NULL;
}

void pmix_node_send(struct pmix_node *n, enum pmix_wire_type type, const struct bytes *body)
{
    struct bytes header = {0};
    if (pmix_node_start(n))
        return;
    bytes_put_u32(&header, type);
    bytes_put_u64(&header, body->len);
    bufferevent_lock(n->channel);
    bufferevent_write(n->channel, header.data, header.len);
    bufferevent_write(n->channel, body->data, body->len);
    bufferevent_unlock(n->channel);
    bytes_free(&header);
}

bool pmix_node_reaped(struct pmix_node *n, pid_t pid, int status)
{
    if (!n->pid || n->pid != pid)
        return false;
    n->pid = 0;
    /* What it had to say comes before how it ended. */
    evbuffer_read(bufferevent_get_input(n->channel), bufferevent_getfd(n->channel), -1);
    take_messages(n);
    bool signalled = WIFSIGNALED(status);
    if (!n->daemon->stopping)
        daemon_fail(n->daemon, PRISM_EXIT_DAEMON, "the PMIx server of logical node %u ended (%s %d)%s", n->number,
                    signalled ? "signal" : "exit code", signalled ? WTERMSIG(status) : WEXITSTATUS(status),
                    !signalled && WEXITSTATUS(status) == 127 ? ": is libpmix installed on this machine?" : "");
    return true;
}

/* --- */

struct pmix_node *pmix_node_create(struct daemon *d, uint32_t node, uint32_t id, const struct pmix_node_events *events)
{
    struct pmix_node *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    *n = (struct pmix_node){.daemon = d, .number = node, .id = id, .on = events};
    return n;
}

void pmix_node_destroy(struct pmix_node *n)
{
    if (!n)
        return;
    while (n->relays)
        relay_free(n->relays);
    if (n->channel)
        bufferevent_free(n->channel);
    if (n->pid > 0) {
        kill(n->pid, SIGKILL); /* it has no files, and its ranks have ended */
        waitpid(n->pid, NULL, 0);
    }
    free(n);
}
