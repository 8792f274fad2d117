/* times.h - device times of nodes: timing events put around them, resolved into CLOCK_MONOTONIC nanoseconds.
 *
 * Only while session.record_times. Events are compared with a base event whose host time is known; bases follow each
 * other every second, because cudaEventElapsedTime gives float milliseconds (7 digits). A base's time comes from the one
 * before it, on the device's clock, and is only held between the host times before and after it was recorded. So
 * device intervals carry no noise of the host's clock and the two clocks never drift apart.
 *
 * A helper thread resolves what is finished, in order per stream, every 20 ms, and sends MSG_TIMES; one without times each second in
 * which an emulation's program has recorded or waited for events (events_left_out).
 */
#ifndef PRISM_PRELOAD_TIMES_H
#define PRISM_PRELOAD_TIMES_H

#include <stdint.h>

#include "preload/gate/streams.h"

/* Start the helper and take the first base; CUDA must be set up, the context current. */
void times_start(void);

/* The functions below do nothing unless session.record_times; session_lock held. */

/* The stream gets to node index now: pre. post follows by times_end, or is the same by times_point. */
struct times_entry *times_begin(struct stream *s, uint32_t index);
void times_end(struct stream *s, struct times_entry *entry);
void times_point(struct stream *s, uint32_t index);

/* Resolve and send all that is finished; true if nothing is left. session_lock not needed. */
bool times_flush(void);
/* The same at the end of the process: waits a little for what is still running, not for closed gates. */
void times_drain(void);

#endif
