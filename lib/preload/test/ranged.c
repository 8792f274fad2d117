/* ranged.c - a rank that names what it does by NVTX ranges, one act an argument. */
#include "tests/nvtx/client.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "preload/test/check.h"

#define N 100

static ncclComm_t comm;
static cudaStream_t stream;
static float *buffer;

static void set_up(void)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    id.internal[20] = 1;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&buffer, N * sizeof(float)));
    CHECK(ncclCommInitRank(&comm, 2, id, atoi(getenv("PRISM_RANK"))));
}

static void operate(void)
{
    CHECK(ncclAllReduce(buffer, buffer, N, ncclFloat, ncclSum, comm, stream));
}

static void *help(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        nvtxRangePushA("load");
        nvtxRangePop();
    }
    return NULL;
}

/* Levels, numbers, ranges in ranges beyond those that are told, a thread that issues nothing, a child. */
static void act_nested(void)
{
    char name[32];
    pthread_t helper;
    printf("level %d\n", nvtxRangePushA("train"));
    set_up();
    CHECK(pthread_create(&helper, NULL, help, NULL));
    for (int i = 9; i < 12; i++) {
        snprintf(name, sizeof name, "iteration %d", i);
        nvtxRangePushA(name);
        for (int k = 0; k < 100; k++) {
            nvtxRangePushA("layer"); /* two, with no operation between them */
            nvtxRangePushA("inner");
            int level = nvtxRangePushA("too deep");
            nvtxRangePop();
            nvtxRangePop();
            nvtxRangePop();
            if (i == 9 && !k)
                printf("level %d\n", level);
        }
        operate();
        nvtxRangePop();
    }
    CHECK(pthread_join(helper, NULL));
    printf("level %d\n", nvtxRangePop());
    pid_t child = fork();
    if (!child) {
        nvtxRangePushA("child");
        nvtxRangePop();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    CHECK(cudaStreamSynchronize(stream));
}

/* One name in all its forms; and domains, which make it another. */
static void act_forms(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("prism");
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = sizeof a};
    set_up();
    nvtxRangePushA("step 1");
    operate();
    nvtxRangePop();
    nvtxRangePushW(L"step 22");
    operate();
    nvtxRangePop();
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "step 333";
    nvtxRangePushEx(&a);
    operate();
    nvtxRangePop();
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = nvtxDomainRegisterStringA(NULL, "step 4");
    nvtxRangePushEx(&a);
    operate();
    nvtxRangePop();
    for (int i = 0; i < 2; i++) {
        nvtxDomainRangePushEx(domain, &a);
        operate();
        nvtxDomainRangePop(domain);
    }
    a.messageType = NVTX_MESSAGE_UNKNOWN; /* nothing to tell it by */
    nvtxRangePushEx(&a);
    nvtxRangePop();
    CHECK(cudaStreamSynchronize(stream));
}

/* More of a name than are told, and more names. */
static void act_many(void)
{
    char name[32];
    set_up();
    for (int i = 0; i < 600; i++) {
        nvtxRangePushA("step");
        operate();
        nvtxRangePop();
        if (i % 100 == 0)
            CHECK(cudaStreamSynchronize(stream));
    }
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "kernel %c%c", 'a' + i / 10, 'a' + i % 10);
        nvtxRangePushA(name);
        nvtxRangePop();
    }
    CHECK(cudaStreamSynchronize(stream));
}

/* What a push and its pop take. */
static void act_cost(void)
{
    struct timespec from, to;
    set_up();
    operate();
    CHECK(cudaStreamSynchronize(stream));
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 1000000; i++) {
        nvtxRangePushA("forward of a layer");
        nvtxRangePop();
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.0f ns\n", ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e6);
}

static void act_alone(void)
{
    printf("level %d\n", nvtxRangePushA("alone"));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*act)(void);
    } acts[] = {{"nested", act_nested}, {"forms", act_forms}, {"many", act_many}, {"cost", act_cost}, {"alone", act_alone}};
    for (size_t i = 0; argc > 1 && i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(argv[1], acts[i].name)) {
            acts[i].act();
            return 0;
        }
    return 2;
}
