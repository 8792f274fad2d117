/* store_port.c - connect() to the c10d store: prismd learns from the local port which rank writes through it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/socket.h"

static int port_of(const struct sockaddr *address, socklen_t length)
{
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in))
        return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6))
        return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
    return 0;
}

static bool is_store(const struct sockaddr *address, socklen_t length)
{
    const char *port = getenv("MASTER_PORT");
    return address && port && port_of(address, length) && atoi(port) == port_of(address, length);
}

/* Before the program can write anything, so prismd hears of the port first. */
static void tell(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage space;
    } local;
    socklen_t length = sizeof local;
    if (getsockname(fd, &local.any, &length) || !session_connect())
        return;
    struct msg_store_port m = {.h = {MSG_STORE_PORT, sizeof m}, .port = (uint32_t)port_of(&local.any, length)};
    if (m.port)
        socket_send(&m, sizeof m);
}

PRISM_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    __typeof__(&connect) real = REAL_NAMED(REAL_LIBC, connect, "connect");
    int rc = real(fd, address, length);
    int saved = errno;
    if ((!rc || saved == EINPROGRESS) && !session_is_off() && is_store(address, length))
        tell(fd);
    errno = saved;
    return rc;
}
