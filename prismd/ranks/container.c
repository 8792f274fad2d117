#include "prismd/ranks/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

static struct {
    int ends[2];
    struct event *readable;
} complaints = {.ends = {-1, -1}};

static const char *program_name(const struct conf *c)
{
    const char *slash = strrchr(c->executable, '/');
    return slash ? slash + 1 : c->executable;
}

static bool is_tool(const struct conf *c)
{
    static const char *const tools[] = {"bwrap", "unshare", "nsenter", "chroot", "enroot", "apptainer", "singularity", "podman"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!strcmp(program_name(c), tools[i]))
            return true;
    return false;
}

bool container_entered(const struct conf *c)
{
    const char *said = getenv("PRISM_CONTAINER");
    return said && *said ? strcmp(said, "0") != 0 : is_tool(c);
}

/* The pipe is the ranks' to write: only that something came counts. */
static void on_complaint(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    char byte;
    (void)what;
    if (read(fd, &byte, 1) != 1)
        return;
    event_del(complaints.readable);
    pthread_mutex_lock(&d->lock);
    daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                "%s starts the ranks in another network namespace, where they cannot reach prismd, nor each other: let the container "
                "share the host's (bwrap without --unshare-net and --unshare-all, unshare without --net, podman --network=host); a "
                "step that is no emulation: --prism-emulate=0",
                program_name(d->conf));
    pthread_mutex_unlock(&d->lock);
}

int container_listen(struct daemon *d, struct prism_error *err)
{
    if (!container_entered(d->conf))
        return 0;
    if (pipe2(complaints.ends, O_CLOEXEC | O_NONBLOCK))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    complaints.readable = event_new(d->base, complaints.ends[0], EV_READ | EV_PERSIST, on_complaint, d);
    if (!complaints.readable || event_add(complaints.readable, NULL))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot listen to a pipe");
    return 0;
}

void container_unlisten(void)
{
    if (complaints.readable)
        event_free(complaints.readable);
    for (int i = 0; i < 2; i++)
        if (complaints.ends[i] >= 0)
            close(complaints.ends[i]);
    complaints.readable = NULL;
    complaints.ends[0] = complaints.ends[1] = -1;
}

void container_environment(const struct conf *c)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/net", text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        setenv("PRISM_NETWORK_NAMESPACE", text, 1);
    }
    /* Kept open through exec, as the library's descriptor (spawn.c). */
    int high = complaints.ends[1] < 0 ? -1 : fcntl(complaints.ends[1], F_DUPFD, 100);
    if (high < 0)
        return;
    snprintf(text, sizeof text, "%d", high);
    setenv("PRISM_COMPLAINTS", text, 1);
    if (is_tool(c))
        setenv("PRISM_CONTAINER_TOOL", "1", 1);
}
