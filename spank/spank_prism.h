/* spank_prism.h - what the files of spank_prism.so share: its configuration, and one function a Slurm process.
 *
 * The functions never make Slurm fail: a failing hook can drain a node. Whatever is missing, they say so in one line
 * and leave the step as it was.
 */
#ifndef PRISM_SPANK_SPANK_PRISM_H
#define PRISM_SPANK_SPANK_PRISM_H

#include <stdbool.h>

#include <slurm/spank.h>

#include "options.h"

/* Arguments of the line in plugstack.conf: libdir=, bindir=, config=. */
struct plugin_conf {
    bool on; /* false after an argument we do not know: Prism stays out of the way */
    char library[4096]; /* libdir/libprism.so */
    char prismd[4096];  /* bindir/prismd */
    char config[4096];  /* prism.conf, or "" */
};

extern struct plugin_conf plugin_conf;
extern struct options plugin_options; /* command line only, filled by the option callbacks */

/* srun, sbatch, salloc (spank_client.c): after option processing. */
void client_post_options(spank_t spank);

/* slurmstepd (spank_stepd.c): in the task's process, as the user, before exec. */
void stepd_task_init(spank_t spank);

#endif
