/* feeds.h - who waits for whom in an operation: the table feeds(op, p) of DESIGN section 4.
 *
 * lib/graph stands below lib/coll, so it repeats the numbers of enum prism_op (coll/types.h); test/feeds.c
 * asserts that they agree.
 */
#ifndef PRISM_GRAPH_FEEDS_H
#define PRISM_GRAPH_FEEDS_H

#include <stdint.h>

enum graph_op {
    GRAPH_OP_ALLREDUCE = 1,
    GRAPH_OP_REDUCE,
    GRAPH_OP_BROADCAST,
    GRAPH_OP_ALLGATHER,
    GRAPH_OP_REDUCESCATTER,
    GRAPH_OP_ALLTOALL,
    GRAPH_OP_GATHER,
    GRAPH_OP_SCATTER,
    GRAPH_OP_SEND,
    GRAPH_OP_RECV,
    GRAPH_OP_END
};

enum graph_feeds {
    GRAPH_FEEDS_NONE = 0,  /* not an operation */
    GRAPH_FEEDS_ALL,       /* everyone waits for everyone */
    GRAPH_FEEDS_FROM_ROOT, /* everyone waits for the root; the root for nobody */
    GRAPH_FEEDS_TO_ROOT,   /* the root waits for everyone; the others for nobody */
    GRAPH_FEEDS_SEND,      /* waits for its receive, unless it fits into the transport's buffers (eager) */
    GRAPH_FEEDS_RECV       /* waits for its send */
};

static inline enum graph_feeds graph_feeds(uint8_t op)
{
    static const uint8_t table[GRAPH_OP_END] = {
        [GRAPH_OP_ALLREDUCE] = GRAPH_FEEDS_ALL,       [GRAPH_OP_ALLGATHER] = GRAPH_FEEDS_ALL,
        [GRAPH_OP_REDUCESCATTER] = GRAPH_FEEDS_ALL,   [GRAPH_OP_ALLTOALL] = GRAPH_FEEDS_ALL,
        [GRAPH_OP_BROADCAST] = GRAPH_FEEDS_FROM_ROOT, [GRAPH_OP_SCATTER] = GRAPH_FEEDS_FROM_ROOT,
        [GRAPH_OP_REDUCE] = GRAPH_FEEDS_TO_ROOT,      [GRAPH_OP_GATHER] = GRAPH_FEEDS_TO_ROOT,
        [GRAPH_OP_SEND] = GRAPH_FEEDS_SEND,           [GRAPH_OP_RECV] = GRAPH_FEEDS_RECV,
    };
    return op < GRAPH_OP_END ? (enum graph_feeds)table[op] : GRAPH_FEEDS_NONE;
}

/* Name for messages: "all-reduce". */
const char *graph_op_name(uint8_t op);
/* Bytes of an element of ncclDataType_t; 0 when unknown (NCCL 2.28: 0 … 11). */
uint32_t graph_datatype_size(uint8_t datatype);

#endif
