/* params.h - the parameters of one rank: one flat buffer of values, and as many gradients and Adam moments.
 *
 * Order: embedding, then the layers, each with its dense parameters followed by its experts, then the head.
 * Such a part is a bucket: the unit of the gradient all-reduce. A parameter's start value is a function of
 * the seed and of its place in the whole model, so it does not depend on how the model is split.
 */
#ifndef MOETRAIN_PARAMS_H
#define MOETRAIN_PARAMS_H

#include <stdbool.h>

#include "kernels.h"
#include "layout.h"
#include "options.h"

struct bucket {
    size_t first, count;
    bool expert; /* reduced over the expert-data-parallel group instead of the data-parallel one */
    cudaEvent_t complete;
};

/* Offsets into the flat buffers. */
struct layer_params {
    bool moe;
    int dense_bucket, expert_bucket; /* expert_bucket is -1 in a dense layer */
    size_t gamma1, beta1, wqkv, bqkv, wo, bo, gamma2, beta2;
    size_t w1, b1, w2, b2; /* dense: b1, b2; in a moe layer w1 and w2 hold a matrix per expert */
    size_t router;
};

struct params {
    real *values, *gradients, *first, *second; /* device */
    size_t count;
    struct bucket *buckets;
    int bucket_count, embed_bucket, head_bucket; /* -1 on stages without them */
    struct layer_params *layers;
    int layer_count;
    size_t table, positions;
    size_t head_gamma, head_beta, head_w;
    /* What this rank contributes to the global norm, so that every parameter of the model is counted once. */
    struct segment *segments; /* device */
    int segment_count;
    size_t segment_values;
};

/* Lay out, allocate and set the parameters of the stage. */
void params_create(struct params *params, const struct options *options, const struct layout *layout);

#endif
