#include "preload/gate/fill.h"

#include <string.h>

#include "coll/synthetic.h"
#include "coll/types.h"
#include "common/log.h"
#include "preload/preload.h"
#include "preload/real.h"

#define THREADS 256u  /* of a block; what they store at once is a multiple of PERIOD */
#define VECTOR  16u   /* bytes that a thread stores at once */
#define PERIOD  2048u /* bytes; every datatype's pattern repeats in them */

_Static_assert(COLL_SYNTHETIC_BLOCK % PERIOD == 0 && THREADS * VECTOR % PERIOD == 0, "a thread stores the same bytes all along");

/* --- one launch --- */

/* PTX for every GPU since Volta, compiled by the driver. The byte at address a is pattern[a mod 2048]. A thread's vectors, aligned
 * whatever the buffer is, are apart by a multiple of that, so it looks at the pattern once; those at the ends go by bytes. */
static const char ptx[] =
    ".version 6.3\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry prism_fill(\n"
    "    .param .u64 to, .param .u64 bytes, .param .align 16 .b8 pattern[2048])\n"
    "{\n"
    "    .reg .pred %p<4>;\n"
    "    .reg .b64 %rd<12>;\n"
    "    .reg .b32 %r<8>;\n"
    "    .reg .b16 %h<1>;\n"
    "    ld.param.u64 %rd0, [to];\n"
    "    ld.param.u64 %rd1, [bytes];\n"
    "    add.u64 %rd1, %rd0, %rd1;\n" /* the end */
    "    mov.u32 %r0, %ctaid.x;\n"
    "    mov.u32 %r1, %ntid.x;\n"
    "    mov.u32 %r2, %tid.x;\n"
    "    mad.lo.u32 %r2, %r0, %r1, %r2;\n"
    "    mov.u32 %r0, %nctaid.x;\n"
    "    mul.lo.u32 %r0, %r0, %r1;\n"
    "    mul.wide.u32 %rd2, %r0, 16;\n" /* from one vector to the next */
    "    mul.wide.u32 %rd3, %r2, 16;\n"
    "    and.b64 %rd4, %rd0, -16;\n"
    "    add.u64 %rd3, %rd3, %rd4;\n" /* where this one lies */
    "    mov.b64 %rd5, pattern;\n"
    "    and.b64 %rd6, %rd3, 2047;\n"
    "    add.u64 %rd6, %rd6, %rd5;\n"
    "    ld.param.v4.b32 {%r4, %r5, %r6, %r7}, [%rd6];\n"
    "NEXT:\n"
    "    setp.ge.u64 %p0, %rd3, %rd1;\n"
    "    @%p0 bra END;\n"
    "    add.u64 %rd7, %rd3, 16;\n"
    "    setp.lt.u64 %p1, %rd3, %rd0;\n"
    "    setp.gt.or.u64 %p1, %rd7, %rd1, %p1;\n"
    "    @%p1 bra BYTES;\n"
    "    st.global.v4.b32 [%rd3], {%r4, %r5, %r6, %r7};\n"
    "STEP:\n"
    "    add.u64 %rd3, %rd3, %rd2;\n"
    "    bra NEXT;\n"
    "BYTES:\n"
    "    max.u64 %rd8, %rd3, %rd0;\n"
    "    min.u64 %rd9, %rd7, %rd1;\n"
    "BYTE:\n"
    "    setp.ge.u64 %p2, %rd8, %rd9;\n"
    "    @%p2 bra STEP;\n"
    "    and.b64 %rd10, %rd8, 2047;\n"
    "    add.u64 %rd10, %rd10, %rd5;\n"
    "    ld.param.u8 %h0, [%rd10];\n"
    "    st.global.u8 [%rd8], %h0;\n"
    "    add.u64 %rd8, %rd8, 1;\n"
    "    bra BYTE;\n"
    "END:\n"
    "    ret;\n"
    "}\n";

static CUfunction kernel; /* NULL: copies */

static void do_without(CUresult r, const char *what)
{
    const char *name = NULL;
    driver(cuGetErrorName)(r, &name);
    kernel = NULL;
    log_warn("rank %u: CUDA cannot %s the kernel prism_fill (error %d, %s), so each result that control mode does not keep is made by "
             "about ten copies, which take its host longer than one launch; where it is the driver's PTX compiler that is missing, install it",
             session.rank, what, (int)r, name ? name : "unknown");
}

static CUresult launch(CUstream stream, CUdeviceptr to, uint64_t bytes, const uint8_t *pattern, uint32_t blocks)
{
    void *parameters[] = {&to, &bytes, (void *)(uintptr_t)pattern};
    return driver(cuLaunchKernel)(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL);
}

/* Nothing is filled. */
static CUresult run_once(void)
{
    static const uint8_t pattern[PERIOD];
    CUstream own;
    CUDA_MUST(driver(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
    CUresult r = launch(own, 0, 0, pattern, 1);
    CUDA_MUST(driver(cuStreamSynchronize)(own));
    CUDA_MUST(driver(cuStreamDestroy)(own));
    return r;
}

void fill_load(void)
{
    static CUmodule module; /* stays */
    CUresult r = driver(cuModuleLoadData)(&module, ptx);
    if (!r)
        r = driver(cuModuleGetFunction)(&kernel, module, "prism_fill");
    if (!r)
        r = run_once();
    if (r)
        do_without(r, "load");
}

static const uint8_t *pattern_of(int datatype)
{
    static uint8_t patterns[COLL_DATATYPES][PERIOD];
    static bool made[COLL_DATATYPES];
    if (!made[datatype])
        coll_synthetic_fill(patterns[datatype], PERIOD, datatype);
    made[datatype] = true;
    return patterns[datatype];
}

bool fill_by_kernel(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype, uint32_t blocks)
{
    uint8_t turned[PERIOD]; /* so that it begins at to */
    const uint8_t *pattern = pattern_of(datatype);
    uint32_t shift = to % PERIOD;
    uint64_t wanted = (to % VECTOR + bytes + THREADS * VECTOR - 1) / (THREADS * VECTOR);
    if (!kernel)
        return false;
    memcpy(turned + shift, pattern, PERIOD - shift);
    memcpy(turned, pattern + PERIOD - shift, shift);
    CUresult r = launch(stream, to, bytes, turned, wanted < blocks ? (uint32_t)wanted : blocks);
    if (r)
        do_without(r, "launch");
    return !r;
}

/* --- copies --- */

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

void fill_by_copies(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype)
{
    uint64_t done = bytes < COLL_SYNTHETIC_BLOCK ? bytes : COLL_SYNTHETIC_BLOCK;
    CUDA_MUST(driver(cuMemcpyHtoDAsync)(to, block_of(datatype), done, stream));
    for (uint64_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        CUDA_MUST(driver(cuMemcpyAsync)(to + done, to, n, stream));
    }
}

void fill(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype)
{
    if (bytes && !fill_by_kernel(stream, to, bytes, datatype, FILL_BLOCKS))
        fill_by_copies(stream, to, bytes, datatype);
}
