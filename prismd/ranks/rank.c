#include "prismd/ranks/rank.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/capture/membership.h"
#include "prismd/ranks/sched.h"
#include "prismd/capture/settling.h"
#include "prismd/gates/watch.h"

struct rank *rank_create(struct daemon *d, uint32_t number, uint32_t device, char *log_path)
{
    struct rank *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->daemon = d;
    r->number = number;
    r->device = device;
    r->log_path = log_path;
    r->socket = r->region_fd = -1;
    d->ranks[number] = r;
    return r;
}

void rank_destroy(struct rank *r)
{
    if (!r)
        return;
    watch_drop_rank(r->daemon->watch, r);
    if (r->readable)
        event_free(r->readable);
    if (r->socket >= 0)
        close(r->socket);
    if (r->region_fd >= 0)
        close(r->region_fd);
    if (r->region)
        munmap(r->region, r->region_size);
    if (r->assembling) {
        free(r->assembling->parts);
        free(r->assembling->sequence);
        free(r->assembling);
    }
    membership_clear(r);
    free(r->streams);
    free(r->stream_tails);
    free(r->phase_data);
    free(r->log_path);
    r->daemon->ranks[r->number] = NULL;
    free(r);
}

void rank_signal(struct rank *r, int signal)
{
    if (r->pid > 0 && r->state != RANK_ENDED)
        kill(-r->pid, signal);
}

void rank_reaped(struct rank *r, int status)
{
    struct daemon *d = r->daemon;
    r->exit_status = status;
    /* Helpers the program left behind in its process group end with it. */
    kill(-r->pid, SIGKILL);
    r->state = RANK_ENDED;
    d->live--;
    sched_ended(d, r);
    settling_ended(r);
    if (d->ops->ended)
        d->ops->ended(d, r);
}

void rank_send_ready(struct rank *r, struct msg_comm_ready *ready, const int32_t *sandbox)
{
    if (r->socket < 0)
        return;
    r->host_waits = HOST_RUNS;
    ready->h.type = MSG_COMM_READY;
    ready->h.size = (uint32_t)(sizeof *ready + ready->nsandbox * sizeof *sandbox);
    struct iovec iov[2] = {{ready, sizeof *ready}, {(void *)(uintptr_t)sandbox, ready->nsandbox * sizeof *sandbox}};
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = ready->nsandbox ? 2 : 1};
    if (sendmsg(r->socket, &mh, MSG_NOSIGNAL) < 0)
        log_debug("rank %u: cannot answer: %s", r->number, strerror(errno));
}
