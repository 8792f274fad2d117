/* gate_fill.c - control mode: which results of a gate it does not keep, and has made on the device. */
#include "preload/gate/fill.h"
#include "preload/gate/gate.h"

bool gate_has_fills(const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->parts[i].synthetic)
            return true;
    return false;
}

void gate_fill_outputs(const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct operation *o = &g->operations[i];
        if (g->parts[i].synthetic)
            fill(g->stream->handle, (CUdeviceptr)(uintptr_t)o->recv, gate_output_bytes(o), o->datatype);
    }
}
