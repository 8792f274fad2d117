/* conf.h - what prismd was asked for: PRISM_* variables (README lists them) and the program's argv.
 *
 * The `prism run` command and the Slurm plugin set the same variables, so there is one way in.
 */
#ifndef PRISM_PRISMD_CONF_H
#define PRISM_PRISMD_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trace/trace.h"

enum conf_phase { CONF_AUTO, CONF_CAPTURE, CONF_CALIBRATE, CONF_EMULATE };
enum conf_divergence { CONF_STOP, CONF_WARN };
enum conf_switching { CONF_SWITCHING_AUTO, CONF_SWITCHING_OFF, CONF_SWITCHING_ON };

struct fold;

struct conf {
    uint32_t world;         /* PRISM_EMULATE: logical ranks */
    uint32_t gpus_per_node; /* PRISM_GPUS_PER_NODE: logical, default 8 */
    uint32_t *sandbox;      /* PRISM_SANDBOX, ascending; default {0} */
    uint32_t nsandbox;
    int assistants;         /* PRISM_ASSISTANTS: devices; 0 = paced; -1 = not given, paced */
    enum conf_phase phase;  /* PRISM_PHASE */
    char *trace;            /* PRISM_TRACE: folder, absolute */
    uint32_t slices;        /* PRISM_SLICES: ranks calibrated: 0 = auto, UINT32_MAX = all, else that many a class */
    uint32_t iterations;    /* PRISM_ITERATIONS: capture ends after so many; 0 = when the program does */
    enum trace_payload payload; /* PRISM_PAYLOAD; UNSAID = not given, until phases.c knows the trace */
    char *network;          /* PRISM_NETWORK: profile file, or NULL */
    char *report;           /* PRISM_REPORT: extra copy of report.json, or NULL */
    char *library;          /* PRISM_LIBRARY: libprism.so */
    char *layout, *fold_names; /* PRISM_LAYOUT, PRISM_FOLD, or NULL */
    struct fold *fold;      /* what they make of world and sandbox (graph/fold.h); NULL = capture runs every rank */
    uint32_t *fold_nodes;   /* owned: by rank, the node that runs it, or its representative, in capture */
    enum conf_divergence on_divergence;
    uint32_t runnable;      /* PRISM_RUNNABLE: ranks running at once in capture */
    uint32_t queues;        /* PRISM_QUEUES: hardware queues of a rank in capture; 0 = place_capture_queues decides */
    size_t prefetch;        /* PRISM_PREFETCH: bytes of payloads read ahead on a node; 0 = none */
    enum conf_switching switching; /* PRISM_SWITCHING: of ranks' device memory in capture (movers.h) */
    uint64_t device_memory; /* PRISM_DEVICE_MEMORY: bytes of a device that ranks may take; 0 = what is free */
    uint64_t context_bytes; /* PRISM_CONTEXT_BYTES: device memory of a process without its allocations; UINT64_MAX = not given */
    uint64_t eviction_seed; /* PRISM_EVICTION_SEED: victims at random (tests); 0 = by the policy */
    uint64_t staging;       /* PRISM_STAGING: bytes of staging heap that a rank's operations in flight take before later ones wait; 0: rank_staging */

    uint32_t tasks;         /* PRISM_TASKS: processes asked for: world, or one a logical node (a launcher) */
    uint32_t cpus_per_task; /* PRISM_CPUS_PER_TASK: of a logical task; 0 = not said */
    bool scratch;           /* PRISM_SCRATCH: phases run in copies of the working directory (scratch.h) */
    bool is_step;           /* PRISM_STEP_ID is set: a step of a Slurm job, which may be no emulation after all (tasks.h) */
    bool trace_is_default;  /* PRISM_TRACE_DEFAULT: not the user's choice */
    const char *iteration_range; /* PRISM_ITERATION_RANGE: the NVTX range that is an iteration (graph/marks.h), or NULL */
    char *node_base;        /* PRISM_NODE_BASE: names of logical nodes (common/names.h), or NULL: the machine's own */
    uint32_t node_count;    /* PRISM_NODE_COUNT: nodes that have such names; a step may use fewer */
    uint32_t nodes, node;   /* PRISM_NODES, PRISM_NODE_ID */
    char *step;             /* PRISM_STEP_ID: names the run among several on the same trace; "run" */
    uint32_t link_seconds;  /* PRISM_LINK_SECONDS: for the nodes to find each other; 0 = the default (link_setup.h) */
    char **devices;         /* ids for CUDA_VISIBLE_DEVICES, one physical device each */
    uint32_t ndevices;

    char **argv;            /* the program; borrowed from main */
    char *executable;       /* PRISM_PROGRAM_EXE or what PATH gives */
};

/* Read the environment. Errors name the variable, its value and what is allowed. */
int conf_read(struct conf *c, char **argv, struct prism_error *err);
void conf_clear(struct conf *c);
bool conf_is_sandbox(const struct conf *c, uint32_t rank);

#endif
