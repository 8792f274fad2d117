/* plan.c - the plan of each operation; plan.h has the table. */
#include "coll/plan_private.h"

#include <stdlib.h>

/* What every builder needs. */
struct build {
    const struct coll_request *rq;
    struct layout layout;
    uint64_t c; /* count */
};

static struct coll_side *side_of(struct build *b, int participant)
{
    return &b->layout.plan->sides[participant];
}

static int participants(const struct build *b)
{
    return b->layout.plan->nsandbox + b->layout.plan->nassistants;
}

static bool is_assistant(const struct build *b, int participant)
{
    return participant >= b->layout.plan->nsandbox;
}

static struct coll_place sending(uint64_t offset)
{
    return place_at(COLL_BUFFER_SEND, 0, offset);
}

static struct coll_place receiving(uint64_t offset)
{
    return place_at(COLL_BUFFER_RECV, 0, offset);
}

static void call(struct build *b, int participant, enum coll_call_kind kind, int peer, struct coll_place from,
                 struct coll_place to, uint64_t count)
{
    side_call(side_of(b, participant),
              (struct coll_call){kind, peer, from, to, count, b->rq->datatype, kind != COLL_CALL_COPY});
}

/* A message between participants; either end may be scratch or payload. */
static void message(struct build *b, int from, struct coll_place source, int to, struct coll_place target,
                    uint64_t count)
{
    call(b, from, COLL_CALL_SEND, to, source, place_none, count);
    call(b, to, COLL_CALL_RECV, from, place_none, target, count);
}

static void own_block(struct build *b, int participant, uint64_t source, uint64_t target)
{
    call(b, participant, COLL_CALL_COPY, -1, sending(source), receiving(target), b->c);
}

static struct coll_place payload_sum(struct build *b, int participant, uint64_t input_offset)
{
    struct coll_piece piece = {.kind = COLL_PIECE_SUM,
                               .rank = -1,
                               .receiver = -1,
                               .input_offset = input_offset,
                               .count = b->c,
                               .datatype = b->rq->datatype};
    return place_at(COLL_BUFFER_PAYLOAD, 0, side_piece(side_of(b, participant), piece));
}

static uint64_t payload_copy(struct build *b, int participant, int rank, uint64_t input_offset, int receiver,
                             uint64_t output_offset)
{
    struct coll_piece piece = {.kind = COLL_PIECE_COPY,
                               .rank = rank,
                               .receiver = receiver,
                               .input_offset = input_offset,
                               .output_offset = output_offset,
                               .count = b->c,
                               .datatype = b->rq->datatype};
    return side_piece(side_of(b, participant), piece);
}

/* --- reductions --- */

static void plan_allreduce(struct build *b)
{
    for (int i = 0; i < participants(b); i++) {
        bool assistant = is_assistant(b, i);
        struct coll_place from = assistant ? payload_sum(b, i, 0) : sending(0);
        struct coll_place to = assistant ? side_scratch(side_of(b, i), b->c) : receiving(0);
        call(b, i, COLL_CALL_ALLREDUCE, -1, from, to, b->c);
    }
}

/* One Reduce of the elements from offset on, to the start of the root's output. */
static void reduce_to(struct build *b, int root, uint64_t offset)
{
    bool root_is_assistant = is_assistant(b, root);
    for (int i = 0; i < participants(b); i++) {
        struct coll_place from, to = place_none;
        if (!is_assistant(b, i))
            from = sending(offset);
        else if (root_is_assistant) /* the result is for nobody: nothing needs to be brought */
            from = side_scratch(side_of(b, i), b->c);
        else
            from = payload_sum(b, i, offset);
        if (i == root)
            to = root_is_assistant ? side_scratch(side_of(b, i), b->c) : receiving(0);
        call(b, i, COLL_CALL_REDUCE, root, from, to, b->c);
    }
}

static void plan_reduce(struct build *b)
{
    reduce_to(b, b->layout.participant[b->rq->root], 0);
}

static void plan_reduce_scatter(struct build *b)
{
    struct coll_plan *plan = b->layout.plan;
    for (int i = 0; i < plan->nsandbox; i++)
        reduce_to(b, i, (uint64_t)plan->sides[i].rank * b->c);
    for (size_t r = 0; r < b->layout.nruns; r++) {
        const struct run *run = &b->layout.runs[r];
        int a = layout_assistant(&b->layout, run->assistant);
        uint64_t n = (uint64_t)run->n * b->c;
        for (int i = 0; i < plan->nsandbox; i++)
            message(b, i, sending((uint64_t)run->first * b->c), a, side_scratch(side_of(b, a), n), n);
    }
}

/* --- the others --- */

static void plan_broadcast(struct build *b)
{
    int root = b->layout.participant[b->rq->root];
    for (int i = 0; i < participants(b); i++) {
        bool assistant = is_assistant(b, i);
        struct coll_place from = place_none,
                          to = assistant ? side_scratch(side_of(b, i), b->c) : receiving(0);
        if (i == root && assistant)
            from = place_at(COLL_BUFFER_PAYLOAD, 0,
                            payload_copy(b, i, b->rq->root, 0, b->layout.plan->sides[0].rank, 0));
        else if (i == root)
            from = sending(0);
        call(b, i, COLL_CALL_BROADCAST, root, from, to, b->c);
    }
}

static void plan_all_gather(struct build *b)
{
    struct coll_plan *plan = b->layout.plan;
    int s = plan->nsandbox;
    for (int i = 0; i < s; i++) {
        uint64_t block = (uint64_t)plan->sides[i].rank * b->c;
        own_block(b, i, 0, block);
        for (int j = 0; j < s; j++)
            if (j != i)
                message(b, i, sending(0), j, receiving(block), b->c);
        for (int k = 0; k < plan->nassistants; k++) {
            int a = layout_assistant(&b->layout, k);
            message(b, i, sending(0), a, side_scratch(side_of(b, a), b->c), b->c);
        }
    }
    for (size_t r = 0; r < b->layout.nruns; r++) {
        const struct run *run = &b->layout.runs[r];
        int a = layout_assistant(&b->layout, run->assistant);
        uint64_t at = side_of(b, a)->payload_count, first = (uint64_t)run->first * b->c;
        for (int v = run->first; v < run->first + run->n; v++)
            payload_copy(b, a, v, 0, plan->sides[0].rank, (uint64_t)v * b->c);
        for (int i = 0; i < s; i++)
            message(b, a, place_at(COLL_BUFFER_PAYLOAD, 0, at), i, receiving(first), (uint64_t)run->n * b->c);
    }
}

/* Between sandbox rank i and each run of virtual ranks: what i sends to them, and what they send to i. */
static void exchange_with_runs(struct build *b, int i, bool sends, bool receives)
{
    int rank = b->layout.plan->sides[i].rank;
    for (size_t r = 0; r < b->layout.nruns; r++) {
        const struct run *run = &b->layout.runs[r];
        int a = layout_assistant(&b->layout, run->assistant);
        uint64_t first = (uint64_t)run->first * b->c, n = (uint64_t)run->n * b->c;
        if (sends)
            message(b, i, sending(first), a, side_scratch(side_of(b, a), n), n);
        if (!receives)
            continue;
        uint64_t at = side_of(b, a)->payload_count;
        for (int v = run->first; v < run->first + run->n; v++)
            payload_copy(b, a, v, b->rq->op == PRISM_OP_ALLTOALL ? (uint64_t)rank * b->c : 0, rank,
                         (uint64_t)v * b->c);
        message(b, a, place_at(COLL_BUFFER_PAYLOAD, 0, at), i, receiving(first), n);
    }
}

static void plan_all_to_all(struct build *b)
{
    struct coll_plan *plan = b->layout.plan;
    for (int i = 0; i < plan->nsandbox; i++) {
        uint64_t mine = (uint64_t)plan->sides[i].rank * b->c;
        own_block(b, i, mine, mine);
        for (int j = 0; j < plan->nsandbox; j++)
            if (j != i)
                message(b, i, sending((uint64_t)plan->sides[j].rank * b->c), j, receiving(mine), b->c);
        exchange_with_runs(b, i, true, true);
    }
}

static void plan_gather(struct build *b)
{
    struct coll_plan *plan = b->layout.plan;
    int root = b->layout.participant[b->rq->root];
    for (int i = 0; i < plan->nsandbox; i++) {
        uint64_t block = (uint64_t)plan->sides[i].rank * b->c;
        if (i == root)
            own_block(b, i, 0, block);
        else
            message(b, i, sending(0), root,
                    is_assistant(b, root) ? side_scratch(side_of(b, root), b->c) : receiving(block), b->c);
    }
    if (!is_assistant(b, root))
        exchange_with_runs(b, root, false, true);
}

static void plan_scatter(struct build *b)
{
    struct coll_plan *plan = b->layout.plan;
    int root = b->layout.participant[b->rq->root];
    for (int i = 0; i < plan->nsandbox; i++) {
        int rank = plan->sides[i].rank;
        uint64_t block = (uint64_t)rank * b->c;
        if (i == root)
            own_block(b, i, block, 0);
        else if (is_assistant(b, root))
            message(b, root,
                    place_at(COLL_BUFFER_PAYLOAD, 0, payload_copy(b, root, b->rq->root, block, rank, 0)), i,
                    receiving(0), b->c);
        else
            message(b, root, sending(block), i, receiving(0), b->c);
    }
    if (!is_assistant(b, root))
        exchange_with_runs(b, root, true, false);
}

/* --- choosing --- */

static void (*const builders[PRISM_OP_END])(struct build *) = {
    [PRISM_OP_ALLREDUCE] = plan_allreduce,
    [PRISM_OP_REDUCE] = plan_reduce,
    [PRISM_OP_BROADCAST] = plan_broadcast,
    [PRISM_OP_ALLGATHER] = plan_all_gather,
    [PRISM_OP_REDUCESCATTER] = plan_reduce_scatter,
    [PRISM_OP_ALLTOALL] = plan_all_to_all,
    [PRISM_OP_GATHER] = plan_gather,
    [PRISM_OP_SCATTER] = plan_scatter,
};

static int check_request(const struct coll_request *rq, struct prism_error *err)
{
    const char *name = prism_op_name(rq->op);
    if (rq->op <= 0 || rq->op >= PRISM_OP_END || !builders[rq->op])
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                               "%s: not a collective that can be run on a shrunk communicator; "
                               "use paced emulation (--prism-assistants=0)",
                               name);
    if (!coll_datatype_size(rq->datatype))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: datatype %d is not one of NCCL's", name,
                               rq->datatype);
    if (coll_op_is_rooted(rq->op) && (rq->root < 0 || rq->root >= rq->size))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: root %d is outside its communicator of %d",
                               name, rq->root, rq->size);
    if (!coll_op_is_reduction(rq->op))
        return 0;
    if (rq->redop < 0 || rq->redop >= COLL_REDOPS)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: reduction %d is not one that Prism knows",
                               name, rq->redop);
    if (rq->redop == COLL_REDOP_AVG && !coll_datatype_is_float(rq->datatype) && rq->nsandbox < rq->size)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                               "%s: the average of %s cannot be run on a shrunk communicator; "
                               "use paced emulation (--prism-assistants=0)",
                               name, coll_datatype_name(rq->datatype));
    return 0;
}

struct coll_plan *coll_plan_create(const struct coll_request *rq, struct prism_error *err)
{
    struct build b = {.rq = rq, .c = rq->count};
    if (check_request(rq, err) || layout_init(&b.layout, prism_op_name(rq->op), rq->size, rq->sandbox,
                                              rq->nsandbox, rq->assistants, err))
        return NULL;
    struct coll_plan *plan = b.layout.plan;
    plan->op = rq->op;
    plan->redop = rq->redop;
    if (coll_op_is_reduction(rq->op) && rq->redop == COLL_REDOP_AVG && coll_datatype_is_float(rq->datatype)) {
        plan->redop = COLL_REDOP_PREMUL;
        plan->average_of = rq->size;
    }
    builders[rq->op](&b);
    layout_clear(&b.layout);
    return plan;
}
