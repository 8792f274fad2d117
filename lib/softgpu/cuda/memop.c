/* memop.c - wait value and write value: the gates.
 *
 * A closed gate costs one sleeping thread. It sleeps in the kernel on the 32-bit word (a shared futex, so that the
 * writer may be another process that maps the same page); a writer that does not wake it is found by looking again, at
 * growing intervals. Our own writes wake.
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softgpu/cuda/api.h"

/* After this long at a closed gate we look ten times less often: parked streams are many. */
#define LONG_WAIT_NS 2000000000ll

struct batch {
    struct CUctx_st *context;
    unsigned count;
    unsigned next; /* operation, for sg_gates_step */
    bool stands;   /* at the closed gate of that operation: it holds a hardware queue */
    CUstreamBatchMemOpParams ops[];
};

static bool satisfied(uint64_t now, uint64_t value, unsigned flags, bool wide)
{
    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(now - value) >= 0 : (int32_t)((uint32_t)now - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return wide ? ~(now | value) != 0 : (uint32_t) ~(now | value) != 0;
    }
}

static uint64_t load(CUdeviceptr address, bool wide)
{
    return wide ? __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE)
                : __atomic_load_n((uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

static void futex_sleep(uint32_t *word, uint32_t seen, int64_t ns)
{
    struct timespec limit = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

/* Sleeps until the value is there; returns when it was seen. */
static int64_t look_for_value(const struct CUstreamMemOpWaitValueParams_st *op, bool wide)
{
    uint64_t value = wide ? op->value64 : op->value, now = load(op->address, wide);
    const int64_t most = (int64_t)(sg_profile()->gate_poll_max * 1e9), since = sg_real_now();
    int64_t interval = 1000000;
    while (!satisfied(now, value, op->flags, wide)) {
        futex_sleep((uint32_t *)(uintptr_t)op->address, (uint32_t)now, interval);
        int64_t limit = sg_real_now() - since > LONG_WAIT_NS ? 10 * most : most;
        interval = interval * 3 / 2 < limit ? interval * 3 / 2 : limit;
        now = load(op->address, wide);
    }
    return sg_real_now();
}

static bool value_is_there(const struct CUstreamMemOpWaitValueParams_st *op, bool wide)
{
    return satisfied(load(op->address, wide), wide ? op->value64 : op->value, op->flags, wide);
}

/* Model time: at once if the value was there already, else when we saw it. */
static int64_t wait_value(struct CUctx_st *context, const struct CUstreamMemOpWaitValueParams_st *op, bool wide,
                          int64_t start_ns)
{
    if (value_is_there(op, wide))
        return start_ns;
    sg_queue_block(context);
    int64_t seen = look_for_value(op, wide);
    sg_queue_unblock(context, seen);
    return SG_MAX(start_ns, seen);
}

int64_t sg_memop_poll(CUdeviceptr address, uint32_t value, int64_t start_ns)
{
    struct CUstreamMemOpWaitValueParams_st op = {.address = address, .value = value, .flags = CU_STREAM_WAIT_VALUE_GEQ};
    if (value_is_there(&op, false))
        return start_ns;
    int64_t seen = look_for_value(&op, false);
    return SG_MAX(start_ns, seen);
}

/* True: the word is another now. */
static bool write_value(const struct CUstreamMemOpWaitValueParams_st *op, bool wide)
{
    if (wide)
        return __atomic_exchange_n((uint64_t *)(uintptr_t)op->address, op->value64, __ATOMIC_ACQ_REL) != op->value64;
    return __atomic_exchange_n((uint32_t *)(uintptr_t)op->address, op->value, __ATOMIC_ACQ_REL) != op->value;
}

static void wake(CUdeviceptr address)
{
    syscall(SYS_futex, (uint32_t *)(uintptr_t)address, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sg_memop_write(CUdeviceptr address, uint32_t value)
{
    write_value(&(struct CUstreamMemOpWaitValueParams_st){.address = address, .value = value}, false);
    wake(address);
}

static bool is_wait(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool is_write(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

/* Of writes that follow each other the last one wakes: a system call a write is what a batch is there to save. */
static void write_in_batch(const struct batch *batch, unsigned i)
{
    const CUstreamBatchMemOpParams *op = &batch->ops[i];
    bool changed = write_value(&op->writeValue, op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
    if (changed && (i + 1 == batch->count || !is_write(op + 1)))
        wake(op->writeValue.address);
}

bool sg_gates_closed(const void *ctx)
{
    const struct batch *batch = ctx;
    const CUstreamBatchMemOpParams *op = &batch->ops[batch->next];
    return batch->stands && !value_is_there(&op->waitValue, op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64);
}

/* False: the wait at batch->next is not over. */
static bool pass_wait(struct batch *batch, int64_t *now_ns, const uint32_t **word, uint32_t *seen)
{
    const CUstreamBatchMemOpParams *op = &batch->ops[batch->next];
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    *word = (const uint32_t *)(uintptr_t)op->waitValue.address;
    uint64_t now = load(op->waitValue.address, wide);
    *seen = (uint32_t)now;
    if (!satisfied(now, wide ? op->waitValue.value64 : op->waitValue.value, op->waitValue.flags, wide)) {
        if (!batch->stands)
            sg_queue_block(batch->context);
        batch->stands = true;
        return false;
    }
    if (batch->stands) {
        *now_ns = SG_MAX(*now_ns, sg_real_now());
        sg_queue_unblock(batch->context, *now_ns);
    }
    batch->stands = false;
    return true;
}

bool sg_gates_step(void *ctx, int64_t *now_ns, const uint32_t **word, uint32_t *seen)
{
    struct batch *batch = ctx;
    for (; batch->next < batch->count; batch->next++) {
        const CUstreamBatchMemOpParams *op = &batch->ops[batch->next];
        if (is_wait(op) && !pass_wait(batch, now_ns, word, seen))
            return false;
        if (is_write(op))
            write_in_batch(batch, batch->next);
    }
    free(batch);
    return true;
}

/* A write is seen by others at the moment its model time is reached, not while the stream runs ahead of the clock.
 * After sg_gates_step it goes on where that stood. */
static int64_t run_batch(void *ctx, int64_t start_ns)
{
    struct batch *batch = ctx;
    int64_t now = start_ns;
    if (batch->stands)
        sg_queue_unblock(batch->context, now);
    for (unsigned i = batch->next; i < batch->count; i++) {
        const CUstreamBatchMemOpParams *op = &batch->ops[i];
        switch (op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32: now = wait_value(batch->context, &op->waitValue, false, now); break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: now = wait_value(batch->context, &op->waitValue, true, now); break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: write_in_batch(batch, i); break;
        default: break; /* barriers: every operation here is one */
        }
    }
    free(batch);
    return now;
}

/* Flags must lie, aligned, in memory that the device reaches: its own, or registered host memory. */
static CUresult check_op(const CUstreamBatchMemOpParams *op)
{
    size_t size = 4;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: size = 8; break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: break;
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (op->waitValue.address % size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_range range;
    if (!sg_range_find((uintptr_t)op->waitValue.address, &range) || range.kind == SG_RANGE_RESERVED)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (!ops || count == 0 || count > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (check_op(&ops[i]) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    struct batch *batch = malloc(sizeof(*batch) + count * sizeof(*ops));
    if (!batch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *batch = (struct batch){.context = stream->context, .count = count};
    memcpy(batch->ops, ops, count * sizeof(*ops));
    CUresult result = sg_enqueue(stream, SG_ITEM_GATES, run_batch, batch, NULL, NULL);
    if (result != CUDA_SUCCESS)
        free(batch);
    return result;
}

static CUresult one(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
                    unsigned int flags)
{
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = type, .address = address, .value64 = value, .flags = flags}};
    return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
