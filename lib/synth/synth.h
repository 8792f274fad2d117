/* synth.h - traces of training jobs that nobody ran: a job described in a small file becomes an execution graph with works.
 *
 * 1. The job
 *
 * Ranks lie as in Megatron-Core's default order, tensor parallel innermost:
 *     rank = tp + TP * (cp + CP * (dp + DP * pp))
 * Groups: tp, cp; dp = all ranks that hold the same dense weights (DP * CP of them); ep = EP data-parallel neighbours that
 * share a layer's experts, edp = those that hold the same experts (DP / EP * CP); world.
 *
 * A layer is two lists of steps, forward and backward. A step is computation and then, unless group is none, one operation.
 * Steps of the iteration's end follow after the last micro-batch.
 *
 * 2. Schedules (D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021)
 *
 * virtual_stages = 1: 1F1B. Stage s runs min(PP - s - 1, M) forward micro-batches ahead; a stage's send forward and receive
 * backward are one group (and the other way round), on the compute stream, as Megatron-Core does without overlap.
 * virtual_stages = V > 1: interleaved 1F1B, M a multiple of PP; sends and receives have streams of their own, and a message
 * is asked for one step ahead. With computation alone, balanced stages and M micro-batches
 *     iteration = (M + (PP - 1) / V) (t_forward + t_backward)          bubble share = (PP - 1) / (V M + PP - 1)
 *
 * 3. Steps from a model (docs/synth.md has the formulas and their sources)
 *
 * Bytes of a step mean what they mean in lib/coll/types.h: count * size of the datatype of the NCCL call.
 */
#ifndef PRISM_SYNTH_SYNTH_H
#define PRISM_SYNTH_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/duration.h"
#include "common/error.h"
#include "graph/graph.h"

enum synth_group { SYNTH_NONE, SYNTH_TP, SYNTH_CP, SYNTH_DP, SYNTH_EP, SYNTH_EDP, SYNTH_WORLD, SYNTH_PP, SYNTH_PP_BACK, SYNTH_GROUPS };

struct synth_step {
    double compute_ns; /* before the operation */
    int op;            /* enum prism_op */
    enum synth_group group; /* NONE: computation only. A group of one rank: the operation falls away */
    uint64_t bytes;
};

struct synth_steps {
    struct synth_step *list; /* owned */
    uint32_t n;
};

struct synth_job {
    char *name; /* owned */
    uint32_t tp, cp, pp, dp, ep;
    uint32_t virtual_stages, micro_batches;
    uint32_t layers; /* of the whole model; stages that get one less are the last, the first, the last but one, … */
    uint32_t iterations, gpus_per_node;
    uint64_t stage_bytes;       /* activations from stage to stage, and gradients back */
    double head_ns;             /* computation behind the last layer's forward; twice that before its backward */
    double imbalance;           /* expert steps (those before an EP operation) vary by up to this share, by rank and layer */
    uint64_t layer_grad_bytes;  /* > 0: reduce-scatter of so much (one rank's part) over dp, beside the last backward */
    struct synth_steps forward, backward; /* of one layer */
    struct synth_steps end;
    struct coll_network network; /* of the cluster */
    bool has_network;            /* false: the file does not say */
};

uint32_t synth_world(const struct synth_job *job);

/* A libconfig file (docs/synth.md). -1 with err (PRISM_EXIT_USAGE): file, line and what is wrong; nothing to clear then. */
int synth_read(const char *path, struct synth_job *job, struct prism_error *err);
void synth_clear(struct synth_job *job);

/* The graph with works, iterations and classes; graph_destroy. NULL with err (PRISM_EXIT_USAGE): numbers that do not fit
 * together. */
struct graph *synth_build(const struct synth_job *job, struct prism_error *err);

#endif
