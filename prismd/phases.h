/* phases.h - what a run consists of: capture, calibrate, emulate, each with fresh processes.
 *
 * The coordinator decides what the trace still lacks and leads; the other nodes follow its LINK_PHASE messages.
 */
#ifndef PRISM_PRISMD_PHASES_H
#define PRISM_PRISMD_PHASES_H

#include "prismd/daemon.h"

/* All of it; returns the exit code of the run. Failures have been reported on standard error. */
int phases_run(struct daemon *d);

#endif
