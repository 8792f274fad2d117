/* gate.h - one gate: what stands on the stream for one group of operations on one communicator.
 *
 *     capture   copy inputs to the heap · arrive · wait go · copy results from the heap · done
 *     paced     [pre] · arrive · wait ready · copy results · wait go · [post] · done
 *     nccl      [pre] · arrive · the prune plan's calls on the shrunk communicator · wait go · [post] · done
 *               (calibration: … · wait ready · copy the recorded results over · wait go · …)
 *
 * session_lock held throughout.
 */
#ifndef PRISM_PRELOAD_GATE_H
#define PRISM_PRELOAD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "preload/group.h"
#include "preload/slots.h"
#include "preload/streams.h"
#include "proto/message.h"

struct shrunk;

struct gate {
    const struct operation *operations;
    const struct msg_part *parts; /* as many; offsets within the region, bytes 0 = nothing to copy */
    uint32_t n;
    struct stream *stream;
    struct slot_use use;
    uint32_t node;
};

/* Put the gate on its stream. */
void gate_capture_enqueue(const struct gate *g);
void gate_paced_enqueue(const struct gate *g);
void gate_nccl_enqueue(const struct gate *g, struct shrunk *shrunk);

/* The pieces: the stream writes or awaits the gate's generation in a word of its slot. */
enum gate_word { GATE_ARRIVE, GATE_READY, GATE_GO, GATE_DONE };
void gate_write(const struct gate *g, enum gate_word word);
void gate_wait(const struct gate *g, enum gate_word word);
void gate_copy_inputs(const struct gate *g);
bool gate_has_outputs(const struct gate *g);
void gate_copy_outputs(const struct gate *g);

/* Issue all operations of one communicator: node, gate, ties to other streams. operations are in call order. */
void gate_issue(struct comm *c, const struct operation *operations, uint32_t n);

#endif
