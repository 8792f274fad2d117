/* policy_file.h - where the site's policy is, and reading it; for slurmctld (job_submit.c) and srun (step_policy.c). Knows nothing of
 * Slurm; part of the static library prismopt.
 */
#ifndef PRISM_SPANK_POLICY_FILE_H
#define PRISM_SPANK_POLICY_FILE_H

#include <stddef.h>

#include "policy.h"

/* prism.conf in the folder of slurm_conf (a file's path, or NULL) if it is there, else `otherwise` if that is not NULL or "", else
 * the built-in path. */
void policy_file_find(const char *slurm_conf, const char *otherwise, char *path, size_t size);
/* -1: *policy is without limits, err names file and line. */
int policy_file_read(const char *path, struct policy *policy, struct prism_error *err);

#endif
