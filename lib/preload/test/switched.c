/* switched.c - what the tests of switching run as a rank: an ordinary CUDA program, one act an argument. Acts that wait for
 * the test, or make it wait, do so by files in $SWITCHED_FLAGS. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"
#include "softgpu/softgpu.h"

#define MUST(condition)                                                      \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("not so at line %d: %s\n", __LINE__, #condition);         \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

#define MIB ((size_t)1 << 20)

static int rank, world;
static ncclComm_t comm;

/* --- flags --- */

static const char *flag_path(const char *name)
{
    static _Thread_local char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d", getenv("SWITCHED_FLAGS"), name, rank);
    return path;
}

static void raise_flag(const char *name)
{
    FILE *f = fopen(flag_path(name), "w");
    if (f)
        fclose(f);
}

static void await_flag(const char *name)
{
    while (access(flag_path(name), F_OK))
        usleep(1000);
}

/* --- acts --- */

static void set_up(void)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    id.internal[20] = 1;
    CHECK(cudaSetDevice(0));
    CHECK(ncclCommInitRank(&comm, world, id, rank));
}

static bool holds(const void *device, size_t bytes, int value)
{
    unsigned char *host = malloc(bytes);
    CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    size_t i = 0;
    while (i < bytes && host[i] == (unsigned char)value)
        i++;
    free(host);
    return i == bytes;
}

static void act_kinds(void)
{
    size_t free_before, free_after, total, size, pitch;
    void *p[600], *q;
    CUdeviceptr base;
    CHECK(cudaMemGetInfo(&free_before, &total));
    printf("total %zu\n", total / MIB);
    for (int i = 0; i < 600; i++) {
        CHECK(cudaMalloc(&p[i], (size_t)i * 97 + 1));
        MUST((uintptr_t)p[i] % 512 == 0);
        CHECK(cudaMemset(p[i], i, (size_t)i * 97 + 1));
    }
    CHECK(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)p[599] + 5));
    MUST((void *)(uintptr_t)base == p[599] && size == 599 * 97 + 1);
    for (int i = 0; i < 600; i++)
        MUST(holds(p[i], (size_t)i * 97 + 1, i));
    for (int i = 0; i < 600; i++)
        CHECK(cudaFree(p[i]));
    CHECK(cudaMemGetInfo(&free_after, NULL));
    MUST(free_before == free_after);
    CHECK(cudaMalloc(&q, 3 * MIB));
    CHECK(cudaMemGetInfo(&free_after, NULL));
    printf("large takes %zu\n", (free_before - free_after) / MIB);
    CHECK(cudaFree(q));
    CHECK(cudaMallocPitch(&q, &pitch, 1000, 10));
    printf("pitch %zu\n", pitch);
    CHECK(cudaFree(q));
    CHECK(cudaMemGetInfo(&free_before, NULL));
    CHECK(ncclMemAlloc(&q, 5 * MIB));
    CHECK(cudaMemGetInfo(&free_after, NULL));
    printf("of NCCL takes %zu\n", (free_before - free_after) / MIB);
    struct cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, q));
    MUST(attributes.type == cudaMemoryTypeDevice);
    CHECK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)(uintptr_t)q + MIB));
    MUST(size == 5 * MIB);
    cudaIpcMemHandle_t ipc;
    printf("ipc %d\n", cudaIpcGetMemHandle(&ipc, q));
    CHECK(ncclMemFree(q));
    int zero = cudaMalloc(&q, 0);
    printf("zero %d %p\n", zero, q);
    printf("wrong free %d\n", cudaFree((void *)0x12345));
    CHECK(cudaMemGetInfo(&free_after, NULL));
    MUST(free_before == free_after);
}

/* What NVML (argument: its library) says of memory is what CUDA says. */
static void act_nvml(const char *path)
{
    void *library = dlopen(path, RTLD_NOW), *device, *p;
    MUST(library);
    int (*by_index)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    int (*memory_of)(void *, unsigned long long *) = (int (*)(void *, unsigned long long *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    unsigned long long memory[3];
    size_t free_bytes;
    CHECK(by_index(0, &device));
    CHECK(cudaMalloc(&p, 100 * MIB));
    CHECK(cudaMemGetInfo(&free_bytes, NULL));
    CHECK(memory_of(device, memory));
    MUST(memory[1] == free_bytes && memory[2] == memory[0] - free_bytes);
    CHECK(cudaFree(p));
    printf("nvml done\n");
}

static void act_full(void)
{
    size_t free_bytes, total;
    void *p[64], *q;
    int n = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(cudaMalloc(&q, free_bytes / (2 * MIB) * (2 * MIB)));
    printf("all %d\n", cudaMalloc(&p[0], 1));
    CHECK(cudaFree(q));
    printf("more %d\n", cudaMalloc(&q, total));
    printf("huge %d\n", cudaMalloc(&q, SIZE_MAX - 5));
    while (n < 64 && !cudaMalloc(&p[n], 16 * MIB))
        n++;
    printf("pieces %d\n", n);
    while (n)
        CHECK(cudaFree(p[--n]));
    printf("again %d\n", cudaMalloc(&q, 16 * MIB));
}

/* Pieces of a rank that holds much lie in common ranges: neighbours, apart from a new block's first. */
static void act_much(void)
{
    void *large, *p[12];
    int neighbours = 0;
    size_t before, after;
    CHECK(cudaMemGetInfo(&before, NULL));
    CHECK(cudaMalloc(&large, 1024 * MIB));
    for (int i = 0; i < 12; i++) {
        CHECK(cudaMalloc(&p[i], 20 * MIB));
        CHECK(cudaMemset(p[i], i, 20 * MIB));
        neighbours += i && (char *)p[i] - (char *)p[i - 1] == (ptrdiff_t)(20 * MIB);
    }
    for (int i = 0; i < 12; i++) {
        MUST(holds(p[i], 20 * MIB, i));
        CHECK(cudaFree(p[i]));
    }
    CHECK(cudaFree(large));
    CHECK(cudaMemGetInfo(&after, NULL));
    printf("neighbours %d, lost %zu\n", neighbours, before - after);
}

static void act_little(void)
{
    void *p;
    int n = 0, r;
    while (!(r = cudaMalloc(&p, 16 * MIB)))
        n++;
    printf("pieces %d, then %d\n", n, r);
}

static void act_async(void)
{
    cudaStream_t a, b;
    void *p, *q, *r;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMallocAsync(&p, 4 * MIB, a));
    CHECK(cudaMemsetAsync(p, 1, 4 * MIB, a));
    CHECK(cudaFreeAsync(p, a));
    CHECK(cudaMallocAsync(&q, 4 * MIB, a));
    printf("same stream %d\n", p == q || !cudaStreamSynchronize(a));
    CHECK(cudaMallocAsync(&r, 4 * MIB, b));
    CHECK(cudaFreeAsync(q, a));
    CHECK(cudaFreeAsync(r, b));
    CHECK(cudaDeviceSynchronize());
    size_t before, after;
    CHECK(cudaMalloc(&p, 1));
    CHECK(cudaMemGetInfo(&before, NULL));
    CHECK(cudaMalloc(&q, 4 * MIB));
    CHECK(cudaMemGetInfo(&after, NULL));
    printf("returned %zu\n", (before - after) / MIB);
}

/* PyTorch's expandable segments in small. */
static CUmemGenericAllocationHandle piece(CUdeviceptr at, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    CHECK(cuMemMap(at, bytes, 0, handle, 0));
    CHECK(cuMemSetAccess(at, bytes, &access, 1));
    return handle;
}

static void act_own(void)
{
    CUdeviceptr base;
    CUmemGenericAllocationHandle first, second, same;
    CUmemAllocationProp properties;
    unsigned long long flags = 0;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK(cudaFree(NULL));
    CHECK(cudaSetDevice(0));
    CHECK(cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
    first = piece(base, 2 * MIB);
    second = piece(base + 2 * MIB, 20 * MIB);
    CHECK(cuMemsetD8(base, 7, 22 * MIB));
    CHECK(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(base + 3 * MIB)));
    MUST(same == second);
    CHECK(cuMemRelease(same));
    CHECK(cuMemGetAccess(&flags, &here, base));
    MUST(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(cuMemGetAllocationPropertiesFromHandle(&properties, second));
    MUST(properties.type == CU_MEM_ALLOCATION_TYPE_PINNED && !properties.requestedHandleTypes);
    CHECK(cudaDeviceSynchronize());
    raise_flag("ready");
    await_flag("evicted");
    CHECK(cuMemUnmap(base + 2 * MIB, 20 * MIB)); /* of memory that is away */
    CHECK(cuMemRelease(second));
    raise_flag("dropped");
    await_flag("restored");
    MUST(holds((void *)(uintptr_t)base, 2 * MIB, 7));
    CHECK(cuMemUnmap(base, 2 * MIB));
    CHECK(cuMemRelease(first));
    printf("twice %d\n", cuMemRelease(first));
    first = piece(base, 4 * MIB);
    CHECK(cuMemRelease(first)); /* the mapping keeps it */
    CHECK(cuMemsetD8(base, 9, 4 * MIB));
    MUST(holds((void *)(uintptr_t)base, 4 * MIB, 9));
    CHECK(cuMemUnmap(base, 4 * MIB));
    CHECK(cuMemAddressFree(base, 64 * MIB));
    printf("own done\n");
}

static void fill(void *arguments)
{
    unsigned char **p = arguments;
    memset(*p, 5, 4 * MIB);
}

static void launch_fill(unsigned char *on, cudaStream_t stream)
{
    struct softgpuCost cost = {.bytes = 1};
    CHECK(softgpuLaunchHostFunc(stream, fill, &on, sizeof on, &cost));
}

/* A kernel that no call waits for. */
static void spin(void *arguments)
{
    unsigned char **p = arguments;
    usleep(300000);
    memset(*p, 9, MIB);
}

static void launch_spin(unsigned char *on, cudaStream_t stream)
{
    struct softgpuCost cost = {.bytes = 1};
    CHECK(softgpuLaunchHostFunc(stream, spin, &on, sizeof on, &cost));
}

/* The host waits in `what` behind a gate that stays closed until the test has moved the rank out and in. */
static void act_wait(const char *what)
{
    cudaStream_t stream, other;
    cudaEvent_t event;
    unsigned char *buffer, *more, *host = malloc(MIB);
    bool legacy = !strncmp(what, "legacy", strlen("legacy"));
    set_up();
    CHECK(cudaStreamCreateWithFlags(&stream, legacy ? cudaStreamDefault : cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&buffer, MIB));
    CHECK(cudaMalloc((void **)&more, 4 * MIB));
    CHECK(cudaMemset(buffer, 0, MIB));
    CHECK(cudaMemset(more, 3, 4 * MIB));
    CHECK(cudaDeviceSynchronize());
    if (!strcmp(what, "full-ahead"))
        launch_spin(buffer, stream);
    CHECK(ncclAllReduce(buffer, buffer, MIB / 4, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaMemsetAsync(more, 5, 4 * MIB, stream));
    CHECK(cudaEventRecord(event, stream));
    raise_flag("ready");
    if (!strcmp(what, "stream"))
        CHECK(cudaStreamSynchronize(stream));
    else if (!strcmp(what, "device"))
        CHECK(cudaDeviceSynchronize());
    else if (!strcmp(what, "event"))
        CHECK(cudaEventSynchronize(event));
    else if (!strcmp(what, "copy-async"))
        CHECK(cudaMemcpyAsync(host, more, MIB, cudaMemcpyDeviceToHost, stream));
    else if (!strcmp(what, "free"))
        CHECK(cudaFree(buffer));
    else if (!strcmp(what, "legacy")) {
        CHECK(cudaMemset(more, 6, 4 * MIB)); /* behind the gate, on the default stream */
        CHECK(cudaMemcpy(host, more, MIB, cudaMemcpyDeviceToHost));
        MUST(host[0] == 6);
        CHECK(cudaMemset(more, 5, 4 * MIB));
    } else if (!strcmp(what, "queue")) { /* more than CUDA's queue of a stream takes, behind a gate and behind a wait for it */
        CHECK(cudaStreamWaitEvent(other, event, 0));
        for (int i = 0; i < 3000; i++)
            CHECK(cudaMemsetAsync(more, 5, 64, i % 2 ? stream : other));
        CHECK(cudaMemsetAsync(more, 5, 4 * MIB, other));
    } else if (!strncmp(what, "full", strlen("full"))) { /* the same, but full before our count says so: the host sits in the driver */
        CHECK(cudaStreamWaitEvent(other, event, 0));
        for (int i = 0; i < 300; i++)
            CHECK(i % 3 ? cudaMemsetAsync(more, 5, 64, other) : cudaMemcpyAsync(more, more + MIB, 64, cudaMemcpyDeviceToDevice, other));
        CHECK(cudaMemsetAsync(more, 5, 4 * MIB, other));
    } else if (!strcmp(what, "first")) { /* a kernel that is not loaded yet, behind a wait for the gate */
        CHECK(cudaStreamWaitEvent(other, event, 0));
        launch_fill(more, other);
    } else if (!strcmp(what, "ahead")) { /* the gate opens only when all this is queued */
        for (int i = 0; i < 540; i++)
            CHECK(cudaMemsetAsync(more, 5, 64, stream));
        raise_flag("queued");
    } else if (!strcmp(what, "legacy-queue")) {
        for (int i = 0; i < 1500; i++)
            CHECK(cudaMemsetAsync(more, 5, 64, NULL));
    } else if (!strcmp(what, "wait")) { /* no gate of its own: it waits for another stream's */
        CHECK(cudaStreamWaitEvent(other, event, 0));
        CHECK(cudaMemsetAsync(more, 5, 4 * MIB, other));
        CHECK(cudaStreamSynchronize(other));
    }
    CHECK(cudaDeviceSynchronize());
    MUST(holds(more, 4 * MIB, 5));
    printf("%s done\n", what);
}

static void act_busy(void)
{
    unsigned char *p;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&p, MIB));
    launch_spin(p, stream);
    raise_flag("ready");
    await_flag("evicted");
    await_flag("restored");
    MUST(holds(p, MIB, 9));
    printf("busy done\n");
}

static void *allocate(void *p)
{
    CHECK(cudaMalloc(p, 2 * MIB));
    raise_flag("allocated");
    return NULL;
}

/* While the rank is away: a kernel on a new stream, an allocation in another thread. */
static void act_late(void)
{
    unsigned char *p;
    void *q = NULL;
    pthread_t thread;
    cudaStream_t stream;
    CHECK(cudaMalloc((void **)&p, MIB));
    launch_spin(p, NULL); /* it is loaded now */
    CHECK(cudaMemset(p, 1, MIB));
    CHECK(cudaDeviceSynchronize());
    raise_flag("ready");
    await_flag("evicted");
    CHECK(pthread_create(&thread, NULL, allocate, &q));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    launch_spin(p, stream);
    MUST(cudaStreamQuery(stream) == cudaErrorNotReady);
    usleep(400000);
    MUST(access(flag_path("allocated"), F_OK));
    raise_flag("launched");
    CHECK(pthread_join(thread, NULL));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(q, 2, 2 * MIB));
    MUST(holds(p, MIB, 9) && holds(q, 2 * MIB, 2));
    printf("late done\n");
}

static void nothing(void *arguments)
{
    (void)arguments;
}

/* While the rank is away: more kernels than its queue takes. */
static void act_many(void)
{
    unsigned char *p;
    cudaStream_t stream;
    struct softgpuCost cost = {.bytes = 1};
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&p, MIB));
    CHECK(softgpuLaunchHostFunc(stream, nothing, &p, sizeof p, &cost)); /* it is loaded now */
    CHECK(cudaMemset(p, 1, MIB));
    CHECK(cudaDeviceSynchronize());
    raise_flag("ready");
    await_flag("evicted");
    for (int i = 0; i < 1500; i++)
        CHECK(softgpuLaunchHostFunc(stream, nothing, &p, sizeof p, &cost));
    CHECK(cudaDeviceSynchronize());
    MUST(holds(p, MIB, 1));
    printf("many done\n");
}

static void act_tied(void)
{
    void *p;
    CHECK(cudaMalloc(&p, MIB));
    CHECK(cudaMemsetAsync(p, 4, MIB, cudaStreamPerThread));
    CHECK(cudaDeviceSynchronize());
    raise_flag("ready");
    await_flag("evicted");
    MUST(holds(p, MIB, 4));
    printf("tied done\n");
}

/* --- anything in any order --- */

#define BUFFERS 16
#define STREAMS 5

static unsigned seed;
static unsigned roll(unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

struct buffer {
    unsigned char *p;
    size_t bytes;
    int value;  /* of every byte */
    int stream; /* whose work it is */
};

static struct buffer buffers[BUFFERS];
static cudaStream_t streams[STREAMS];

static void fresh_stream(int i)
{
    if (streams[i])
        CHECK(cudaStreamDestroy(streams[i]));
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
}

static void drop(struct buffer *b)
{
    if (roll(2))
        CHECK(cudaFree(b->p));
    else
        CHECK(cudaFreeAsync(b->p, streams[b->stream]));
    b->p = NULL;
}

static void take(struct buffer *b)
{
    b->bytes = roll(3) ? roll(200000) + 1 : roll(2 * MIB) + MIB;
    b->stream = (int)roll(STREAMS);
    b->value = (int)roll(250);
    if (roll(2))
        CHECK(cudaMalloc((void **)&b->p, b->bytes));
    else
        CHECK(cudaMallocAsync((void **)&b->p, b->bytes, streams[b->stream]));
    CHECK(cudaMemsetAsync(b->p, b->value, b->bytes, streams[b->stream]));
}

/* One buffer is copied into another, whose stream waits for the first one's. */
static void combine(struct buffer *from, struct buffer *to, cudaEvent_t event)
{
    size_t n = from->bytes < to->bytes ? from->bytes : to->bytes;
    CHECK(cudaEventRecord(event, streams[from->stream]));
    CHECK(cudaStreamWaitEvent(streams[to->stream], event, 0));
    CHECK(cudaMemsetAsync(to->p, from->value, to->bytes, streams[to->stream]));
    CHECK(cudaMemcpyAsync(to->p, from->p, n, cudaMemcpyDeviceToDevice, streams[to->stream]));
    CHECK(cudaEventRecord(event, streams[to->stream]));
    CHECK(cudaStreamWaitEvent(streams[from->stream], event, 0));
    to->value = from->value;
}

static void reduce(float *sum, float value)
{
    float host[256];
    for (int i = 0; i < 256; i++)
        host[i] = value + (float)rank;
    CHECK(cudaMemcpyAsync(sum, host, sizeof host, cudaMemcpyHostToDevice, streams[0]));
    CHECK(ncclAllReduce(sum, sum, 256, ncclFloat, ncclSum, comm, streams[0]));
    CHECK(cudaMemcpyAsync(host, sum, sizeof host, cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    MUST(host[255] == value * (float)world + (float)(world * (world - 1) / 2));
}

static void act_any(unsigned first, int steps)
{
    cudaEvent_t event;
    float *sum;
    set_up();
    seed = first;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < STREAMS; i++)
        fresh_stream(i);
    CHECK(cudaMalloc((void **)&sum, 1024));
    for (int step = 0; step < steps; step++) {
        struct buffer *b = &buffers[roll(BUFFERS)], *other = &buffers[roll(BUFFERS)];
        unsigned what = roll(20);
        if (!b->p)
            take(b);
        else if (what < 4)
            drop(b);
        else if (what < 8 && other->p && other != b)
            combine(b, other, event);
        else if (what < 14)
            CHECK(cudaStreamSynchronize(streams[b->stream]));
        else if (what < 16) {
            CHECK(cudaStreamSynchronize(streams[b->stream]));
            MUST(holds(b->p, b->bytes, b->value));
        } else if (what < 18)
            reduce(sum, (float)step);
        else if (what < 19) {
            CHECK(cudaStreamSynchronize(streams[b->stream]));
            fresh_stream(b->stream);
        } else
            usleep(2000);
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].p)
            MUST(holds(buffers[i].p, buffers[i].bytes, buffers[i].value));
    printf("any done\n");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    rank = atoi(getenv("RANK") ? getenv("RANK") : "0");
    world = atoi(getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "1");
    const char *act = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        void (*act)(void);
    } acts[] = {{"kinds", act_kinds}, {"full", act_full}, {"little", act_little}, {"much", act_much}, {"async", act_async}, {"own", act_own},
                {"busy", act_busy},   {"late", act_late}, {"many", act_many}, {"tied", act_tied}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(act, acts[i].name)) {
            acts[i].act();
            return 0;
        }
    if (!strcmp(act, "nvml") && argc > 2)
        act_nvml(argv[2]);
    else if (!strcmp(act, "wait") && argc > 2)
        act_wait(argv[2]);
    else if (!strcmp(act, "any") && argc > 3)
        act_any((unsigned)atoi(argv[2]), atoi(argv[3]));
    else
        return 2;
    return 0;
}
