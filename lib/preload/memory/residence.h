/* residence.h - whether the program's device memory is on the device, and the lock around everything that owns it.
 *
 *   state      who may do what
 *   PRESENT    the program's calls create, map, unmap and free; calls that name device memory go to the driver
 *   LEAVING    the switch thread alone; nobody holds the memory
 *   ABSENT     as LEAVING, but freeing is bookkeeping only and goes on
 *   ENTERING   the switch thread alone
 *
 * The driver looks addresses up when a copy or a fill is issued (a kernel's are used when it runs), so the host calls
 * that name device memory *hold* it: they begin while it is present and keep it from leaving until the driver has
 * taken them. A call that would wait for its stream in the driver does not hold the memory meanwhile: residence_hold_idle
 * waits first and holds afterwards, so that a rank can be evicted while its host thread sits in a copy.
 *
 * A call that only issues work (residence_hold_issuing) returns at once, unless its stream's queue is full: then it sits in the
 * driver until the stream moves on, and that is not before the rank is back once its streams stand still. So it is passed over
 * when it has lasted for RESIDENCE_PATIENCE_NS and at least RESIDENCE_QUEUED operations lie on a stream that stands: the memory
 * may go away under it, and is back at its addresses when the driver takes the call. (Fills, copies, also from pageable memory,
 * and kernels whose memory was moved while they waited so: no error and no wrong byte on an H200, tests/gpu/queue.c.)
 *
 * One lock (residence_lock) guards all tables of device memory (vmm.h, physical.h, grant.h). Order: session_lock before
 * it, park.c's lock after it. Everything here does nothing while switching is off (switch.h).
 */
#ifndef PRISM_PRELOAD_RESIDENCE_H
#define PRISM_PRELOAD_RESIDENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#include "common/clock.h"
#include "preload/preload.h"

#define RESIDENCE_PATIENCE_NS (2 * NSEC_PER_SEC)
#define RESIDENCE_QUEUED      64u

enum residence { RESIDENCE_PRESENT, RESIDENCE_LEAVING, RESIDENCE_ABSENT, RESIDENCE_ENTERING };

/* Switching is on in this process; set once, before the program's first call returns, cleared in a forked child. */
extern bool residence_on;
static inline bool residence_is_on(void)
{
    return __atomic_load_n(&residence_on, __ATOMIC_ACQUIRE);
}

void residence_lock(void);
void residence_unlock(void);
/* Wait for any change; residence_lock held, given up meanwhile. residence_changed wakes all waiters. */
void residence_wait(void);
void residence_changed(void);
/* Tell prismd, once an eviction, that a host thread cannot go on before the memory is back; nothing while it is there. */
void residence_tell(void);
/* Take the lock with the memory present, or (free) present or absent. */
enum residence residence_lock_present(void);
enum residence residence_lock_free(void);
/* As residence_lock_present, the lock being held already. */
void residence_await_present(void);

/* --- calls that name device memory --- */

extern PRISM_THREAD int residence_held_;
void residence_hold_slow(CUstream issuing);
void residence_let_go_slow(void);

/* Hold the memory until residence_let_go; nests within a thread. */
static inline void residence_hold(void)
{
    if (residence_is_on())
        residence_hold_slow(NULL);
}

/* The same by a call that does nothing but put work on the stream. NULL: the legacy default stream, or the thread's own. */
static inline void residence_hold_issuing(CUstream stream, bool per_thread)
{
    if (residence_is_on())
        residence_hold_slow(stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
}

static inline void residence_let_go(void)
{
    if (residence_held_)
        residence_let_go_slow();
}

/* The same once the stream has nothing left to do: for calls that wait for it in the driver. */
void residence_hold_idle(CUstream stream);

/* --- the switch thread --- */

/* PRESENT -> LEAVING; false while a call holds the memory. The streams stand still (park.h). */
bool residence_leave(void);
/* What keeps the memory on the device, for a person; false: no call does. */
bool residence_tell_holder(char *text, size_t size);
/* LEAVING -> ABSENT -> ENTERING -> PRESENT. */
void residence_set(enum residence state);

#endif
