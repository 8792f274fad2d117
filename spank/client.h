/* client.h - what the plugins do in srun, sbatch and salloc, as the user, before anything is submitted.
 *
 * cli_filter.c runs first: it works out the job's shape, rewrites the request and puts the outcome into this process's
 * environment. spank_client.c runs later in the same process and packs it for the steps.
 */
#ifndef PRISM_SPANK_CLIENT_H
#define PRISM_SPANK_CLIENT_H

#include <stdbool.h>

#include "options.h"
#include "policy.h"
#include "shape.h"

/* All of Prism's variables in one, NAME=value lines. Slurm passes SLURM_* on even with --export=NONE. */
#define CLIENT_PACKED_VARIABLE "SLURM_PRISM"
/* What slurmstepd replaced in a batch script's environment: NAME=value lines, NAME alone where there was none. */
#define CLIENT_REAL_VARIABLE "SLURM_PRISM_REAL"
/* Set while PRISM_TRACE is a default and not the user's. */
#define CLIENT_DEFAULT_TRACE_VARIABLE "PRISM_TRACE_DEFAULT"
/* SLURM_JOB_NAME of the job, for a step that has got a name from us. */
#define CLIENT_JOB_NAME_VARIABLE "PRISM_JOB_NAME"
/* config= of plugstack.conf, from the SPANK plugin to cli_filter in the same process. */
#define CLIENT_SITE_CONFIG_VARIABLE "PRISM_SITE_CONFIG"
/* Holds the pid while cli_filter has done its part, so that the spank plugin notices when a site forgot to configure it. */
#define CLIENT_FILTERED_VARIABLE "PRISM_FILTERED"

/* What slurmctld and the accounting get to know of the job. */
struct policy_shape client_shape(const struct options *o, const struct shape *s);
/* setenv of every option that is set, of the shape (POLICY_SHAPE_VARIABLE too, for spank_client.c to hand to slurmctld) and of
 * the packed variable. trace: used where none is set. */
void client_export(const struct options *o, const struct shape *s, const char *trace);
/* No emulation for this step: the packed variable goes. Other PRISM_* variables stay as the user has them. */
void client_export_off(void);
/* A plain step of a batch job that Prism shaped sees the real allocation: puts back what CLIENT_REAL_VARIABLE holds. */
void client_restore_real(void);
/* The value of a variable there; malloc'ed, NULL when it is not in it. */
char *client_real(const char *name);
/* path made absolute against the working directory; malloc'ed, NULL when that is gone. */
char *client_absolute(const char *path);

#endif
