#include "preload/gate/slots.h"

#include "common/clock.h"
#include "preload/gate/heap.h"

#define PATIENCE_MOST 8u /* seconds */

static struct region_slot *words;
static struct heap heap;
static uint32_t generations[REGION_SLOTS];
static uint32_t free_slots[REGION_SLOTS]; /* stack: slots given back */
static uint32_t nfree;
static uint32_t nused; /* slots from here on have never been taken: their pages are not touched, which counts with thousands of ranks */
static struct slot_use in_flight[REGION_SLOTS]; /* in issue order */
static size_t nflight;
static uint64_t limit, in_use; /* bytes of heap; in use: by gates in flight */
static uint64_t ended;         /* gates, ever */

void slots_init(void *region, size_t region_size, uint64_t most)
{
    words = region;
    heap_clear(&heap);
    heap_init(&heap, region_size - REGION_HEAP_OFFSET);
    nflight = 0;
    nfree = nused = 0;
    limit = most;
    in_use = ended = 0;
}

static uint32_t take_slot(void)
{
    if (nfree)
        return free_slots[--nfree];
    generations[nused] = words[nused].done;
    return nused++;
}

uint64_t slots_heap_size(void)
{
    return heap.size;
}

uint64_t slots_in_use(void)
{
    return in_use;
}

size_t slots_reclaim(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < nflight; i++) {
        struct slot_use u = in_flight[i];
        if (!region_word_reached(&words[u.slot].done, u.generation)) {
            in_flight[kept++] = u;
            continue;
        }
        if (u.bytes)
            heap_give(&heap, u.offset - REGION_HEAP_OFFSET, u.bytes);
        in_use -= u.bytes;
        free_slots[nfree++] = u.slot;
        ended++;
    }
    nflight = kept;
    return nflight;
}

bool slots_try(uint64_t bytes, bool beyond, struct slot_use *use)
{
    slots_reclaim();
    if (!nfree && nused == REGION_SLOTS)
        return false;
    if (bytes && in_use && !beyond && (in_use >= limit || bytes > limit - in_use))
        return false;
    uint64_t offset = 0;
    if (bytes) {
        offset = heap_take(&heap, bytes);
        if (offset == HEAP_NONE)
            return false;
    }
    uint32_t slot = take_slot();
    *use = (struct slot_use){slot, ++generations[slot], offset + REGION_HEAP_OFFSET, bytes};
    in_flight[nflight++] = *use;
    in_use += bytes;
    return true;
}

bool slots_waited(struct slots_wait *w, int64_t now_ns)
{
    if (!w->since_ns || w->ended != ended) {
        *w = (struct slots_wait){now_ns, ended};
        return false;
    }
    uint64_t seconds = limit ? in_use / limit : 1;
    if (seconds < 1)
        seconds = 1;
    if (seconds > PATIENCE_MOST)
        seconds = PATIENCE_MOST;
    return now_ns - w->since_ns >= (int64_t)seconds * NSEC_PER_SEC;
}

bool slots_opened(uint32_t slot, uint32_t generation)
{
    return region_word_reached(&words[slot].go, generation);
}

bool slots_any_closed(void)
{
    for (size_t i = 0; i < nflight; i++)
        if (!slots_opened(in_flight[i].slot, in_flight[i].generation))
            return true;
    return false;
}
