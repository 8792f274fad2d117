/* stall.h - a run that can go on no more: a rank has left and the rest wait for it. (In capture: hang.h.) */
#ifndef PRISM_PRISMD_STALL_H
#define PRISM_PRISMD_STALL_H

#include "prismd/daemon.h"

#define STALL_SECONDS 20

void stall_begin(struct daemon *d);
/* Called often. In calibration and emulation: when a live rank of this node has ended, every other stands at a gate, and
 * nothing has moved for STALL_SECONDS, the run fails and says who left. */
void stall_tick(struct daemon *d);

#endif
