#include "preload/nodes/sync.h"

#include "common/clock.h"
#include "graph/graph.h"
#include "preload/nodes/events.h"
#include "preload/memory/memory.h"
#include "preload/preload.h"
#include "preload/socket.h"
#include "preload/nodes/times.h"

static void begins(struct sync *sync)
{
    struct msg_sync_enter m = {.h = {MSG_SYNC_ENTER, sizeof m}, .ns = frame.enter_ns};
    if (sync->n)
        socket_send(&m, sizeof m);
    sync->began_ns = clock_now_ns();
}

void sync_begin_stream(struct sync *sync, CUstream handle, bool per_thread)
{
    if (session.only_gates) {
        events_left_out();
        return;
    }
    session_lock();
    sync->records[0] = events_mark(streams_get(handle, per_thread));
    sync->n = 1;
    session_unlock();
    begins(sync);
}

/* Default streams of other threads cannot be marked from here. */
void sync_begin_device(struct sync *sync)
{
    sync->n = 0;
    if (session.only_gates) {
        events_left_out();
        return;
    }
    session_lock();
    for (struct stream *s = streams_first(); s && sync->n < SYNC_MAX; s = s->next)
        if (s->handle == CU_STREAM_LEGACY || streams_is_neutral(s))
            sync->records[sync->n++] = events_mark(s);
    session_unlock();
    begins(sync);
}

/* An event that we never saw recorded makes no node. */
void sync_begin_event(struct sync *sync, CUevent event)
{
    if (session.only_gates) {
        events_left_out();
        return;
    }
    session_lock();
    sync->records[0] = events_latest(event);
    sync->n = sync->records[0] ? 1 : 0;
    session_unlock();
    begins(sync);
}

/* They also say how long the real call took. */
static void join_streams(const struct sync *sync, int64_t now)
{
    for (struct stream *s = streams_first(); s; s = s->next)
        if (streams_is_neutral(s) && !streams_is_capturing(s->handle))
            times_point(s, node_send_at(GRAPH_JOIN, s->number, 0, now, sync->began_ns));
}

void sync_end(const struct sync *sync)
{
    if (!sync->n)
        return;
    int64_t now = clock_now_ns();
    session_lock();
    for (uint32_t i = 0; i < sync->n; i++)
        node_send(GRAPH_SYNC, 0, sync->records[i]);
    join_streams(sync, now);
    CUstreamCaptureMode mode = streams_relax();
    if (session.phase == PHASE_CAPTURE)
        memory_free_deferred();
    streams_restore(mode);
    session_unlock();
}
