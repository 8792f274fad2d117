#include "prismd/assistant/answer.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void answer_init(int socket)
{
    fd = socket;
}

static void put(const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return; /* prismd is gone, and so are we soon */
        p += sent;
        n -= (size_t)sent;
    }
}

void answer_id(uint32_t communicator, const uint8_t id[ORDER_ID_LEN])
{
    struct order_id a = {.h = {ORDER_ID, communicator, sizeof a}};
    memcpy(a.id, id, sizeof a.id);
    pthread_mutex_lock(&lock);
    put(&a, sizeof a);
    pthread_mutex_unlock(&lock);
}

void answer_done(uint32_t communicator)
{
    struct order_header a = {ORDER_DONE, communicator, sizeof a};
    pthread_mutex_lock(&lock);
    put(&a, sizeof a);
    pthread_mutex_unlock(&lock);
}

void answer_time(uint32_t communicator, uint32_t tag, int64_t ns)
{
    struct order_time a = {.h = {ORDER_TIME, communicator, sizeof a}, .tag = tag, .ns = ns};
    pthread_mutex_lock(&lock);
    put(&a, sizeof a);
    pthread_mutex_unlock(&lock);
}

_Noreturn void answer_failed(int code, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : n < (int)sizeof text ? (size_t)n : sizeof text - 1;
    struct order_failed a = {.h = {ORDER_FAILED, 0, sizeof a + len}, .code = (uint32_t)code};
    pthread_mutex_lock(&lock); /* for good: the first failure is the one that counts */
    put(&a, sizeof a);
    put(text, len);
    _exit(code);
}
