/* spank_script.c - spank_prism.so in slurmstepd: the environment of a batch script (and of salloc's shell where it is a step).
 *
 * The script sees the job that was asked for, Slurm the one that was allocated. What is replaced is kept in one variable, with
 * which cli_filter.c finds the allocation and gives it back to steps that are not emulated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>

#include "client.h"
#include "common/names.h"
#include "spank_prism.h"

#define VALUE_MAX 65536

struct job {
    uint32_t nodes, gpus_per_node, tasks, cpus_per_task; /* logical */
    char base[NAMES_BASE_MAX];
};

static uint32_t number_of(spank_t spank, const char *name)
{
    char text[32];
    return spank_getenv(spank, name, text, sizeof text) == ESPANK_SUCCESS ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* value NULL: unset. A value of several lines cannot be kept, so it stays. */
static void replace(spank_t spank, FILE *kept, const char *name, const char *value)
{
    char *old = malloc(VALUE_MAX);
    if (!old)
        return;
    bool was = spank_getenv(spank, name, old, VALUE_MAX) == ESPANK_SUCCESS;
    if (!was || !strchr(old, '\n')) {
        fprintf(kept, was ? "%s=%s\n" : "%s\n", name, old);
        if (value)
            spank_setenv(spank, name, value, 1);
        else
            spank_unsetenv(spank, name);
    }
    free(old);
}

static bool is_set(spank_t spank, const char *name)
{
    char text[8];
    return spank_getenv(spank, name, text, sizeof text) != ESPANK_ENV_NOEXIST;
}

static void replace_number(spank_t spank, FILE *kept, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    replace(spank, kept, name, text);
}

static void replace_sizes(spank_t spank, FILE *kept, const struct job *j)
{
    uint32_t each = (j->tasks + j->nodes - 1) / j->nodes, cpus = j->cpus_per_task ? j->cpus_per_task : 1;
    char text[32];
    replace_number(spank, kept, "SLURM_NNODES", j->nodes);
    replace_number(spank, kept, "SLURM_JOB_NUM_NODES", j->nodes);
    replace_number(spank, kept, "SLURM_NTASKS", j->tasks);
    replace_number(spank, kept, "SLURM_NPROCS", j->tasks);
    replace_number(spank, kept, "SLURM_NTASKS_PER_NODE", each);
    names_per_node(each, j->nodes, text);
    replace(spank, kept, "SLURM_TASKS_PER_NODE", text);
    names_per_node(each * cpus, j->nodes, text);
    replace(spank, kept, "SLURM_JOB_CPUS_PER_NODE", text);
    if (j->cpus_per_task)
        replace_number(spank, kept, "SLURM_CPUS_PER_TASK", j->cpus_per_task);
    else
        replace(spank, kept, "SLURM_CPUS_PER_TASK", NULL);
}

static void replace_names(spank_t spank, FILE *kept, const struct job *j)
{
    static const char *const lists[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    static const char *const own[] = {"SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"};
    char list[NAMES_LIST_MAX], node[NAMES_NODE_MAX];
    names_list(j->base, j->nodes, j->nodes, list);
    names_node(j->base, j->nodes, 0, node);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        replace(spank, kept, lists[i], list);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        replace(spank, kept, own[i], node);
}

static void replace_gpus(spank_t spank, FILE *kept, const struct job *j)
{
    static const char *const lists[] = {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"};
    char all[8192], typed[128];
    size_t at = 0;
    all[0] = 0;
    for (uint32_t i = 0; i < j->gpus_per_node && at < sizeof all - 16; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%u", i ? "," : "", i);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (is_set(spank, lists[i]))
            replace(spank, kept, lists[i], all);
    if (is_set(spank, "SLURM_GPUS_ON_NODE"))
        replace_number(spank, kept, "SLURM_GPUS_ON_NODE", j->gpus_per_node);
    /* "2" or "h200:2" */
    if (spank_getenv(spank, "SLURM_GPUS_PER_NODE", typed, sizeof typed - 16) == ESPANK_SUCCESS) {
        char *colon = strrchr(typed, ':'), *number = colon ? colon + 1 : typed;
        snprintf(number, sizeof typed - (size_t)(number - typed), "%u", j->gpus_per_node);
        replace(spank, kept, "SLURM_GPUS_PER_NODE", typed);
    }
}

/* The job's variables have been unpacked into the task's environment. */
void stepd_script(spank_t spank)
{
    struct job j = {.nodes = number_of(spank, "PRISM_LOGICAL_NODES"),
                    .gpus_per_node = number_of(spank, "PRISM_GPUS_PER_NODE"),
                    .tasks = number_of(spank, "PRISM_TASKS"),
                    .cpus_per_task = number_of(spank, "PRISM_CPUS_PER_TASK")};
    char *real = malloc(VALUE_MAX), *text = NULL;
    size_t size;
    if (j.nodes && j.tasks && real && spank_getenv(spank, "SLURM_JOB_NODELIST", real, VALUE_MAX) == ESPANK_SUCCESS) {
        names_base(real, j.base);
        FILE *kept = open_memstream(&text, &size);
        if (kept) {
            replace_sizes(spank, kept, &j);
            replace_names(spank, kept, &j);
            replace_gpus(spank, kept, &j);
            fclose(kept);
            spank_setenv(spank, CLIENT_REAL_VARIABLE, text, 1);
            spank_setenv(spank, "PRISM_NODE_BASE", j.base, 1);
            snprintf(real, VALUE_MAX, "%u", j.nodes);
            spank_setenv(spank, "PRISM_NODE_COUNT", real, 1);
        }
    }
    free(text);
    free(real);
}
