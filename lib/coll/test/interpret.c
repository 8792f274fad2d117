#include "interpret.h"

#include <stdlib.h>
#include <string.h>

static char *at(const struct coll_plan *plan, const struct interpret_side *side, struct coll_place place,
                int datatype)
{
    size_t size = coll_datatype_size(datatype);
    switch (place.buffer) {
    case COLL_BUFFER_SEND:
        return side->send[place.part] + place.offset * size;
    case COLL_BUFFER_RECV:
        return side->recv[place.part] + place.offset * size;
    case COLL_BUFFER_PAYLOAD:
        return side->payload + place.offset * (plan->target_bytes ? 1 : size);
    case COLL_BUFFER_SCRATCH:
        return side->scratch + place.offset * (plan->target_bytes ? 1 : size);
    default:
        return NULL;
    }
}

static const struct coll_call *nth(const struct coll_side *side, enum coll_call_kind kind, int peer, size_t n)
{
    for (size_t i = 0; i < side->ncalls; i++)
        if (side->calls[i].kind == kind && (peer < 0 || side->calls[i].peer == peer) && n-- == 0)
            return &side->calls[i];
    return NULL;
}

static bool collective(enum coll_call_kind kind)
{
    return kind == COLL_CALL_ALLREDUCE || kind == COLL_CALL_REDUCE || kind == COLL_CALL_BROADCAST;
}

/* The n-th collective of the participant. */
static const struct coll_call *nth_collective(const struct coll_side *side, size_t n)
{
    for (size_t i = 0; i < side->ncalls; i++)
        if (collective(side->calls[i].kind) && n-- == 0)
            return &side->calls[i];
    return NULL;
}

static int run_collective(const struct coll_plan *plan, struct interpret_side *sides, size_t n,
                          const char **why)
{
    int size = plan->nsandbox + plan->nassistants;
    const struct coll_call *first = nth_collective(&plan->sides[0], n), *c;
    const void *inputs[64];
    struct coll_premul factors[64];
    size_t bytes = first->count * coll_datatype_size(first->datatype);
    for (int i = 0; i < size; i++) {
        c = nth_collective(&plan->sides[i], n);
        if (!c || c->kind != first->kind || c->count != first->count || c->peer != first->peer ||
            c->datatype != first->datatype) {
            *why = "participants disagree on a collective";
            return -1;
        }
        inputs[i] = at(plan, &sides[i], c->from, c->datatype);
        factors[i] = sides[i].factor;
    }
    char *result = malloc(bytes + 1);
    if (first->kind == COLL_CALL_BROADCAST)
        memcpy(result, inputs[first->peer], bytes);
    else if (coll_reduce(result, inputs, size, first->count, first->datatype, plan->redop, factors, NULL))
        abort();
    for (int i = 0; i < size; i++) {
        c = nth_collective(&plan->sides[i], n);
        char *to = at(plan, &sides[i], c->to, c->datatype);
        if (to)
            memcpy(to, result, bytes);
    }
    free(result);
    return 0;
}

/* Every send has its receive, pair by pair in order. */
static int run_messages(const struct coll_plan *plan, struct interpret_side *sides, int from, int to,
                        const char **why)
{
    for (size_t n = 0;; n++) {
        const struct coll_call *send = nth(&plan->sides[from], COLL_CALL_SEND, to, n);
        const struct coll_call *recv = nth(&plan->sides[to], COLL_CALL_RECV, from, n);
        if (!send && !recv)
            return 0;
        if (!send || !recv || send->count != recv->count || send->datatype != recv->datatype) {
            *why = "a send without its receive";
            return -1;
        }
        memcpy(at(plan, &sides[to], recv->to, recv->datatype),
               at(plan, &sides[from], send->from, send->datatype),
               send->count * coll_datatype_size(send->datatype));
    }
}

static void run_copies(const struct coll_plan *plan, struct interpret_side *sides, int i)
{
    for (size_t n = 0; n < plan->sides[i].ncalls; n++) {
        const struct coll_call *c = &plan->sides[i].calls[n];
        if (c->kind == COLL_CALL_COPY)
            memmove(at(plan, &sides[i], c->to, c->datatype), at(plan, &sides[i], c->from, c->datatype),
                    c->count * coll_datatype_size(c->datatype));
    }
}

int interpret(const struct coll_plan *plan, struct interpret_side *sides, const char **why)
{
    int size = plan->nsandbox + plan->nassistants;
    for (size_t n = 0; nth_collective(&plan->sides[0], n); n++)
        if (run_collective(plan, sides, n, why))
            return -1;
    for (int i = 0; i < size; i++) {
        run_copies(plan, sides, i);
        for (int j = 0; j < size; j++)
            if (run_messages(plan, sides, i, j, why))
                return -1;
    }
    return 0;
}
