/* gate_paced.c - calibration and emulation without real communication: the recorded result at the computed time.
 * The result is fetched, or made, before go, so that this is not part of the time. */
#include "preload/gate/gate.h"
#include "preload/nodes/times.h"

void gate_paced_enqueue(const struct gate *g)
{
    struct times_entry *times = times_begin(g->stream, g->node);
    bool copies = gate_has_outputs(g), fills = gate_has_fills(g);
    if (copies || fills) {
        gate_pass(g, copies ? GATE_ARRIVE | GATE_READY : GATE_ARRIVE);
        gate_copy_outputs(g);
        gate_fill_outputs(g);
        gate_pass(g, GATE_GO | GATE_DONE);
    } else {
        gate_pass(g, GATE_ARRIVE | GATE_GO | GATE_DONE);
    }
    times_end(g->stream, times);
}
