#include "prismd/assistant/order.h"

#include <stdbool.h>
#include <stddef.h>

#include "coll/plan.h"

static bool within(uint64_t from, uint64_t bytes, uint64_t size)
{
    return bytes <= size && from <= size - bytes;
}

static const char *create_fault(const struct order_create *o)
{
    if (o->h.size <= sizeof *o || ((const char *)o)[o->h.size - 1])
        return "no name of a library";
    if (o->size < 1 || o->rank < -1 || o->rank >= o->size)
        return "a rank that is not in the communicator";
    return o->gate < ORDER_GATES || o->gate == ORDER_NO_GATE ? NULL : "a gate that is not there";
}

/* Stretches follow each other in the payload: what none covers is known to be zero. */
static const char *segments_fault(const struct order_run *o)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < o->nsegments; i++) {
        const struct order_segment *s = &order_segments(o)[i];
        if (s->to < end || !within(s->to, s->bytes, o->payload_bytes) || s->from > UINT64_MAX - s->bytes)
            return "a stretch outside its payload";
        if (s->key.role == ORDER_SYNTHETIC && (s->key.comm >= COLL_DATATYPES || s->from))
            return "a pattern of no datatype";
        end = s->to + s->bytes;
    }
    return NULL;
}

static bool is_place(const struct order_run *o, uint8_t buffer, uint64_t at, uint64_t bytes)
{
    if (buffer == COLL_BUFFER_PAYLOAD)
        return within(at, bytes, o->payload_bytes);
    return buffer == COLL_BUFFER_SCRATCH && within(at, bytes, o->scratch_bytes);
}

static const char *call_fault(const struct order_run *o, const struct order_call *c, const struct order_create *made)
{
    bool reduces = c->kind == COLL_CALL_ALLREDUCE || c->kind == COLL_CALL_REDUCE, root = c->peer == made->rank;
    if (c->kind <= COLL_CALL_COPY || c->kind > COLL_CALL_RECV)
        return "a call that is none";
    if (c->kind != COLL_CALL_ALLREDUCE && (c->peer < 0 || c->peer >= made->size))
        return "a peer that is not in the communicator";
    if (c->datatype < 0 || c->datatype >= COLL_DATATYPES || (reduces && (c->redop >= COLL_REDOPS || c->redop == COLL_REDOP_AVG)))
        return "a datatype or reduction that is none";
    uint64_t size = coll_datatype_size(c->datatype);
    if (c->count > ORDER_BYTES_MAX / size)
        return "too many elements";
    bool reads = reduces || c->kind == COLL_CALL_SEND, may_read = reads || (c->kind == COLL_CALL_BROADCAST && root);
    bool writes = c->kind == COLL_CALL_ALLREDUCE || c->kind == COLL_CALL_RECV || c->kind == COLL_CALL_BROADCAST ||
                  (c->kind == COLL_CALL_REDUCE && root);
    if ((reads || (may_read && c->from_buffer)) && !is_place(o, c->from_buffer, c->from, c->count * size))
        return "a place to read that is outside its buffer";
    if (writes && !is_place(o, c->to_buffer, c->to, c->count * size))
        return "a place to write that is outside its buffer";
    return (may_read || !c->from_buffer) && (writes || !c->to_buffer) ? NULL : "a place that the call does not use";
}

static const char *run_fault(const struct order_run *o, const struct order_create *made)
{
    if (o->h.size < sizeof *o || o->h.size - sizeof *o != (uint64_t)o->nsegments * sizeof(struct order_segment) +
                                                             (uint64_t)o->ncalls * sizeof(struct order_call))
        return "another size than its parts have";
    if (made->rank < 0)
        return "a communicator that the assistant is not in";
    if (o->payload_bytes > ORDER_BYTES_MAX || o->scratch_bytes > ORDER_BYTES_MAX)
        return "too many bytes";
    if (o->generation && made->gate == ORDER_NO_GATE)
        return "a communicator without a gate";
    const char *fault = segments_fault(o);
    for (uint32_t i = 0; !fault && i < o->ncalls; i++)
        fault = call_fault(o, &order_calls(o)[i], made);
    return fault;
}

const char *order_fault(const struct order_header *o, const struct order_create *made)
{
    if (o->type == ORDER_CREATE)
        return made ? "it is there already" : create_fault((const struct order_create *)(const void *)o);
    if (!made)
        return "there is no such communicator";
    if (o->type == ORDER_DESTROY)
        return o->size == sizeof *o ? NULL : "another size than it has";
    if (o->type != ORDER_RUN && o->type != ORDER_FORESEE)
        return "no such order";
    if (o->type == ORDER_FORESEE && o->size >= sizeof(struct order_run) && ((const struct order_run *)(const void *)o)->ncalls)
        return "calls of what is only foreseen";
    return run_fault((const struct order_run *)(const void *)o, made);
}
