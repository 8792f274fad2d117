#include "prismd/mover/gpu.h"

#include <dlfcn.h>

#include "common/clock.h"
#include "common/error.h"
#include "prismd/mover/guest.h"

struct gpu gpu_;
static CUcontext context;
static void *library;

_Noreturn void gpu_failed(const char *call, CUresult result)
{
    const char *name = NULL;
    gpu_cu(cuGetErrorName)(result, &name);
    mover_failed("CUDA error %d (%s) in %s", (int)result, name ? name : "unknown", call);
}

/* Names are taken after macros have put their versions on. */
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

#define CONTEXT_WAIT_NS (300 * NSEC_PER_SEC)
#define AT_ONCE_NS      (5 * NSEC_PER_SEC)

/* Where other processes make contexts, the driver lets one wait, and after some 45 s says "out of memory" (measured). A device that
 * is full says so at once. */
static CUresult retain_context(CUdevice device)
{
    int64_t until = clock_now_ns() + CONTEXT_WAIT_NS, began;
    CUresult r;
    do {
        began = clock_now_ns();
        r = gpu_cu(cuDevicePrimaryCtxRetain)(&context, device);
    } while (r == CUDA_ERROR_OUT_OF_MEMORY && clock_now_ns() - began > AT_ONCE_NS && began < until);
    return r;
}

void gpu_start(void)
{
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        mover_failed("%s", dlerror());
#define FIND(name)                                                                                           \
    if (!(gpu_cu(name) = (__typeof__(&name))dlsym(library, TEXT(name))))                                     \
        mover_failed("libcuda.so.1 has no %s: the driver is too old", TEXT(name));
    GPU_FUNCTIONS(FIND)
#undef FIND
    CUdevice device;
    GPU_MUST(gpu_cu(cuInit)(0));
    GPU_MUST(gpu_cu(cuDeviceGet)(&device, 0));
    GPU_MUST(retain_context(device));
    gpu_use();
}

void gpu_use(void)
{
    GPU_MUST(gpu_cu(cuCtxSetCurrent)(context));
}

bool gpu_is_software(void)
{
    return dlsym(library, "softgpuLaunchHostFunc") != NULL;
}
