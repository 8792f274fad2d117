/* cuda_events.c - event records and waits of the program, runtime and driver. */
#include "graph/graph.h"
#include "preload/cuda/wrap.h"
#include "preload/gate/early.h"
#include "preload/nodes/events.h"
#include "preload/memory/park.h"
#include "preload/memory/room.h"
#include "preload/nodes/times.h"

/* Record and node must not be torn apart by another thread's work on the same stream. */
static void before_record(CUevent event, CUstream handle, bool per_thread)
{
    room_await(handle, per_thread, ROOM_EVENT);
    session_lock();
    struct stream *s = streams_get(handle, per_thread);
    if (!streams_is_capturing(s->handle))
        events_record(event, s);
    park_record(event, s->handle);
}

static struct times_entry *before_wait(CUevent event, CUstream handle, bool per_thread, struct stream **s,
                                       struct park_wait *park)
{
    room_await(handle, per_thread, ROOM_EVENT);
    session_lock();
    uint32_t record = events_latest(event);
    *s = streams_get(handle, per_thread);
    *park = park_wait_begin(event, (*s)->handle);
    if (!record)
        put_note((*s)->handle); /* of an event that we never saw: a wait all the same */
    if (!record || streams_is_capturing((*s)->handle))
        return NULL;
    uint32_t index = node_send(GRAPH_WAIT, (*s)->number, record);
    return times_begin(*s, index);
}

#define RECORD(api, name, per_thread, parameters, arguments)          \
    WRAP(api, name, parameters,                                       \
         if (!frame_enter())                                          \
             return real arguments;                                   \
         before_record((CUevent)event, (CUstream)stream, per_thread); \
         RESULT_##api r = real arguments;                             \
         session_unlock();                                            \
         frame_leave();                                               \
         return r;)
#define RECORD_RT(name, per_thread, parameters, arguments)  RECORD(RT, name, per_thread, parameters, arguments)
#define RECORD_DRV(name, per_thread, parameters, arguments) RECORD(DRV, name, per_thread, parameters, arguments)

RECORD_RT(cudaEventRecord, false, (cudaEvent_t event, cudaStream_t stream), (event, stream))
RECORD_RT(cudaEventRecord_ptsz, true, (cudaEvent_t event, cudaStream_t stream), (event, stream))
RECORD_RT(cudaEventRecordWithFlags, false, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
          (event, stream, flags))
RECORD_RT(cudaEventRecordWithFlags_ptsz, true, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
          (event, stream, flags))
RECORD_DRV(cuEventRecord, false, (CUevent event, CUstream stream), (event, stream))
RECORD_DRV(cuEventRecord_ptsz, true, (CUevent event, CUstream stream), (event, stream))
RECORD_DRV(cuEventRecordWithFlags, false, (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))
RECORD_DRV(cuEventRecordWithFlags_ptsz, true, (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))

#define WAIT(api, name, per_thread, stream_type, event_type)                                               \
    WRAP(api, name, (stream_type stream, event_type event, unsigned int flags),                            \
         if (!frame_enter())                                                                               \
             return real(stream, event, flags);                                                            \
         struct stream *s;                                                                                 \
         struct park_wait park;                                                                            \
         struct times_entry *times = before_wait((CUevent)event, (CUstream)stream, per_thread, &s, &park); \
         RESULT_##api r = real(stream, event, flags);                                                      \
         park_wait_end(park);                                                                              \
         early_wait(s, (CUevent)event);                                                                    \
         times_end(s, times);                                                                              \
         session_unlock();                                                                                 \
         frame_leave();                                                                                    \
         return r;)
#define WAIT_RT(name, per_thread)  WAIT(RT, name, per_thread, cudaStream_t, cudaEvent_t)
#define WAIT_DRV(name, per_thread) WAIT(DRV, name, per_thread, CUstream, CUevent)

WAIT_RT(cudaStreamWaitEvent, false)
WAIT_RT(cudaStreamWaitEvent_ptsz, true)
WAIT_DRV(cuStreamWaitEvent, false)
WAIT_DRV(cuStreamWaitEvent_ptsz, true)

#define EVENT_DESTROY(api, name, event_type) \
    WRAP(api, name, (event_type event),      \
         if (!frame_enter())                 \
             return real(event);             \
         session_lock();                     \
         events_forget((CUevent)event);      \
         park_forget_event((CUevent)event);  \
         session_unlock();                   \
         RESULT_##api r = real(event);       \
         frame_leave();                      \
         return r;)
EVENT_DESTROY(RT, cudaEventDestroy, cudaEvent_t)
EVENT_DESTROY(DRV, cuEventDestroy, CUevent)

#define STREAM_DESTROY(api, name, stream_type) \
    WRAP(api, name, (stream_type stream),      \
         if (!frame_enter())                   \
             return real(stream);              \
         session_lock();                       \
         streams_forget((CUstream)stream);     \
         park_destroy((CUstream)stream);       \
         session_unlock();                     \
         RESULT_##api r = real(stream);        \
         frame_leave();                        \
         return r;)
STREAM_DESTROY(RT, cudaStreamDestroy, cudaStream_t)
STREAM_DESTROY(DRV, cuStreamDestroy, CUstream)

/* Nodes of a stream that is being captured belong to its graph. */
#define CAPTURE(api, name, parameters, arguments) \
    WRAP(api, name, parameters,                   \
         bool ours = frame_enter();               \
         if (ours)                                \
             streams_capture_begins();            \
         RESULT_##api r = real arguments;         \
         if (ours)                                \
             frame_leave();                       \
         return r;)
#define CAPTURE_RT(name, parameters, arguments)  CAPTURE(RT, name, parameters, arguments)
#define CAPTURE_DRV(name, parameters, arguments) CAPTURE(DRV, name, parameters, arguments)

CAPTURE_RT(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))
CAPTURE_RT(cudaStreamBeginCapture_ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))
CAPTURE_RT(cudaStreamBeginCaptureToGraph,
           (cudaStream_t stream, cudaGraph_t graph, const void *after, const void *edges, size_t n,
            enum cudaStreamCaptureMode mode),
           (stream, graph, after, edges, n, mode))
CAPTURE_RT(cudaStreamBeginCaptureToGraph_ptsz,
           (cudaStream_t stream, cudaGraph_t graph, const void *after, const void *edges, size_t n,
            enum cudaStreamCaptureMode mode),
           (stream, graph, after, edges, n, mode))
CAPTURE_DRV(cuStreamBeginCaptureToGraph,
            (CUstream stream, CUgraph graph, const void *after, const void *edges, size_t n, CUstreamCaptureMode mode),
            (stream, graph, after, edges, n, mode))
CAPTURE_DRV(cuStreamBeginCaptureToGraph_ptsz,
            (CUstream stream, CUgraph graph, const void *after, const void *edges, size_t n, CUstreamCaptureMode mode),
            (stream, graph, after, edges, n, mode))
CAPTURE_DRV(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE_DRV(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
