/* hub_private.h - what the hub's files share. hub.c: thread and connections; hub_comm.c: membership, split
 * and shrink, failures; hub_match.c: posted work and its matching; hub_data.c: results; hub_time.c: model
 * times. */
#ifndef SOFTGPU_NCCL_HUB_PRIVATE_H
#define SOFTGPU_NCCL_HUB_PRIVATE_H

#include "softgpu/nccl/hub.h"
#include "softgpu/nccl/model.h"
#include "softgpu/nccl/net.h"

struct hub_comm;

/* --- hub.c --- */

struct hub_chunk {
    struct hub_chunk *next;
    size_t bytes, done;
    uint8_t data[];
};

struct hub_conn {
    int fd;
    struct sgn_reader reader;
    struct hub_chunk *out, **out_tail;
    bool writing;          /* asked epoll for EPOLLOUT */
    bool dead;             /* to be closed and freed at the end of the round */
    struct hub_comm *comm; /* NULL before HELLO */
    int rank;
    void *arena; /* NULL: payload travels in frames */
    struct hub_conn *prev, *next;
};

/* A chunk for a frame of `bytes` bytes after the header, which is filled in. NULL: no memory. */
struct hub_chunk *hub_chunk_create(uint32_t type, size_t bytes);
void hub_send_chunk(struct hub_conn *conn, struct hub_chunk *chunk); /* takes it; NULL drops the connection */
void hub_send(struct hub_conn *conn, uint32_t type, const void *data, size_t bytes);
void hub_drop(struct hub_conn *conn);
void hub_served(int change); /* communicators served, +1 or -1 */

/* --- hub_comm.c --- */

/* Something a rank posted and has no answer for yet. */
struct hub_batch {
    struct hub_batch *prev, *next; /* of the member */
    struct hub_comm *comm;
    int rank;
    uint64_t id;
    uint32_t count, remaining;
    int64_t start_ns, free_ns, begin_ns, end_ns;
    uint64_t egress[SGN_CLASSES], ingress[SGN_CLASSES]; /* bytes of its sends and receives */
    struct sgn_task *tasks;                             /* in body */
    const uint8_t *in;                                  /* what in_offset counts from */
    uint8_t *out;                                       /* what out_offset counts from */
    uint8_t *body;                                      /* owned: the frame */
    struct hub_chunk *answer;                           /* owned; NULL with a doorbell */
    struct sgn_doorbell *doorbell;
};

struct hub_member {
    struct hub_conn *conn; /* NULL: not yet here, or gone */
    bool joined, left, dead;
    struct sgn_hello hello;
    struct hub_batch *batches;
    uint64_t collectives; /* posted so far */
};

struct hub_coll;
struct hub_queue;
struct hub_round;

struct hub_comm {
    uint64_t serial, owner, seed;
    int ranks, joined, connected;
    bool ready, failed;
    struct sgn_failed failure;
    struct hub_member *members;
    struct sgn_place *places;
    struct sgn_ring ring;
    int blocked;              /* members with a batch that has no answer */
    struct hub_coll *colls;   /* pending, oldest first */
    struct hub_queue **pairs; /* [source][destination], rows made when needed */
    struct hub_round *rounds; /* splits and shrinks under way */
    struct hub_comm *next;
};

void hub_comm_hello(struct hub_conn *conn, const struct sgn_hello *hello, const uint8_t secret[SGN_SECRET]);
void hub_comm_control(struct hub_conn *conn, const uint8_t *body, size_t bytes);
void hub_comm_leave(struct hub_conn *conn);
void hub_comm_revoke(struct hub_conn *conn);
/* The connection ended; died: without LEAVE. */
void hub_comm_gone(struct hub_conn *conn);
/* Tell every rank once; what is pending is dropped. */
void hub_comm_fail(struct hub_comm *comm, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void hub_comm_name(const struct hub_comm *comm, char text[160]); /* for messages */

/* --- hub_match.c --- */

struct hub_slot {
    bool here, done;
    struct hub_batch *batch; /* NULL once answered */
    uint32_t task;
    int64_t start_ns; /* valid once batch is NULL or the task is done */
    uint8_t *copy;    /* owned: input that is needed after the answer */
};

struct hub_coll {
    struct hub_coll *next;
    uint64_t number;
    struct sgn_task task; /* of the first rank */
    int first, arrived, done;
    bool timed;
    double share[SGN_CLASSES];
    struct hub_slot slots[]; /* by rank */
};

void hub_match_post(struct hub_conn *conn, uint8_t *body, size_t bytes); /* takes body */
/* A rank left or died: fail if others wait for it. */
void hub_match_check_left(struct hub_comm *comm);
void hub_match_drop(struct hub_comm *comm); /* all that is pending */

/* --- hub_data.c --- */

const uint8_t *hub_slot_in(const struct hub_coll *coll, int rank);
/* Fill the output of rank's task, of which everything it depends on is there. Reductions fill everybody's. */
void hub_data_collective(struct hub_comm *comm, struct hub_coll *coll, int rank);

/* --- hub_time.c --- */

/* Shares of the links a collective uses at time t0, and its flows entered for others to see; once a
 * collective. */
void hub_time_collective(struct hub_comm *comm, struct hub_coll *coll, int64_t t0);
/* Duration of a message, entered as a flow; bytes: in all on the busier end's link in its batch. */
int64_t hub_time_message(struct hub_comm *comm, int source, int destination, uint64_t bytes, uint64_t number,
                         int64_t t0);

#endif
