/* gpu.c - see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_first(const char *const *names, const char **found, struct prism_error *err)
{
    const char *why = "";
    for (; *names; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (handle) {
            *found = *names;
            return handle;
        }
        why = dlerror();
    }
    prism_error_set(err, PRISM_EXIT_SYSTEM, "%s", why ? why : "not found");
    return NULL;
}

static int look_up(void *handle, const char *name, void *pointer, struct prism_error *err)
{
    void *symbol = dlsym(handle, name);
    if (!symbol)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "the library has no %s", name);
    memcpy(pointer, &symbol, sizeof(symbol)); /* ISO C has no conversion from object to function pointers */
    return 0;
}

int gpu_load_driver(struct gpu *gpu, struct prism_error *err)
{
    static const char *const names[] = { "libcuda.so.1", NULL };
    const char *found;
    if (!gpu->driver && !(gpu->driver = open_first(names, &found, err)))
        return -1;
    /* The unversioned symbols are an older ABI. */
    if (look_up(gpu->driver, "cuStreamWriteValue32_v2", &gpu->StreamWriteValue32, err) != 0)
        return -1;
    return look_up(gpu->driver, "cuStreamWaitValue32_v2", &gpu->StreamWaitValue32, err);
}

int gpu_load_cudart(struct gpu *gpu, struct prism_error *err)
{
    static const char *const names[] = { "libcudart.so.13", "libcudart.so.12", "libcudart.so", NULL };
    const char *found;
    if (gpu->cudart)
        return 0;
    if (!(gpu->cudart = open_first(names, &found, err)))
        return -1;
    snprintf(gpu->cudart_name, sizeof(gpu->cudart_name), "%s", found);
#define GPU_LOOK_UP(name)                                                    \
    if (look_up(gpu->cudart, "cuda" #name, &gpu->name, err) != 0) \
        return -1;
    GPU_CUDART_CALLS(GPU_LOOK_UP)
#undef GPU_LOOK_UP
    return 0;
}

int gpu_load_nccl(struct gpu *gpu, struct prism_error *err)
{
    static const char *const names[] = { "libnccl.so.2", NULL };
    const char *found;
    if (gpu->nccl)
        return 0;
    if (!(gpu->nccl = open_first(names, &found, err)))
        return -1;
#define GPU_LOOK_UP(name)                                                        \
    if (look_up(gpu->nccl, "nccl" #name, &gpu->nccl##name, err) != 0) \
        return -1;
    GPU_NCCL_CALLS(GPU_LOOK_UP)
#undef GPU_LOOK_UP
    return 0;
}

int gpu_load(struct gpu *gpu, struct prism_error *err)
{
    return gpu_load_driver(gpu, err) || gpu_load_cudart(gpu, err) || gpu_load_nccl(gpu, err) ? -1 : 0;
}

int gpu_cuda_failed(const struct gpu *gpu, cudaError_t result, const char *what, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: %s (error %d)", what, gpu->GetErrorString(result), (int)result);
}

int gpu_nccl_failed(const struct gpu *gpu, ncclResult_t result, const char *what, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: %s (NCCL result %d)", what, gpu->ncclGetErrorString(result),
                           (int)result);
}
