#include "preload/gate/gate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll/synthetic.h"
#include "common/clock.h"
#include "common/log.h"
#include "graph/graph.h"
#include "preload/gate/early.h"
#include "preload/nodes/events.h"
#include "preload/gate/gate_kernel.h"
#include "preload/gate/heap.h"
#include "preload/nccl/local.h"
#include "preload/memory/park.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "proto/board.h"

#define FULL_WARN_NS (30 * NSEC_PER_SEC)

/* --- pieces --- */

static CUdeviceptr word_address(const struct gate *g, size_t offset)
{
    return session.region_device + g->use.slot * sizeof(struct region_slot) + offset;
}

static const struct word {
    unsigned bit;
    size_t offset;
    CUstreamBatchMemOpType type;
    unsigned flags;
} words_in_order[] = {
    {GATE_ARRIVE, offsetof(struct region_slot, arrive), CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_WRITE_VALUE_DEFAULT},
    {GATE_READY, offsetof(struct region_slot, ready), CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_GEQ},
    {GATE_HERE, offsetof(struct region_slot, ready), CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_WRITE_VALUE_DEFAULT},
    {GATE_GO, offsetof(struct region_slot, go), CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_GEQ},
    {GATE_DONE, offsetof(struct region_slot, done), CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_WRITE_VALUE_DEFAULT},
};
#define WORDS (sizeof words_in_order / sizeof *words_in_order)

static void pass_one(CUstream stream, const CUstreamBatchMemOpParams *op)
{
    if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
        CUDA_MUST(driver(cuStreamWaitValue32)(stream, op->waitValue.address, op->waitValue.value, op->waitValue.flags));
    else
        CUDA_MUST(driver(cuStreamWriteValue32)(stream, op->writeValue.address, op->writeValue.value, op->writeValue.flags));
}

/* Drivers and devices differ in what they take in batches, so a refusal is an answer and not an error. */
static void pass_all(CUstream stream, CUstreamBatchMemOpParams *ops, unsigned n)
{
    static bool refused;
    CUresult r = n > 1 && !refused ? driver(cuStreamBatchMemOp)(stream, n, ops, 0) : CUDA_ERROR_NOT_SUPPORTED;
    if (!r)
        return;
    if (r != CUDA_ERROR_NOT_SUPPORTED)
        session_cuda_failed("cuStreamBatchMemOp", (int)r);
    refused |= n > 1;
    for (unsigned i = 0; i < n; i++)
        pass_one(stream, &ops[i]);
}

static CUdeviceptr address_if(const struct gate *g, bool wanted, size_t offset)
{
    return wanted ? word_address(g, offset) : 0;
}

/* ready is before go, so a kernel that waits for go has waited for both. */
static void pass_by_kernel(const struct gate *g, unsigned words)
{
    size_t awaited = words & GATE_GO ? offsetof(struct region_slot, go) : offsetof(struct region_slot, ready);
    gate_kernel_launch(g->stream->handle, address_if(g, words & GATE_ARRIVE, offsetof(struct region_slot, arrive)),
                       word_address(g, awaited), address_if(g, words & GATE_DONE, offsetof(struct region_slot, done)),
                       g->use.generation);
}

static CUstreamBatchMemOpParams word_op(CUstreamBatchMemOpType type, CUdeviceptr address, uint32_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.waitValue.operation = type; /* a write has the same members */
    op.waitValue.address = address;
    op.waitValue.value = value;
    op.waitValue.flags = flags;
    return op;
}

/* Behind arrive: our flag on the board, and its bell. */
static unsigned tell_board(CUstreamBatchMemOpParams *ops)
{
    const size_t places[] = {offsetof(struct board, flags) + session.seat * sizeof(uint32_t), offsetof(struct board, bell)};
    if (!session.board)
        return 0;
    for (unsigned i = 0; i < 2; i++)
        ops[i] = word_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, session.board_device + places[i], 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    return 2;
}

void gate_pass(const struct gate *g, unsigned words)
{
    CUstreamBatchMemOpParams ops[WORDS + 2];
    unsigned n = 0;
    if (g->kernel && (words & (GATE_READY | GATE_GO))) {
        pass_by_kernel(g, words);
        return;
    }
    for (size_t i = 0; i < WORDS; i++) {
        const struct word *w = &words_in_order[i];
        if (!(words & w->bit))
            continue;
        ops[n++] = word_op(w->type, word_address(g, w->offset), g->use.generation, w->flags);
        if (w->bit == GATE_ARRIVE)
            n += tell_board(ops + n);
    }
    pass_all(g->stream->handle, ops, n);
}

/* How much of bytes at offset lies in one registered chunk. */
static uint64_t in_chunk(uint64_t offset, uint64_t bytes)
{
    uint64_t n = SESSION_CHUNK - offset % SESSION_CHUNK;
    return n < bytes ? n : bytes;
}

static void copy_out(CUstream stream, uint64_t offset, const void *from, uint64_t bytes)
{
    CUdeviceptr device = (CUdeviceptr)(uintptr_t)from;
    for (uint64_t n; bytes; offset += n, device += n, bytes -= n) {
        n = in_chunk(offset, bytes);
        CUDA_MUST(driver(cuMemcpyDtoHAsync)(session.region + offset, device, n, stream));
    }
}

static void copy_in(CUstream stream, void *to, uint64_t offset, uint64_t bytes)
{
    CUdeviceptr device = (CUdeviceptr)(uintptr_t)to;
    for (uint64_t n; bytes; offset += n, device += n, bytes -= n) {
        n = in_chunk(offset, bytes);
        CUDA_MUST(driver(cuMemcpyHtoDAsync)(device, session.region + offset, n, stream));
    }
}

void gate_copy_inputs(const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        copy_out(g->stream->handle, g->parts[i].in_offset, g->operations[i].send, g->parts[i].in_bytes);
}

bool gate_has_outputs(const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->parts[i].out_bytes)
            return true;
    return false;
}

void gate_copy_output(const struct gate *g, uint32_t part, uint64_t from, uint64_t bytes)
{
    if (bytes) /* else there may be no buffer */
        copy_in(g->stream->handle, (char *)g->operations[part].recv + from, g->parts[part].out_offset + from, bytes);
}

void gate_copy_outputs(const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        gate_copy_output(g, i, 0, g->parts[i].out_bytes);
}

/* --- room in the region --- */

static _Noreturn void too_large(const struct operation *o, uint64_t bytes)
{
    session_fatal(PRISM_EXIT_UNSUPPORTED,
                  "rank %u: %s of %llu x %s on communicator %u needs %llu bytes of staging memory, there is address space for %llu; "
                  "spread the ranks over more nodes or set PRISM_STAGING (bytes a rank) to at least %llu",
                  session.rank, prism_op_name(o->op), (unsigned long long)o->count, coll_datatype_name(o->datatype),
                  o->comm->number, (unsigned long long)bytes, (unsigned long long)slots_heap_size(), (unsigned long long)bytes);
}

static void warn_full(uint64_t bytes, int64_t waited_ns)
{
    static bool warned;
    if (warned || waited_ns < FULL_WARN_NS)
        return;
    warned = true;
    log_warn("rank %u waits for room in the memory it shares with prismd (%llu bytes; operations in flight have %llu of %llu, and %zu of %u "
             "places) behind operations that do not end", session.rank, (unsigned long long)bytes, (unsigned long long)slots_in_use(),
             (unsigned long long)slots_heap_size(), slots_reclaim(), REGION_SLOTS);
}

/* Waits cost capture time, and in emulation they are no time of the full job's. */
static void tell_beyond(void)
{
    static bool told;
    if (!told)
        log_info("rank %u: operations that did not end kept others waiting for a second or more, as together they take more than "
                 "PRISM_STAGING allows (%llu bytes are in use); where ranks wait for each other so, raise it", session.rank,
                 (unsigned long long)slots_in_use());
    told = true;
}

/* Sleeps until gates issued before are done, if need be, or have kept it waiting for long; other threads may issue meanwhile,
 * but those that need room stand in line behind this one: small operations would keep a large one waiting for ever. */
static struct slot_use take_room(const struct operation *o, uint64_t bytes)
{
    static uint64_t line_end, line_front;
    struct slot_use use;
    struct slots_wait wait = {0};
    if (bytes > slots_heap_size())
        too_large(o, bytes);
    uint64_t place = line_end++;
    bool beyond = false;
    while (place != line_front || !slots_try(bytes, beyond, &use)) {
        if (place == line_front) {
            int64_t now = clock_now_ns();
            beyond = slots_waited(&wait, now);
            warn_full(bytes, now - wait.since_ns);
        }
        session_unlock();
        nanosleep(&(struct timespec){0, 200000}, NULL);
        session_lock();
    }
    line_front++;
    if (beyond)
        tell_beyond();
    return use;
}

/* --- parts --- */

uint64_t gate_output_bytes(const struct operation *o)
{
    return coll_output_count(o->op, o->count, o->comm->rank, o->peer, o->comm->size) * coll_datatype_size(o->datatype);
}

static void describe(const struct operation *o, struct msg_part *p)
{
    *p = (struct msg_part){
        .op = (uint8_t)o->op,
        .datatype = (uint8_t)o->datatype,
        .redop = o->own.used ? COLL_REDOP_PREMUL : (uint8_t)o->redop,
        .peer = o->peer,
        .count = o->count,
        .out_bytes = gate_output_bytes(o),
        .scalar = o->own.scalar,
    };
    if (o->comm->shrunk && session.phase != PHASE_CALIBRATE)
        p->out_bytes = 0; /* real NCCL moves them */
    p->synthetic = session.control && !coll_synthetic_keeps(o->datatype, p->out_bytes);
    if (p->synthetic)
        p->out_bytes = 0;
    if (session.phase == PHASE_CAPTURE)
        p->in_bytes = coll_input_count(o->op, o->count, o->comm->rank, o->peer, o->comm->size) * coll_datatype_size(o->datatype);
}

static uint64_t room_for(const struct msg_part *parts, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += heap_round(parts[i].in_bytes) + heap_round(parts[i].out_bytes);
    return bytes;
}

static void lay_out(struct msg_part *parts, uint32_t n, uint64_t offset)
{
    for (uint32_t i = 0; i < n; i++) {
        parts[i].in_offset = offset;
        offset += heap_round(parts[i].in_bytes);
        parts[i].out_offset = offset;
        offset += heap_round(parts[i].out_bytes);
    }
}

/* --- issue --- */

static void check_streams(const struct operation *o, uint32_t n)
{
    for (uint32_t i = 0; streams_any_capture() && i < n; i++)
        if (streams_is_capturing(streams_get(o[i].stream, false)->handle))
            session_fatal(PRISM_EXIT_UNSUPPORTED,
                          "rank %u: %s is being captured into a CUDA graph, which Prism cannot serve yet; run without CUDA "
                          "graphs", session.rank, prism_op_name(o[i].op));
}

static void check_waiting(struct stream *s)
{
    uint32_t waiting;
    if (session.phase != PHASE_CAPTURE || (waiting = streams_waiting(s)) <= session.max_waiting)
        return;
    session_fatal(PRISM_EXIT_UNSUPPORTED,
                  "rank %u: the program has %u streams waiting in communication at once; capture can serve %u "
                  "(CUDA_DEVICE_MAX_CONNECTIONS is at most 32, and the last hardware queue must stay free); use fewer "
                  "streams for communication or let operations finish in between",
                  session.rank, waiting, session.max_waiting);
}

/* The gate stands on the first stream named. before: it waits for the others; after: they wait for it. */
static void tie_streams(struct stream *primary, const struct operation *o, uint32_t n, bool before)
{
    struct stream *seen[256];
    uint32_t nseen = 0;
    for (uint32_t i = 1; i < n && nseen < 256; i++) {
        struct stream *s = streams_get(o[i].stream, false);
        bool known = s == primary;
        for (uint32_t k = 0; k < nseen && !known; k++)
            known = seen[k] == s;
        if (known)
            continue;
        seen[nseen++] = s;
        events_tie(before ? s : primary, before ? primary : s);
    }
}

/* The full job's host calls NCCL here, and takes about as long: what the gate takes the host in calibration is its work. In transport
 * nccl NCCL is called itself (gate_nccl.c). */
static void count_as_call(struct comm *c, uint32_t n, int64_t began)
{
    if (session.phase == PHASE_CALIBRATE && !c->shrunk)
        frame.real_ns += blocked_nccl(&c->calls, n, clock_now_ns() - began);
}

static void enqueue(const struct gate *g)
{
    if (session.phase == PHASE_CAPTURE)
        gate_capture_enqueue(g);
    else if (g->operations[0].comm->shrunk)
        gate_nccl_enqueue(g, g->operations[0].comm->shrunk);
    else
        gate_paced_enqueue(g);
}

void gate_issue(struct comm *c, const struct operation *o, uint32_t n)
{
    check_streams(o, n);
    for (uint32_t i = 0; i < n; i++)
        if (c->size == 1)
            park_touch(o[i].stream, false); /* it may be copies */
        else
            park_touch_gate(o[i].stream);
    if (local_issue(c, o, n))
        return;
    int64_t began = clock_now_ns();
    struct msg_part few[8], *parts = n <= sizeof few / sizeof *few ? few : malloc(n * sizeof *parts);
    if (!parts)
        abort();
    for (uint32_t i = 0; i < n; i++)
        describe(&o[i], &parts[i]);
    struct gate g = {.operations = o, .parts = parts, .n = n, .stream = streams_get(o[0].stream, false)};
    check_waiting(g.stream);
    g.use = take_room(&o[0], room_for(parts, n));
    session_register(g.use.offset + g.use.bytes);
    lay_out(parts, n, g.use.offset);
    tie_streams(g.stream, o, n, true);
    struct msg_node node = {.stream = g.stream->number,
                            .comm = c->number,
                            .ordinal = c->groups++,
                            .slot = g.use.slot,
                            .generation = g.use.generation,
                            .early = g.early = early_may(&g)};
    g.node = node_send_comm(&node, parts, n);
    g.kernel = gate_kernel_wanted(g.stream);
    g.stream->gated = true;
    g.stream->slot = g.use.slot;
    g.stream->generation = g.use.generation;
    residence_hold();
    if (g.early)
        early_arrive(&g);
    else
        early_follow(&g);
    park_gate(g.stream->handle, g.use.slot, g.use.generation, g.early);
    enqueue(&g);
    residence_let_go();
    tie_streams(g.stream, o, n, false);
    if (parts != few)
        free(parts);
    count_as_call(c, n, began);
}
