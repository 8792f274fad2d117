/* spank_stepd.c - spank_prism.so in slurmstepd: the environment of the one task that srun starts on each node.
 *
 * The task's program is left alone. LD_PRELOAD brings libprism.so into it; its constructor sees PRISM_LAUNCH and execs
 * prismd with the program's own argv, before main(). A task prolog runs with the same environment but another pid:
 * PRISM_LAUNCH_PID says which process is meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "client.h"
#include "common/names.h"
#include "script.h"
#include "spank_prism.h"

#define VALUE_MAX 65536

static void set(spank_t spank, const char *name, const char *value)
{
    if (spank_setenv(spank, name, value, 1) != ESPANK_SUCCESS)
        slurm_error("prism: cannot set %s for the task", name);
}

static void set_number(spank_t spank, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    set(spank, name, text);
}

enum step_kind { STEP_OTHER, STEP_PROGRAM, STEP_SCRIPT };

/* External steps are neither programs to emulate nor scripts that start some. */
static enum step_kind kind_of_step(spank_t spank, uint32_t *job, uint32_t *step)
{
    if (spank_get_item(spank, S_JOB_ID, job) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_STEPID, step) != ESPANK_SUCCESS)
        return STEP_OTHER;
    if (*step <= SLURM_MAX_NORMAL_STEP_ID)
        return STEP_PROGRAM;
    return *step == SLURM_BATCH_SCRIPT || *step == SLURM_INTERACTIVE_STEP ? STEP_SCRIPT : STEP_OTHER;
}

/* Takes the NAME=value lines of the packed variable apart (text is changed). Only our own names. */
static void unpack(spank_t spank, char *text)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *equals = strchr(line, '=');
        if (!equals || strncmp(line, "PRISM_", 6))
            continue;
        *equals = 0;
        set(spank, line, equals + 1);
    }
}

/* Where the script has not named the nodes (srun alone), the step's do. */
static void name_nodes(spank_t spank, const char *real)
{
    char base[NAMES_BASE_MAX], count[32];
    if (spank_getenv(spank, "PRISM_NODE_BASE", base, sizeof base) == ESPANK_SUCCESS ||
        spank_getenv(spank, "PRISM_LOGICAL_NODES", count, sizeof count) != ESPANK_SUCCESS)
        return;
    names_base(real, base);
    set(spank, "PRISM_NODE_BASE", base);
    set(spank, "PRISM_NODE_COUNT", count);
}

static void set_place(spank_t spank, uint32_t job, uint32_t step)
{
    uint32_t nodes = 1, node = 0;
    char text[VALUE_MAX];
    spank_get_item(spank, S_JOB_NNODES, &nodes);
    spank_get_item(spank, S_JOB_NODEID, &node);
    set_number(spank, "PRISM_NODES", nodes);
    set_number(spank, "PRISM_NODE_ID", node);
    if (spank_getenv(spank, "SLURM_STEP_NODELIST", text, sizeof text) == ESPANK_SUCCESS ||
        spank_getenv(spank, "SLURM_NODELIST", text, sizeof text) == ESPANK_SUCCESS) {
        set(spank, "PRISM_NODELIST", text);
        name_nodes(spank, text);
    }
    snprintf(text, sizeof text, "%u.%u", job, step);
    set(spank, "PRISM_STEP_ID", text);
    set_number(spank, "PRISM_LAUNCH_PID", (uint32_t)getpid());
}

static void preload(spank_t spank)
{
    char before[VALUE_MAX], *value;
    if (spank_getenv(spank, "LD_PRELOAD", before, sizeof before) != ESPANK_SUCCESS)
        before[0] = 0;
    if (asprintf(&value, "%s%s%s", plugin_conf.library, before[0] ? ":" : "", before) < 0)
        return;
    set(spank, "LD_PRELOAD", value);
    free(value);
    set(spank, "PRISM_LAUNCH", "1");
}

/* What keeps Prism from working on this node, or NULL. */
static const char *missing_part(void)
{
    if (access(plugin_conf.library, R_OK))
        return plugin_conf.library;
    return access(plugin_conf.prismd, X_OK) ? plugin_conf.prismd : NULL;
}

static int get_variable(void *spank, const char *name, char *value, size_t size)
{
    spank_err_t rc = spank_getenv(spank, name, value, (int)size);
    return rc == ESPANK_SUCCESS ? 1 : rc == ESPANK_NOSPACE ? -1 : 0;
}

static void set_variable(void *spank, const char *name, const char *value)
{
    if (value)
        set(spank, name, value);
    else
        spank_unsetenv(spank, name);
}

void stepd_task_init(spank_t spank)
{
    uint32_t job, step;
    char text[VALUE_MAX];
    enum step_kind kind = kind_of_step(spank, &job, &step);
    if (kind == STEP_OTHER || spank_getenv(spank, CLIENT_PACKED_VARIABLE, text, sizeof text) != ESPANK_SUCCESS)
        return;
    unpack(spank, text);
    if (kind == STEP_SCRIPT) {
        const struct script_environment e = {get_variable, set_variable, spank};
        script_show_job(&e); /* its own steps read the packed variable */
        return;
    }
    spank_unsetenv(spank, CLIENT_PACKED_VARIABLE);
    spank_unsetenv(spank, CLIENT_REAL_VARIABLE);
    if (spank_getenv(spank, CLIENT_JOB_NAME_VARIABLE, text, sizeof text) == ESPANK_SUCCESS)
        set(spank, "SLURM_JOB_NAME", text);
    spank_unsetenv(spank, CLIENT_JOB_NAME_VARIABLE);
    set_place(spank, job, step);
    set(spank, "PRISM_PRISMD", plugin_conf.prismd);
    set(spank, "PRISM_PLUGIN_VERSION", PRISM_VERSION);
    set(spank, "PRISM_LIBRARY", plugin_conf.library);
    if (plugin_conf.config[0])
        set(spank, "PRISM_CONFIG", plugin_conf.config);
    const char *missing = missing_part();
    if (!missing)
        preload(spank);
    else
        slurm_error("prism: this node lacks %s: the program runs without emulation; install Prism here or correct "
                    "libdir= and bindir= in plugstack.conf", missing);
}
