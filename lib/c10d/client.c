/* client.c - the blocking client; wire.h has the protocol. */
#include "c10d/client.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10d/mutation.h"
#include "c10d/wire.h"
#include "common/bytes.h"
#include "common/clock.h"

#define REPLY_TIMEOUT_MS 300000 /* for replies that need nobody else; PyTorch's own default */
#define PAUSE_FIRST_MS   10
#define PAUSE_LAST_MS    1000

struct c10d_client {
    int fd; /* -1 after a failure */
    char host[256];
    uint16_t port;
    struct bytes out;
};

static int64_t deadline_after(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : clock_now_ns() + timeout_ms * (NSEC_PER_SEC / 1000);
}

/* Milliseconds for poll(), rounded up so that we never spin. */
static int left_ms(int64_t deadline)
{
    if (deadline == INT64_MAX)
        return -1;
    int64_t left = (deadline - clock_now_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* The connection is of no further use. Keeps errno. */
static int broken(struct c10d_client *client, const char *doing, struct prism_error *err)
{
    int saved = errno;
    prism_error_set(err, PRISM_EXIT_SYSTEM, "store at %s port %u: %s: %s", client->host, client->port, doing,
                    saved ? strerror(saved) : "the server closed the connection");
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    errno = saved;
    return -1;
}

/* 1 ready, 0 out of time, -1 error. */
static int poll_until(int fd, short events, int64_t deadline)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int rc = poll(&p, 1, left_ms(deadline));
        if (rc >= 0 || errno != EINTR)
            return rc;
    }
}

static int send_all(struct c10d_client *client, struct prism_error *err)
{
    const uint8_t *data = client->out.data;
    size_t len = client->out.len;
    if (client->fd < 0) {
        errno = ENOTCONN;
        return broken(client, "send", err);
    }
    while (len) {
        ssize_t n = send(client->fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return broken(client, "send", err);
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int receive(struct c10d_client *client, void *data, size_t len, struct prism_error *err)
{
    int64_t deadline = deadline_after(REPLY_TIMEOUT_MS);
    uint8_t *at = data;
    while (len) {
        int ready = poll_until(client->fd, POLLIN, deadline);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready <= 0)
            return broken(client, "receive", err);
        ssize_t n = recv(client->fd, at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return broken(client, "receive", err);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int receive_i64(struct c10d_client *client, int64_t *v, struct prism_error *err)
{
    uint64_t raw;
    if (receive(client, &raw, sizeof raw, err))
        return -1;
    *v = (int64_t)le64toh(raw);
    return 0;
}

static int receive_bytes(struct c10d_client *client, void **value, size_t *len, struct prism_error *err)
{
    int64_t n;
    if (receive_i64(client, &n, err))
        return -1;
    if (n < 0 || n > (int64_t)C10D_REQUEST_MAX) {
        errno = EPROTO;
        return broken(client, "a value of impossible length", err);
    }
    char *data = malloc((size_t)n + 1);
    if (!data)
        abort();
    if (receive(client, data, (size_t)n, err)) {
        free(data);
        return -1;
    }
    data[n] = 0;
    *value = data;
    *len = (size_t)n;
    return 0;
}

static void begin(struct c10d_client *client, enum c10d_op op)
{
    bytes_clear(&client->out);
    bytes_put_u8(&client->out, (uint8_t)op);
}

static void put_bytes(struct c10d_client *client, const void *data, size_t len)
{
    bytes_put_u64(&client->out, len);
    bytes_put(&client->out, data, len);
}

static void put_keys(struct c10d_client *client, const char *const *keys, size_t n)
{
    bytes_put_u64(&client->out, n);
    for (size_t i = 0; i < n; i++)
        put_bytes(client, keys[i], strlen(keys[i]));
}

static void begin_key(struct c10d_client *client, enum c10d_op op, const char *key)
{
    begin(client, op);
    put_bytes(client, key, strlen(key));
}

/* --- connecting --- */

static int connect_one(const struct addrinfo *ai, int64_t deadline)
{
    int on = 1, error = 0;
    socklen_t len = sizeof error;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int rc = connect(fd, ai->ai_addr, ai->ai_addrlen);
    if (rc && errno == EINPROGRESS) {
        int ready = poll_until(fd, POLLOUT, deadline);
        if (ready > 0 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
            errno = error;
        else if (ready == 0)
            errno = ETIMEDOUT;
        rc = ready > 0 && error == 0 ? 0 : -1;
    }
    if (rc) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int connect_any(const char *host, uint16_t port, int64_t deadline, const char **why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list;
    char service[8];
    int fd = -1;
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc) {
        *why = gai_strerror(rc);
        return -1;
    }
    for (struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
        fd = connect_one(ai, deadline);
    *why = strerror(errno);
    freeaddrinfo(list);
    return fd;
}

/* Sockets block from here on; waits go through poll. */
static int greet(struct c10d_client *client, struct prism_error *err)
{
    uint32_t nonce = htole32((uint32_t)getpid()), back;
    begin(client, C10D_OP_VALIDATE);
    bytes_put_u32(&client->out, C10D_MAGIC);
    bytes_put_u8(&client->out, C10D_OP_PING);
    bytes_put(&client->out, &nonce, sizeof nonce);
    if (send_all(client, err) || receive(client, &back, sizeof back, err))
        return -1;
    errno = EPROTO;
    return back == nonce ? 0 : broken(client, "answers a ping with another number; is it a TCPStore?", err);
}

static int make_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static int try_once(struct c10d_client *client, int64_t deadline, struct prism_error *err)
{
    const char *why;
    client->fd = connect_any(client->host, client->port, deadline, &why);
    if (client->fd < 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s", why);
    if (make_blocking(client->fd))
        return broken(client, "fcntl", err);
    return greet(client, err);
}

struct c10d_client *c10d_client_connect(const char *host, uint16_t port, int timeout_ms,
                                        struct prism_error *err)
{
    int64_t deadline = deadline_after(timeout_ms);
    int pause = PAUSE_FIRST_MS;
    struct c10d_client *client = calloc(1, sizeof *client);
    if (!client)
        abort();
    client->port = port;
    snprintf(client->host, sizeof client->host, "%s", host);
    for (;;) {
        struct prism_error last = {0};
        if (try_once(client, deadline, &last) == 0)
            return client;
        int left = left_ms(deadline);
        if (left == 0) {
            prism_error_set(
                err, PRISM_EXIT_SYSTEM,
                "store at %s port %u: cannot connect within %d ms: %s; is the store's server running there?",
                host, port, timeout_ms, last.text);
            c10d_client_close(client);
            errno = ETIMEDOUT;
            return NULL;
        }
        poll(NULL, 0, left >= 0 && left < pause ? left : pause);
        pause = pause * 2 > PAUSE_LAST_MS ? PAUSE_LAST_MS : pause * 2;
    }
}

void c10d_client_close(struct c10d_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    bytes_free(&client->out);
    free(client);
}

/* --- operations --- */

int c10d_client_set(struct c10d_client *client, const char *key, const void *value, size_t len,
                    struct prism_error *err)
{
    begin_key(client, C10D_OP_SET, key);
    put_bytes(client, value, len);
    return send_all(client, err);
}

int c10d_client_append(struct c10d_client *client, const char *key, const void *value, size_t len,
                       struct prism_error *err)
{
    begin_key(client, C10D_OP_APPEND, key);
    put_bytes(client, value, len);
    return send_all(client, err);
}

int c10d_client_add(struct c10d_client *client, const char *key, int64_t delta, int64_t *result,
                    struct prism_error *err)
{
    int64_t sum;
    begin_key(client, C10D_OP_ADD, key);
    bytes_put_u64(&client->out, (uint64_t)delta);
    if (send_all(client, err) || receive_i64(client, &sum, err))
        return -1;
    if (result)
        *result = sum;
    return 0;
}

int c10d_client_check(struct c10d_client *client, const char *const *keys, size_t n, bool *ready,
                      struct prism_error *err)
{
    uint8_t answer;
    begin(client, C10D_OP_CHECK);
    put_keys(client, keys, n);
    if (send_all(client, err) || receive(client, &answer, 1, err))
        return -1;
    *ready = answer == 0;
    return 0;
}

/* Out of time: take the wait back. The keys may have come meanwhile, then two answers follow. */
static int cancel_wait(struct c10d_client *client, const char *key, int timeout_ms, struct prism_error *err)
{
    uint8_t answer = 0;
    begin(client, C10D_OP_CANCEL_WAIT);
    if (send_all(client, err) || receive(client, &answer, 1, err) ||
        (answer == 0 && receive(client, &answer, 1, err)))
        return -1;
    prism_error_set(err, PRISM_EXIT_SYSTEM, "store at %s port %u: key '%.80s' was not there within %d ms",
                    client->host, client->port, key, timeout_ms);
    errno = ETIMEDOUT;
    return -1;
}

int c10d_client_wait(struct c10d_client *client, const char *const *keys, size_t n, int timeout_ms,
                     struct prism_error *err)
{
    uint8_t answer;
    int64_t deadline = deadline_after(timeout_ms);
    begin(client, C10D_OP_WAIT);
    put_keys(client, keys, n);
    if (send_all(client, err))
        return -1;
    int ready = poll_until(client->fd, POLLIN, deadline);
    if (ready < 0)
        return broken(client, "poll", err);
    if (ready == 0)
        return cancel_wait(client, n ? keys[0] : "", timeout_ms, err);
    return receive(client, &answer, 1, err);
}

int c10d_client_get(struct c10d_client *client, const char *key, int timeout_ms, void **value, size_t *len,
                    struct prism_error *err)
{
    if (c10d_client_wait(client, &key, 1, timeout_ms, err))
        return -1;
    begin_key(client, C10D_OP_GET, key);
    return send_all(client, err) ? -1 : receive_bytes(client, value, len, err);
}

int c10d_client_delete(struct c10d_client *client, const char *key, bool *deleted, struct prism_error *err)
{
    int64_t n;
    begin_key(client, C10D_OP_DELETE_KEY, key);
    if (send_all(client, err) || receive_i64(client, &n, err))
        return -1;
    if (deleted)
        *deleted = n == 1;
    return 0;
}

int c10d_client_compare_set(struct c10d_client *client, const char *key, const void *expected,
                            size_t expected_len, const void *desired, size_t desired_len, void **value,
                            size_t *len, struct prism_error *err)
{
    begin_key(client, C10D_OP_COMPARE_SET, key);
    put_bytes(client, expected, expected_len);
    put_bytes(client, desired, desired_len);
    return send_all(client, err) ? -1 : receive_bytes(client, value, len, err);
}

int c10d_client_num_keys(struct c10d_client *client, int64_t *count, struct prism_error *err)
{
    begin(client, C10D_OP_GETNUMKEYS);
    return send_all(client, err) ? -1 : receive_i64(client, count, err);
}
