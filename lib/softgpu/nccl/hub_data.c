/* hub_data.c - the results of collectives. */
#include "softgpu/nccl/hub_private.h"

#include <string.h>

#include "softgpu/nccl/reduce.h"
#include "softgpu/nccl/types.h"

static const struct sgn_task *task_of(const struct hub_slot *slot)
{
    return &slot->batch->tasks[slot->task];
}

static uint8_t *out_of(const struct hub_coll *coll, int rank)
{
    const struct hub_slot *slot = &coll->slots[rank];
    return slot->batch->out + task_of(slot)->out_offset;
}

const uint8_t *hub_slot_in(const struct hub_coll *coll, int rank)
{
    const struct hub_slot *slot = &coll->slots[rank];
    return slot->copy ? slot->copy : slot->batch->in + task_of(slot)->in_offset;
}

/* Elements [first, first + count) of every rank's input at offset, summed along the ring so that `last` comes
 * last. */
static void reduce_part(const struct hub_comm *comm, const struct hub_coll *coll, void *out, int last,
                        uint64_t first, uint64_t count)
{
    int n = comm->ranks;
    size_t size = sgn_datatype_size(coll->task.datatype);
    const void *inputs[n]; /* at most some thousand ranks */
    for (int i = 0; i < n; i++)
        inputs[i] = hub_slot_in(coll, (last + 1 + i) % n) + first * size;
    sgn_reduce(out, inputs, n, count, coll->task.datatype, coll->task.redop, n);
}

static void all_reduce(const struct hub_comm *comm, const struct hub_coll *coll)
{
    uint64_t n = (uint64_t)comm->ranks, count = coll->task.count, chunk = (count + n - 1) / n;
    size_t size = sgn_datatype_size(coll->task.datatype);
    for (uint64_t c = 0; c < n && c * chunk < count; c++) {
        uint64_t first = c * chunk, part = count - first < chunk ? count - first : chunk;
        uint8_t *out = out_of(coll, 0) + first * size;
        reduce_part(comm, coll, out, (int)c, first, part);
        for (int r = 1; r < comm->ranks; r++)
            memcpy(out_of(coll, r) + first * size, out, part * size);
    }
}

static void all_gather(const struct hub_comm *comm, const struct hub_coll *coll, int to)
{
    size_t part = coll->task.count * sgn_datatype_size(coll->task.datatype);
    for (int r = 0; r < comm->ranks; r++)
        memcpy(out_of(coll, to) + (size_t)r * part, hub_slot_in(coll, r), part);
}

static void all_to_all(const struct hub_comm *comm, const struct hub_coll *coll, int to)
{
    size_t part = coll->task.count * sgn_datatype_size(coll->task.datatype);
    for (int r = 0; r < comm->ranks; r++)
        memcpy(out_of(coll, to) + (size_t)r * part, hub_slot_in(coll, r) + (size_t)to * part, part);
}

void hub_data_collective(struct hub_comm *comm, struct hub_coll *coll, int rank)
{
    uint64_t count = coll->task.count;
    size_t part = count * sgn_datatype_size(coll->task.datatype);
    int root = coll->task.peer;
    switch (coll->task.kind) {
    case SGN_ALL_REDUCE:
        if (rank == 0)
            all_reduce(comm, coll);
        break;
    case SGN_REDUCE_SCATTER:
        reduce_part(comm, coll, out_of(coll, rank), rank, (uint64_t)rank * count, count);
        break;
    case SGN_REDUCE:
        if (rank == root)
            reduce_part(comm, coll, out_of(coll, rank), root, 0, count);
        break;
    case SGN_BROADCAST:
        if (rank != root)
            memcpy(out_of(coll, rank), hub_slot_in(coll, root), part);
        break;
    case SGN_SCATTER:
        memcpy(out_of(coll, rank), hub_slot_in(coll, root) + (size_t)rank * part, part);
        break;
    case SGN_GATHER:
        if (rank == root)
            all_gather(comm, coll, rank);
        break;
    case SGN_ALL_GATHER:
        all_gather(comm, coll, rank);
        break;
    default:
        all_to_all(comm, coll, rank);
        break;
    }
}
