/* step_policy.h - the site's policy for a step that is emulated inside a job: slurmctld's plugin has seen the job, if at all, with
 * another world. In srun, as the user, so it binds only who does not go round it (docs/slurm.md, Policy).
 */
#ifndef PRISM_SPANK_STEP_POLICY_H
#define PRISM_SPANK_STEP_POLICY_H

#include <stdint.h>

#include "common/error.h"

/* Of what job the step will be; slurm_conf and site_config: where policy_file_find looks. Asks slurmctld for the job where a
 * limit rests on it. -1: err is the line for the user. */
int step_policy_check(uint32_t job, uint32_t world, const char *slurm_conf, const char *site_config, struct prism_error *err);

#endif
