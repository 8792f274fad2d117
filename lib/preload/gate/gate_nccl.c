/* gate_nccl.c - emulation with real communication: the calls of the prune plan on the shrunk communicator, then the tail
 * gate, which makes the end exact also where NCCL ends without the assistant.
 *
 * In calibration real NCCL is for time and load (its kernels beside the program's, its calls on the host) and what the
 * program reads is the recorded result, or what stands for it in control mode: the assistants bring no numbers then. But what live
 * ranks send each other, and themselves, stays: behind the recorded iterations it is not what was recorded, and sizes that are made
 * of it must be the same at both ends of a real message. */
#include <stdlib.h>

#include "common/clock.h"
#include "preload/gate/gate.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/nccl/shrunk.h"
#include "preload/nodes/times.h"

/* One plan's calls of this rank, with what they refer to. */
struct run {
    const struct gate *gate;
    struct shrunk *shrunk;
    const struct coll_plan *plan;
    const uint32_t *parts; /* of the plan's parts: which of the gate's */
    uint64_t scale;        /* of offsets and counts */
};

static const struct operation *operation_of(const struct run *r, const struct coll_place *place)
{
    return &r->gate->operations[r->parts[place->part]];
}

static void *address(const struct run *r, const struct coll_place *place, int datatype)
{
    if (place->buffer != COLL_BUFFER_SEND && place->buffer != COLL_BUFFER_RECV)
        return NULL;
    const struct operation *o = operation_of(r, place);
    char *base = place->buffer == COLL_BUFFER_SEND ? (char *)(uintptr_t)o->send : o->recv;
    return base + place->offset * r->scale * coll_datatype_size(datatype);
}

static void copy(const struct run *r, const struct coll_call *c)
{
    void *from = address(r, &c->from, c->datatype), *to = address(r, &c->to, c->datatype);
    uint64_t bytes = c->count * r->scale * coll_datatype_size(c->datatype);
    if (bytes && from != to)
        CUDA_MUST(driver(cuMemcpyAsync)((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                                        r->gate->stream->handle));
}

static void communicate(const struct run *r, const struct coll_call *c)
{
    void *from = address(r, &c->from, c->datatype), *to = address(r, &c->to, c->datatype);
    size_t count = c->count * r->scale;
    ncclDataType_t type = (ncclDataType_t)c->datatype;
    cudaStream_t stream = (cudaStream_t)r->gate->stream->handle;
    ncclComm_t real = r->shrunk->real;
    const struct operation *o = &r->gate->operations[r->parts[0]];
    switch (c->kind) {
    case COLL_CALL_ALLREDUCE:
        NCCL_MUST(real_nccl(AllReduce)(from, to, count, type,
                                       shrunk_redop(r->shrunk, r->plan, c->datatype, o->own.scalar), real, stream));
        break;
    case COLL_CALL_REDUCE:
        NCCL_MUST(real_nccl(Reduce)(from, to, count, type,
                                    shrunk_redop(r->shrunk, r->plan, c->datatype, o->own.scalar), c->peer, real, stream));
        break;
    case COLL_CALL_BROADCAST:
        NCCL_MUST(real_nccl(Broadcast)(from ? from : to, to, count, type, c->peer, real, stream));
        break;
    case COLL_CALL_SEND:
        NCCL_MUST(real_nccl(Send)(from, count, type, c->peer, real, stream));
        break;
    case COLL_CALL_RECV:
        NCCL_MUST(real_nccl(Recv)(to, count, type, c->peer, real, stream));
        break;
    case COLL_CALL_COPY:
        break;
    }
}

/* Returns how many calls of NCCL. */
static size_t run_calls(const struct run *r, bool in_group)
{
    const struct coll_side *mine = &r->plan->sides[r->shrunk->me];
    size_t n = 0;
    for (size_t i = 0; i < mine->ncalls; i++) {
        if (mine->calls[i].in_group != in_group)
            continue;
        if (in_group)
            communicate(r, &mine->calls[i]);
        else
            copy(r, &mine->calls[i]);
        n += in_group;
    }
    return n;
}

static size_t run_collectives(const struct gate *g, struct shrunk *s, bool in_group)
{
    size_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct msg_part *p = &g->parts[i];
        if (coll_op_is_p2p(p->op))
            continue;
        struct run r = {.gate = g, .shrunk = s, .parts = &i, .scale = p->count,
                        .plan = shrunk_plan(s, p->op, p->peer, p->datatype, p->redop)};
        n += run_calls(&r, in_group);
    }
    return n;
}

/* All sends and receives of the group; NULL if there are none. parts gets their places in the gate. */
static struct coll_plan *plan_messages(const struct gate *g, struct shrunk *s, uint32_t *parts)
{
    struct coll_message *messages = malloc(g->n * sizeof *messages);
    size_t n = 0;
    if (!messages)
        abort();
    for (uint32_t i = 0; i < g->n; i++)
        if (coll_op_is_p2p(g->parts[i].op)) {
            parts[n] = i;
            messages[n++] = (struct coll_message){.op = g->parts[i].op, .peer = g->parts[i].peer,
                                                  .count = g->parts[i].count, .datatype = g->parts[i].datatype};
        }
    struct coll_plan *plan = n ? shrunk_messages(s, messages, n) : NULL;
    free(messages);
    return plan;
}

static bool is_live(const struct shrunk *s, int rank)
{
    for (int i = 0; i < s->nsandbox; i++)
        if (s->sandbox[i] == rank)
            return true;
    return false;
}

/* A part that one rank sends. */
static bool has_one_sender(const struct msg_part *p)
{
    return p->op == PRISM_OP_RECV || p->op == PRISM_OP_BROADCAST || p->op == PRISM_OP_SCATTER;
}

/* A part to which every rank sends its own stretch. */
static bool has_stretches(const struct msg_part *p)
{
    return p->op == PRISM_OP_ALLGATHER || p->op == PRISM_OP_GATHER || p->op == PRISM_OP_ALLTOALL;
}

static void copy_recorded(const struct gate *g, const struct shrunk *s)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct msg_part *p = &g->parts[i];
        uint64_t each = p->out_bytes / (uint64_t)s->size;
        if (!has_stretches(p)) {
            if (!has_one_sender(p) || !is_live(s, p->peer))
                gate_copy_output(g, i, 0, p->out_bytes);
            continue;
        }
        for (int from = 0, rank = 0; rank <= s->size; rank++)
            if (rank == s->size || is_live(s, rank)) {
                gate_copy_output(g, i, (uint64_t)from * each, (uint64_t)(rank - from) * each);
                from = rank + 1;
            }
    }
}

void gate_nccl_enqueue(const struct gate *g, struct shrunk *s)
{
    uint32_t *parts = malloc(g->n * sizeof *parts);
    if (!parts)
        abort();
    struct run messages = {.gate = g, .shrunk = s, .parts = parts, .scale = 1, .plan = plan_messages(g, s, parts)};
    struct times_entry *times = times_begin(g->stream, g->node);
    gate_pass(g, GATE_ARRIVE);
    run_collectives(g, s, false);
    if (messages.plan)
        run_calls(&messages, false);
    int64_t began = clock_now_ns();
    NCCL_MUST(real_nccl(GroupStart)());
    size_t calls = run_collectives(g, s, true);
    if (messages.plan)
        calls += run_calls(&messages, true);
    NCCL_MUST(real_nccl(GroupEnd)());
    frame.real_ns += blocked_nccl(&s->blocked, calls, clock_now_ns() - began);
    if (gate_has_outputs(g)) {
        gate_pass(g, GATE_READY);
        copy_recorded(g, s);
    }
    gate_fill_outputs(g);
    gate_pass(g, GATE_GO | GATE_DONE);
    times_end(g->stream, times);
    coll_plan_destroy((struct coll_plan *)(uintptr_t)messages.plan);
    free(parts);
}
