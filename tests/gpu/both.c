/* both.c - copies both ways at once, step by step from plain ones to those that switching makes.
 *
 *     gpu_both [MiB a slab] [slabs] [seconds a row]      one GPU; one JSON line a row; default 256 MiB, 160 slabs, 0.8
 *
 * Half of the slabs (anonymous memory, touched by four threads, pinned) is read by copies in, the other half written by copies out. A row:
 * how many of the slabs are used, MiB a copy, order ("shuffled": by chance), how many copies are queued in a direction, and what is done for each:
 * "plain" nothing, "mapped" the device's memory is imported from a descriptor, mapped and unmapped, "made" it is created and released,
 * too. GB/s of each way alone and while the other is busy, measured between a tenth of the time and its end.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MIB    ((size_t)1 << 20)
#define MOST   512
#define QUEUED 16

enum kind { PLAIN, MAPPED, MADE };
static const char *const kinds[] = {"plain", "mapped", "made"};

struct row {
    size_t slabs, mib; /* used of all; a copy */
    bool shuffled;
    unsigned queued;
    enum kind kind;
};

struct flight {
    CUdeviceptr at;
    CUmemGenericAllocationHandle mine, imported;
    int fd;
    CUevent done;
};

static CUcontext context;
static char *slabs[MOST];
static size_t slab_bytes, nslabs;
static double seconds = 0.8;
static struct row now_row;
static double began;
static double gb[2];
static unsigned next_slab;

static void *make_slabs(void *unused)
{
    MUST(CU(cuCtxSetCurrent)(context));
    for (unsigned i; (i = __atomic_fetch_add(&next_slab, 1, __ATOMIC_RELAXED)) < nslabs;) {
        char *p = mmap(NULL, slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            exit(1);
        madvise(p, slab_bytes, MADV_HUGEPAGE);
        memset(p, 1, slab_bytes);
        MUST(CU(cuMemHostRegister)(p, slab_bytes, CU_MEMHOSTREGISTER_PORTABLE));
        slabs[i] = p;
    }
    return unused;
}

static void make(struct flight *f, size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    MUST(CU(cuMemCreate)(&f->mine, bytes, &prop, 0));
    MUST(CU(cuMemExportToShareableHandle)(&f->fd, f->mine, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static void release(struct flight *f)
{
    MUST(CU(cuMemRelease)(f->mine));
    close(f->fd);
}

static void begin(struct flight *f, size_t bytes)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (now_row.kind == PLAIN)
        return;
    if (now_row.kind == MADE)
        make(f, bytes);
    MUST(CU(cuMemImportFromShareableHandle)(&f->imported, (void *)(intptr_t)f->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(CU(cuMemMap)(f->at, bytes, 0, f->imported, 0));
    MUST(CU(cuMemSetAccess)(f->at, bytes, &access, 1));
}

static void end(struct flight *f, size_t bytes)
{
    MUST(CU(cuEventSynchronize)(f->done));
    if (now_row.kind == PLAIN)
        return;
    MUST(CU(cuMemUnmap)(f->at, bytes));
    MUST(CU(cuMemRelease)(f->imported));
    if (now_row.kind == MADE)
        release(f);
}

static void prepare(struct flight *f, size_t bytes)
{
    MUST(CU(cuEventCreate)(&f->done, CU_EVENT_DISABLE_TIMING));
    if (now_row.kind == PLAIN) {
        MUST(CU(cuMemAlloc)(&f->at, bytes));
        return;
    }
    MUST(CU(cuMemAddressReserve)(&f->at, bytes, 0, 0, 0));
    if (now_row.kind == MAPPED)
        make(f, bytes);
}

static void tidy(struct flight *f, size_t bytes)
{
    MUST(CU(cuEventDestroy)(f->done));
    if (now_row.kind == PLAIN) {
        MUST(CU(cuMemFree)(f->at));
        return;
    }
    if (now_row.kind == MAPPED)
        release(f);
    MUST(CU(cuMemAddressFree)(f->at, bytes));
}

/* Where the n-th copy of a direction lies. */
static char *place(bool out, size_t n, const uint32_t *order, size_t copies, size_t bytes)
{
    size_t k = order[n % copies], in_slab = slab_bytes / bytes;
    return slabs[k / in_slab * 2 + out] + k % in_slab * bytes;
}

static void *direction(void *arg)
{
    bool out = arg != NULL;
    size_t bytes = now_row.mib * MIB, copies = now_row.slabs / 2 * (slab_bytes / bytes), done = 0, n = 0;
    struct flight flights[QUEUED];
    CUstream stream;
    uint32_t *order = calloc(copies, sizeof *order), seed = out ? 7 : 5;
    for (size_t i = 0; i < copies; i++)
        order[i] = (uint32_t)i;
    for (size_t i = copies - 1; now_row.shuffled && i; i--) {
        seed = seed * 1664525u + 1013904223u;
        size_t j = (seed >> 8) % (i + 1);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < now_row.queued; i++)
        prepare(&flights[i], bytes);
    double from = 0, to = 0;
    size_t counted = 0;
    for (; !to || n > done; n += !to) {
        if (n - done == now_row.queued || (to && n > done)) {
            end(&flights[done++ % now_row.queued], bytes);
            double t = now();
            if (!from && t > began + seconds / 10) {
                from = t;
                counted = done;
            }
            if (from && !to && t > began + seconds) {
                to = t;
                gb[out] = (double)(done - counted) * (double)bytes * 1e-9 / (to - from);
            }
            if (to)
                continue;
        }
        struct flight *f = &flights[n % now_row.queued];
        begin(f, bytes);
        char *host = place(out, n, order, copies, bytes);
        MUST(out ? CU(cuMemcpyDtoHAsync)(host, f->at, bytes, stream) : CU(cuMemcpyHtoDAsync)(f->at, host, bytes, stream));
        MUST(CU(cuEventRecord)(f->done, stream));
    }
    for (unsigned i = 0; i < now_row.queued; i++)
        tidy(&flights[i], bytes);
    MUST(CU(cuStreamDestroy)(stream));
    free(order);
    return NULL;
}

static void run(bool in, bool out)
{
    pthread_t threads[2];
    began = now();
    gb[0] = gb[1] = 0;
    for (int way = 0; way < 2; way++)
        if (way ? out : in)
            MUST(pthread_create(&threads[way], NULL, direction, way ? (void *)&gb : NULL));
    for (int way = 0; way < 2; way++)
        if (way ? out : in)
            MUST(pthread_join(threads[way], NULL));
}

static void measure(struct row row)
{
    now_row = row;
    run(true, false);
    double in = gb[0];
    run(false, true);
    double out = gb[1];
    run(true, true);
    printf("{\"row\": \"both\", \"kind\": \"%s\", \"gb\": %.1f, \"mib_a_copy\": %zu, \"shuffled\": %s, \"queued\": %u, \"in\": %.2f, \"out\": %.2f, "
           "\"both_in\": %.2f, \"both_out\": %.2f}\n",
           kinds[row.kind], (double)(row.slabs * slab_bytes) * 1e-9, row.mib, row.shuffled ? "true" : "false", row.queued, in, out, gb[0], gb[1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CUdevice first;
    pthread_t makers[4];
    size_t mib = argc > 1 ? (size_t)atoi(argv[1]) : 256;
    nslabs = argc > 2 ? (size_t)atoi(argv[2]) : 160;
    seconds = argc > 3 ? atof(argv[3]) : seconds;
    if (mib < 8 || nslabs < 8 || nslabs > MOST || seconds <= 0) {
        fprintf(stderr, "gpu_both [MiB a slab, 8 at least] [slabs, 8 to %d] [seconds a row]\n", MOST);
        return 2;
    }
    slab_bytes = mib * MIB;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&first, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, first));
    MUST(CU(cuCtxSetCurrent)(context));
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&makers[i], NULL, make_slabs, NULL));
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(makers[i], NULL));
    size_t part = mib / 2, all = nslabs - nslabs % 2, few = all / 4 - all / 4 % 2;
    const struct row rows[] = {
        {few, mib, false, 8, PLAIN},  {all, mib, false, 8, PLAIN},  {all, part, true, 8, PLAIN},  {all, part, true, 3, PLAIN},
        {all, part, true, 3, MAPPED}, {all, part, true, 3, MADE},   {few, part, true, 3, MADE},   {all, mib, false, 8, PLAIN},
        {all, part, true, 3, MAPPED}, {all, part, true, 3, MADE},   {few, mib, false, 8, PLAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        measure(rows[i]);
    return 0;
}
