#include "softgpu/nccl/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "softgpu/nccl/model.h"

#define CONNECT_MS 3000 /* for one address */

uint64_t sgn_host_id(void)
{
    char text[64] = "";
    struct stat st;
    uint64_t hash = 3;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) < 0)
            text[0] = '\0';
        close(fd);
    }
    for (const char *c = text; *c; c++)
        hash = sgn_mix(hash, (uint64_t)*c);
    if (!stat("/proc/self/ns/net", &st))
        hash = sgn_mix(hash, st.st_ino);
    return hash;
}

bool sgn_only_tcp(void)
{
    const char *transport = getenv("SOFTGPU_NCCL_TRANSPORT");
    return transport && !strcmp(transport, "tcp");
}

static socklen_t local_address(uint64_t name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    char *to = address->sun_path + 1; /* a leading NUL: abstract, gone with the process */
    to += sprintf(to, "softgpu-nccl-%016" PRIx64, name);
    return (socklen_t)(to - (char *)address);
}

/* --- which interfaces --- */

static bool name_in_list(const char *name, const char *list, bool exact)
{
    while (*list) {
        size_t length = strcspn(list, ",");
        if (length && !strncmp(name, list, length) && (!exact || strlen(name) == length))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static bool interface_wanted(const char *name)
{
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    if (!list || !*list)
        return true;
    bool no = *list == '^', exact = list[no] == '=';
    return name_in_list(name, list + no + exact, exact) != no;
}

static void find_addresses(struct sgn_id *id)
{
    struct ifaddrs *all, *a;
    uint32_t loopback = htonl(INADDR_LOOPBACK);
    const uint16_t most = sizeof(id->ipv4) / sizeof(id->ipv4[0]) - 1;
    if (!getifaddrs(&all)) {
        for (a = all; a; a = a->ifa_next) {
            if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
                (a->ifa_flags & IFF_LOOPBACK) || !interface_wanted(a->ifa_name) || id->addresses >= most)
                continue;
            id->ipv4[id->addresses++] = ((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr.s_addr;
        }
        freeifaddrs(all);
    }
    id->ipv4[id->addresses++] = loopback; /* last: right only on the same host, where it is harmless */
}

static int listen_local(uint64_t name)
{
    struct sockaddr_un address;
    socklen_t length = local_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1024))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int listen_tcp(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1024) ||
                    getsockname(fd, (struct sockaddr *)&address, &length))) {
        close(fd);
        fd = -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

int sgn_net_listen(struct sgn_id *id, int *local_fd, int *tcp_fd, char text[SGN_TEXT])
{
    if (getrandom(id->secret, SGN_SECRET, 0) != SGN_SECRET ||
        getrandom(&id->socket, sizeof(id->socket), 0) != sizeof(id->socket)) {
        snprintf(text, SGN_TEXT, "no random bytes from the system: %s", strerror(errno));
        return -1;
    }
    id->host = sgn_host_id();
    id->pid = (uint32_t)getpid();
    *local_fd = listen_local(id->socket);
    *tcp_fd = listen_tcp(&id->port);
    if (*tcp_fd < 0) {
        snprintf(text, SGN_TEXT, "cannot listen for the ranks of a communicator (TCP): %s", strerror(errno));
        if (*local_fd >= 0)
            close(*local_fd);
        return -1;
    }
    find_addresses(id);
    return 0;
}

static int connect_local(const struct sgn_id *id)
{
    struct sockaddr_un address;
    socklen_t length = local_address(id->socket, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length)) {
        int saved = errno;
        close(fd);
        errno = saved;
        fd = -1;
    }
    return fd;
}

static int connect_tcp(uint32_t ipv4, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = ipv4, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error = 0;
    socklen_t length = sizeof(error);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) && errno == EINPROGRESS) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, CONNECT_MS) != 1)
            error = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    } else {
        error = errno;
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

int sgn_net_connect(const struct sgn_id *id, bool *local, char text[SGN_TEXT])
{
    int fd = -1;
    bool near = id->host == sgn_host_id();
    *local = near && !sgn_only_tcp();
    if (*local)
        fd = connect_local(id);
    if (fd < 0) {
        *local = false;
        for (int i = 0; i < id->addresses && fd < 0; i++)
            if (id->ipv4[i] != htonl(INADDR_LOOPBACK) || near)
                fd = connect_tcp(id->ipv4[i], id->port);
    }
    if (fd < 0) {
        char first[INET_ADDRSTRLEN] = "?";
        inet_ntop(AF_INET, &id->ipv4[0], first, sizeof(first));
        snprintf(text, SGN_TEXT,
                 "cannot reach the process that made the unique id (pid %u, %s port %u): %s; it must live "
                 "until all "
                 "ranks are initialised, and NCCL_SOCKET_IFNAME can name the interface to use",
                 id->pid, first, id->port, strerror(errno));
    }
    return fd;
}

/* --- frames --- */

int sgn_net_send(int socket, uint32_t type, const struct sgn_part *parts, int count, int fd)
{
    struct sgn_frame frame = {.type = type};
    struct iovec iov[8] = {{&frame, sizeof(frame)}};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    int used = 1;
    for (int i = 0; i < count && used < 8; i++)
        if (parts[i].bytes) {
            iov[used++] = (struct iovec){(void *)(uintptr_t)parts[i].data, parts[i].bytes};
            frame.bytes += parts[i].bytes;
        }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)used};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        message.msg_control = NULL;
        message.msg_controllen = 0;
        while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
            sent -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
            message.msg_iov->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

static ssize_t receive(struct sgn_reader *reader, int socket, void *to, size_t bytes)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {to, bytes};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        if (reader->fd >= 0)
            close(reader->fd);
        memcpy(&reader->fd, CMSG_DATA(header), sizeof(int));
    }
    return got;
}

enum sgn_read sgn_reader_step(struct sgn_reader *reader, int socket, uint64_t limit)
{
    for (;;) {
        size_t header = sizeof(reader->frame);
        bool body = reader->have >= header;
        if (body && !reader->body && reader->frame.bytes) {
            if (reader->frame.bytes > limit || !(reader->body = malloc(reader->frame.bytes)))
                return SGN_READ_END;
        }
        if (body && reader->have == header + reader->frame.bytes)
            return SGN_READ_FRAME;
        void *to =
            body ? (char *)reader->body + (reader->have - header) : (char *)&reader->frame + reader->have;
        size_t want = body ? header + reader->frame.bytes - reader->have : header - reader->have;
        ssize_t got = receive(reader, socket, to, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return SGN_READ_MORE;
        if (got <= 0)
            return SGN_READ_END;
        reader->have += (size_t)got;
    }
}

void sgn_reader_next(struct sgn_reader *reader)
{
    free(reader->body);
    reader->body = NULL;
    reader->have = 0;
}

/* --- arena --- */

void *sgn_arena_map(int fd)
{
    struct stat st;
    if (fstat(fd, &st) || (uint64_t)st.st_size < SGN_ARENA_BYTES) /* touching what is not there kills */
        return NULL;
    void *base = mmap(NULL, SGN_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

int sgn_arena_create(void **base)
{
    int fd = memfd_create("softgpu-nccl", MFD_CLOEXEC);
    *base = NULL;
    if (fd >= 0 && (ftruncate(fd, (off_t)SGN_ARENA_BYTES) || !(*base = sgn_arena_map(fd)))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void sgn_arena_unmap(void *base)
{
    if (base)
        munmap(base, SGN_ARENA_BYTES);
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0); /* not PRIVATE: two processes */
}

void sgn_doorbell_ring(struct sgn_doorbell *doorbell, enum sgn_bell ring)
{
    uint32_t quiet = SGN_QUIET;
    if (atomic_compare_exchange_strong(&doorbell->ring, &quiet, (uint32_t)ring))
        futex(&doorbell->ring, FUTEX_WAKE, 1);
}

enum sgn_bell sgn_doorbell_wait(struct sgn_doorbell *doorbell)
{
    uint32_t ring;
    while ((ring = atomic_load(&doorbell->ring)) == SGN_QUIET)
        futex(&doorbell->ring, FUTEX_WAIT, SGN_QUIET);
    return (enum sgn_bell)ring;
}
