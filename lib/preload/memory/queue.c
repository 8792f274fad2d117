#include "preload/memory/queue.h"

#include <utlist.h>

#include "preload/memory/lanes.h"

/* If it is the longest. */
static void see_behind(struct queue_behind *b, struct lane *l, uint64_t operations)
{
    if (operations < b->operations)
        return;
    b->operations = operations;
    b->stop = l->serial << 32 | (l->stops[0].number & UINT32_MAX);
    b->at_park = lanes_parked && lanes_at_park(l);
}

struct queue_behind queue_behind(CUstream stream, uint32_t n)
{
    struct queue_behind b = {0};
    lanes_lock();
    struct lane *l = lanes_find(stream), *other;
    if (l) {
        l->queued += n;
        lanes_prune(l);
        if (l->n)
            see_behind(&b, l, l->queued - l->stops[0].queued);
    }
    if (l && stream == CU_STREAM_LEGACY) {
        lanes_legacy_queued = l->queued;
        DL_FOREACH(lanes_all, other)
        {
            if (!other->blocking)
                continue;
            lanes_prune(other);
            if (other->n)
                see_behind(&b, other, lanes_legacy_queued - other->stops[0].on_legacy);
        }
    }
    b.parked = lanes_parked;
    lanes_unlock();
    return b;
}
