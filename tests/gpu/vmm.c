/* vmm.c - what switching device memory rests on, measured on the device: copies to another process, and which calls go on.
 *
 *     gpu_vmm [GiB] [window]       one GPU (or a software GPU: less memory); one JSON line a row; default 16 GiB, 16 ranges
 *
 * Two processes: the rank has its memory in ranges of 2, 20 and 200 MiB, as PyTorch's allocator, a fill queued behind a
 * closed gate; the mover imports each range's descriptor, copies it to a pinned pool and back. "out" and "in" are timed
 * from the first message to the last release or copy; every range's contents are checked after its return. The rows
 * "goes_on" tell what a second thread's calls took (microseconds) while a gate was closed and, in "full queue", while the
 * first thread sat in a launch because of it: calls that did not return within two seconds are -1. "unmapped" tells what
 * copies and questions answer for addresses without memory.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/mover.h"
#include "tests/gpu/open.h"

#define MIB    ((size_t)1 << 20)
#define RANGES 65536
#define STREAMS 2 /* of the mover: copies of two ranges overlap with the calls for others */

struct range {
    CUdeviceptr address;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};

static struct range ranges[RANGES];
static size_t n, window = 16;
static int ends[2];
static volatile uint32_t *words; /* gates */
static CUdeviceptr words_device;
static CUcontext context;

static void start_cuda(void)
{
    CUdevice device;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
}

static void allow(CUdeviceptr address, size_t bytes)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(CU(cuMemSetAccess)(address, bytes, &access, 1));
}

/* --- the mover --- */

struct guest { /* a range as imported */
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CUevent copied;
    struct mover_message message;
    bool busy;
};

static void finish(struct guest *g)
{
    MUST(CU(cuEventSynchronize)(g->copied));
    MUST(CU(cuMemUnmap)(g->address, g->message.bytes));
    MUST(CU(cuMemRelease)(g->handle));
    MUST(CU(cuMemAddressFree)(g->address, g->message.bytes));
    g->message.type = MOVER_COPIED;
    MUST(mover_send(ends[1], &g->message, -1, NULL));
    g->busy = false;
}

static void import(struct guest *g, int fd, CUstream stream, char *pool, const size_t *offsets)
{
    void *at = pool + offsets[g->message.range];
    MUST(CU(cuMemImportFromShareableHandle)(&g->handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    MUST(CU(cuMemAddressReserve)(&g->address, g->message.bytes, 0, 0, 0));
    MUST(CU(cuMemMap)(g->address, g->message.bytes, 0, g->handle, 0));
    allow(g->address, g->message.bytes);
    if (g->message.type == MOVER_OUT)
        MUST(CU(cuMemcpyDtoHAsync)(at, g->address, g->message.bytes, stream));
    else
        MUST(CU(cuMemcpyHtoDAsync)(g->address, at, g->message.bytes, stream));
    MUST(CU(cuEventRecord)(g->copied, stream));
    g->busy = true;
}

static int mover(const size_t *offsets, size_t total)
{
    struct guest guests[STREAMS] = {0};
    CUstream streams[STREAMS];
    void *pool;
    start_cuda();
    double began = now();
    MUST(CU(cuMemHostAlloc)(&pool, total, CU_MEMHOSTALLOC_PORTABLE));
    printf("{\"row\": \"pinned\", \"gib\": %.2f, \"seconds\": %.3f}\n", (double)total / 1073741824.0, now() - began);
    fflush(stdout);
    for (int i = 0; i < STREAMS; i++) {
        MUST(CU(cuStreamCreate)(&streams[i], CU_STREAM_NON_BLOCKING));
        MUST(CU(cuEventCreate)(&guests[i].copied, CU_EVENT_DISABLE_TIMING));
    }
    struct mover_message m = {.type = MOVER_READY};
    MUST(mover_send(ends[1], &m, -1, NULL));
    for (unsigned turn = 0;; turn++) {
        struct guest *g = &guests[turn % STREAMS];
        int fd;
        if (g->busy)
            finish(g);
        int got = mover_receive(ends[1], &g->message, &fd, NULL, MSG_DONTWAIT);
        for (int i = 0; got < 0 && i < STREAMS; i++)
            if (guests[i].busy)
                finish(&guests[i]);
        if (got < 0)
            got = mover_receive(ends[1], &g->message, &fd, NULL, 0);
        if (got <= 0)
            return 0;
        import(g, fd, streams[turn % STREAMS], pool, offsets);
    }
}

/* --- the rank --- */

static void make(struct range *r)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    MUST(CU(cuMemCreate)(&r->handle, r->bytes, &properties, 0));
    MUST(CU(cuMemMap)(r->address, r->bytes, 0, r->handle, 0));
    allow(r->address, r->bytes);
}

static void drop(struct range *r)
{
    MUST(CU(cuMemUnmap)(r->address, r->bytes));
    MUST(CU(cuMemRelease)(r->handle));
}

static size_t wait_copied(void)
{
    struct mover_message m;
    int fd;
    if (mover_receive(ends[0], &m, &fd, NULL, 0) <= 0)
        exit(1);
    return m.range;
}

static void move(bool out, size_t total)
{
    size_t under_way = 0;
    double began = now(), calls = 0;
    for (size_t i = 0; i < n + window; i++) {
        if (under_way == window || i >= n) {
            if (!under_way)
                break;
            size_t done = wait_copied();
            double before = now();
            if (out)
                drop(&ranges[done]);
            calls += now() - before;
            under_way--;
        }
        if (i >= n)
            continue;
        double before = now();
        int fd;
        if (!out)
            make(&ranges[i]);
        MUST(CU(cuMemExportToShareableHandle)(&fd, ranges[i].handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        calls += now() - before;
        struct mover_message m = {.type = out ? MOVER_OUT : MOVER_IN, .range = i, .bytes = ranges[i].bytes};
        MUST(mover_send(ends[0], &m, fd, NULL));
        close(fd);
        under_way++;
    }
    double seconds = now() - began;
    printf("{\"row\": \"%s\", \"gib\": %.2f, \"ranges\": %zu, \"window\": %zu, \"seconds\": %.4f, \"gb_per_s\": %.2f, "
           "\"rank_calls_seconds\": %.4f}\n",
           out ? "out" : "in", (double)total / 1073741824.0, n, window, seconds, (double)total / seconds * 1e-9, calls);
}

static void plain(size_t bytes)
{
    void *host;
    CUstream stream;
    size_t most = bytes < 1024 * MIB ? bytes : 1024 * MIB;
    CUdeviceptr device;
    MUST(CU(cuMemHostAlloc)(&host, most, 0));
    MUST(CU(cuMemAlloc)(&device, most));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    for (int out = 0; out < 2; out++) {
        double best = 1e9;
        for (int k = 0; k < 4; k++) {
            double began = now();
            MUST(out ? CU(cuMemcpyDtoHAsync)(host, device, most, stream) : CU(cuMemcpyHtoDAsync)(device, host, most, stream));
            MUST(CU(cuStreamSynchronize)(stream));
            best = now() - began < best ? now() - began : best;
        }
        printf("{\"row\": \"plain %s\", \"gb_per_s\": %.2f}\n", out ? "out" : "in", (double)most / best * 1e-9);
    }
    MUST(CU(cuMemFree)(device));
    MUST(CU(cuMemFreeHost)(host));
}

static size_t check(void)
{
    size_t wrong = 0;
    unsigned *host = malloc(200 * MIB);
    for (size_t i = 0; i < n; i++) {
        MUST(CU(cuMemcpyDtoH)(host, ranges[i].address, ranges[i].bytes));
        for (size_t k = 0; k < ranges[i].bytes / 4; k += 97)
            wrong += host[k] != (unsigned)(i * 2654435761u);
    }
    free(host);
    return wrong;
}

/* --- which calls go on --- */

static CUstream gated, other;
static volatile bool launching, probed;
static struct range spare;

static void close_gate(uint32_t value)
{
    MUST(CU(cuStreamWaitValue32)(gated, words_device, value, CU_STREAM_WAIT_VALUE_GEQ));
}

/* The first thread runs into the end of the stream's queue. */
static void *fill_queue(void *unused)
{
    MUST(CU(cuCtxSetCurrent)(context));
    for (int i = 0; i < 5000; i++)
        MUST(CU(cuMemsetD8Async)(ranges[0].address, 0, 4, gated));
    launching = false;
    return NULL;
}

static const char *const probes[] = {"event query", "write value, other stream", "fill, other stream", "create",
                                     "map, access", "export", "unmap, release", "address free", "write value, same stream"};
#define PROBES (sizeof probes / sizeof *probes)
static volatile double took[PROBES];

static void probe_call(size_t which)
{
    static CUevent event;
    int fd;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    if (!event) {
        MUST(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
        MUST(CU(cuMemAddressReserve)(&spare.address, 20 * MIB, 0, 0, 0));
        spare.bytes = 20 * MIB;
    }
    double began = now();
    switch (which) {
    case 0: CU(cuEventQuery)(event); break;
    case 1: MUST(CU(cuStreamWriteValue32)(other, words_device + 8, 1, 0)); break;
    case 2: MUST(CU(cuMemsetD8Async)(ranges[1].address, 0, 4, other)); break;
    case 3: MUST(CU(cuMemCreate)(&spare.handle, spare.bytes, &properties, 0)); break;
    case 4:
        MUST(CU(cuMemMap)(spare.address, spare.bytes, 0, spare.handle, 0));
        allow(spare.address, spare.bytes);
        break;
    case 5:
        MUST(CU(cuMemExportToShareableHandle)(&fd, spare.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        close(fd);
        break;
    case 6: drop(&spare); break;
    case 7:
        MUST(CU(cuMemAddressFree)(spare.address, spare.bytes));
        event = NULL;
        break;
    default: MUST(CU(cuStreamWriteValue32)(gated, words_device + 12, 1, 0)); break;
    }
    took[which] = (now() - began) * 1e6;
}

static void *probe(void *last)
{
    MUST(CU(cuCtxSetCurrent)(context));
    for (size_t i = 0; i < *(size_t *)last; i++)
        probe_call(i);
    probed = true;
    return NULL;
}

/* behind: with the first thread inside a launch. */
static void goes_on(uint32_t gate, bool behind, size_t last)
{
    pthread_t thread, launcher;
    close_gate(gate);
    probed = launching = false;
    if (behind) {
        launching = true;
        MUST(pthread_create(&launcher, NULL, fill_queue, NULL));
        usleep(300000);
    }
    bool stuck = launching;
    for (size_t i = 0; i < PROBES; i++)
        took[i] = -1;
    MUST(pthread_create(&thread, NULL, probe, &last));
    for (int i = 0; i < 2000 && !probed; i++)
        usleep(1000);
    printf("{\"row\": \"goes_on\", \"with\": \"%s\", \"launching thread is stuck\": %s", behind ? "full queue" : "closed gate",
           stuck ? "true" : "false");
    for (size_t i = 0; i < last; i++)
        printf(", \"%s\": %.1f", probes[i], took[i]);
    printf("}\n");
    fflush(stdout);
    words[0] = gate;
    MUST(pthread_join(thread, NULL));
    if (behind)
        MUST(pthread_join(launcher, NULL));
    MUST(CU(cuCtxSynchronize)());
}

static void unmapped(void)
{
    char host[64] = {0};
    unsigned type = 0;
    CUstream s = other;
    printf("{\"row\": \"unmapped\", \"copy out\": %d, \"copy in\": %d, \"fill\": %d, \"memory type\": %d}\n",
           CU(cuMemcpyDtoHAsync)(host, ranges[0].address, 64, s), CU(cuMemcpyHtoDAsync)(ranges[0].address, host, 64, s),
           CU(cuMemsetD8Async)(ranges[0].address, 0, 64, s),
           CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ranges[0].address));
    fflush(stdout);
}

static void rank(size_t total)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start_cuda();
    wait_copied(); /* READY */
    plain(total);
    MUST(CU(cuMemHostRegister)(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    MUST(CU(cuMemHostGetDevicePointer)(&words_device, page, 0));
    words = page;
    MUST(CU(cuStreamCreate)(&gated, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < n; i++) {
        MUST(CU(cuMemAddressReserve)(&ranges[i].address, ranges[i].bytes, 0, 0, 0));
        make(&ranges[i]);
        MUST(CU(cuMemsetD32Async)(ranges[i].address, (unsigned)(i * 2654435761u), ranges[i].bytes / 4, gated));
    }
    MUST(CU(cuStreamSynchronize)(gated));
    for (uint32_t round = 1; round <= 3; round++) {
        close_gate(round);
        MUST(CU(cuMemsetD32Async)(ranges[0].address, 0, ranges[0].bytes / 4, gated)); /* a kernel that is behind the gate */
        move(true, total);
        if (round == 1)
            unmapped();
        move(false, total);
        words[0] = round;
        MUST(CU(cuStreamSynchronize)(gated));
        MUST(CU(cuMemsetD32)(ranges[0].address, 0, ranges[0].bytes / 4));
        printf("{\"row\": \"contents\", \"wrong\": %zu}\n", check());
        fflush(stdout);
    }
    goes_on(10, false, PROBES);
    goes_on(11, true, PROBES);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {2, 20, 20, 200};
    size_t wanted = (argc > 1 ? (size_t)atoi(argv[1]) : 16) * 1024 * MIB, total = 0;
    static size_t offsets[RANGES];
    window = argc > 2 ? (size_t)atoi(argv[2]) : window;
    while (total < wanted && n < RANGES) {
        ranges[n].bytes = sizes[n % 4] * MIB;
        offsets[n] = total;
        total += ranges[n++].bytes;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    pid_t child = fork();
    if (!child) {
        close(ends[0]);
        _exit(mover(offsets, total));
    }
    close(ends[1]);
    rank(total);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return 0;
}
