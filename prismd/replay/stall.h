/* stall.h - a run that can go on no more: a rank has left and the rest wait for it. (In capture: hang.h.) */
#ifndef PRISM_PRISMD_STALL_H
#define PRISM_PRISMD_STALL_H

#include "prismd/daemon.h"

#define STALL_SECONDS 20

void stall_begin(struct daemon *d);
/* Called often. In calibration and emulation the run fails and says why when
 *   - a live rank of this node has ended, another stands at a gate that waits for it, and nothing has moved for STALL_SECONDS;
 *   - all live ranks of all nodes wait in the c10d store or at gates that no time is known for, one at least in the store, and nothing has moved for three
 *     times PRISM_STALL_SECONDS: what it waits for was not recorded (a key that counts iterations, beyond those of the trace).
 * While a thread plays the graph (player.h) it counts as movement: thousands of ranks from the beginning on take longer than that.
 * Not in calibration behind the recorded iterations: there enough.h ends the phase. */
void stall_tick(struct daemon *d);

#endif
