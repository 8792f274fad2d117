/* settling.h - in capture nobody's gates close while others of the device still make their contexts.
 *
 * The driver makes the contexts of a device one after another, each slower than the one before (on an H200 with 16 hardware
 * queues 0.4 s for the first, 1.5 s for the 16th; closed gates make no difference to that), and may refuse one. A rank that
 * comes last would find the others waiting for it at gates, their memory settled. So COMM_READY, before which no rank
 * has a gate, is held back while a rank of the same device is inside the driver for its context (MSG_SET_UP), or has been started and
 * not come so far, if the latest event of this kind on the device is less than SETTLING_NS old. A rank that never uses
 * CUDA, or waits for one that is held here, costs the others that time once. Nodes with a board (board.h) have more ranks than GPUs
 * have room for contexts: there the ranks' start and their first steps overlap.
 */
#ifndef PRISM_PRISMD_SETTLING_H
#define PRISM_PRISMD_SETTLING_H

#include "prismd/daemon.h"

#define SETTLING_NS (3 * NSEC_PER_SEC)

void settling_begin(struct daemon *d);
void settling_end(struct daemon *d);
/* Events of a local rank, in any phase; without effect before settling_begin. */
void settling_started(struct rank *r); /* its process was started, or has become it */
void settling_set_up(struct rank *r, bool done);
void settling_ended(struct rank *r);
/* Send COMM_READY to r, now or when its device has settled. */
void settling_answer(struct rank *r, const struct msg_comm_ready *ready);
/* Called often, with the lock held. */
void settling_tick(struct daemon *d);

#endif
