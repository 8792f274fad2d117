/* blocked.h - what a host thread waits in the driver for room in a stream's queue is no work of its own.
 *
 * CUDA takes some 1,020 operations of a stream ahead (memory/room.h); a host that is further ahead waits in each launch until the
 * device has done one. A program that the device bounds is there all the time, so what lies between two of its nodes on the host
 * is what the device took, pauses behind gates included; kept as host work, a pause of calibration would come back in every replay
 * (seen on an H200: iterations of 374 ms instead of 284). So in calibration the outermost call of a wrapper that launches, copies or
 * fills is timed, and one that lasts longer than any of the kind does by itself is taken off the host work in front of the
 * thread's next node, all but what the quickest call took.
 *
 * A first launch, for which CUDA loads the kernel, lasts as long and is taken off, too: those are in the first iterations. Not timed,
 * as they take the host that long: launches of graphs, and copies of what is in pageable memory.
 */
#ifndef PRISM_PRELOAD_BLOCKED_H
#define PRISM_PRELOAD_BLOCKED_H

#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "preload/preload.h"

/* Launches last 2 to 8 us, copies and fills up to 12 (measured as above). */
#define BLOCKED_LEAST_NS 15000

struct blocked {
    int64_t since_ns; /* of the call under way; 0 = none */
    int64_t least_ns; /* the quickest call; 0 = none yet */
    int64_t ns;       /* since the thread's last node */
};
extern PRISM_THREAD struct blocked blocked_;
void blocked_note(int64_t lasted_ns);

/* Around the real call. */
static inline void blocked_begin(void)
{
    if (session.phase == PHASE_CALIBRATE && !frame.depth)
        blocked_.since_ns = clock_now_ns();
}

static inline void blocked_end(void)
{
    if (blocked_.since_ns)
        blocked_note(clock_now_ns() - blocked_.since_ns);
}

/* The call under way is not timed after all. */
static inline void blocked_give_up(void)
{
    blocked_.since_ns = 0;
}

/* NCCL's own calls in transport nccl (gate/gate_nccl.c), and otherwise the gates that stand for them (gate/gate.c), are work, as the full
 * job's host makes such calls too, and wait for room like launches.
 * How long they take by themselves depends on the communicator and on how many a group has: what lasts more than BLOCKED_NCCL_TIMES as
 * long as the quickest of its like, by powers of two, counts as that one. */
#define BLOCKED_NCCL_TIMES 4

struct blocked_nccl { /* of a communicator; session_lock */
    int64_t least_ns[16]; /* of groups of 0 and up to 1, 3, 7 … calls; 0 = none yet */
};
/* What of a group's time is work. */
int64_t blocked_nccl(struct blocked_nccl *seen, size_t calls, int64_t lasted_ns);

/* What the thread waited since it was asked last, nanoseconds. */
int64_t blocked_take(void);

#endif
