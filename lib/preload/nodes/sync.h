/* sync.h - host synchronisations: RECORD at the tail of what is waited for, SYNC when the host goes on, JOIN on every
 * stream, because kernels that follow were launched after it. In emulation (session.only_gates) nothing waits for anything. */
#ifndef PRISM_PRELOAD_SYNC_H
#define PRISM_PRELOAD_SYNC_H

#include <stdint.h>

#include "preload/gate/streams.h"

#define SYNC_MAX 1024 /* streams that one device synchronisation waits for */

struct sync {
    uint32_t n;
    uint32_t records[SYNC_MAX]; /* nodes waited for, index + 1 */
    const void *copied;         /* calibration: what a call that does not wait copies; else NULL */
    int64_t began_ns;           /* with n: the real call's beginning */
};

/* Before the real call: what it waits for. Take and release session_lock. */
void sync_begin_stream(struct sync *sync, CUstream handle, bool per_thread);
void sync_begin_device(struct sync *sync);
void sync_begin_event(struct sync *sync, CUevent event);
/* After the real call; nothing if it waited for nothing. */
void sync_end(const struct sync *sync);

#endif
