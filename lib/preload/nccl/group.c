#include "preload/nccl/group.h"

#include <stdlib.h>
#include <string.h>

#include "preload/gate/gate.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/gate/streams.h"
#include "preload/memory/park.h"
#include "preload/memory/residence.h"
#include "preload/memory/room.h"

static PRISM_THREAD int depth;
static PRISM_THREAD struct operation *collected;
static PRISM_THREAD uint32_t ncollected, collected_cap;

void group_start(void)
{
    depth++;
}

int group_depth(void)
{
    return depth;
}

static bool is_own(const struct operation *o)
{
    const struct redop *own = comm_redop(o->comm, o->redop);
    return own && own->datatype == o->datatype;
}

/* The program may destroy its reduction before the group ends, as PyTorch does. NCCL reads a scalar on the device when the operation
 * runs; here the host waits for what lies in front of it on the stream, and for nothing else. */
static void take_own(struct operation *o)
{
    const struct redop *own = coll_op_is_reduction(o->op) ? comm_redop(o->comm, o->redop) : NULL;
    CUstream stream = o->stream ? (CUstream)o->stream : CU_STREAM_LEGACY;
    if (!own)
        return;
    o->own = *own;
    if (!own->where || streams_is_capturing(stream)) /* gate_issue will refuse it */
        return;
    park_touch(stream, false);
    CUDA_MUST(driver(cuStreamSynchronize)(stream));
    residence_hold_idle(stream);
    CUDA_MUST(driver(cuMemcpyDtoHAsync)(&o->own.scalar, (CUdeviceptr)(uintptr_t)own->where, coll_datatype_size(o->datatype), stream));
    CUDA_MUST(driver(cuStreamSynchronize)(stream));
    residence_let_go();
}

static bool valid(const struct operation *o)
{
    size_t size = coll_datatype_size(o->datatype);
    bool needs_peer = coll_op_is_rooted(o->op) || coll_op_is_p2p(o->op);
    if (!o->comm || !size || (needs_peer && (o->peer < 0 || o->peer >= o->comm->size)))
        return false;
    if (o->count > UINT64_MAX / size / (uint64_t)o->comm->size)
        return false;
    if (coll_op_is_reduction(o->op) && (o->redop < 0 || o->redop >= ncclNumOps) && !is_own(o))
        return false;
    bool in = coll_input_count(o->op, o->count, o->comm->rank, o->peer, o->comm->size) != 0;
    bool out = coll_output_count(o->op, o->count, o->comm->rank, o->peer, o->comm->size) != 0;
    return (!in || o->send) && (!out || o->recv);
}

/* Once for all that go on one stream, as if they were one operation: a thread waits longer each time. */
static void await_room(const struct operation *o, uint32_t n)
{
    for (uint32_t i = 0, first = 0; i < n; i++) {
        if (i + 1 < n && o[i + 1].stream == o[i].stream)
            continue;
        room_await((CUstream)o[i].stream, false, ROOM_GATE + 2 * (i - first));
        first = i + 1;
    }
}

/* Stable: operations of a communicator stay in call order. Communicators in order of first appearance. */
static void issue_all(struct operation *o, uint32_t n)
{
    struct operation few[8], *of_comm = n <= sizeof few / sizeof *few ? few : malloc(n * sizeof *of_comm);
    if (!of_comm)
        abort();
    await_room(o, n);
    session_lock();
    CUstreamCaptureMode mode = streams_relax();
    while (n) {
        struct comm *c = o[0].comm;
        uint32_t picked = 0, kept = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (o[i].comm == c)
                of_comm[picked++] = o[i];
            else
                o[kept++] = o[i];
        }
        n = kept;
        gate_issue(c, of_comm, picked);
    }
    streams_restore(mode);
    session_unlock();
    if (of_comm != few)
        free(of_comm);
}

ncclResult_t group_add(const struct operation *operation)
{
    if (!valid(operation))
        return ncclInvalidArgument;
    struct operation one = *operation;
    take_own(&one);
    if (!depth) {
        issue_all(&one, 1);
        return ncclSuccess;
    }
    if (ncollected == collected_cap) {
        collected_cap = collected_cap ? collected_cap * 2 : 16;
        collected = realloc(collected, collected_cap * sizeof *collected);
        if (!collected)
            abort();
    }
    collected[ncollected++] = one;
    return ncclSuccess;
}

void group_discard(void)
{
    ncollected = 0;
    comm_discard();
}

ncclResult_t group_end(void)
{
    if (!depth)
        return ncclInvalidUsage;
    if (--depth)
        return ncclSuccess;
    ncclResult_t made = comm_group_end();
    uint32_t n = ncollected;
    ncollected = 0;
    if (!made && n)
        issue_all(collected, n);
    return made;
}
