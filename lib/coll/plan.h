/* plan.h - prune plans: an operation of the full communicator as real calls on a shrunk one. Data, no NCCL.
 *
 * 1. Who takes part
 *
 * The shrunk communicator has the sandbox ranks in ascending order (participants 0 .. nsandbox-1), then the assistants.
 * The virtual ranks, in ascending order, are dealt to the assistants in equal consecutive shares; an assistant stands for
 * those of its share. The first one is the leftmost virtual rank's. With fewer virtual ranks than assistants the plan
 * uses fewer; with none, the operation stays as it is and there is no assistant.
 *
 * 2. Buffers, offsets, counts
 *
 * COLL_BUFFER_SEND, _RECV   a sandbox rank's own buffers of that operation (of part `part` of a grouped plan)
 * COLL_BUFFER_PAYLOAD       what an assistant brings; coll_piece says what lies where
 * COLL_BUFFER_SCRATCH       of an assistant: what nobody reads (coll_side.scratch_count elements)
 *
 * Offsets and counts are elements. Those of a collective's plan are multiples of its count: a plan made for count 1
 * serves every count by multiplication. Plans of grouped sends and receives hold their own counts.
 *
 * 3. Plans by operation
 *
 *     AllReduce       AllReduce of all participants; an assistant brings its virtual inputs, reduced
 *     Reduce          Reduce likewise; a virtual root's is its assistant
 *     ReduceScatter   one Reduce a sandbox shard, rooted at its owner, an assistant brings that shard of its virtual inputs,
 *                     reduced; the shards of virtual ranks are sent to their assistants
 *     Broadcast       Broadcast of all participants; a virtual root's assistant brings its input
 *     AllGather, Gather, Scatter, AlltoAll   grouped Send and Recv; blocks of consecutive virtual ranks of one assistant
 *                     go as one message; the own block is copied
 *     Send, Recv, and groups of them   to or from the peer, if it is in the sandbox, else its assistant
 *
 * All real calls of one plan belong into one ncclGroupStart/End (in_group), copies outside it.
 *
 * 4. Reductions
 *
 * Results differ from the full ring's in last bits only, by the order of summation. AVG: an assistant brings plain sums
 * and the real call is a PREMUL in which *every* participant, assistants too, multiplies by 1/size of the full communicator
 * (coll_plan.average_of = size); of integers it cannot be had so and is refused. The datatype must have room for the plain sum (fp16: 65,504). PREMUL: an assistant brings the sum
 * of its virtual inputs times their own factors, and multiplies by 1 (sandbox ranks by their own factor).
 */
#ifndef PRISM_COLL_PLAN_H
#define PRISM_COLL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"
#include "common/error.h"

#define COLL_ASSISTANTS_MAX 2

enum coll_call_kind {
    COLL_CALL_COPY = 1, /* on the device, from `from` to `to`; nothing to do where both are the same memory */
    COLL_CALL_ALLREDUCE,
    COLL_CALL_REDUCE,    /* peer: root */
    COLL_CALL_BROADCAST, /* peer: root */
    COLL_CALL_SEND,
    COLL_CALL_RECV
};

enum coll_buffer {
    COLL_BUFFER_NONE,
    COLL_BUFFER_SEND,
    COLL_BUFFER_RECV,
    COLL_BUFFER_PAYLOAD,
    COLL_BUFFER_SCRATCH
};

struct coll_place {
    enum coll_buffer buffer;
    uint32_t part;   /* of a grouped plan: which of the rank's own parts; else 0 */
    uint64_t offset; /* elements */
};

struct coll_call {
    enum coll_call_kind kind;
    int peer;                   /* participant: the other side, or the root; -1 none */
    struct coll_place from, to; /* NONE where the call has no such buffer (not the root, send, recv) */
    uint64_t count;
    int datatype; /* of this call: parts of a group may differ */
    bool in_group;
};

/* A stretch of an assistant's payload. */
enum coll_piece_kind {
    COLL_PIECE_SUM, /* the inputs of the assistant's virtual ranks from input_offset on, reduced (section 4) */
    COLL_PIECE_COPY /* of virtual rank `rank`'s input from input_offset on (groups: what it sends to receiver); the same bytes lie
                       in the full operation's output of sandbox rank `receiver`, part `part`, from output_offset on */
};

struct coll_piece {
    enum coll_piece_kind kind;
    int rank;     /* of the full communicator; SUM: -1 */
    int receiver; /* rank of the full communicator; SUM: -1 */
    uint32_t part;
    uint64_t input_offset, output_offset; /* elements; groups: 0 */
    uint64_t
        target; /* elements, in the payload; of a group whose datatypes differ: bytes (coll_plan.target_bytes) */
    uint64_t count;
    int datatype;
};

/* One participant. */
struct coll_side {
    int rank; /* sandbox: in the full communicator; assistant: the lowest virtual rank it stands for */
    struct coll_call *calls; /* owned; in the order to issue them */
    size_t ncalls;
    struct coll_piece *pieces; /* owned; assistants only */
    size_t npieces;
    uint64_t payload_count, scratch_count; /* elements (bytes where target_bytes) */
};

struct coll_plan {
    int op; /* enum prism_op; 0 for a grouped plan */
    int size;
    int nsandbox, nassistants;
    struct coll_side *sides; /* owned; nsandbox + nassistants */
    int redop;               /* of the reducing calls: the operation's, or PREMUL for AVG */
    int average_of;          /* > 0: every participant's factor is 1/this */
    bool
        target_bytes; /* grouped plan: payload and scratch offsets (targets, and from/to offsets there) are bytes */
};

struct coll_request {
    int op, size, root;
    int datatype, redop;
    uint64_t count;     /* as in the NCCL call */
    const int *sandbox; /* ascending ranks */
    int nsandbox;
    int assistants; /* 1 .. COLL_ASSISTANTS_MAX */
};

/* NULL with err (PRISM_EXIT_UNSUPPORTED) naming the operation when it cannot be pruned or the request makes no sense. */
struct coll_plan *coll_plan_create(const struct coll_request *request, struct prism_error *err);
void coll_plan_destroy(struct coll_plan *plan); /* NULL is fine */
/* Who stands for a rank of the full communicator: its own participant number, or its assistant's. */
int coll_plan_participant(const struct coll_plan *plan, int rank);

/* A sandbox rank's Send or Recv. */
struct coll_message {
    int op; /* PRISM_OP_SEND, PRISM_OP_RECV */
    int peer; /* rank of the full communicator; itself is allowed (a copy; the n-th send meets the n-th receive) */
    uint64_t count;
    int datatype;
};

/* A group of sends and receives as every sandbox rank issued it (messages[i][0 .. counts[i]-1] of sandbox rank i, part
 * numbers are these indices; a rank without any has 0). Between two sandbox ranks the n-th send meets the n-th
 * receive, if both are in these groups; where one side comes in a later group, the real calls match just as well. */
struct coll_plan *coll_plan_messages(int size, const int *sandbox, int nsandbox, int assistants,
                                     const struct coll_message *const *messages, const size_t *counts,
                                     struct prism_error *err);

/* --- Volume --- */

struct coll_volume {
    uint64_t sent, received; /* bytes through one participant's links */
};

/* What participant's calls move, collectives counted as rings of the shrunk communicator. */
struct coll_volume coll_plan_volume(const struct coll_plan *plan, int participant);
/* What rank p moves in the full operation: rings for AllReduce, AllGather, ReduceScatter; chains for Broadcast and Reduce
 * (in rank order behind the root). */
struct coll_volume coll_full_volume(int op, uint64_t count, int datatype, int size, int root, int p);

#endif
