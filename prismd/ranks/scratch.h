/* scratch.h - --prism-scratch: each phase's ranks run in a copy of the working directory, so that what a program leaves behind
 * (checkpoints, logs, locks) in one phase is not there in the next.
 *
 * The copy is TRACE/scratch/PHASE, made by the first node's prismd before the phase begins; the trace is not copied into itself.
 * Ordinary files, folders and symbolic links are copied with their times; anything else is left out. Capture's and calibration's
 * copies are removed after their phase, emulation's stays: it holds what the sandbox ranks wrote. Absolute paths of the program
 * lead out of the copy, which nothing here can see.
 */
#ifndef PRISM_PRISMD_SCRATCH_H
#define PRISM_PRISMD_SCRATCH_H

#include "prismd/daemon.h"

#define SCRATCH_BYTES_MAX (4ull << 30) /* PRISM_SCRATCH_BYTES: a larger working directory is refused */

/* Makes the copy for a phase; nothing without --prism-scratch. -1: too large (PRISM_EXIT_USAGE) or not possible. */
int scratch_begin(const struct daemon *d, enum msg_phase phase, struct prism_error *err);
/* Capture was none (tasks.h): what the step wrote in its copy goes into the working directory, as it would have without. */
int scratch_keep(const struct daemon *d, struct prism_error *err);
/* After it: warns about files that capture has written, which later phases will not find, and removes the copy but emulation's. */
void scratch_end(const struct daemon *d, enum msg_phase phase);
/* In the rank's process before exec: go there. 0, or -1 with errno. */
int scratch_enter(const struct conf *c, enum msg_phase phase);

#endif
