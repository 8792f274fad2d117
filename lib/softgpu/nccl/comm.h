/* comm.h - a communicator as its rank sees it.
 *
 * States. CREATED -> JOINING (HELLO sent, or waiting for the parent's split) -> READY -> FINALIZING -> LEFT,
 * and from any of them FAILED (an asynchronous error; `result` and `text` say which) or ABORTED. In the last
 * four no operation is waited for.
 *
 * Threads. Calls come from any thread of the program; each batch of work runs on its streams' threads; one
 * reader thread for the process reads all communicators' sockets. `lock` guards everything below it;
 * `changed` is broadcast when something did. A communicator lives until the last reference is gone: the
 * program's and one for each batch.
 */
#ifndef SOFTGPU_NCCL_COMM_H
#define SOFTGPU_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "softgpu/core/engine.h"
#include "softgpu/nccl/model.h"
#include "softgpu/nccl/net.h"

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

enum comm_state {
    COMM_CREATED,
    COMM_JOINING,
    COMM_READY,
    COMM_FINALIZING,
    COMM_LEFT,
    COMM_FAILED,
    COMM_ABORTED
};

struct batch;
struct arena_block;

struct redop {
    bool used;
    bool on_device; /* scalar is read when the operation runs */
    int datatype;
    const void *pointer;
    uint8_t value[8]; /* else this */
};

struct ncclComm {
    uint64_t magic;
    atomic_int references;
    int rank, ranks, device;
    bool blocking;
    char name[SGN_NAME];
    struct sg_place place;
    uint64_t number; /* communicators this process made before */
    uint64_t key;    /* in the reader's table; 0: not there */

    pthread_mutex_t send_lock; /* frames do not mix; taken without `lock` */
    int socket;                /* -1: none */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum comm_state state;
    ncclResult_t result; /* of FAILED */
    char text[SGN_TEXT];
    bool revoked;
    uint64_t seed;
    struct sgn_place *places;
    struct sgn_ring ring;
    void *arena;                /* NULL: payload travels in frames */
    struct arena_block *blocks; /* in use, by offset */
    uint64_t arena_high;        /* used so far since it was last empty */
    uint64_t issued;            /* batches given an order number */
    uint64_t serving;           /* order number of the batch that may run */
    int64_t last_end_ns;        /* model end of the batch before */
    int outstanding;            /* batches not finished */
    uint64_t next_id;           /* of batches and controls */
    struct batch *posted;       /* waiting for their answer */
    struct ncclComm *children;  /* waiting for their split or shrink */
    struct ncclComm *next_child, *parent;
    uint64_t control; /* child: id of its split or shrink; 0: has the answer */
    struct redop *redops;
    int redop_count;
};

/* --- the last error (in comm.c) --- */

/* Remember the text for ncclGetLastError and return result. */
ncclResult_t sgn_error(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sgn_last_error(void); /* the calling thread's copy */

/* --- comm.c --- */

ncclResult_t sgn_comm_create(struct ncclComm **comm, int ranks, int rank, const ncclConfig_t *config,
                             const struct ncclComm *parent, const char *call);
void sgn_comm_unref(struct ncclComm *comm); /* takes NULL */
/* Connect and say HELLO; READY comes once the reader watches the socket. On failure comm is FAILED too. */
ncclResult_t sgn_comm_join(struct ncclComm *comm, const struct sgn_id *id);
/* Block until the communicator is ready or has failed; its result. */
ncclResult_t sgn_comm_wait_ready(struct ncclComm *comm);
ncclResult_t sgn_comm_check(const struct ncclComm *comm, const char *call); /* is it one at all */
ncclResult_t sgn_comm_usable(struct ncclComm *comm, const char *call);      /* and ready for operations */
/* Caller holds lock. First failure only; wakes everybody. */
void sgn_comm_fail_locked(struct ncclComm *comm, ncclResult_t result, const char *text);
bool sgn_comm_broken(const struct ncclComm *comm); /* under lock: FAILED or ABORTED or revoked */
ncclResult_t sgn_comm_async_error(struct ncclComm *comm);
ncclResult_t sgn_comm_finalize(struct ncclComm *comm, bool wait);
void sgn_comm_leave(struct ncclComm *comm); /* LEAVE, once nothing is outstanding; close the socket */
ncclResult_t sgn_comm_abort(struct ncclComm *comm);
ncclResult_t sgn_comm_revoke(struct ncclComm *comm);
/* Ask the parent's hub for a child; it becomes JOINING. excluded is sorted. */
ncclResult_t sgn_comm_ask_child(struct ncclComm *parent, struct ncclComm *child, int color, int key,
                                const int32_t *excluded, int excluded_count, bool shrink);
int sgn_comm_send(struct ncclComm *comm, uint32_t type, const struct sgn_part *parts, int count);

/* --- reader.c --- */

/* Watch the communicator's socket. 0 or -1. */
int sgn_reader_watch(struct ncclComm *comm);
/* Stop watching and close the socket; afterwards the reader does not touch comm. */
void sgn_reader_forget(struct ncclComm *comm);

/* --- batch.c --- */

/* One operation of a group. */
struct work {
    struct work *next;
    struct ncclComm *comm;
    struct sgn_task task;
    const void *in;
    void *out;
    bool scales; /* PreMulSum */
    struct redop scalar;
    void *stream;
};

/* Enqueue works (all of comm, in order; consumed) on their streams. */
ncclResult_t sgn_batch_launch(struct ncclComm *comm, struct work *works);
/* Wake the batches that wait for their answers: there will be none. Caller holds comm->lock. */
void sgn_batch_give_up(struct ncclComm *comm);
/* An ANSWER frame came: body is taken if it is for a batch. Called by the reader, without locks. */
void sgn_batch_answered(struct ncclComm *comm, uint8_t **body, size_t bytes);

/* --- group.c --- */

/* Add to the calling thread's group, or run at once if there is none open. works are consumed. */
ncclResult_t sgn_group_add(struct work *work);
/* The communicator becomes ready by the end of the group (or of the call, outside one). */
ncclResult_t sgn_group_add_init(struct ncclComm *comm, ncclComm_t *out);
/* A call inside a group failed: ncclGroupEnd reports it too. Returns result. */
ncclResult_t sgn_group_fail(ncclResult_t result);
ncclResult_t sgn_group_start(void);
ncclResult_t sgn_group_end(ncclSimInfo_t *simulate); /* NULL: really */

#endif
