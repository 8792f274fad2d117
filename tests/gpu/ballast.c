/* ballast.c - device memory that one communicator costs one of its ranks.
 *
 *     ballast SIZE DEVICES [messages]       one JSON line; messages: the communicators have no collectives
 *
 * SIZE processes (one alone sends no messages), dealt to DEVICES in turn and each a host of its own to NCCL (NCCL_HOSTID) where they share one. Free
 * memory of device 0 (where something else has been done before) before and after making a communicator of SIZE, and after the first all-reduce, all-gather and
 * send/receive, while nobody else uses the device, over the number of its ranks. Measured on the second communicator:
 * what the first one brings for the process (streams, kernels' code) is reported by itself.
 */
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MOST 64
#define ROUNDS 2

static struct shared {
    ncclUniqueId id[ROUNDS];
    volatile int at[MOST];
} *s;
static int me, size, devices, messages_only;

static void meet(void)
{
    int phase = ++s->at[me];
    __sync_synchronize();
    for (int i = 0; i < size; i++)
        while (s->at[i] < phase)
            usleep(200);
}

static size_t used(void)
{
    size_t free_bytes, total;
    meet();
    usleep(20000);
    MUST(CU(cuMemGetInfo)(&free_bytes, &total));
    meet();
    return total - free_bytes;
}

/* What a context makes for its first fill, copies and kernel, and for local memory of kernels (2 KiB a thread), is the program's, which
 * had them before it came to NCCL. */
static void warm(CUstream stream, CUdeviceptr p)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry some(.param .u64 at, .param .u64 other) {\n"
                              "  .local .align 8 .b8 room[2048];\n  .reg .b64 %a<5>;\n  .reg .b32 %r<3>;\n"
                              "  ld.param.u64 %a0, [at];\n  ld.param.u64 %a1, [other];\n  mov.u32 %r0, %tid.x;\n  cvt.u64.u32 %a2, %r0;\n"
                              "  mov.u64 %a3, room;\n  add.u64 %a2, %a3, %a2;\n  st.local.u8 [%a2], %r0;\n  add.u64 %a4, %a3, %a1;\n"
                              "  ld.local.u8 %r1, [%a4];\n  st.global.u8 [%a0], %r1;\n  ret;\n}\n";
    static char host[4096];
    CUmodule module;
    CUfunction some;
    uint64_t at = p, where = 1024;
    void *arguments[] = {&at, &where};
    MUST(CU(cuMemsetD8Async)(p, 0, sizeof host, stream));
    MUST(CU(cuMemcpyHtoDAsync)(p, host, sizeof host, stream));
    MUST(CU(cuMemcpyDtoHAsync)(host, p, sizeof host, stream));
    MUST(CU(cuStreamSynchronize)(stream));
    if (CU(cuModuleLoadData)(&module, ptx)) /* no compiler in this driver */
        return;
    MUST(CU(cuModuleGetFunction)(&some, module, "some"));
    MUST(CU(cuLaunchKernel)(some, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    MUST(CU(cuStreamSynchronize)(stream));
}

static void use(ncclComm_t comm, CUstream stream, void *p)
{
    cudaStream_t st = (cudaStream_t)stream;
    size_t n = 1 << 20;
    MUST(NCCL(ncclAllReduce)(p, p, n, ncclFloat, ncclSum, comm, st));
    MUST(NCCL(ncclAllReduce)(p, p, 1024, ncclFloat, ncclSum, comm, st));
    MUST(NCCL(ncclAllGather)((char *)p + (size_t)me * 4096, p, 1024, ncclFloat, comm, st));
    MUST(NCCL(ncclReduceScatter)(p, (char *)p + (size_t)me * 4096, 1024, ncclFloat, ncclSum, comm, st));
    MUST(CU(cuStreamSynchronize)(stream));
}

static void exchange(ncclComm_t comm, CUstream stream, void *p)
{
    cudaStream_t st = (cudaStream_t)stream;
    if (size == 1)
        return;
    MUST(NCCL(ncclGroupStart)());
    MUST(NCCL(ncclSend)(p, 1024, ncclFloat, (me + 1) % size, comm, st));
    MUST(NCCL(ncclRecv)((char *)p + 8192, 1024, ncclFloat, (me + size - 1) % size, comm, st));
    MUST(NCCL(ncclGroupEnd)());
    MUST(CU(cuStreamSynchronize)(stream));
}

static int rank_main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr p;
    char text[32];
    size_t at[ROUNDS][4];
    int version = 0, here = (size + devices - 1) / devices;
    snprintf(text, sizeof text, "ballast%d", me);
    if (size > devices) {
        setenv("NCCL_HOSTID", text, 1);
        setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    }
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    open_all();
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, me % devices));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuMemAlloc)(&p, 8 << 20));
    warm(stream, p);
    MUST(NCCL(ncclGetVersion)(&version));
    for (int round = 0; round < ROUNDS; round++) {
        ncclComm_t comm;
        at[round][0] = used();
        if (!me)
            MUST(NCCL(ncclGetUniqueId)(&s->id[round]));
        meet();
        MUST(NCCL(ncclCommInitRank)(&comm, size, s->id[round], me));
        at[round][1] = used();
        if (!messages_only)
            use(comm, stream, (void *)(uintptr_t)p);
        at[round][2] = used();
        exchange(comm, stream, (void *)(uintptr_t)p);
        at[round][3] = used();
    }
    if (!me) {
        static const char *const stages[] = {"created", "collective", "message"};
        printf("{\"nccl\": %d, \"size\": %d, \"devices\": %d", version, size, devices);
        for (int i = 0; i < 3; i++) {
            long long first = (long long)(at[0][i + 1] - at[0][i]) / here, second = (long long)(at[1][i + 1] - at[1][i]) / here;
            printf(", \"%s_bytes\": %lld, \"process_%s_bytes\": %lld", stages[i], second, stages[i], first - second);
        }
        printf("}\n");
    }
    fflush(stdout);
    meet();
    return 0;
}

int main(int argc, char **argv)
{
    size = argc > 1 ? atoi(argv[1]) : 2;
    devices = argc > 2 ? atoi(argv[2]) : 1;
    messages_only = argc > 3 && !strcmp(argv[3], "messages");
    if (size < 1 || size > MOST || devices < 1)
        return 64;
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 71;
    for (me = 0; me < size; me++) {
        pid_t pid = fork();
        if (!pid)
            _exit(rank_main());
        if (pid < 0)
            return 71;
    }
    int failed = 0, status;
    while (wait(&status) > 0)
        if (status && !failed++) /* the others would wait for it for ever */
            kill(0, SIGTERM);
    return failed != 0;
}
