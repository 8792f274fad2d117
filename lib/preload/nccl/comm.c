#include "preload/nccl/comm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <cuda.h>

#include "coll/types.h"
#include "common/log.h"
#include "preload/cuda/device.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/nccl/group.h"
#include "preload/nccl/shrunk.h"
#include "preload/socket.h"

static uint32_t next_number; /* session_lock */

struct comm *comm_of(ncclComm_t handle)
{
    struct comm *c = (struct comm *)handle;
    return c && c->magic == COMM_MAGIC ? c : NULL;
}

static uint32_t take_number(void)
{
    session_lock();
    uint32_t number = next_number++;
    session_unlock();
    return number;
}

/* What the full communicator would take of the device, and this one does not. -1: the device has not got it. */
static int take_ballast(struct comm *c, const struct msg_comm_ready *ready)
{
    ncclResult_t (*get_version)(int *) = (ncclResult_t(*)(int *))real_find(REAL_NCCL, "ncclGetVersion");
    int version = 0;
    static bool told;
    if (!get_version || get_version(&version) || version != (int)ready->ballast_nccl) {
        if (!told)
            log_warn("rank %u: NCCL is of version %d and the ballast table of %u: no ballast is allocated", session.rank, version,
                     ready->ballast_nccl);
        told = true;
        return 0;
    }
    return driver(cuMemAlloc)(&c->ballast, (size_t)ready->ballast_kib << 10) ? -1 : 0;
}

/* Send the request and make c, which is cleared, the communicator that prismd answers with; it stays cleared if there is none. */
static ncclResult_t ask(const void *request, size_t size, uint32_t number, struct comm *c)
{
    struct msg_comm_ready *ready = malloc(MSG_MAX);
    if (!ready)
        abort();
    size_t len = socket_ask(request, size, number, ready);
    if (len < sizeof *ready + ready->nsandbox * sizeof(int32_t) || (ready->real_size > 0 && !ready->nsandbox))
        session_fatal(PRISM_EXIT_DAEMON, "rank %u: communicator %u: malformed answer of prismd", session.rank, number);
    if (ready->size < 0)
        session_fatal(PRISM_EXIT_UNSUPPORTED, "rank %u: communicator %u: %.*s", session.rank, number,
                      (int)(len - sizeof *ready), (const char *)(ready + 1));
    ncclResult_t result = ncclSuccess;
    if (ready->size) {
        *c = (struct comm){.magic = COMM_MAGIC, .number = number, .size = ready->size, .rank = ready->rank};
        if (device_is_mapped())
            c->device = device_named();
        else
            driver(cuCtxGetDevice)(&c->device);
        if (ready->real_size > 0)
            c->shrunk = shrunk_create(ready);
        if (ready->ballast_kib && take_ballast(c, ready)) {
            shrunk_destroy(c->shrunk);
            *c = (struct comm){0};
            result = ncclUnhandledCudaError; /* as real NCCL's, when the device has too little memory for it */
        }
    }
    free(ready);
    return result;
}

/* Which of the libraries called libnccl that the process may have, for the assistant (prismd/assistants/assist.c). */
static uint64_t library(void)
{
    return session.transport == TRANSPORT_NCCL ? (uintptr_t)shrunk_library() : 0;
}

/* --- those of a group: NCCL makes them all at once, so members may name them in any order --- */

struct made {
    union {
        struct msg_comm_init init;
        struct msg_comm_split split;
    } request;
    size_t size;
    uint32_t number;
    struct comm *comm;
    bool none; /* the program has no handle */
    ncclResult_t result;
    pthread_t thread;
};
static PRISM_THREAD struct made *waiting;
static PRISM_THREAD uint32_t nwaiting;

static void *make(void *arg)
{
    struct made *m = arg;
    m->result = ask(&m->request, m->size, m->number, m->comm);
    return NULL;
}

static void *make_in_thread(void *arg)
{
    frame.depth = 1; /* nothing from here is the program's */
    session_enter_context();
    return make(arg);
}

/* In a group the program has the handle at once, as with NCCL, and may move it; so the record stays even if nothing comes of it, and
 * using it is an invalid argument. none: no communicator will come of it. */
static ncclResult_t make_or_keep(struct made *m, bool none, ncclComm_t *out)
{
    m->comm = calloc(1, sizeof *m->comm);
    if (!m->comm)
        abort();
    m->none = none;
    *out = none ? NULL : (ncclComm_t)m->comm;
    if (!group_depth()) {
        make(m);
        if (m->result || none) {
            free(m->comm);
            *out = NULL;
        }
        return m->result;
    }
    waiting = realloc(waiting, (nwaiting + 1) * sizeof *waiting);
    if (!waiting)
        abort();
    waiting[nwaiting++] = *m;
    return ncclSuccess;
}

void comm_discard(void)
{
    nwaiting = 0;
}

ncclResult_t comm_group_end(void)
{
    ncclResult_t result = ncclSuccess;
    uint32_t n = nwaiting;
    sigset_t all, before;
    if (!n)
        return ncclSuccess;
    nwaiting = 0;
    sigfillset(&all); /* the program's signal handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 1; i < n; i++)
        if (pthread_create(&waiting[i].thread, NULL, make_in_thread, &waiting[i]))
            session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot start a thread for each of %u communicators of a group", session.rank, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    make(&waiting[0]);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            pthread_join(waiting[i].thread, NULL);
        result = result ? result : waiting[i].result;
        if (waiting[i].none)
            free(waiting[i].comm);
    }
    return result;
}

ncclResult_t comm_init(ncclComm_t *out, int size, const ncclUniqueId *id, int rank)
{
    if (!out || !id || size < 1 || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    struct made m = {.size = sizeof m.request.init, .number = take_number()};
    m.request.init =
        (struct msg_comm_init){.h = {MSG_COMM_INIT, sizeof m.request.init}, .comm = m.number, .size = size, .rank = rank, .nccl = library()};
    memcpy(m.request.init.unique_id, id, sizeof m.request.init.unique_id);
    return make_or_keep(&m, false, out);
}

ncclResult_t comm_split(struct comm *parent, int color, int key, ncclComm_t *out)
{
    if (!parent || !out || color < NCCL_SPLIT_NOCOLOR)
        return ncclInvalidArgument;
    struct made m = {.size = sizeof m.request.split, .number = take_number()};
    m.request.split = (struct msg_comm_split){.h = {MSG_COMM_SPLIT, sizeof m.request.split},
                                              .comm = m.number,
                                              .parent = parent->number,
                                              .color = color,
                                              .key = key,
                                              .nccl = library()};
    return make_or_keep(&m, color == NCCL_SPLIT_NOCOLOR, out);
}

/* The record stays, so that a second destroy is an invalid argument and not a crash. */
void comm_free(struct comm *c)
{
    struct msg_comm_free m = {.h = {MSG_COMM_FREE, sizeof m}, .comm = c->number};
    session_lock();
    socket_send(&m, sizeof m);
    session_unlock();
    c->magic = 0;
    free(c->redops);
    c->redops = NULL;
    shrunk_destroy(c->shrunk);
    c->shrunk = NULL;
    if (c->ballast)
        driver(cuMemFree)(c->ballast);
    c->ballast = 0;
}

ncclResult_t comm_unique_id(ncclUniqueId *id)
{
    static const char magic[] = "prism-unique-id";
    if (!id)
        return ncclInvalidArgument;
    memset(id, 0, sizeof *id);
    memcpy(id->internal, magic, sizeof magic);
    return getrandom(id->internal + sizeof magic, 16, 0) == 16 ? ncclSuccess : ncclSystemError;
}

/* --- reduction operations of the program --- */

static struct redop *free_redop(struct comm *c, int *number)
{
    for (*number = 0; *number < c->nredops; ++*number)
        if (!c->redops[*number].used)
            return &c->redops[*number];
    struct redop *grown = realloc(c->redops, (size_t)(c->nredops + 8) * sizeof *grown);
    if (!grown)
        abort();
    memset(grown + c->nredops, 0, 8 * sizeof *grown);
    c->redops = grown;
    c->nredops += 8;
    return &c->redops[*number];
}

ncclResult_t comm_redop_create(struct comm *c, ncclRedOp_t *op, const void *scalar, ncclDataType_t datatype,
                               ncclScalarResidence_t residence)
{
    size_t size = coll_datatype_size((int)datatype);
    struct redop made = {.used = true, .datatype = (uint8_t)datatype};
    if (!c || !op || !scalar || !size)
        return ncclInvalidArgument;
    if (residence == ncclScalarHostImmediate)
        memcpy(&made.scalar, scalar, size);
    else
        made.where = scalar;
    int number;
    session_lock();
    *free_redop(c, &number) = made;
    session_unlock();
    *op = (ncclRedOp_t)(COMM_REDOPS_FIRST + number);
    return ncclSuccess;
}

const struct redop *comm_redop(const struct comm *c, int op)
{
    int number = op - COMM_REDOPS_FIRST;
    return number >= 0 && number < c->nredops && c->redops[number].used ? &c->redops[number] : NULL;
}

ncclResult_t comm_redop_destroy(struct comm *c, ncclRedOp_t op)
{
    if (!c || !comm_redop(c, (int)op))
        return ncclInvalidArgument;
    session_lock();
    c->redops[(int)op - COMM_REDOPS_FIRST].used = false;
    session_unlock();
    return ncclSuccess;
}
