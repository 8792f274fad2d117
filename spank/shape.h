/* shape.h - from what the user asked Slurm for to the job that is emulated, and to the small allocation that does it.
 *
 * Pure arithmetic without Slurm; part of the static library prismopt.
 *
 *   world            N of --prism-emulate=N; without it the request's: tasks, or nodes x gpus-per-node where the request
 *                    has one task a node (a launcher such as torchrun), or --gpus
 *   gpus per node    --prism-gpus-per-node, else the request's GPUs a node, else 8 (fewer when the world is smaller)
 *   devices          sandbox ranks + assistants (unless given: one a sandbox rank); never more than the world
 *   physical nodes   devices / (GPUs a node of the partition where known, else of the request, else 8), rounded up, one task each; devices spread evenly.
 *                    PRISM_NODES and PRISM_DEVICES_PER_NODE force them
 * Inside an allocation the step gets one task on each of its nodes.
 *
 * A step of a job that Prism has shaped is as large as that job, unless it says otherwise: -n tasks, -N nodes,
 * --ntasks-per-node, counted on the logical nodes as Slurm would on real ones. -n 1 is a single rank. One task a node
 * (-N or --ntasks-per-node=1 said so) is a launcher, as above: nodes x gpus-per-node ranks.
 */
#ifndef PRISM_SPANK_SHAPE_H
#define PRISM_SPANK_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "options.h"

/* The request as the user wrote it; 0 = not given. */
struct shape_request {
    uint32_t nodes, tasks, tasks_per_node;
    uint32_t gpus_per_node; /* --gpus-per-node, or the GPUs of --gres */
    uint32_t gpus;          /* --gpus: in all */
    uint32_t cpus_per_task;
    uint32_t most_devices_per_node; /* the partition's GPUs a node; 0 = not known */
    uint32_t allocation_nodes; /* nodes of the allocation we are in; 0 = none yet */
    /* Of the enclosing sbatch or salloc that Prism shaped, 0 = none: ranks, logical nodes, logical tasks asked for. */
    uint32_t earlier_world, earlier_nodes, earlier_tasks;
    uint32_t forced_nodes, forced_devices_per_node; /* PRISM_NODES, PRISM_DEVICES_PER_NODE */
};

struct shape {
    uint32_t world, nodes, gpus_per_node; /* logical; world = nodes x gpus_per_node except on a single, partly used node */
    uint32_t tasks; /* processes that were asked for: world, or nodes where a launcher runs on each */
    uint32_t sandbox_ranks, devices;      /* needed in all */
    uint32_t physical_nodes, devices_per_node;
    uint32_t asked_cpus_per_task; /* as requested, 0 = not */
    uint32_t cpus_per_task; /* of the one task a node: as many CPUs as the request had for so many GPUs */
};

/* -1 with one line in err when the parts contradict each other. options must have been checked alone (options_set). */
int shape_plan(const struct shape_request *request, const struct options *options, struct shape *shape,
               struct prism_error *err);

/* World alone: what shape_plan takes. */
int shape_world(const struct shape_request *request, const struct options *options, uint32_t *world, struct prism_error *err);

#endif
