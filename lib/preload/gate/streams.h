/* streams.h - the program's streams, numbered 0, 1, 2 ... by first use. session_lock held throughout.
 *
 * Both default streams are known under their special handles: NULL means the legacy one, or in functions of the _ptsz
 * and _ptds families the calling thread's own.
 */
#ifndef PRISM_PRELOAD_STREAMS_H
#define PRISM_PRELOAD_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <uthash.h>

struct early;
struct times_entry;

struct stream_key {
    uint64_t handle;
    uint64_t thread; /* host thread number + 1 for the per-thread default stream, else 0 */
};

struct stream {
    struct stream_key key;
    CUstream handle; /* never NULL */
    uint32_t number;
    bool blocking; /* waits for the legacy default stream and is waited for by it */
    bool gated;    /* slot and generation below are its latest gate */
    uint32_t slot, generation;
    struct early *early; /* owned; NULL: none (early.h) */
    uint32_t put_seen;   /* nodes/put.c: what had been put on it when it got its latest node */
    struct times_entry *times_head, *times_tail; /* times.c: unresolved, in stream order */
    UT_hash_handle hh;
    struct stream *next; /* by number */
};

/* The stream that handle means in the calling thread, made known if it is new. */
struct stream *streams_get(CUstream handle, bool per_thread);
/* The program destroys it: its handle may come back as another stream. */
void streams_forget(CUstream handle);
/* All living streams by number; NULL = none. */
struct stream *streams_first(void);
/* True if work of ours may be put on the stream at any time without tying other streams: false for the legacy default
 * stream beside blocking ones, and for other threads' default streams. */
bool streams_is_neutral(const struct stream *s);
/* Streams whose latest gate is closed, `also` counted as one. */
uint32_t streams_waiting(const struct stream *also);

/* --- stream capture (CUDA graphs) --- */

/* The program begins a capture, its first or another. Ends are not counted (captures also end by errors and with their
 * thread): programs that never capture pay nothing, others a question to CUDA a call. */
void streams_capture_begins(void);
bool streams_any_capture(void);
bool streams_is_capturing(CUstream handle);
/* Between these two the calling thread may make calls that would invalidate a capture of another thread in global mode
 * (registering and freeing memory). */
CUstreamCaptureMode streams_relax(void);
void streams_restore(CUstreamCaptureMode mode);

#endif
