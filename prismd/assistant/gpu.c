#include "prismd/assistant/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "common/error.h"
#include "prismd/assistant/answer.h"

#define GROW_LEAST (64u << 10)

struct gpu gpu_;
static CUcontext context;

_Noreturn void gpu_cuda_failed(const char *call, CUresult result)
{
    const char *name = NULL;
    gpu_cu(cuGetErrorName)(result, &name);
    answer_failed(PRISM_EXIT_DAEMON, "CUDA error %d (%s) in %s", (int)result, name ? name : "unknown", call);
}

_Noreturn void gpu_nccl_failed(const char *call, ncclResult_t result)
{
    const char *why = gpu_nccl(GetLastError)(NULL);
    answer_failed(PRISM_EXIT_DAEMON, "NCCL error %d (%s) in %s: %s", (int)result,
                  gpu_nccl(GetErrorString)(result), call,
                  why && *why ? why : "no more is known; NCCL_DEBUG=WARN may tell");
}

/* Names are taken after macros have put their versions on. */
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

void gpu_start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        answer_failed(PRISM_EXIT_SYSTEM, "%s", dlerror());
#define FIND(name)                                                                                           \
    if (!(gpu_cu(name) = (__typeof__(&name))dlsym(library, TEXT(name))))                                     \
        answer_failed(PRISM_EXIT_UNSUPPORTED, "libcuda.so.1 has no %s: the driver is too old", TEXT(name));
    GPU_CUDA_FUNCTIONS(FIND)
#undef FIND
    CUdevice device;
    GPU_MUST(gpu_cu(cuInit)(0));
    GPU_MUST(gpu_cu(cuDeviceGet)(&device, 0));
    GPU_MUST(gpu_cu(cuDevicePrimaryCtxRetain)(&context, device));
    gpu_use();
}

void gpu_use(void)
{
    GPU_MUST(gpu_cu(cuCtxSetCurrent)(context));
}

static void open_nccl(const char *path)
{
    void *library = *path && !access(path, R_OK) ? dlopen(path, RTLD_NOW) : NULL;
    if (!library)
        library = dlopen("libnccl.so.2", RTLD_NOW);
    if (!library)
        answer_failed(PRISM_EXIT_UNSUPPORTED, "%s; use paced emulation (--prism-assistants=0)", dlerror());
#define FIND(name)                                                                                           \
    if (!(gpu_nccl(name) = (__typeof__(&nccl##name))dlsym(library, "nccl" #name)))                           \
        answer_failed(PRISM_EXIT_UNSUPPORTED,                                                                \
                      "libnccl.so.2 has no nccl" #name "; use paced emulation (--prism-assistants=0)");
    GPU_NCCL_FUNCTIONS(FIND)
#undef FIND
}

void gpu_open_nccl(const char *path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int opened;
    pthread_mutex_lock(&lock);
    if (!opened)
        open_nccl(path);
    opened = 1;
    pthread_mutex_unlock(&lock);
}

void gpu_buffer_grow(struct gpu_buffer *b, size_t size)
{
    if (size <= b->size)
        return;
    size_t grown = b->size ? b->size : GROW_LEAST;
    while (grown < size)
        grown += grown / 2 + GROW_LEAST;
    GPU_MUST(gpu_cu(cuMemAlloc)(&b->device, grown));
    b->size = grown;
}
