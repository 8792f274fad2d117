/* program.c - what the tests run as a rank: an ordinary CUDA and NCCL program, one small act an argument. */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"

#define N 1000

static int rank, world;
static ncclComm_t comm;
static cudaStream_t stream;
static float *buffer, host[N];

/* Alone, the program gets its id from NCCL; else all ranks have the same made-up one, which is enough for prismd's
 * double. */
static void set_up(void)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    id.internal[20] = 1;
    if (world == 1)
        CHECK(ncclGetUniqueId(&id));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&buffer, sizeof host));
    CHECK(ncclCommInitRank(&comm, world, id, rank));
}

static void put(float value)
{
    for (int i = 0; i < N; i++)
        host[i] = value + (float)i;
    CHECK(cudaMemcpy(buffer, host, sizeof host, cudaMemcpyHostToDevice));
    /* A small copy from pageable memory returns once it is staged, and our streams do not wait for the default one. */
    CHECK(cudaStreamSynchronize(NULL));
}

static void get(void)
{
    CHECK(cudaMemcpyAsync(host, buffer, sizeof host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void tear_down(void)
{
    CHECK(ncclCommDestroy(comm));
    CHECK(cudaFree(buffer));
}

static void act_allreduce(void)
{
    set_up();
    put((float)(rank + 1));
    for (int i = 0; i < 3; i++)
        CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    get();
    printf("sum %g %g\n", (double)host[0], (double)host[N - 1]);
    tear_down();
}

/* Records and waits for two and a half seconds, without an operation. */
static void act_computes(void)
{
    cudaEvent_t event;
    set_up();
    CHECK(cudaEventCreate(&event));
    for (int i = 0; i < 50; i++) {
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaStreamSynchronize(stream));
        usleep(50000);
    }
    CHECK(cudaEventDestroy(event));
    tear_down();
}

/* Sends and receives between neighbours on two streams in one group, then an event from one stream to the other. */
static void act_group(void)
{
    cudaStream_t other;
    cudaEvent_t event;
    float *received;
    set_up();
    put((float)(rank * 100));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&received, sizeof host));
    CHECK(ncclGroupStart());
    CHECK(ncclGroupStart());
    CHECK(ncclSend(buffer, N, ncclFloat, (rank + 1) % world, comm, stream));
    CHECK(ncclGroupEnd());
    CHECK(ncclRecv(received, N, ncclFloat, (rank + world - 1) % world, comm, other));
    CHECK(ncclGroupEnd());
    CHECK(cudaEventRecord(event, other));
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    CHECK(cudaMemcpyAsync(buffer, received, sizeof host, cudaMemcpyDeviceToDevice, stream));
    get();
    printf("received %g\n", (double)host[0]);
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(received));
    tear_down();
}

static void act_split(void)
{
    ncclComm_t half, none;
    int size, in_half;
    set_up();
    put((float)(rank + 1));
    CHECK(ncclCommSplit(comm, rank % 2, rank, &half, NULL));
    CHECK(ncclCommCount(half, &size));
    CHECK(ncclCommUserRank(half, &in_half));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, half, stream));
    get();
    CHECK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
    printf("half %d of %d sum %g none %d\n", in_half, size, (double)host[0], none == NULL);
    CHECK(ncclCommDestroy(half));
    tear_down();
}

/* As many streams wait at once as the argument says. */
static void act_waiting(int n)
{
    set_up();
    for (int i = 0; i < n; i++) {
        cudaStream_t s;
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, s));
    }
    CHECK(cudaDeviceSynchronize());
    printf("all done\n");
    tear_down();
}

/* Gates on n streams that never open: does a fill on another stream go on? */
static void act_beside(int n)
{
    cudaStream_t s;
    set_up();
    for (int i = 0; i < n; i++) {
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, s));
    }
    usleep(200000);
    CHECK(cudaMemsetAsync(buffer, 0, sizeof host, stream));
    int looks = 0;
    while (cudaStreamQuery(stream) == cudaErrorNotReady && looks++ < 500)
        usleep(1000);
    printf("the other stream %s\n", looks < 500 ? "runs" : "stands");
    _exit(0);
}

/* The same with waits of the program's own, which hold as many hardware queues as CUDA was given. */
static void act_queues(int n)
{
    cudaStream_t s;
    CUdeviceptr word;
    set_up();
    CHECK(cuMemAlloc(&word, 4));
    CHECK(cudaMemset((void *)word, 0, 4));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) {
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(cuStreamWaitValue32((CUstream)s, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    act_beside(0);
}

static void act_fork(void)
{
    act_allreduce();
    pid_t child = fork();
    if (!child) { /* not the rank: its calls make no nodes and it says no BYE */
        cudaEvent_t event;
        cudaEventCreate(&event);
        cudaDeviceSynchronize();
        exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}

static void act_connections(void)
{
    const char *before = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int count;
    CHECK(cudaGetDeviceCount(&count));
    printf("before %s", before ? before : "unset");
    set_up();
    const char *after = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    printf(" after %s\n", after ? after : "unset");
    act_waiting(20);
}

typedef CUresult (*record_fn)(CUevent, CUstream);
typedef CUresult (*proc_address_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* The driver by name, as a statically linked runtime gets to it. */
static void act_names(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    record_fn record = (record_fn)dlsym(driver, "cuEventRecord"), by_address = NULL;
    proc_address_fn address = (proc_address_fn)dlsym(driver, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found;
    cudaEvent_t event;
    set_up();
    CHECK(cudaEventCreate(&event));
    CHECK(record((CUevent)event, (CUstream)stream));
    CHECK(address("cuEventRecord", (void **)&by_address, 13000, 0, &found));
    CHECK(by_address((CUevent)event, (CUstream)stream));
    by_address = NULL;
    CHECK(address("cuEventRecord", (void **)&by_address, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
    CHECK(by_address((CUevent)event, NULL));
    printf("absent %d next %d\n", dlsym(driver, "cuNoSuchFunction") == NULL,
           dlsym(RTLD_NEXT, "cuEventRecord") != NULL);
}

static void act_local(void)
{
    float *out;
    world = 1;
    rank = 0;
    set_up();
    put(5);
    CHECK(cudaMalloc((void **)&out, sizeof host));
    CHECK(ncclAllReduce(buffer, out, N, ncclFloat, ncclSum, comm, stream));
    CHECK(ncclGroupStart());
    CHECK(ncclSend(out, N, ncclFloat, 0, comm, stream));
    CHECK(ncclRecv(buffer, N, ncclFloat, 0, comm, stream));
    CHECK(ncclGroupEnd());
    get();
    printf("local %g\n", (double)host[1]);
    tear_down();
}

static void act_large(void)
{
    size_t count = 9 << 20;
    float *large, mine = (float)(rank + 1), ends[2];
    set_up();
    CHECK(cudaMalloc((void **)&large, count * sizeof mine));
    CHECK(cudaMemcpy(large, &mine, sizeof mine, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(large + count - 1, &mine, sizeof mine, cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(NULL));
    CHECK(ncclAllReduce(large, large, count, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&ends[0], large, sizeof mine, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&ends[1], large + count - 1, sizeof mine, cudaMemcpyDeviceToHost));
    printf("large %g %g\n", (double)ends[0], (double)ends[1]);
    CHECK(cudaFree(large));
    tear_down();
}

/* Gates that never open. */
static void act_closed(void)
{
    float *large;
    set_up();
    CHECK(cudaMalloc((void **)&large, 1 << 20));
    for (int i = 0; i < 3; i++)
        CHECK(ncclAllReduce(large, large, 1 << 18, ncclFloat, ncclSum, comm, stream));
    printf("all are issued\n");
    _exit(0);
}

/* With address space for 100 GiB more. */
static void act_narrow(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%zu", &pages) != 1)
        exit(1);
    fclose(f);
    struct rlimit limit = {0};
    limit.rlim_cur = limit.rlim_max = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (100ull << 30);
    CHECK(setrlimit(RLIMIT_AS, &limit));
    act_allreduce();
}

/* More in flight than operations may take together: the host waits for older ones. */
static void act_many(void)
{
    float *large;
    set_up();
    CHECK(cudaMalloc((void **)&large, 1 << 20));
    CHECK(cudaMemset(large, 0, 1 << 20));
    for (int i = 0; i < 40; i++)
        CHECK(ncclAllReduce(large, large, 1 << 18, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("many done\n");
    tear_down();
}

static void act_store(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    char port[16];
    CHECK(bind(server, (struct sockaddr *)&a, sizeof a));
    CHECK(listen(server, 1));
    CHECK(getsockname(server, (struct sockaddr *)&a, &length));
    snprintf(port, sizeof port, "%d", ntohs(a.sin_port));
    setenv("MASTER_PORT", port, 1);
    CHECK(connect(client, (struct sockaddr *)&a, sizeof a));
    length = sizeof a;
    CHECK(getsockname(client, (struct sockaddr *)&a, &length));
    printf("port %d\n", ntohs(a.sin_port));
}

/* A bit of everything; also run without Prism, so a rank of the world of one that real NCCL can serve. */
static void act_plain(void)
{
    int version, count, size, in_comm, device;
    ncclRedOp_t twice;
    float two = 2;
    void *allocated;
    ncclResult_t async;
    set_up();
    put(1);
    CHECK(ncclGetVersion(&version));
    CHECK(cudaGetDeviceCount(&count));
    CHECK(ncclCommCount(comm, &size));
    CHECK(ncclCommUserRank(comm, &in_comm));
    CHECK(ncclCommCuDevice(comm, &device));
    CHECK(ncclMemAlloc(&allocated, 1 << 20));
    CHECK(ncclMemFree(allocated));
    CHECK(ncclRedOpCreatePreMulSum(&twice, &two, ncclFloat, ncclScalarHostImmediate, comm));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    CHECK(ncclRedOpDestroy(twice, comm));
    CHECK(pncclBcast(buffer, N, ncclFloat, 0, comm, stream));
    get();
    CHECK(ncclCommGetAsyncError(comm, &async));
    printf("version %d devices %d size %d rank %d device %d value %g error \"%s\" async %d\n", version, count, size,
           in_comm, device, (double)host[2], ncclGetErrorString(ncclSuccess), async);
    tear_down();
}

/* Reductions of its own that are gone before their groups end; a factor on the device that changes from use to use. */
static void act_own_sums(void)
{
    ncclRedOp_t op;
    float factor = 0.5f, *where;
    set_up();
    put((float)(rank + 1));
    CHECK(cudaMalloc((void **)&where, sizeof *where));
    CHECK(ncclGroupStart());
    CHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, op, comm, stream));
    printf("other type %d\n", ncclAllReduce(buffer, buffer, N / 2, ncclDouble, op, comm, stream));
    CHECK(ncclRedOpDestroy(op, comm));
    CHECK(ncclGroupEnd());
    CHECK(ncclRedOpCreatePreMulSum(&op, where, ncclFloat, ncclScalarDevice, comm));
    for (factor = 2; factor < 4; factor++) {
        CHECK(cudaMemcpyAsync(where, &factor, sizeof factor, cudaMemcpyHostToDevice, stream));
        CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, op, comm, stream));
    }
    CHECK(ncclRedOpDestroy(op, comm));
    get();
    CHECK(cudaFree(where));
    tear_down();
}

/* Nothing here waits for the operation but the end of a registration. */
static void act_unpin(void)
{
    static char page[4096] __attribute__((aligned(4096)));
    set_up();
    CHECK(cudaHostRegister(page, sizeof page, 0));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaHostUnregister(page));
    CHECK(cudaStreamQuery(stream));
    printf("unpinned\n");
    fflush(stdout);
    _exit(0);
}

static void act_reset(void)
{
    set_up();
    put(1);
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaDeviceReset());
    printf("reset\n");
}

/* Larger than what is registered with CUDA at a time: every word comes through. */
static void act_wide(void)
{
    size_t count = 9 << 20, wrong = 0;
    float *wide, *back = malloc(count * sizeof *back);
    set_up();
    CHECK(cudaMalloc((void **)&wide, count * sizeof *wide));
    for (size_t i = 0; i < count; i++)
        back[i] = (float)(i % 1000);
    CHECK(cudaMemcpy(wide, back, count * sizeof *back, cudaMemcpyHostToDevice));
    CHECK(ncclAllReduce(wide, wide, count, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(back, wide, count * sizeof *back, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        wrong += back[i] != (float)(i % 1000 * (size_t)world);
    printf("wrong %zu\n", wrong);
    free(back);
    CHECK(cudaFree(wide));
    tear_down();
}

/* The staging heap grows into memory not registered yet while gates are closed: the host must not wait for the late peer. */
static void act_grow(void)
{
    size_t count = 2 << 20;
    float *each[8];
    set_up();
    for (int i = 0; i < 8; i++) {
        CHECK(cudaMalloc((void **)&each[i], count * sizeof(float)));
        CHECK(cudaMemset(each[i], 0, count * sizeof(float)));
    }
    CHECK(cudaDeviceSynchronize());
    if (rank)
        sleep(3);
    time_t before = time(NULL);
    for (int i = 0; i < 8; i++)
        CHECK(ncclAllReduce(each[i], each[i], count, ncclFloat, ncclSum, comm, stream));
    printf("waited %d\n", time(NULL) - before >= 3);
    CHECK(cudaStreamSynchronize(stream));
    tear_down();
}

/* An operation on a stream that is being captured. */
static void act_captured(int mode)
{
    set_up();
    put(1);
    CHECK(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    printf("captured\n");
}

/* Operations beside a capture; the second needs more of the staging heap than is registered with CUDA at first. */
static void act_beside_capture(void)
{
    size_t count = 9 << 20;
    cudaStream_t other;
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    float *wide;
    set_up();
    put(1);
    CHECK(cudaMalloc((void **)&wide, count * sizeof(float)));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaStreamEndCapture(other, &graph); /* an error of the program's must not upset anything */
    CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
    CHECK(ncclAllReduce(wide, wide, count, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamIsCapturing(other, &status));
    printf("capture %s\n", status == cudaStreamCaptureStatusActive ? "goes on" : "disturbed");
    _exit(0);
}

static void act_average(void)
{
    set_up();
    put((float)(rank + 1));
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclAvg, comm, stream));
    get();
    printf("average %g %g\n", (double)host[0], (double)host[N - 1]);
    tear_down();
}

/* The virtual ranks' part in what the acts of that name do with real NCCL; their inputs add up to 10. */
static void act_assistant(int size, const char *act)
{
    ncclUniqueId id;
    ncclRedOp_t op = ncclSum;
    float quarter = 0.25f;
    CHECK(ncclGetUniqueId(&id));
    for (size_t i = 0; i < sizeof id; i++)
        printf("%02x", (unsigned char)id.internal[i]);
    printf("\n");
    fflush(stdout);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&buffer, sizeof host));
    CHECK(ncclCommInitRank(&comm, size, id, size - 1));
    for (int i = 0; i < N; i++)
        host[i] = 10;
    CHECK(cudaMemcpy(buffer, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(NULL));
    float *scratch;
    CHECK(cudaMalloc((void **)&scratch, sizeof host));
    if (!strcmp(act, "average"))
        CHECK(ncclRedOpCreatePreMulSum(&op, &quarter, ncclFloat, ncclScalarHostImmediate, comm));
    if (!strcmp(act, "group")) {
        CHECK(ncclGroupStart());
        CHECK(ncclRecv(scratch, N, ncclFloat, 1, comm, stream));
        CHECK(ncclSend(buffer, N, ncclFloat, 0, comm, stream));
        CHECK(ncclGroupEnd());
    } else {
        for (int i = 0; i < (strcmp(act, "average") ? 3 : 1); i++)
            CHECK(ncclAllReduce(buffer, scratch, N, ncclFloat, op, comm, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
}

/* Nodes for ten seconds, whoever is slow to see the first. */
static void act_on_and_on(void)
{
    set_up();
    for (int i = 0; i < 10000; i++) {
        CHECK(cudaStreamSynchronize(stream));
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    tear_down();
}

static void act_bad(void)
{
    set_up();
    printf("bad %d %d %d %d\n", ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, NULL, stream),
           ncclBroadcast(buffer, buffer, N, ncclFloat, world, comm, stream),
           ncclAllReduce(buffer, buffer, N, (ncclDataType_t)99, ncclSum, comm, stream), ncclGroupEnd());
    tear_down();
    printf("again %d\n", ncclCommDestroy(comm));
}

/* Functions newer than our nccl.h. */
static void act_newer(void)
{
    ncclResult_t (*pointer_of)(ncclComm_t, ncclWindow_t, void **) =
        (ncclResult_t (*)(ncclComm_t, ncclWindow_t, void **))dlsym(RTLD_DEFAULT, "ncclWinGetUserPtr");
    ncclResult_t (*signal_peer)(int, int, int, unsigned, ncclComm_t, cudaStream_t) =
        (ncclResult_t (*)(int, int, int, unsigned, ncclComm_t, cudaStream_t))dlsym(RTLD_DEFAULT, "ncclSignal");
    ncclWindow_t window;
    void *pointer;
    set_up();
    CHECK(ncclCommWindowRegister(comm, buffer, sizeof host, &window, 0));
    CHECK(pointer_of(comm, window, &pointer));
    printf("window %d\n", pointer == (void *)buffer);
    CHECK(signal_peer(0, 0, 0, 0, comm, stream));
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
    } acts[] = {
        {"allreduce", act_allreduce}, {"group", act_group}, {"computes", act_computes}, {"split", act_split}, {"fork", act_fork},
        {"connections", act_connections}, {"names", act_names}, {"newer", act_newer}, {"local", act_local}, {"large", act_large},
        {"many", act_many}, {"store", act_store}, {"bad", act_bad}, {"plain", act_plain}, {"average", act_average}, {"own_sums", act_own_sums}, {"unpin", act_unpin}, {"reset", act_reset}, {"wide", act_wide}, {"beside_capture", act_beside_capture}, {"grow", act_grow},
        {"closed", act_closed}, {"narrow", act_narrow}, {"on_and_on", act_on_and_on},
    };
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(act, acts[i].name)) {
            acts[i].act();
            return 0;
        }
    static const struct {
        const char *name;
        void (*act)(int);
    } counted[] = {{"waiting", act_waiting}, {"beside", act_beside}, {"queues", act_queues}, {"captured", act_captured}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (!strcmp(act, counted[i].name) && argc > 2) {
            counted[i].act(atoi(argv[2]));
            return 0;
        }
    if (!strcmp(act, "assistant") && argc > 3) {
        act_assistant(atoi(argv[2]), argv[3]);
        return 0;
    }
    fprintf(stderr, "no act %s\n", act);
    return 2;
}
