/* volume.c - bytes that plans and full operations move. */
#include "coll/plan.h"

/* A chain in rank order behind the root: everyone but its last passes on, everyone but its first takes. */
static struct coll_volume chain(uint64_t bytes, int size, int place, bool towards_root)
{
    bool first = place == 0, last = place == size - 1;
    struct coll_volume v = {last ? 0 : bytes, first ? 0 : bytes};
    return towards_root ? (struct coll_volume){v.received, v.sent} : v;
}

static struct coll_volume ring(uint64_t bytes)
{
    return (struct coll_volume){bytes, bytes};
}

struct coll_volume coll_full_volume(int op, uint64_t count, int datatype, int size, int root, int p)
{
    uint64_t bytes = count * coll_datatype_size(datatype), others = (uint64_t)size - 1;
    int place = (int)((((int64_t)p - root) % size + size) % size); /* any root where none is */
    switch (op) {
    case PRISM_OP_ALLREDUCE:
        return ring(2 * others * bytes / (uint64_t)size);
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_REDUCESCATTER:
    case PRISM_OP_ALLTOALL:
        return ring(others * bytes);
    case PRISM_OP_BROADCAST:
        return chain(bytes, size, place, false);
    case PRISM_OP_REDUCE:
        return chain(bytes, size, place, true);
    case PRISM_OP_GATHER:
        return p == root ? (struct coll_volume){0, others * bytes} : (struct coll_volume){bytes, 0};
    case PRISM_OP_SCATTER:
        return p == root ? (struct coll_volume){others * bytes, 0} : (struct coll_volume){0, bytes};
    case PRISM_OP_SEND:
        return (struct coll_volume){bytes, 0};
    case PRISM_OP_RECV:
        return (struct coll_volume){0, bytes};
    default:
        return (struct coll_volume){0, 0};
    }
}

static int op_of_call(enum coll_call_kind kind)
{
    static const int ops[] = {[COLL_CALL_ALLREDUCE] = PRISM_OP_ALLREDUCE,
                              [COLL_CALL_REDUCE] = PRISM_OP_REDUCE,
                              [COLL_CALL_BROADCAST] = PRISM_OP_BROADCAST,
                              [COLL_CALL_SEND] = PRISM_OP_SEND,
                              [COLL_CALL_RECV] = PRISM_OP_RECV};
    return ops[kind]; /* a copy is no operation: 0 */
}

struct coll_volume coll_plan_volume(const struct coll_plan *plan, int participant)
{
    const struct coll_side *side = &plan->sides[participant];
    struct coll_volume sum = {0, 0};
    for (size_t i = 0; i < side->ncalls; i++) {
        const struct coll_call *c = &side->calls[i];
        struct coll_volume v = coll_full_volume(op_of_call(c->kind), c->count, c->datatype,
                                                plan->nsandbox + plan->nassistants, c->peer, participant);
        sum.sent += v.sent;
        sum.received += v.received;
    }
    return sum;
}
