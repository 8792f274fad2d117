/* private.h - inside of lib/synth: a rank of the job while its nodes are written (emit.c), for the schedules. */
#ifndef PRISM_SYNTH_PRIVATE_H
#define PRISM_SYNTH_PRIVATE_H

#include "synth/synth.h"

#define SYNTH_RANKS_MAX (1u << 20)

/* Streams of a rank. */
enum { STREAM_COMPUTE, STREAM_RECV, STREAM_RECV_BACK, STREAM_SEND, STREAM_SEND_BACK, STREAM_GRADS, STREAMS };

struct emit {
    const struct synth_job *job;
    struct graph *graph;
    uint32_t rank, stage;                     /* world rank; its place in the pipeline */
    int32_t local[SYNTH_GROUPS];              /* the rank's number of each communicator; -1: it has none */
    uint32_t ordinals[SYNTH_GROUPS];
    uint32_t nnodes;
    double pending_ns;                        /* computation that the next node of the compute stream follows */
    bool used[STREAMS];
    float *works; /* owned; of nodes so far */
    uint32_t works_cap;
};

#define EMIT_NO_NODE (-1)

void emit_compute(struct emit *e, double ns);
/* dep: a node of this rank, or EMIT_NO_NODE. Returns the node. */
int64_t emit_record(struct emit *e, uint32_t stream);
void emit_wait(struct emit *e, uint32_t stream, int64_t record);
/* A collective; nothing where the group is of one rank. */
void emit_collective(struct emit *e, uint32_t stream, enum synth_group group, int op, uint64_t bytes);
/* Messages of one group of operations, to and from stages; nothing when n is 0. */
struct emit_message {
    bool send;
    uint32_t stage;
};
void emit_messages(struct emit *e, uint32_t stream, enum synth_group group, const struct emit_message *m, uint32_t n);

/* Layers of a virtual stage (chunk * PP + stage). */
uint32_t synth_layers(const struct synth_job *job, uint32_t virtual_stage);
/* All layers of a virtual stage; micro-batch is for the imbalance only. last: the last micro-batch that passes here. */
void emit_forward(struct emit *e, uint32_t virtual_stage, uint32_t micro_batch);
void emit_backward(struct emit *e, uint32_t virtual_stage, uint32_t micro_batch, bool last);

/* schedule.c: all micro-batches of an iteration. */
void schedule_1f1b(struct emit *e);
void schedule_interleaved(struct emit *e);

/* model.c: steps and sizes of a transformer. */
struct synth_model {
    double hidden, heads, kv_heads, head_dim, ffn, vocab, sequence, micro_batch;
    double experts, top_k; /* experts 0: dense, else ffn is one expert's */
    bool sequence_parallel, overlap_grads;
    double flops; /* of a GPU as it reaches them, a second */
    double memory_bandwidth; /* bytes a second, for the optimizer's step */
};
void synth_from_model(struct synth_job *job, const struct synth_model *m);
void synth_steps_add(struct synth_steps *steps, struct synth_step step);

#endif
