#include "prismd/mover/gpu.h"

#include <dlfcn.h>

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
    GPU_MUST(gpu_cu(cuDevicePrimaryCtxRetain)(&context, device));
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
