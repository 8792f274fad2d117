/* gate_capture.c - capture: go means that all participants arrived and the results lie in the heap. */
#include "preload/gate/gate.h"

void gate_capture_enqueue(const struct gate *g)
{
    unsigned before = g->early ? GATE_HERE | GATE_GO : GATE_ARRIVE | GATE_GO;
    if (!g->early)
        gate_copy_inputs(g);
    if (!gate_has_outputs(g)) {
        gate_pass(g, before | GATE_DONE);
        return;
    }
    gate_pass(g, before);
    gate_copy_outputs(g);
    gate_pass(g, GATE_DONE);
}
