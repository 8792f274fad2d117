/* room.h - room in the queues of the program's streams, so that no host call waits for it in the driver.
 *
 * CUDA takes some 1,020 operations of a stream ahead (fills, copies, kernels; 718 kernels with 4,000 bytes of arguments;
 * measured on an H200, tests/gpu/queue.c); a call that puts one more on it waits inside the driver until an
 * operation is over, at a closed gate for ever. If it has session_lock there, the rank cannot leave its device (what it
 * holds of the memory is passed over, residence.h). So it waits here instead, holding nothing: before more than ROOM_QUEUED
 * operations lie behind the first place where the stream may stand (park.h: gates, park gates, waits for events), until that is
 * passed.
 *
 * Behind a park gate that is until the rank is back on its device, and prismd is told that its host waits for that; of other
 * waits it need not know: a rank whose streams stand and whose host is quiet makes room for others (victims.c).
 *
 * A program may put more behind a receive before it issues, on another stream, what the sender waits for. So a call that
 * has waited for ROOM_PATIENCE_NS at the same place with the rank on its device goes on, and the thread waits anew before its next
 * ROOM_BATCH operations: what CUDA's queue would take gets there. Twice as long each time before those that take session_lock, and
 * on the legacy default stream: while a call sits in its full queue, what is put on other streams waits too (measured as above).
 *
 * Each thread counts for itself and tells ROOM_BATCH at a time, so the bound is exceeded by some of these a thread; gates,
 * marks and copies of ours are counted by their callers. Streams under capture have no work. Per-thread default streams and
 * other threads' are not counted: their use ties the rank to the device.
 */
#ifndef PRISM_PRELOAD_ROOM_H
#define PRISM_PRELOAD_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "preload/memory/residence.h"
#include "preload/nodes/blocked.h"
#include "preload/nodes/put.h"

#define ROOM_QUEUED      384u
#define ROOM_BATCH       32u
#define ROOM_PATIENCE_NS (2 * NSEC_PER_SEC)

/* Operations that our wrappers make of one of the program's. */
#define ROOM_EVENT 4u /* a wait between two marks, and its copy on a side stream; a record */
#define ROOM_GATE  8u /* the words of a gate, an input and an output */

struct room_seen {
    CUstream stream;
    uint32_t queued;     /* since the thread last told */
    uint64_t stop;       /* where it last lost its patience */
    int64_t patience_ns; /* for the next time there */
};
#define ROOM_SEEN 8u
extern PRISM_THREAD struct room_seen room_seen_[ROOM_SEEN];
void room_await_slow(CUstream stream, struct room_seen *seen, uint32_t n);

/* The calling thread is about to put n operations on the stream; it holds neither memory nor locks. NULL: the legacy default
 * stream, or the thread's own. */
static inline void room_await(CUstream stream, bool per_thread, uint32_t n)
{
    if (!residence_is_on())
        return;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    uintptr_t at = (uintptr_t)stream;
    struct room_seen *seen = &room_seen_[(at ^ at >> 4 ^ at >> 9) % ROOM_SEEN];
    if (seen->stream != stream || (seen->queued += n) >= ROOM_BATCH)
        room_await_slow(stream, seen, n);
}

/* Around the real call of a wrapper without a frame: the runtime comes by in the driver's wrappers with what was counted. */
extern PRISM_THREAD int room_inside_;
static inline void room_enter(CUstream stream, bool per_thread)
{
    if (room_inside_++)
        return;
    if (!frame.depth) {
        put_note(stream);
        room_await(stream, per_thread, 1);
    }
    blocked_begin();
}

static inline void room_leave(void)
{
    if (!--room_inside_)
        blocked_end();
}

#endif
