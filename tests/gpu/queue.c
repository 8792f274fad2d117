/* queue.c - how many operations a stream takes behind a closed gate before the host waits in the driver, and what else waits then.
 *
 *     queue        a line of JSON for each kind of operation
 *
 * queued: operations that a thread has put on the stream when the next one did not return (0: it never waited, of MOST).
 * Meanwhile, in another thread, milliseconds of: a write on another stream and its end; making, mapping, unmapping and
 * freeing device memory (VMM); a kernel's worth of a fill on another stream. -1: that waited, too, until the gate opened (2 s).
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MOST  8192
#define BYTES ((size_t)2 << 20)

static CUcontext context;
static CUstream full, other;
static CUdeviceptr memory;
static CUevent event;
static volatile uint32_t *gate;
static CUdeviceptr gate_device;
static uint32_t opened;
static int issued; /* atomic */
static const char *kind;

static void *issue(void *unused)
{
    (void)unused;
    MUST(CU(cuCtxSetCurrent)(context));
    for (int i = 0; i < MOST; i++) {
        switch (kind[0]) {
        case 'f': MUST(CU(cuMemsetD8Async)(memory, 1, 4096, full)); break;
        case 'c': MUST(CU(cuMemcpyDtoDAsync)(memory, memory + BYTES / 2, 4096, full)); break;
        default: MUST(CU(cuEventRecord)(event, full)); break;
        }
        __atomic_store_n(&issued, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Opens the gate after two seconds, whatever hangs. */
static void *release(void *unused)
{
    (void)unused;
    sleep(2);
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

static double timed(void (*f)(void))
{
    double from = now();
    f();
    return took(from);
}

static void measure(const char *what)
{
    pthread_t issuer, opener;
    int seen = -1, now_issued;
    kind = what;
    issued = 0;
    opened++;
    MUST(CU(cuStreamWaitValue32)(full, gate_device, opened, CU_STREAM_WAIT_VALUE_GEQ));
    pthread_create(&issuer, NULL, issue, NULL);
    while ((now_issued = __atomic_load_n(&issued, __ATOMIC_ACQUIRE)) != seen && now_issued < MOST) {
        seen = now_issued;
        usleep(200000);
    }
    seen = now_issued;
    pthread_create(&opener, NULL, release, NULL);
    double write = timed(write_elsewhere), map = timed(map_elsewhere), fill = timed(fill_elsewhere);
    printf("{\"operation\": \"%s\", \"queued\": %d, \"write_ms\": %.2f, \"map_ms\": %.2f, \"fill_ms\": %.2f}\n", what, seen < MOST ? seen : 0,
           write, map, fill);
    fflush(stdout);
    pthread_join(opener, NULL);
    pthread_join(issuer, NULL);
    MUST(CU(cuCtxSynchronize)());
}

int main(void)
{
    CUdevice device;
    void *words;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&full, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    MUST(CU(cuMemAlloc)(&memory, BYTES));
    MUST(CU(cuMemHostAlloc)(&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(CU(cuMemHostGetDevicePointer)(&gate_device, words, 0));
    gate = words;
    *gate = 0;
    map_elsewhere(); /* first uses are slow */
    fill_elsewhere();
    measure("fill");
    measure("copy");
    measure("record");
    return 0;
}
