#include "proto/mover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int mover_send(int socket, const struct mover_message *m, int fd, const char *text)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    size_t length = text ? strlen(text) : 0;
    if (length > MOVER_TEXT)
        length = MOVER_TEXT;
    struct iovec iov[2] = {{(void *)(uintptr_t)m, sizeof *m}, {(void *)(uintptr_t)text, length}};
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = length ? 2 : 1};
    if (fd >= 0) {
        mh.msg_control = control;
        mh.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    while ((n = sendmsg(socket, &mh, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return n < 0 ? -1 : 0;
}

static int take_descriptor(struct msghdr *mh)
{
    int fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

int mover_receive(int socket, struct mover_message *m, int *fd, char *text, int flags)
{
    char control[CMSG_SPACE(sizeof(int))], space[MOVER_TEXT + 1];
    char *to = text ? text : space;
    struct iovec iov[2] = {{m, sizeof *m}, {to, MOVER_TEXT}};
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    *fd = -1;
    while ((n = recvmsg(socket, &mh, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n <= 0)
        return (int)n;
    *fd = take_descriptor(&mh);
    if (n < (ssize_t)sizeof *m || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || m->type < MOVER_ATTACH ||
        m->type > MOVER_FAILED) {
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        errno = EPROTO;
        return -1;
    }
    to[n - (ssize_t)sizeof *m] = '\0';
    return 1;
}
