#include "prismd/pmix_server/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"

static int channel = -1;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

void wire_open(int fd)
{
    channel = fd;
}

/* Clients are ranks of prismd, which have ended or are being ended: nothing is left to serve. */
static void leave(void)
{
    _exit(0);
}

static void put_all(const void *data, size_t len)
{
    for (const char *at = data; len;) {
        ssize_t n = send(channel, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            leave();
        at += n;
        len -= (size_t)n;
    }
}

void wire_send(enum pmix_wire_type type, const struct bytes *body)
{
    struct bytes header = {0};
    bytes_put_u32(&header, type);
    bytes_put_u64(&header, body->len);
    pthread_mutex_lock(&sending);
    put_all(header.data, header.len);
    put_all(body->data, body->len);
    pthread_mutex_unlock(&sending);
    bytes_free(&header);
}

static void get_all(void *data, size_t len)
{
    for (char *at = data; len;) {
        ssize_t n = recv(channel, at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            leave();
        at += n;
        len -= (size_t)n;
    }
}

enum pmix_wire_type wire_receive(struct bytes *body)
{
    uint8_t header[PMIX_WIRE_HEADER];
    get_all(header, sizeof header);
    struct bytes_reader r = bytes_reader_init(header, sizeof header);
    uint32_t type = bytes_get_u32(&r);
    uint64_t len = bytes_get_u64(&r);
    if (len > PMIX_WIRE_MAX)
        wire_fail("malformed message from prismd");
    bytes_clear(body);
    get_all(bytes_reserve(body, len), len);
    body->len = len;
    return (enum pmix_wire_type)type;
}

void wire_fail(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct bytes b = {0};
    bytes_put_string(&b, text);
    wire_send(PMIX_WIRE_FAILED, &b);
    _exit(PRISM_EXIT_DAEMON);
}
