/* wire.h - what a rank and the hub of its communicator say to each other.
 *
 * Every communicator has one hub: a thread in the process that made its unique id. Each rank holds one stream
 * socket to it: an abstract Unix socket where both are on one host and network namespace, TCP otherwise. A
 * frame is a `struct sgn_frame` and `bytes` bytes. Both ends are the same build on the same kind of machine
 * (x86-64), so the structures travel as they are; SGN_VERSION says whether they do.
 *
 *     rank -> hub   HELLO, then any of BATCH, CONTROL, REVOKE, and at last LEAVE (or the connection just
 * ends: it died) hub -> rank   READY once all ranks are there; ANSWER a BATCH; CHILD a CONTROL; FAILED once
 * something went wrong
 *
 * Payload. On one host a rank hands the hub a memory file (its arena) with HELLO; in_offset and out_offset of
 * a task are places in it, and the hub reads and writes there; the answer itself is written there too, into
 * the batch's doorbell, and the stream's thread that waits on that word is woken without a frame. Otherwise
 * payload follows the frame's structures.
 */
#ifndef SOFTGPU_NCCL_WIRE_H
#define SOFTGPU_NCCL_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SGN_VERSION     1
#define SGN_SECRET      16
#define SGN_TEXT        512
#define SGN_NAME        64
#define SGN_ARENA_BYTES (1ull << 34) /* address space of an arena; memory only where it was used */
#define SGN_ALIGN       64ull

enum sgn_frame_type {
    SGN_HELLO = 1,
    SGN_BATCH,
    SGN_CONTROL,
    SGN_REVOKE,
    SGN_LEAVE,
    SGN_READY,
    SGN_ANSWER,
    SGN_CHILD,
    SGN_FAILED,
};

struct sgn_frame {
    uint32_t type;
    uint32_t unused;
    uint64_t bytes; /* that follow */
};

/* The unique id: NCCL_UNIQUE_ID_BYTES bytes hold this. */
struct sgn_id {
    uint64_t magic;
    uint8_t secret[SGN_SECRET]; /* of the hub's process: a rank must know it */
    uint64_t socket;            /* names its Unix socket */
    uint64_t serial;            /* of the communicator in the hub; 0 is none */
    uint64_t host;              /* sgn_host_id() of the hub */
    uint32_t pid;
    uint16_t port;
    uint16_t addresses;
    uint32_t ipv4[6]; /* network order, most likely first */
};

struct sgn_place {
    int32_t node, index;
};

struct sgn_hello {
    uint32_t version;
    int32_t rank, ranks;
    uint32_t pid;
    uint8_t secret[SGN_SECRET];
    uint64_t serial;
    uint64_t host_id; /* two ranks may share a device only when these differ (NCCL_HOSTID), as in NCCL */
    uint64_t
        number; /* communicators this process had made before: a name for jitter that every run repeats */
    struct sgn_place place;
    uint32_t arena; /* an arena comes with this frame */
    uint32_t unused;
    char host[SGN_NAME];
    char name[SGN_NAME]; /* ncclConfig_t.commName */
};

struct sgn_ready {
    uint64_t seed; /* of jitter; the same in every run */
    uint32_t ranks;
    uint32_t unused;
    /* struct sgn_place[ranks] follows */
};

enum sgn_kind {
    SGN_ALL_REDUCE,
    SGN_REDUCE,
    SGN_BROADCAST,
    SGN_ALL_GATHER,
    SGN_REDUCE_SCATTER,
    SGN_ALL_TO_ALL,
    SGN_GATHER,
    SGN_SCATTER,
    SGN_SEND,
    SGN_RECV,
    SGN_KINDS,
};

/* Reductions as they travel: ncclSum to ncclAvg, and one for all that the program made with PreMulSum. */
#define SGN_PREMULSUM 5

struct sgn_task {
    uint32_t kind;
    int32_t datatype;
    int32_t redop;                  /* 0 where there is none */
    int32_t peer;                   /* root or peer; -1 where there is none */
    uint64_t count;                 /* as in the call */
    uint64_t in_bytes, out_bytes;   /* that this rank brings and takes */
    uint64_t in_offset, out_offset; /* in the arena, or in the payload of BATCH and ANSWER */
};

struct sgn_batch {
    uint64_t id;
    int64_t start_ns; /* model time */
    uint32_t tasks;
    uint32_t unused;
    uint64_t out_bytes; /* of the payload that ANSWER carries; 0 with an arena */
    uint64_t doorbell;  /* with an arena: where a struct sgn_doorbell is, instead of ANSWER */
    /* struct sgn_task[tasks], payload follow */
};

struct sgn_answer {
    uint64_t id;
    int64_t begin_ns, end_ns; /* model time: bytes moved from begin to end */
    /* payload follows */
};

enum sgn_bell { SGN_QUIET, SGN_ANSWERED, SGN_GIVEN_UP };

struct sgn_doorbell {
    _Atomic uint32_t ring; /* futex: enum sgn_bell */
    uint32_t unused;
    int64_t begin_ns, end_ns; /* valid once ANSWERED */
};

struct sgn_control {
    uint64_t id;
    uint32_t shrink; /* else split */
    int32_t color, key;
    uint32_t excluded;   /* shrink: int32_t[excluded] follow, ascending */
    struct sgn_id offer; /* the id to use if this rank becomes rank 0 of the child */
};

struct sgn_child {
    uint64_t id;
    int32_t rank, ranks;
    struct sgn_id child;
};

struct sgn_failed {
    int32_t result;   /* ncclResult_t */
    uint32_t control; /* only the split or shrink of this id failed; 0: the communicator */
    char text[SGN_TEXT];
};

#endif
