#include "preload/memory/room.h"

#include <time.h>

#include "common/clock.h"
#include "preload/gate/streams.h"
#include "preload/memory/queue.h"

#define PAUSE_NS     50000
#define PAUSE_MAX_NS 1000000

PRISM_THREAD struct room_seen room_seen_[ROOM_SEEN];
PRISM_THREAD int room_inside_;

static void await(CUstream stream, struct room_seen *seen, struct queue_behind behind, bool never_full)
{
    int64_t since = clock_now_ns(), pause = PAUSE_NS;
    while (behind.operations > ROOM_QUEUED) {
        int64_t now = clock_now_ns();
        if (behind.stop != seen->stop) {
            seen->stop = behind.stop;
            seen->patience_ns = ROOM_PATIENCE_NS;
            since = now;
        }
        if (behind.parked)
            since = now;
        if (behind.at_park)
            residence_tell();
        if (now - since > seen->patience_ns) {
            seen->patience_ns *= never_full ? 2 : 1;
            return;
        }
        nanosleep(&(struct timespec){0, pause}, NULL);
        pause = pause * 2 < PAUSE_MAX_NS ? pause * 2 : PAUSE_MAX_NS;
        behind = queue_behind(stream, 0);
    }
}

void room_await_slow(CUstream stream, struct room_seen *seen, uint32_t n)
{
    if (seen->stream != stream) { /* the place was another stream's */
        if (seen->queued)
            queue_behind(seen->stream, seen->queued);
        *seen = (struct room_seen){.stream = stream, .queued = n};
    }
    uint32_t queued = seen->queued;
    seen->queued = 0;
    if (!streams_is_capturing(stream))
        await(stream, seen, queue_behind(stream, queued), n > 1 || stream == CU_STREAM_LEGACY);
}
