/* trainer.h - everything one rank has while it trains, and the steps of an iteration.
 *
 * Streams. compute: kernels, tensor-parallel sums, the sums of loss and norm. expert: all-to-all. reduce:
 * gradient sums, beside the backward pass. One a pipeline direction for receives, which are posted one step
 * ahead, and one for sends. waits: --wait-streams.
 *
 * Files: model.c (attention, MLP, embedding, head), moe.c (mixture-of-experts layer), pipeline.c (1F1B
 * schedule), optimizer.c (gradient sums, norm, clipping, Adam), trainer.c (set-up, iteration).
 */
#ifndef MOETRAIN_TRAINER_H
#define MOETRAIN_TRAINER_H

#include "check.h"
#include "groups.h"
#include "kernels.h"
#include "layout.h"
#include "memory.h"
#include "options.h"
#include "params.h"
#include "resources.h"

/* What the forward pass of a layer leaves for its backward pass. Device memory, sized for --seq; the members
 * of the last paragraph are sized by the data, taken from the pool in forward and given back in backward. */
struct layer_stash {
    const real *x;
    real *normed1, *stats1, *qkv, *probabilities, *context, *mid, *normed2, *stats2, *out;
    real *before, *active; /* dense */
    real *routing;         /* mixture of experts: probabilities [rows][experts] */
    int *choice, *slot, *sent_counts, *received_counts;
    int *sent_rows, *received_rows; /* host, by rank of the expert group */
    int received;                   /* their sum */
    real *tokens, *expert_before, *expert_active, *returned;
};

struct head_stash {
    real *normed, *stats, *logits, *row_max, *sums;
};

enum { GRADIENT_SLOTS = 3 };

struct model {
    int max_rows;              /* tokens of the longest micro-batch */
    int in_flight;             /* micro-batches between their forward and backward: slots of stash */
    int inputs_count;          /* one more: a receive is posted ahead */
    real **inputs;             /* [slot]: input of the stage's first layer */
    struct layer_stash *stash; /* [slot][layer] */
    struct head_stash head;
    real *gradients[GRADIENT_SLOTS]; /* at the output, turned in place into that at the input of the stage */
    real *partial, *dnormed, *dwide, *dcontext, *dqkv, *dweight; /* scratch of the compute stream */
    int *tokens, *targets;                                       /* device, [micro_batches][max_rows] */
    int *host_tokens, *host_targets;                             /* pinned */
    int *host_counts;                                            /* pinned, [2][experts] */
    int *lengths;                                                /* host, of this iteration's micro-batches */
    struct pool pool;
};

struct streams {
    cudaStream_t compute, expert, reduce, receive_forward, receive_backward, send_forward, send_backward;
    cudaStream_t *waits;
};

struct events {
    cudaEvent_t *input_ready, *input_free;   /* [inputs_count] */
    cudaEvent_t *output_ready, *output_free; /* [in_flight] */
    cudaEvent_t gradient_ready[GRADIENT_SLOTS], gradient_done[GRADIENT_SLOTS], gradient_free[GRADIENT_SLOTS];
    cudaEvent_t expert_begin, expert_end, counts_read;
    cudaEvent_t reduced, sums_read, waits_begin, *waits_end;
    cudaEvent_t begin, end[2]; /* with timing */
};

/* Grids of --exact-sums (all zero without it). Sums are below 2^23 steps of a grid, so exact in single
 * precision (2^52 in double for norm and loss), as long as no value was cut to its bound, which is the range
 * / group size. */
struct grids {
    struct grid activation, gradient;  /* tensor group: range 2^11 in steps of 2^-12; 2^9 in steps of 2^-14 */
    struct grid weight, expert_weight; /* data groups: range 2^13 in steps of 2^-10 (sums over tokens) */
    struct grid norm;                  /* world: range 2^32 in steps of 2^-20 */
};

struct trainer {
    const struct options *options;
    struct layout layout;
    struct groups groups;
    struct params params;
    struct model model;
    struct streams streams;
    struct events events;
    struct grids grids;
    double *sums, *host_sums; /* device and pinned: loss, squared norm */
    real *wait_values;        /* device, [2][wait_streams] */
    real *host_waits;         /* pinned */
    long iteration;           /* from 0 */
};

struct result {
    double loss, norm, seconds; /* mean loss a token; norm of its gradient before clipping */
};

/* trainer.c. layout and groups are set by the caller, all else zero. */
void trainer_create(struct trainer *trainer);
struct grids trainer_grids(const struct options *options, const struct layout *layout);
struct result trainer_iterate(struct trainer *trainer);
/* Give back all that trainer_create made; options, layout and groups stay. */
void trainer_destroy(struct trainer *trainer);

/* model.c. Both enqueue on the compute stream; gradients is transformed in place from that of the stage's
 * output (any values on the last stage) to that of its input. last: no more micro-batches follow, so a bucket
 * that is complete is handed to optimizer_reduce. */
void model_create(struct trainer *trainer);
void model_begin_iteration(struct trainer *trainer);
int model_rows(const struct trainer *trainer, int micro_batch);
struct layer_stash *model_stash(struct trainer *trainer, int micro_batch);
void model_forward(struct trainer *trainer, int micro_batch);
void model_backward(struct trainer *trainer, int micro_batch, real *gradients, bool last);

/* moe.c: the second half of a layer, from stash->normed2 and stash->mid to stash->out, and back. */
void moe_stash(struct trainer *trainer, struct slab *slab, struct layer_stash *stash);
void moe_forward(struct trainer *trainer, const struct layer_params *layer, struct layer_stash *stash,
                 int rows);
void moe_backward(struct trainer *trainer, const struct layer_params *layer, struct layer_stash *stash,
                  int rows, real *gradients);

/* pipeline.c: all micro-batches of an iteration, forward and backward. */
void pipeline_create(struct trainer *trainer);
void pipeline_run(struct trainer *trainer);

/* optimizer.c. reduce starts the sum of a bucket's gradients on the reduce stream. step waits for all sums,
 * reads loss and norm on the host, clips if it must, and updates the parameters. tokens: of the whole batch.
 */
void optimizer_create(struct trainer *trainer);
void optimizer_reduce(struct trainer *trainer, int bucket);
struct result optimizer_step(struct trainer *trainer, double tokens);

/* waits.c: --wait-streams. begin makes all streams wait at once for the last rank; end checks the sums. */
void waits_create(struct trainer *trainer);
void waits_begin(struct trainer *trainer);
void waits_end(struct trainer *trainer);

/* later waits for all that is enqueued on earlier now, by way of event. */
void trainer_order(cudaStream_t earlier, cudaEvent_t event, cudaStream_t later);

static inline bool trainer_is_first_stage(const struct trainer *trainer)
{
    return trainer->layout.pp_rank == 0;
}

static inline bool trainer_is_last_stage(const struct trainer *trainer)
{
    return trainer->layout.pp_rank == trainer->layout.pp - 1;
}

#endif
