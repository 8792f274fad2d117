/* gate_capture.c - capture: go means that all participants arrived and the results lie in the heap. */
#include "preload/gate.h"

void gate_capture_enqueue(const struct gate *g)
{
    gate_copy_inputs(g);
    gate_write(g, GATE_ARRIVE);
    gate_wait(g, GATE_GO);
    gate_copy_outputs(g);
    gate_write(g, GATE_DONE);
}
