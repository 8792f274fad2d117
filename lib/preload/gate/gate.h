/* gate.h - one gate: what stands on the stream for one group of operations on one communicator.
 *
 *     capture   copy inputs to the heap · arrive · wait go · copy results from the heap · done
 *               early (early.h): here · wait go · …, the inputs and arrive being on another stream
 *     paced     [pre] · arrive · wait ready · copy results · wait go · done · [post]
 *     nccl      [pre] · arrive · the prune plan's calls on the shrunk communicator · wait go · done · [post]
 *               (calibration: … · wait ready · copy recorded results over · wait go · …)
 *
 * In control mode results that it does not keep are not copied: where there are some, they are filled on the device before go
 * (gate_fill.c), so that neither is part of the operation's time.
 *
 * session_lock held throughout.
 */
#ifndef PRISM_PRELOAD_GATE_H
#define PRISM_PRELOAD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "preload/nccl/group.h"
#include "preload/gate/slots.h"
#include "preload/gate/streams.h"
#include "proto/message.h"

struct shrunk;

struct gate {
    const struct operation *operations;
    const struct msg_part *parts; /* as many; offsets within the region, bytes 0 = nothing to copy */
    uint32_t n;
    struct stream *stream;
    bool early;  /* it has arrived by itself (early.h) */
    bool kernel; /* the waits are kernels (gate_kernel.h) */
    struct slot_use use;
    uint32_t node;
};

/* Put the gate on its stream. */
void gate_capture_enqueue(const struct gate *g);
void gate_paced_enqueue(const struct gate *g);
void gate_nccl_enqueue(const struct gate *g, struct shrunk *shrunk);

/* The pieces. The stream goes over some words of the gate's slot, in this order: writes arrive, awaits ready, awaits go,
 * writes done. One call of the driver for all of them. HERE writes ready, which capture has no other use for. */
enum gate_words { GATE_ARRIVE = 1, GATE_READY = 2, GATE_GO = 4, GATE_DONE = 8, GATE_HERE = 16 };
void gate_pass(const struct gate *g, unsigned words);
void gate_copy_inputs(const struct gate *g);
bool gate_has_outputs(const struct gate *g);
void gate_copy_outputs(const struct gate *g);
/* A stretch of one part's. */
void gate_copy_output(const struct gate *g, uint32_t part, uint64_t from, uint64_t bytes);
bool gate_has_fills(const struct gate *g);
/* Put the synthetic pattern (coll/synthetic.h) where results belong that control mode does not keep. Operations in place are no
 * exception: leaving the input alone would be cheaper still, but values that a program sums up in the buffer would grow without
 * bound. */
void gate_fill_outputs(const struct gate *g);
/* What the operation delivers to this rank. */
uint64_t gate_output_bytes(const struct operation *o);

/* Issue all operations of one communicator: node, gate, ties to other streams. operations are in call order. */
void gate_issue(struct comm *c, const struct operation *operations, uint32_t n);

#endif
