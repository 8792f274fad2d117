/* doctor_slurm.h - what `prism doctor` looks at where there is Slurm: on a login node, a compute node, and in a job. */
#ifndef PRISM_CLI_DOCTOR_SLURM_H
#define PRISM_CLI_DOCTOR_SLURM_H

#include "checks.h"

enum doctor_place { PLACE_ALONE, PLACE_LOGIN, PLACE_COMPUTE, PLACE_JOB };

/* Appends at most `room` checks, returns how many; none where no slurm.conf can be found. *place says where we are: PLACE_LOGIN
 * is a host that Slurm's list of nodes lacks. Asks slurmctld and slurmdbd; each question takes ten seconds at most. */
size_t doctor_slurm(struct check *checks, size_t room, enum doctor_place *place);

#endif
