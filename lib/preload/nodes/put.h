/* put.h - whether the program has put work on a stream since the stream's node before.
 *
 * Where an idle stream gets to a node long after the host has issued it, there was work of the program's in front of the node, or the machine
 * was busy and there was none: on a stream of communication alone a wake-up that comes late would otherwise be taken for work as
 * long as the stream lay idle (seen on software GPUs: JOINs of tens of milliseconds). So in calibration, launches, copies and
 * fills are counted, and a node's times say whether there were any (struct msg_time.alone).
 *
 * A stream that waits for the default stream gets to its nodes behind the default stream's work, and the other way round: of these nothing is
 * said. Where streams share hardware queues by the user's wish, nothing may have been put on any. Not seen, so that the time they take
 * behind an idle stream is lost: copies in batches (cuMemcpyBatchAsync) and in three dimensions between devices, prefetches of managed memory. Threads that put work on
 * one stream at the same time may hide it from each other's node.
 */
#ifndef PRISM_PRELOAD_PUT_H
#define PRISM_PRELOAD_PUT_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/gate/streams.h"
#include "preload/preload.h"

/* The program is about to put work on the stream. */
void put_note_slow(CUstream stream);
static inline void put_note(CUstream stream)
{
    if (session.phase == PHASE_CALIBRATE)
        put_note_slow(stream);
}

/* The stream has a node next: nothing lies between it and the node before. session_lock held. */
bool put_is_alone(struct stream *s);

#endif
