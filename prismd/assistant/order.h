/* order.h - what prismd tells an assistant process, and what that answers.
 *
 * Transport: one end of a SOCK_STREAM socket pair each (orders may be larger than a datagram, and prismd must
 * never block on one). Both ends are the same build on the same machine: structures travel as they lie in
 * memory.
 *
 * An assistant knows nothing of ranks, graphs or plans: it makes communicators, reads stretches of payloads
 * and issues calls. Orders of one communicator are done in their sequence, those of different ones side by
 * side.
 */
#ifndef PRISM_PRISMD_ASSISTANT_ORDER_H
#define PRISM_PRISMD_ASSISTANT_ORDER_H

#include <stdint.h>

#include "trace/payload.h"

#define ORDER_ID_LEN    128 /* ncclUniqueId */
#define ORDER_AHEAD     4   /* foreseen orders of a communicator that have not been run yet, at most */
#define ORDER_AHEAD_MAX (256ull << 20) /* and their payload bytes, unless it is a single one */
#define ORDER_GATES     256 /* communicators of an assistant that can have a gate */
#define ORDER_NO_GATE   UINT32_MAX
#define ORDER_NO_TAG    UINT32_MAX
#define ORDER_BYTES_MAX (1ull << 40) /* of an order's payload, and of its scratch */
#define ORDER_SYNTHETIC 0u /* role of a stretch that is not recorded: the pattern of coll/synthetic.h, of the datatype `comm`; `from` is 0 */

enum order_type {
    /* prismd -> assistant */
    ORDER_CREATE = 1, /* struct order_create: make a unique id, answer it, then join */
    ORDER_FORESEE,    /* struct order_run without calls: the payload will be needed soon */
    ORDER_RUN,        /* struct order_run: every sandbox rank that takes part has arrived */
    ORDER_DESTROY,    /* struct order_header: every sandbox rank is destroying it */
    /* assistant -> prismd */
    ORDER_ID = 64, /* struct order_id */
    ORDER_DONE,    /* struct order_header: ORDER_CREATE or ORDER_DESTROY has been done */
    ORDER_FAILED,  /* struct order_failed; the assistant ends */
    ORDER_TIME,    /* struct order_time: how long a run took that has a tag */
};

struct order_header {
    uint32_t type;
    uint32_t communicator; /* global index in the graph */
    uint64_t size;         /* bytes of all of it, header included */
};

struct order_create {
    struct order_header h;
    int32_t size; /* of the shrunk communicator */
    int32_t rank; /* the assistant's; -1: it only makes the id */
    uint32_t gate; /* its word in order_shared.go, or ORDER_NO_GATE */
    uint32_t unused;
    /* char library[]: libnccl.so.2 as the program has it, NUL-terminated; empty = by name */
};

/* A stretch of a recorded payload, or of the synthetic pattern, and its place in the order's payload. What no segment covers is zero. */
struct order_segment {
    struct payload_key key;
    uint64_t from, to, bytes;
};

struct order_call {
    uint8_t kind;                   /* enum coll_call_kind, never COPY */
    uint8_t from_buffer, to_buffer; /* enum coll_buffer: NONE, PAYLOAD, SCRATCH */
    uint8_t redop;                  /* enum coll_redop; PREMUL with scalar */
    int32_t datatype;
    int32_t peer;
    uint32_t unused;
    uint64_t from, to; /* bytes */
    uint64_t count;    /* elements */
    uint64_t scalar;   /* bits of the datatype */
};

struct order_run {
    struct order_header h;
    uint64_t payload_bytes, scratch_bytes;
    uint32_t nsegments, ncalls;
    uint32_t generation; /* the calls wait for the communicator's gate to reach this; 0: for nothing */
    uint32_t tag;        /* not ORDER_NO_TAG: the assistant opens the gate itself as soon as the calls are on the stream, and
                            answers how long they took from there: what it does first is not in the time */
    /* struct order_segment[nsegments], struct order_call[ncalls] */
};

static inline const struct order_segment *order_segments(const struct order_run *o)
{
    return (const struct order_segment *)(o + 1);
}

static inline const struct order_call *order_calls(const struct order_run *o)
{
    return (const struct order_call *)(order_segments(o) + o->nsegments);
}

struct order_id {
    struct order_header h;
    uint8_t id[ORDER_ID_LEN];
};

struct order_time {
    struct order_header h;
    uint32_t tag, unused;
    int64_t ns;
};

struct order_failed {
    struct order_header h;
    uint32_t code; /* enum prism_exit */
    uint32_t unused;
    /* text, not NUL-terminated */
};

/* Counted by the assistant in order_shared; every member atomic. */
struct order_counts {
    uint64_t runs;          /* orders run */
    uint64_t hits;          /* their payload lay ready */
    uint64_t kept;          /* of these, on the device since an earlier order (shelf.h) */
    uint64_t late;          /* it was being read */
    uint64_t misses;        /* nobody had foreseen it */
    uint64_t payload_bytes; /* brought into communication */
};

/* The memory: whole pages, since CUDA maps it. */
struct order_shared {
    struct order_counts counts;
    _Alignas(4096) uint32_t go[ORDER_GATES]; /* by gate: generation up to which runs may begin; only ever grows */
    uint32_t unused[1024 - ORDER_GATES];
};

/* Can the assistant do this? o: all h.size bytes of it; made: what its communicator was made with, NULL = there is none yet. NULL, or
 * what is wrong: a size, a call or a place that cannot be. A sound order reaches into no memory but the buffers it names. */
const char *order_fault(const struct order_header *o, const struct order_create *made);

#endif
