#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "common/names.h"

#define VALUE_MAX 65536

struct job {
    uint32_t nodes, gpus_per_node, tasks, cpus_per_task; /* logical */
    char base[NAMES_BASE_MAX];
};

static uint32_t number_of(const struct script_environment *e, const char *name)
{
    char text[32];
    return e->get(e->ctx, name, text, sizeof text) > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* value NULL: unset. A value of several lines cannot be kept, so it stays. */
static void replace(const struct script_environment *e, FILE *kept, const char *name, const char *value)
{
    char *old = malloc(VALUE_MAX);
    if (!old)
        return;
    bool was = e->get(e->ctx, name, old, VALUE_MAX) > 0;
    if (!was || !strchr(old, '\n')) {
        fprintf(kept, was ? "%s=%s\n" : "%s\n", name, old);
        e->set(e->ctx, name, value);
    }
    free(old);
}

static bool is_set(const struct script_environment *e, const char *name)
{
    char text[8];
    return e->get(e->ctx, name, text, sizeof text) != 0;
}

static void replace_number(const struct script_environment *e, FILE *kept, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    replace(e, kept, name, text);
}

static void replace_sizes(const struct script_environment *e, FILE *kept, const struct job *j)
{
    uint32_t each = (j->tasks + j->nodes - 1) / j->nodes, cpus = j->cpus_per_task ? j->cpus_per_task : 1;
    char text[32];
    replace_number(e, kept, "SLURM_NNODES", j->nodes);
    replace_number(e, kept, "SLURM_JOB_NUM_NODES", j->nodes);
    replace_number(e, kept, "SLURM_NTASKS", j->tasks);
    replace_number(e, kept, "SLURM_NPROCS", j->tasks);
    replace_number(e, kept, "SLURM_NTASKS_PER_NODE", each);
    names_per_node(each, j->nodes, text);
    replace(e, kept, "SLURM_TASKS_PER_NODE", text);
    names_per_node(each * cpus, j->nodes, text);
    replace(e, kept, "SLURM_JOB_CPUS_PER_NODE", text);
    if (j->cpus_per_task)
        replace_number(e, kept, "SLURM_CPUS_PER_TASK", j->cpus_per_task);
    else
        replace(e, kept, "SLURM_CPUS_PER_TASK", NULL);
}

static void replace_names(const struct script_environment *e, FILE *kept, const struct job *j)
{
    static const char *const lists[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    static const char *const own[] = {"SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"};
    char list[NAMES_LIST_MAX], node[NAMES_NODE_MAX];
    names_list(j->base, j->nodes, j->nodes, list);
    names_node(j->base, j->nodes, 0, node);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        replace(e, kept, lists[i], list);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        replace(e, kept, own[i], node);
}

static void replace_gpus(const struct script_environment *e, FILE *kept, const struct job *j)
{
    static const char *const lists[] = {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"};
    char all[8192], typed[128];
    size_t at = 0;
    all[0] = 0;
    for (uint32_t i = 0; i < j->gpus_per_node && at < sizeof all - 16; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%u", i ? "," : "", i);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (is_set(e, lists[i]))
            replace(e, kept, lists[i], all);
    if (is_set(e, "SLURM_GPUS_ON_NODE"))
        replace_number(e, kept, "SLURM_GPUS_ON_NODE", j->gpus_per_node);
    /* "2" or "h200:2" */
    if (e->get(e->ctx, "SLURM_GPUS_PER_NODE", typed, sizeof typed - 16) > 0) {
        char *colon = strrchr(typed, ':'), *number = colon ? colon + 1 : typed;
        snprintf(number, sizeof typed - (size_t)(number - typed), "%u", j->gpus_per_node);
        replace(e, kept, "SLURM_GPUS_PER_NODE", typed);
    }
}

void script_show_job(const struct script_environment *e)
{
    struct job j = {.nodes = number_of(e, "PRISM_LOGICAL_NODES"),
                    .gpus_per_node = number_of(e, "PRISM_GPUS_PER_NODE"),
                    .tasks = number_of(e, "PRISM_TASKS"),
                    .cpus_per_task = number_of(e, "PRISM_CPUS_PER_TASK")};
    char *real = malloc(VALUE_MAX), *text = NULL;
    size_t size;
    if (j.nodes && j.tasks && real && e->get(e->ctx, "SLURM_JOB_NODELIST", real, VALUE_MAX) > 0) {
        names_base(real, j.base);
        FILE *kept = open_memstream(&text, &size);
        if (kept) {
            replace_sizes(e, kept, &j);
            replace_names(e, kept, &j);
            replace_gpus(e, kept, &j);
            fclose(kept);
            e->set(e->ctx, CLIENT_REAL_VARIABLE, text);
            e->set(e->ctx, "PRISM_NODE_BASE", j.base);
            snprintf(real, VALUE_MAX, "%u", j.nodes);
            e->set(e->ctx, "PRISM_NODE_COUNT", real);
        }
    }
    free(text);
    free(real);
}
