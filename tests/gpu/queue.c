/* queue.c - how many operations a stream takes behind a closed gate before the host waits in the driver, and what else waits then.
 *
 *     queue        a line of JSON for each kind of operation
 *
 * queued: operations that a thread has put on the stream when the next one did not return (0: it never waited, of MOST).
 * Meanwhile, in another thread, milliseconds of: a write on another stream and its end; making, mapping, unmapping and
 * freeing device memory (VMM); there too a fill, a kernel, a copy to the host and one from it. -1: that waited, too, until the gate
 * opened (a second). The stream waits, as PyTorch's does, for an event behind a gate of a stream of communication, and it is one of
 * many. "few": so many operations only, on the default stream in the second half.
 *
 * Then the same with the memory that the operations name moved elsewhere, at its address, while the call waits: the error of
 * any of them, and how many saw what lay where it had been.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MOST  8192
#define MOVED 2048 /* more than a queue takes */
#define BYTES ((size_t)2 << 20)
#define POOL  64   /* streams that are never used, PyTorch makes so many */
#define LARGE 4000 /* bytes of a kernel's arguments; PyTorch's for lists of tensors are about as large */

static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry small(.param .u64 to)\n{\n.reg .b64 %a;\nld.param.u64 %a, [to];\nst.global.u32 [%a], 7;\nret;\n}\n"
    ".visible .entry large(.param .align 8 .b8 all[4000])\n{\n.reg .b64 %a;\nld.param.u64 %a, [all];\nst.global.u32 [%a], 7;\nret;\n}\n";

static CUcontext context;
static CUstream full, other, gated, nonblocking, pool[POOL];
static CUevent behind_gate;
static int most = MOST;
static char *pinned;
static CUdeviceptr memory;
static CUevent event, events[MOST];
static volatile uint32_t *gate;
static CUdeviceptr gate_device;
static uint32_t opened;
static int issued; /* atomic */
static const char *kind;
static CUfunction small, large;
static CUdeviceptr moved, copies; /* BYTES each: the memory that moves; where copies of it go */
static CUmemGenericAllocationHandle moved_handle;
static char ones[MOVED * 16];
static int failed; /* the first error of an operation on memory that moved */

static CUresult kernel(CUfunction function, CUdeviceptr to)
{
    CUdeviceptr all[LARGE / sizeof(CUdeviceptr)] = {to};
    void *values[] = {all};
    return CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, full, values, NULL);
}

static void *issue(void *unused)
{
    (void)unused;
    MUST(CU(cuCtxSetCurrent)(context));
    for (int i = 0; i < most; i++) {
        switch (kind[0]) {
        case 'f': MUST(CU(cuMemsetD8Async)(memory, 1, 4096, full)); break;
        case 'c': MUST(CU(cuMemcpyDtoDAsync)(memory, memory + BYTES / 2, 4096, full)); break;
        case 's': MUST(kernel(small, memory)); break;
        case 'l': MUST(kernel(large, memory)); break;
        case 'w': MUST(CU(cuStreamWriteValue32)(full, gate_device + 8, 1, 0)); break;
        case 'e': MUST(CU(cuEventRecord)(events[i], full)); break;
        case 'd': MUST(CU(cuMemcpyDtoHAsync)(pinned, memory, 4096, full)); break;
        case 'u': MUST(CU(cuMemcpyHtoDAsync)(memory, pinned, 4096, full)); break;
        case 'm': MUST(CU(cuMemcpyDtoDAsync)(memory, memory + BYTES / 2, BYTES / 2, full)); break;
        case 'n': MUST(CU(cuEventRecord)(events[i], other)); MUST(CU(cuStreamWaitEvent)(full, events[i], 0)); break;
        default: MUST(CU(cuEventRecord)(event, full)); break;
        }
        __atomic_store_n(&issued, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Each operation has 16 bytes of its own. */
static void *issue_moved(void *unused)
{
    (void)unused;
    MUST(CU(cuCtxSetCurrent)(context));
    for (size_t i = 0; i < MOVED; i++) {
        CUresult error;
        switch (kind[0]) {
        case 'f': error = CU(cuMemsetD8Async)(moved + i * 16, 1, 16, full); break;
        case 'c': error = CU(cuMemcpyDtoDAsync)(copies + i * 16, moved + i * 16, 16, full); break;
        case 'u': error = CU(cuMemcpyHtoDAsync)(moved + i * 16, ones + i * 16, 16, full); break;
        default: error = kernel(small, moved + i * 16); break;
        }
        if (error && !failed)
            failed = (int)error;
        __atomic_store_n(&issued, (int)i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Opens the gate after a second, whatever hangs. */
static void *release(void *unused)
{
    (void)unused;
    sleep(1);
    *gate = opened;
    return NULL;
}

static double took(double from)
{
    double ms = 1e3 * (now() - from);
    return ms > 500 ? -1 : ms;
}

static void write_elsewhere(void)
{
    MUST(CU(cuStreamWriteValue32)(other, gate_device + 4, 1, 0));
    MUST(CU(cuStreamSynchronize)(other));
}

static void map_elsewhere(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    MUST(CU(cuMemAddressReserve)(&at, BYTES, 0, 0, 0));
    MUST(CU(cuMemCreate)(&handle, BYTES, &prop, 0));
    MUST(CU(cuMemMap)(at, BYTES, 0, handle, 0));
    MUST(CU(cuMemSetAccess)(at, BYTES, &access, 1));
    MUST(CU(cuMemUnmap)(at, BYTES));
    MUST(CU(cuMemRelease)(handle));
    MUST(CU(cuMemAddressFree)(at, BYTES));
}

static void fill_elsewhere(void)
{
    MUST(CU(cuMemsetD8Async)(memory + BYTES / 2, 1, 4096, other));
    MUST(CU(cuStreamSynchronize)(other));
}

static void launch_elsewhere(void)
{
    CUdeviceptr to = memory + BYTES / 2;
    void *values[] = {&to};
    MUST(CU(cuLaunchKernel)(small, 1, 1, 1, 1, 1, 1, 0, other, values, NULL));
    MUST(CU(cuStreamSynchronize)(other));
}

static void download_elsewhere(void)
{
    MUST(CU(cuMemcpyDtoHAsync)(pinned + BYTES / 2, memory + BYTES / 2, BYTES / 2, other));
    MUST(CU(cuStreamSynchronize)(other));
}

static void upload_elsewhere(void)
{
    MUST(CU(cuMemcpyHtoDAsync)(memory + BYTES / 2, pinned + BYTES / 2, BYTES / 2, other));
    MUST(CU(cuStreamSynchronize)(other));
}

static double timed(void (*f)(void))
{
    double from = now();
    f();
    return took(from);
}

static void map_moved(unsigned char value)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(CU(cuMemCreate)(&moved_handle, BYTES, &prop, 0));
    MUST(CU(cuMemMap)(moved, BYTES, 0, moved_handle, 0));
    MUST(CU(cuMemSetAccess)(moved, BYTES, &access, 1));
    MUST(CU(cuMemsetD8Async)(moved, value, BYTES, other));
    MUST(CU(cuStreamSynchronize)(other));
}

static void unmap_moved(void)
{
    MUST(CU(cuMemUnmap)(moved, BYTES));
    MUST(CU(cuMemRelease)(moved_handle));
}

/* Close the gate and let a thread issue until it waits. Returns how many it has issued. */
static int fill_queue(const char *what, void *(*how)(void *), int wanted, pthread_t *issuer)
{
    int seen = -1, now_issued;
    kind = what;
    issued = 0;
    opened++;
    MUST(CU(cuStreamWaitValue32)(gated, gate_device, opened, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(CU(cuEventRecord)(behind_gate, gated));
    MUST(CU(cuStreamWaitEvent)(full, behind_gate, 0));
    pthread_create(issuer, NULL, how, NULL);
    while ((now_issued = __atomic_load_n(&issued, __ATOMIC_ACQUIRE)) != seen && now_issued < wanted) {
        seen = now_issued;
        usleep(200000);
    }
    return now_issued;
}

static void move(const char *what)
{
    static unsigned char found[MOVED * 16];
    pthread_t issuer;
    int wrong = 0;
    unsigned char wanted = what[0] == 'f' || what[0] == 'u' ? 1 : what[0] == 'c' ? 0x22 : 7;
    failed = 0;
    map_moved(0x11);
    int queued = fill_queue(what, issue_moved, MOVED, &issuer);
    unmap_moved();
    usleep(100000);
    map_moved(0x22);
    *gate = opened;
    pthread_join(issuer, NULL);
    int after = (int)CU(cuCtxSynchronize)();
    MUST(CU(cuMemcpyDtoH)(found, what[0] == 'c' ? copies : moved, sizeof found));
    for (size_t i = 0; i < MOVED; i++)
        wrong += found[i * 16] != wanted;
    printf("{\"moved_under\": \"%s\", \"queued\": %d, \"error\": %d, \"error_after\": %d, \"wrong\": %d}\n", what,
           queued < MOVED ? queued : 0, failed, after, wrong);
    fflush(stdout);
    unmap_moved();
}

static void measure(const char *what)
{
    pthread_t issuer, opener;
    int seen = fill_queue(what, issue, most, &issuer);
    pthread_create(&opener, NULL, release, NULL);
    double write = timed(write_elsewhere), map = timed(map_elsewhere), fill = timed(fill_elsewhere), launch = timed(launch_elsewhere),
           download = timed(download_elsewhere), upload = timed(upload_elsewhere);
    printf("{\"operation\": \"%s\", \"default\": %d, \"%s\": %d, \"write_ms\": %.2f, \"map_ms\": %.2f, \"fill_ms\": %.2f, "
           "\"launch_ms\": %.2f, \"out_ms\": %.2f, \"in_ms\": %.2f}\n",
           what, full == NULL, most < MOST ? "few" : "queued", seen < most || most < MOST ? seen : 0, write, map, fill, launch, download, upload);
    fflush(stdout);
    pthread_join(opener, NULL);
    pthread_join(issuer, NULL);
    MUST(CU(cuCtxSynchronize)());
}

static void measure_all(CUstream on, int n)
{
    static const char *const kinds[] = {"fill", "copy", "megabyte copied", "small kernel", "large kernel", "download", "upload"};
    full = on;
    most = n;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        measure(kinds[i]);
}

int main(void)
{
    CUdevice device;
    CUmodule module;
    void *words;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&nonblocking, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < POOL; i++)
        MUST(CU(cuStreamCreateWithPriority)(&pool[i], CU_STREAM_NON_BLOCKING, i % 2 ? -1 : 0));
    gated = pool[1];
    MUST(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuEventCreate)(&behind_gate, CU_EVENT_DISABLE_TIMING));
    full = nonblocking;
    MUST(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < MOST; i++)
        MUST(CU(cuEventCreate)(&events[i], CU_EVENT_DISABLE_TIMING));
    MUST(CU(cuMemAlloc)(&memory, BYTES));
    MUST(CU(cuMemHostAlloc)((void **)&pinned, BYTES, 0));
    MUST(CU(cuMemHostAlloc)(&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(CU(cuMemHostGetDevicePointer)(&gate_device, words, 0));
    gate = words;
    *gate = 0;
    MUST(CU(cuModuleLoadData)(&module, ptx));
    MUST(CU(cuModuleGetFunction)(&small, module, "small"));
    MUST(CU(cuModuleGetFunction)(&large, module, "large"));
    MUST(CU(cuMemAlloc)(&copies, BYTES));
    MUST(CU(cuMemAddressReserve)(&moved, BYTES, 0, 0, 0));
    memset(ones, 1, sizeof ones);
    map_elsewhere(); /* first uses are slow */
    fill_elsewhere();
    MUST(kernel(small, memory));
    MUST(kernel(large, memory));
    MUST(CU(cuCtxSynchronize)());
    launch_elsewhere();
    download_elsewhere();
    upload_elsewhere();
    measure_all(nonblocking, MOST);
    measure("record");
    measure("write of a word");
    measure("event of its own");
    measure("new wait for an event");
    measure_all(nonblocking, 8);
    measure_all(nonblocking, 300);
    measure_all(NULL, 8);
    measure_all(NULL, MOST);
    full = nonblocking;
    move("fill");
    move("copy");
    move("upload from pageable memory");
    move("kernel");
    return 0;
}
