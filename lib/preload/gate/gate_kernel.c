#include "preload/gate/gate_kernel.h"

#include <stdlib.h>

#include "common/log.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "proto/region.h"

#define QUEUES_DEFAULT 8
#define QUEUES_MOST    32

/* PTX for every GPU since Volta, compiled by the driver. Flags lie in host memory: .sys is the scope that prismd is in.
 * A look at them takes about a microsecond over PCIe, so the pause only keeps the thread from flooding the bus. */
static const char ptx[] =
    ".version 6.3\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry prism_gate(\n"
    "    .param .u64 arrive, .param .u64 word, .param .u64 done, .param .u32 generation)\n"
    "{\n"
    "    .reg .pred %p<4>;\n"
    "    .reg .b64 %rd<4>;\n"
    "    .reg .b32 %r<4>;\n"
    "    ld.param.u64 %rd0, [arrive];\n"
    "    ld.param.u64 %rd1, [word];\n"
    "    ld.param.u64 %rd2, [done];\n"
    "    ld.param.u32 %r0, [generation];\n"
    "    setp.eq.u64 %p0, %rd0, 0;\n"
    "    @%p0 bra LOOK;\n"
    "    st.release.sys.u32 [%rd0], %r0;\n"
    "LOOK:\n"
    "    ld.acquire.sys.u32 %r1, [%rd1];\n"
    "    sub.s32 %r2, %r1, %r0;\n"
    "    setp.ge.s32 %p1, %r2, 0;\n"
    "    @%p1 bra OPEN;\n"
    "    nanosleep.u32 100;\n"
    "    bra LOOK;\n"
    "OPEN:\n"
    "    setp.eq.u64 %p2, %rd2, 0;\n"
    "    @%p2 bra END;\n"
    "    st.release.sys.u32 [%rd2], %r0;\n"
    "END:\n"
    "    ret;\n"
    "}\n";

static CUfunction kernel; /* NULL: wait values only */
static uint32_t queues;

uint32_t gate_kernel_queues(const char *value)
{
    long n = value ? strtol(value, NULL, 10) : 0;
    return n < 1 ? QUEUES_DEFAULT : n > QUEUES_MOST ? QUEUES_MOST : (uint32_t)n;
}

/* A word that has been reached already. */
static void run_once(void)
{
    struct region_slot *first = (struct region_slot *)(void *)session.region;
    CUstream own;
    CUDA_MUST(driver(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
    gate_kernel_launch(own, 0, session.region_device + offsetof(struct region_slot, go), 0, first->go);
    CUDA_MUST(driver(cuStreamSynchronize)(own));
    CUDA_MUST(driver(cuStreamDestroy)(own));
}

void gate_kernel_load(void)
{
    CUmodule module;
    queues = gate_kernel_queues(getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
    CUresult r = driver(cuModuleLoadData)(&module, ptx);
    if (!r)
        r = driver(cuModuleGetFunction)(&kernel, module, "prism_gate");
    if (!r) {
        run_once();
        return;
    }
    const char *name = NULL;
    driver(cuGetErrorName)(r, &name);
    kernel = NULL;
    log_warn("rank %u: CUDA cannot load the kernel prism_gate (error %d, %s), so gates are stream waits: %u of them at once "
             "stall all streams; set CUDA_DEVICE_MAX_CONNECTIONS=32, or install the driver's PTX compiler", session.rank,
             (int)r, name ? name : "unknown", queues);
}

bool gate_kernel_wanted(const struct stream *s)
{
    return kernel && streams_waiting(s) + 1 >= queues;
}

void gate_kernel_launch(CUstream stream, CUdeviceptr arrive, CUdeviceptr word, CUdeviceptr done, uint32_t generation)
{
    void *parameters[] = {&arrive, &word, &done, &generation};
    CUDA_MUST(driver(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}
