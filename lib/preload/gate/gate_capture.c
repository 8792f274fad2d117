/* gate_capture.c - capture: go means that all participants arrived and the results lie in the heap. */
#include "preload/gate/gate.h"

void gate_capture_enqueue(const struct gate *g)
{
    gate_copy_inputs(g);
    if (!gate_has_outputs(g)) {
        gate_pass(g, GATE_ARRIVE | GATE_GO | GATE_DONE);
        return;
    }
    gate_pass(g, GATE_ARRIVE | GATE_GO);
    gate_copy_outputs(g);
    gate_pass(g, GATE_DONE);
}
