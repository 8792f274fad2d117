#include "preload/socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "common/error.h"
#include "preload/container.h"
#include "preload/preload.h"
#include "preload/real.h"

#define QUEUE_MAX     16384
#define CONNECT_TRIES 100 /* 50 ms apart: the listening queue of a prismd with many ranks can be full */

static int fd = -1;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER; /* askers, reading */
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER; /* queue, and the order of datagrams */
static struct {
    _Alignas(8) char bytes[QUEUE_MAX];
    size_t size;
} queue;

static int told_why; /* a thread has told prismd why the process ends, and ends it */

static _Noreturn void lost(const char *doing)
{
    while (__atomic_load_n(&told_why, __ATOMIC_ACQUIRE)) /* prismd closes the connection for that */
        pause();
    dprintf(STDERR_FILENO, "prism: rank %u: lost prismd while %s (%s); this rank ends\n", session.rank, doing,
            errno ? strerror(errno) : "it closed the connection");
    _exit(PRISM_EXIT_DAEMON);
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *address)
{
    size_t n = strlen(name);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (n > sizeof address->sun_path - 1)
        n = sizeof address->sun_path - 1;
    memcpy(address->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static void connect_to(const char *name)
{
    int (*real_connect)(int, const struct sockaddr *, socklen_t) =
        (__typeof__(real_connect))real_find(REAL_LIBC, "connect");
    struct sockaddr_un address;
    socklen_t length = abstract_address(name[0] == '@' ? name + 1 : name, &address);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        lost("making a socket");
    for (int i = 0; real_connect(fd, (struct sockaddr *)&address, length) < 0; i++) {
        if ((errno != EAGAIN && errno != EINTR) || i == CONNECT_TRIES) {
            int error = errno;
            container_check_lost();
            errno = error;
            lost("connecting (PRISM_SOCKET)");
        }
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
}

static void receive_welcome(struct msg_welcome *welcome, int descriptors[SOCKET_DESCRIPTORS])
{
    union {
        char space[CMSG_SPACE(SOCKET_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {welcome, sizeof *welcome};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    errno = 0;
    while ((n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n < (ssize_t)sizeof welcome->h)
        lost("waiting for WELCOME");
    struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
    size_t count = 0;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(descriptors, CMSG_DATA(c), count * sizeof(int));
    }
    if (welcome->seats && count == 2) { /* no mover's */
        descriptors[2] = descriptors[1];
        descriptors[1] = -1;
    }
    if (welcome->h.type == MSG_WELCOME && (n < (ssize_t)sizeof *welcome || descriptors[0] < 0)) {
        errno = EPROTO;
        lost("waiting for WELCOME");
    }
}

int socket_hello(const char *name, uint32_t rank, const char *key, struct msg_welcome *welcome, int descriptors[SOCKET_DESCRIPTORS])
{
    connect_to(name);
    struct msg_hello hello = {.h = {MSG_HELLO, sizeof hello}, .version = MSG_VERSION, .rank = rank, .pid = getpid()};
    memcpy(hello.key, key, strnlen(key, sizeof hello.key));
    socket_send(&hello, sizeof hello);
    memset(welcome, 0, sizeof *welcome);
    for (int i = 0; i < SOCKET_DESCRIPTORS; i++)
        descriptors[i] = -1;
    receive_welcome(welcome, descriptors);
    if (welcome->h.type == MSG_WELCOME)
        return 0;
    socket_drop();
    return 1;
}

static void send_datagram(struct iovec *iov, size_t n)
{
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = n};
    int saved = errno;
    while (sendmsg(fd, &mh, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            lost("sending");
    errno = saved;
}

/* sending held */
static void flush_queue(void)
{
    struct iovec iov = {queue.bytes, queue.size};
    if (queue.size)
        send_datagram(&iov, 1);
    queue.size = 0;
}

void socket_send_parts(const void *message, size_t size, const void *more, size_t more_size)
{
    pthread_mutex_lock(&sending);
    if (queue.size + size + more_size > MSG_MAX)
        flush_queue();
    struct iovec iov[3] = {{queue.bytes, queue.size}, {(void *)(uintptr_t)message, size}, {(void *)(uintptr_t)more, more_size}};
    send_datagram(iov, 3);
    queue.size = 0;
    pthread_mutex_unlock(&sending);
}

void socket_queue(const void *message, size_t size)
{
    pthread_mutex_lock(&sending);
    if (queue.size + size > QUEUE_MAX)
        flush_queue();
    memcpy(queue.bytes + queue.size, message, size);
    queue.size += size;
    pthread_mutex_unlock(&sending);
}

void socket_flush(void)
{
    pthread_mutex_lock(&sending);
    flush_queue();
    pthread_mutex_unlock(&sending);
}

void socket_send(const void *message, size_t size)
{
    socket_send_parts(message, size, NULL, 0);
}

/* Threads that wait for answers. One of them reads, for all. */
struct asker {
    uint32_t comm;
    void *buffer;
    size_t size; /* of the answer; 0: it has not come */
    struct asker *next;
};
static struct asker *askers;
static bool reading;

/* asking not held. */
static size_t read_datagram(void *buffer)
{
    ssize_t n;
    do {
        errno = 0;
        n = recv(fd, buffer, MSG_MAX, 0);
    } while (n < 0 && errno == EINTR);
    if (n < (ssize_t)sizeof(struct msg_header))
        lost("waiting for a communicator");
    return (size_t)n;
}

/* asking held. buffer belongs to one of the askers. */
static void deliver(const void *buffer, size_t n)
{
    const struct msg_comm_ready *ready = buffer;
    struct asker *a = askers;
    if (ready->h.type != MSG_COMM_READY || n < sizeof *ready)
        return;
    while (a && a->comm != ready->comm)
        a = a->next;
    if (!a)
        return;
    if (a->buffer != buffer)
        memcpy(a->buffer, buffer, n);
    a->size = n;
}

size_t socket_ask(const void *message, size_t size, uint32_t comm, void *buffer)
{
    struct asker me = {.comm = comm, .buffer = buffer};
    pthread_mutex_lock(&asking);
    LL_PREPEND(askers, &me);
    pthread_mutex_unlock(&asking);
    socket_send(message, size);
    pthread_mutex_lock(&asking);
    while (!me.size) {
        if (reading) {
            pthread_cond_wait(&answered, &asking);
            continue;
        }
        reading = true;
        pthread_mutex_unlock(&asking);
        size_t n = read_datagram(buffer);
        pthread_mutex_lock(&asking);
        reading = false;
        deliver(buffer, n);
        pthread_cond_broadcast(&answered);
    }
    LL_DELETE(askers, &me);
    pthread_mutex_unlock(&asking);
    return me.size;
}

void socket_drop(void)
{
    if (fd >= 0)
        close(fd);
    fd = -1;
}

void socket_await_close(int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    __atomic_store_n(&told_why, 1, __ATOMIC_RELEASE);
    poll(&p, 1, ms);
}

bool socket_is_open(void)
{
    return fd >= 0;
}
