/* shape.h - from what the user asked Slurm for to the job that is emulated, and to the small allocation that does it.
 *
 * Pure arithmetic without Slurm; part of the static library prismopt.
 *
 *   world            N of --prism-emulate=N; without it the request's: tasks, or nodes x gpus-per-node where the request
 *                    has one task a node (a launcher such as torchrun), or --gpus
 *   gpus per node    --prism-gpus-per-node, else the request's GPUs a node, else 8 (fewer when the world is smaller)
 *   devices          sandbox ranks + assistants (unless given: one a sandbox rank); never more than the world
 *   physical nodes   devices / (GPUs a node of the request, else 8), rounded up, one task each; devices spread evenly.
 *                    PRISM_NODES and PRISM_DEVICES_PER_NODE force them
 * Inside an allocation the step gets one task on each of its nodes.
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
    uint32_t allocation_nodes; /* nodes of the allocation we are in; 0 = none yet */
    uint32_t earlier_world;    /* world of the enclosing sbatch or salloc that Prism shaped */
    uint32_t forced_nodes, forced_devices_per_node; /* PRISM_NODES, PRISM_DEVICES_PER_NODE */
};

struct shape {
    uint32_t world, nodes, gpus_per_node; /* logical; world = nodes x gpus_per_node except on a single, partly used node */
    uint32_t sandbox_ranks, devices;      /* needed in all */
    uint32_t physical_nodes, devices_per_node;
    uint32_t cpus_per_task; /* of the one task a node: as many CPUs as the request had for so many GPUs */
};

/* -1 with one line in err when the parts contradict each other. options must have been checked alone (options_set). */
int shape_plan(const struct shape_request *request, const struct options *options, struct shape *shape,
               struct prism_error *err);

#endif
