/* park.h - whether the program's streams stand still, and making them.
 *
 * A *lane* is a stream that the program has used; park_touch makes it known before the call that uses it. To park a lane is
 * to put a gate of our own on it: write arrive, wait go, write done (words of our own, which only this process reads).
 *
 * A lane stands still when it has arrived at something that stays closed:
 *   - a gate of a communication operation (prismd opens none between EVICT and RESTORED), or a park gate;
 *   - an event wait, whose event was recorded in another lane behind the place where that lane stands still. Waits are
 *     marked for this: arrive before, done after, where the event is not complete when the wait is issued.
 * Standing still is for good, so lanes may be looked at one after the other, and a lane that stands still by itself, or will
 * when it gets there, needs no park gate: what the host launches queues behind where it stands. (That also keeps us out of
 * streams whose queue is full because of a closed gate, where the driver would make us wait for ever.)
 *
 * The legacy default stream L and the blocking streams B wait for each other's earlier work. L may be unable to arrive
 * behind a closed gate of one of B. L's park gate is put after those of B, and L stands still when it has arrived, or when
 * every lane of B has arrived where it stands: an operation K of L that is not over was issued either after the place
 * where some b of B stands, and then waits for it; or before the places of all of B, which have arrived, and these waited for
 * K. (The reverse, a blocking stream with work issued behind an operation of L that waits for another's closed gate, is
 * not recognised: the rank does not park until the gate opens.)
 *
 * A destroyed stream with work in it stays a lane until a mark at its end is reached. Per-thread default streams of other
 * threads cannot be reached: their use ties the rank to the device (switch_tie). Streams under stream capture have no
 * work; parking waits for the end of captures.
 *
 * Lock: one of its own (lanes.h), taken last; park_begin, and everything that puts gates, waits and records on streams, hold
 * session_lock, so that lanes have them in the order of the streams.
 */
#ifndef PRISM_PRELOAD_PARK_H
#define PRISM_PRELOAD_PARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "preload/memory/residence.h"

/* Lanes closed at once, of so many hardware queues: the last must stay free, and some are CUDA's and ours. */
#define PARK_LANES(queues) ((queues) * 3 / 4)

/* Register the words with CUDA; context current. */
void park_init(void);

/* --- the program's calls --- */

struct park_seen {
    CUstream stream;
    uint64_t generation;
};
#define PARK_SEEN 8u
extern PRISM_THREAD struct park_seen park_seen_[PARK_SEEN];
extern uint64_t park_generation_; /* stays 0 while switching is off; changes when what was seen has to be seen anew */
void park_touch_slow(CUstream stream, struct park_seen *seen);

/* The program is about to put work on the stream. NULL: the legacy default stream, or the thread's own. */
static inline void park_touch(CUstream stream, bool per_thread)
{
    if (!residence_is_on())
        return;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    uintptr_t at = (uintptr_t)stream;
    struct park_seen *seen = &park_seen_[(at ^ at >> 4 ^ at >> 9) % PARK_SEEN];
    if (seen->stream != stream || seen->generation != __atomic_load_n(&park_generation_, __ATOMIC_ACQUIRE))
        park_touch_slow(stream, seen);
}

/* The functions below do nothing while switching is off; session_lock held. */

/* The same for a gate, and for events: all else that was put on a stream can be told from it. */
void park_touch_gate(CUstream stream);
/* From here on it is noted whether anything but gates, event waits and records is put on it; false: it waits for the default stream. */
bool park_begin_row(CUstream stream);
/* Nothing was. */
bool park_has_only_gates(CUstream stream);
/* A gate of a slot of the region goes on the stream next; early: where the stream stands is told by `ready` (gate/early.h). */
void park_gate(CUstream stream, uint32_t slot, uint32_t generation, bool early);
/* The event is recorded on the stream next; the event goes away. */
void park_record(CUevent event, CUstream stream);
void park_forget_event(CUevent event);
/* Around a wait of the stream for the event. */
struct park_wait {
    CUstream stream;
    const uint32_t *done;
    uint32_t value; /* 0: not marked */
};
struct park_wait park_wait_begin(CUevent event, CUstream stream);
void park_wait_end(struct park_wait wait);
/* The program destroys the stream next. */
void park_destroy(CUstream stream);

/* --- the switch thread --- */

enum park_result { PARK_OK, PARK_BUSY, PARK_TOO_MANY };
/* Put the park gates. BUSY: not now (session_lock is taken, or a stream is under capture); try again. */
enum park_result park_begin(void);
bool park_still(void);
/* Whether the device gets done by itself with all that the program has put on its streams: no gate, wait or park gate is ahead.
 * AWAY: not before the rank is back on its device. session_lock held; without it gates may close at any time. */
enum park_quiet { PARK_QUIET, PARK_BEHIND_GATE, PARK_AWAY };
enum park_quiet park_quiet(void);
/* Which lane does not stand still, for a person; false: all do. */
bool park_tell_moving(char *text, size_t size);
/* How many lanes there are, the default stream included. */
uint32_t park_lanes(void);
/* Open all park gates; also ends a park_begin that never stood still. */
void park_end(void);

#endif
