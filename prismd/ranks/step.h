/* step.h - what ties prismd to the Slurm step it is the task of: the plugin that started it, and slurmstepd. */
#ifndef PRISM_PRISMD_STEP_H
#define PRISM_PRISMD_STEP_H

#include "prismd/daemon.h"

/* PRISM_VERSION: what this prismd tells the others of the run that it is. */
extern const char step_version[];

/* Plugin and prismd of one node must be of one version: they share variables that nothing else describes. Without a plugin
 * (prism run) all is well. */
int step_check_version(struct prism_error *err);
/* From now on the run fails when slurmstepd is gone: nobody else would end it then. Nothing outside a step. */
void step_watch(struct daemon *d);
/* After the run; ends the step (scancel) if slurmstepd is gone. */
void step_unwatch(void);

#endif
