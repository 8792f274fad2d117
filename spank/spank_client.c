/* spank_client.c - spank_prism.so in srun, sbatch and salloc. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "spank_prism.h"

/* Did cli_filter_prism.so run in this process? (A nested client inherits the variable, not the pid.) */
static bool was_filtered(void)
{
    const char *pid = getenv(CLIENT_FILTERED_VARIABLE);
    bool yes = pid && atoi(pid) == (int)getpid();
    unsetenv(CLIENT_FILTERED_VARIABLE);
    unsetenv(CLIENT_SITE_CONFIG_VARIABLE);
    return yes;
}

/* slurmctld sees a job's SPANK variables, not its environment (job_submit.c). Nobody else needs this one. */
static void tell_controller(spank_t spank)
{
    const char *shape = getenv(POLICY_SHAPE_VARIABLE);
    if (shape && spank_job_control_setenv(spank, POLICY_SHAPE_VARIABLE, shape, 1) != ESPANK_SUCCESS)
        slurm_error("prism: the job's shape cannot be handed to slurmctld");
    unsetenv(POLICY_SHAPE_VARIABLE);
}

/* The exported variables are cli_filter's work; here we only notice that a site has left it out. */
void client_post_options(spank_t spank)
{
    if (was_filtered()) {
        tell_controller(spank);
        return;
    }
    client_export_off();
    if (options_emulate(&plugin_options))
        slurm_error("prism: --%s does nothing: slurm.conf lacks CliFilterPlugins=prism (and PluginDir with its folder)",
                    option_table[OPTION_EMULATE].name);
}
