/* comm.c - the life of a communicator on its rank's side. */
#include "softgpu/nccl/comm.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softgpu/nccl/hub.h"
#include "softgpu/nccl/types.h"

#define COMM_MAGIC 0x53474e434f4d4d31ull

/* --- the last error --- */

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[SGN_TEXT];

static void remember(const char *text)
{
    pthread_mutex_lock(&error_lock);
    snprintf(last_error, sizeof(last_error), "%s", text);
    pthread_mutex_unlock(&error_lock);
}

/* As NCCL warns: only where NCCL_DEBUG asks for it. */
static bool warnings(void)
{
    const char *level = getenv("NCCL_DEBUG");
    return level && (!strcasecmp(level, "WARN") || !strcasecmp(level, "INFO") || !strcasecmp(level, "TRACE"));
}

ncclResult_t sgn_error(ncclResult_t result, const char *format, ...)
{
    char text[SGN_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    remember(text);
    if (warnings())
        fprintf(stderr, "softgpu nccl: %s\n", text);
    return result;
}

const char *sgn_last_error(void)
{
    static _Thread_local char copy[SGN_TEXT];
    pthread_mutex_lock(&error_lock);
    memcpy(copy, last_error, sizeof(copy));
    pthread_mutex_unlock(&error_lock);
    return copy;
}

/* --- making one --- */

#define HAS(config, field) ((config)->size >= offsetof(ncclConfig_t, field) + sizeof((config)->field))

static ncclResult_t apply_config(struct ncclComm *comm, const ncclConfig_t *config,
                                 const struct ncclComm *parent, const char *call)
{
    comm->blocking = parent ? parent->blocking : true;
    if (parent)
        memcpy(comm->name, parent->name, sizeof(comm->name));
    if (!config)
        return ncclSuccess;
    if (config->magic != NCCL_CONFIG_MAGIC)
        return sgn_error(ncclInvalidArgument,
                         "%s: the configuration was not made with NCCL_CONFIG_INITIALIZER", call);
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) {
        if (config->blocking != 0 && config->blocking != 1)
            return sgn_error(ncclInvalidArgument, "%s: blocking is %d, it must be 0 or 1", call,
                             config->blocking);
        comm->blocking = config->blocking;
    }
    if (HAS(config, commName) && config->commName)
        snprintf(comm->name, sizeof(comm->name), "%s", config->commName);
    if (HAS(config, maxCTAs) && config->minCTAs != NCCL_CONFIG_UNDEF_INT &&
        config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
        (config->minCTAs <= 0 || config->maxCTAs < config->minCTAs))
        return sgn_error(ncclInvalidArgument, "%s: minCTAs %d and maxCTAs %d do not go together", call,
                         config->minCTAs, config->maxCTAs);
    return ncclSuccess;
}

ncclResult_t sgn_comm_create(struct ncclComm **out, int ranks, int rank, const ncclConfig_t *config,
                             const struct ncclComm *parent, const char *call)
{
    static atomic_uint_fast64_t made;
    struct sg_place place;
    int device = parent ? parent->device : sg_current_device();
    if (device < 0 || sg_device_place(device, &place))
        return sgn_error(ncclUnhandledCudaError, "%s: there is no current device; call cudaSetDevice first",
                         call);
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (!comm)
        return sgn_error(ncclSystemError, "%s: out of memory", call);
    ncclResult_t result = apply_config(comm, config, parent, call);
    if (result != ncclSuccess) {
        free(comm);
        return result;
    }
    comm->magic = COMM_MAGIC;
    atomic_init(&comm->references, 1);
    comm->ranks = ranks;
    comm->rank = rank;
    comm->device = device;
    comm->place = place;
    comm->number = atomic_fetch_add(&made, 1);
    comm->socket = -1;
    comm->next_id = 1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->send_lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    *out = comm;
    return ncclSuccess;
}

void sgn_comm_unref(struct ncclComm *comm)
{
    if (!comm || atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    if (comm->socket >= 0)
        close(comm->socket);
    sgn_arena_unmap(comm->arena);
    sgn_ring_free(&comm->ring);
    free(comm->places);
    free(comm->redops);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->send_lock);
    pthread_cond_destroy(&comm->changed);
    comm->magic = 0;
    free(comm);
}

static void fail(struct ncclComm *comm, ncclResult_t result, const char *text)
{
    pthread_mutex_lock(&comm->lock);
    sgn_comm_fail_locked(comm, result, text);
    pthread_mutex_unlock(&comm->lock);
}

static void fill_hello(const struct ncclComm *comm, const struct sgn_id *id, struct sgn_hello *hello)
{
    const char *host_id = getenv("NCCL_HOSTID");
    *hello = (struct sgn_hello){
        .version = SGN_VERSION,
        .rank = comm->rank,
        .ranks = comm->ranks,
        .pid = (uint32_t)getpid(),
        .serial = id->serial,
        .number = comm->number,
        .place = {comm->place.node, comm->place.index},
    };
    memcpy(hello->secret, id->secret, SGN_SECRET);
    for (const char *c = host_id ? host_id : ""; *c; c++)
        hello->host_id = sgn_mix(hello->host_id, (uint64_t)*c);
    gethostname(hello->host, sizeof(hello->host) - 1);
    memcpy(hello->name, comm->name, sizeof(hello->name));
}

ncclResult_t sgn_comm_join(struct ncclComm *comm, const struct sgn_id *id)
{
    char text[SGN_TEXT];
    bool local;
    struct sgn_hello hello;
    comm->socket = sgn_net_connect(id, &local, text);
    if (comm->socket < 0) {
        fail(comm, ncclSystemError, text);
        return sgn_error(ncclSystemError, "%s", text);
    }
    fill_hello(comm, id, &hello);
    int arena_fd = local ? sgn_arena_create(&comm->arena) : -1;
    hello.arena = comm->arena != NULL;
    pthread_mutex_lock(&comm->lock);
    if (comm->state == COMM_CREATED)
        comm->state = COMM_JOINING;
    pthread_mutex_unlock(&comm->lock);
    int sent = sgn_net_send(comm->socket, SGN_HELLO, &(struct sgn_part){&hello, sizeof(hello)}, 1, arena_fd);
    if (arena_fd >= 0)
        close(arena_fd);
    if (sent) {
        snprintf(text, sizeof(text), "the process that made the unique id (pid %u) closed the connection",
                 id->pid);
        fail(comm, ncclRemoteError, text);
        return sgn_error(ncclRemoteError, "%s", text);
    }
    return ncclSuccess;
}

ncclResult_t sgn_comm_wait_ready(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->state == COMM_CREATED || comm->state == COMM_JOINING)
        pthread_cond_wait(&comm->changed, &comm->lock);
    /* One that was ready and failed at once has been made: the failure is an asynchronous one. */
    ncclResult_t result = comm->state == COMM_FAILED && !comm->places ? comm->result : ncclSuccess;
    if (result != ncclSuccess)
        remember(comm->text);
    pthread_mutex_unlock(&comm->lock);
    return result;
}

/* --- state --- */

ncclResult_t sgn_comm_check(const struct ncclComm *comm, const char *call)
{
    if (!comm)
        return sgn_error(ncclInvalidArgument, "%s: the communicator is NULL", call);
    if (comm->magic != COMM_MAGIC)
        return sgn_error(ncclInvalidArgument, "%s: this is no communicator, or one that was destroyed", call);
    return ncclSuccess;
}

ncclResult_t sgn_comm_usable(struct ncclComm *comm, const char *call)
{
    ncclResult_t result = sgn_comm_check(comm, call);
    if (result != ncclSuccess)
        return result;
    pthread_mutex_lock(&comm->lock);
    if (comm->state == COMM_FAILED)
        result = sgn_error(comm->result, "%s: the communicator has failed before: %.400s", call, comm->text);
    else if (comm->revoked)
        result = sgn_error(ncclInvalidUsage, "%s: the communicator was revoked", call);
    else if (comm->state == COMM_CREATED || comm->state == COMM_JOINING)
        result =
            sgn_error(ncclInvalidArgument,
                      "%s: the communicator is not ready; poll ncclCommGetAsyncError until it is no longer "
                      "ncclInProgress",
                      call);
    else if (comm->state != COMM_READY)
        result = sgn_error(ncclInvalidArgument, "%s: the communicator was finalised or aborted", call);
    pthread_mutex_unlock(&comm->lock);
    return result;
}

bool sgn_comm_broken(const struct ncclComm *comm)
{
    return comm->state == COMM_FAILED || comm->state == COMM_ABORTED || comm->revoked;
}

void sgn_comm_fail_locked(struct ncclComm *comm, ncclResult_t result, const char *text)
{
    if (comm->state != COMM_LEFT && comm->state != COMM_FAILED && comm->state != COMM_ABORTED) {
        bool tell = !comm->revoked;
        comm->state = COMM_FAILED;
        comm->result = result;
        snprintf(comm->text, sizeof(comm->text), "%s", text);
        remember(text);
        if (tell) /* the streams go on with results that are not there: never do that silently */
            fprintf(stderr, "softgpu nccl: rank %d: %s\n", comm->rank, text);
    }
    sgn_batch_give_up(comm);
    pthread_cond_broadcast(&comm->changed);
}

ncclResult_t sgn_comm_async_error(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    ncclResult_t result = ncclSuccess;
    bool leave = false;
    switch (comm->state) {
    case COMM_CREATED:
    case COMM_JOINING:
        result = ncclInProgress;
        break;
    case COMM_FINALIZING:
        leave = comm->outstanding == 0;
        result = leave ? ncclSuccess : ncclInProgress;
        break;
    case COMM_FAILED:
        result = comm->revoked ? ncclSuccess : comm->result;
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&comm->lock);
    if (leave)
        sgn_comm_leave(comm);
    return result;
}

int sgn_comm_send(struct ncclComm *comm, uint32_t type, const struct sgn_part *parts, int count)
{
    pthread_mutex_lock(&comm->send_lock);
    int result = comm->socket < 0 ? -1 : sgn_net_send(comm->socket, type, parts, count, -1);
    pthread_mutex_unlock(&comm->send_lock);
    return result;
}

/* --- the end of one --- */

void sgn_comm_leave(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool first = comm->state != COMM_LEFT;
    if (comm->state == COMM_READY || comm->state == COMM_FINALIZING)
        comm->state = COMM_LEFT;
    pthread_mutex_unlock(&comm->lock);
    if (first)
        sgn_comm_send(comm, SGN_LEAVE, NULL, 0);
}

ncclResult_t sgn_comm_finalize(struct ncclComm *comm, bool wait)
{
    pthread_mutex_lock(&comm->lock);
    if (comm->state == COMM_READY)
        comm->state = COMM_FINALIZING;
    while (wait && comm->outstanding > 0 && !sgn_comm_broken(comm))
        pthread_cond_wait(&comm->changed, &comm->lock);
    bool done = comm->outstanding == 0;
    ncclResult_t result = comm->state == COMM_FAILED && !comm->revoked ? comm->result : ncclSuccess;
    pthread_mutex_unlock(&comm->lock);
    if (result != ncclSuccess)
        return result;
    if (!done)
        return ncclInProgress;
    sgn_comm_leave(comm);
    return ncclSuccess;
}

ncclResult_t sgn_comm_abort(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool busy = comm->outstanding > 0;
    comm->state = COMM_ABORTED;
    sgn_batch_give_up(comm);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    if (!pthread_mutex_trylock(
            &comm->send_lock)) { /* a stream may be stuck in a send: then the end of the socket tells */
        if (comm->socket >= 0)
            sgn_net_send(comm->socket, busy ? SGN_REVOKE : SGN_LEAVE, NULL, 0, -1);
        pthread_mutex_unlock(&comm->send_lock);
    }
    if (comm->socket >= 0)
        shutdown(comm->socket, SHUT_WR);
    sgn_reader_forget(comm);
    sgn_comm_unref(comm);
    return ncclSuccess;
}

ncclResult_t sgn_comm_revoke(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool first = !comm->revoked;
    comm->revoked = true;
    sgn_batch_give_up(comm);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    if (first)
        sgn_comm_send(comm, SGN_REVOKE, NULL, 0);
    return ncclSuccess;
}

/* --- children --- */

ncclResult_t sgn_comm_ask_child(struct ncclComm *parent, struct ncclComm *child, int color, int key,
                                const int32_t *excluded, int excluded_count, bool shrink)
{
    char text[SGN_TEXT];
    struct sgn_control control = {
        .shrink = shrink, .color = color, .key = key, .excluded = (uint32_t)excluded_count};
    if (child && sgn_hub_new_id(&control.offer, text))
        return sgn_error(ncclSystemError, "%s", text);
    pthread_mutex_lock(&parent->lock);
    control.id = parent->next_id++ & UINT32_MAX;
    if (child) {
        child->state = COMM_JOINING;
        child->control = control.id;
        child->next_child = parent->children;
        parent->children = child;
        atomic_fetch_add(&child->references, 1);
    }
    pthread_mutex_unlock(&parent->lock);
    struct sgn_part parts[] = {{&control, sizeof(control)},
                               {excluded, (size_t)excluded_count * sizeof(int32_t)}};
    if (sgn_comm_send(parent, SGN_CONTROL, parts,
                      2)) /* the reader sees the end of the socket and fails the child */
        return child ? ncclSuccess
                     : sgn_error(ncclRemoteError, "the process that serves the communicator is gone");
    return ncclSuccess;
}
