/* gate_fill.c - control mode: what it does not keep is made on the device. One copy from the host brings a block of the pattern, each
 * copy within the device doubles what is there: 14 calls for 512 MiB, of which 64 KiB cross the bus. */
#include "coll/synthetic.h"
#include "preload/gate/gate.h"
#include "preload/preload.h"
#include "preload/real.h"

/* Pinned, so that a copy from it does not wait for the stream. Never written again: streams read it at any time. */
static const void *block_of(int datatype)
{
    static _Alignas(4096) uint8_t blocks[COLL_DATATYPES][COLL_SYNTHETIC_BLOCK];
    static bool made[COLL_DATATYPES];
    if (!made[datatype]) {
        coll_synthetic_fill(blocks[datatype], COLL_SYNTHETIC_BLOCK, datatype);
        CUDA_MUST(driver(cuMemHostRegister)(blocks[datatype], COLL_SYNTHETIC_BLOCK, CU_MEMHOSTREGISTER_PORTABLE));
        made[datatype] = true;
    }
    return blocks[datatype];
}

static void fill(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype)
{
    uint64_t done = bytes < COLL_SYNTHETIC_BLOCK ? bytes : COLL_SYNTHETIC_BLOCK;
    CUDA_MUST(driver(cuMemcpyHtoDAsync)(to, block_of(datatype), done, stream));
    for (uint64_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        CUDA_MUST(driver(cuMemcpyAsync)(to + done, to, n, stream));
    }
}

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
