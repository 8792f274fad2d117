#include "preload/nodes/events.h"

#include <stdlib.h>

#include "graph/graph.h"
#include "preload/gate/early.h"
#include "preload/memory/park.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/nodes/times.h"

struct recorded {
    uint64_t event;
    uint32_t node; /* index + 1 */
    UT_hash_handle hh;
};

static struct recorded *by_event;

static struct recorded *find(CUevent event)
{
    uint64_t key = (uint64_t)(uintptr_t)event;
    struct recorded *r;
    HASH_FIND(hh, by_event, &key, sizeof key, r);
    return r;
}

void events_left_out(void)
{
    if (!__atomic_load_n(&session.moves, __ATOMIC_RELAXED))
        __atomic_store_n(&session.moves, true, __ATOMIC_RELAXED);
}

uint32_t events_mark(struct stream *s)
{
    if (session.only_gates)
        return 0;
    uint32_t index = node_send(GRAPH_RECORD, s->number, 0);
    times_point(s, index);
    return index + 1;
}

void events_record(CUevent event, struct stream *s)
{
    if (session.only_gates) {
        events_left_out();
        return;
    }
    struct recorded *r = find(event);
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r)
            abort();
        r->event = (uint64_t)(uintptr_t)event;
        HASH_ADD(hh, by_event, event, sizeof r->event, r);
    }
    r->node = events_mark(s);
}

uint32_t events_latest(CUevent event)
{
    struct recorded *r = find(event);
    return r ? r->node : 0;
}

void events_forget(CUevent event)
{
    struct recorded *r = find(event);
    if (!r)
        return;
    HASH_DEL(by_event, r);
    free(r);
}

void events_tie(struct stream *from, struct stream *to)
{
    static CUevent event; /* a wait takes the event as it is at the call, so one serves all */
    if (!event)
        CUDA_MUST(driver(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    uint32_t record = events_mark(from);
    park_record(event, from->handle);
    CUDA_MUST(driver(cuEventRecord)(event, from->handle));
    struct times_entry *times = record ? times_begin(to, node_send(GRAPH_WAIT, to->number, record)) : NULL;
    struct park_wait park = park_wait_begin(event, to->handle);
    CUDA_MUST(driver(cuStreamWaitEvent)(to->handle, event, CU_EVENT_WAIT_DEFAULT));
    park_wait_end(park);
    early_break(to);
    times_end(to, times);
}
