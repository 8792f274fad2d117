/* launch.c - host functions, and host functions as kernels. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "softgpu/cuda/api.h"

/* --- kernels --- */

struct kernel {
    void (*fn)(void *args);
    struct sg_device *device;
    uint64_t jitter_a, jitter_b;
    double seconds;
    max_align_t args[];
};

/* A stretch x of communication beside it does x / (1 + slowdown) of the kernel's work. Communication may begin while
 * the kernel runs, so look again at each end that we expect. */
static int64_t end_beside_communication(struct sg_device *device, int64_t start_ns, int64_t duration_ns)
{
    double lost = sg_profile()->overlap_slowdown / (1 + sg_profile()->overlap_slowdown);
    int64_t end = start_ns + duration_ns;
    for (int i = 0; lost > 0 && i < 16; i++) {
        int64_t overlap = sg_shared_comm_overlap(device->shared, start_ns, end);
        int64_t longer = start_ns + duration_ns + (int64_t)((double)overlap * lost);
        if (longer - end < 1000)
            break;
        end = longer;
        sg_sleep_until(end);
    }
    return end;
}

static int64_t run_kernel(void *ctx, int64_t start_ns)
{
    struct kernel *kernel = ctx;
    if (sg_profile()->untimed) {
        kernel->fn(kernel->args);
        free(kernel);
        return start_ns;
    }
    int64_t duration = sg_scaled_ns(kernel->seconds * sg_jitter(kernel->jitter_a, kernel->jitter_b));
    if (sg_profile()->time_slicing)
        start_ns = sg_shared_turn(kernel->device->shared, start_ns, duration);
    int64_t began = sg_real_now();
    kernel->fn(kernel->args);
    sg_count_item(sg_real_now() - began, duration);
    sg_sleep_until(start_ns + duration);
    int64_t end = end_beside_communication(kernel->device, start_ns, duration);
    free(kernel);
    return end;
}

struct loaded {
    void (*fn)(void *args);
    UT_hash_handle hh;
};

static void load_first(struct CUctx_st *context, void (*fn)(void *args))
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct loaded *all;
    struct loaded *l;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, all, &fn, sizeof fn, l);
    bool known = l;
    if (!known && (l = malloc(sizeof *l))) {
        l->fn = fn;
        HASH_ADD(hh, all, fn, sizeof l->fn, l);
    }
    pthread_mutex_unlock(&lock);
    if (!known)
        sg_context_load(context);
}

/* A launch by the runtime's <<<>>> brings a context up in a thread that has none to use; so does this. */
static CUresult bring_up_context(void)
{
    CUcontext context;
    if (sg_context_usable(&context) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    CUresult result = sg_init();
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&context, sg_current_device());
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

int softgpuLaunchHostFunc(void *handle, void (*fn)(void *args), const void *args, size_t args_bytes,
                          const struct softgpuCost *cost)
{
    CUresult ready = bring_up_context();
    if (ready != CUDA_SUCCESS)
        return ready;
    SG_STREAM_OR_RETURN(handle, stream);
    const struct sg_profile *profile = sg_profile();
    if (!fn || (args_bytes && !args) || !cost || !(cost->flops >= 0) || !(cost->bytes >= 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (profile->lazy_loading)
        load_first(stream->context, fn);
    struct kernel *kernel = malloc(sizeof(*kernel) + args_bytes);
    if (!kernel)
        return CUDA_ERROR_OUT_OF_MEMORY;
    kernel->fn = fn;
    kernel->device = sg_device_get(stream->context->device);
    kernel->jitter_a = (uint64_t)kernel->device->place.node << 32 | (uint32_t)kernel->device->place.index;
    kernel->jitter_b = stream->id << 32 | (uint32_t)__atomic_fetch_add(&stream->kernels, 1, __ATOMIC_RELAXED);
    kernel->seconds = SG_MAX(cost->flops / profile->flops, cost->bytes / profile->bandwidth) + profile->launch_overhead;
    if (args_bytes)
        memcpy(kernel->args, args, args_bytes);
    CUresult result = sg_enqueue(stream, SG_ITEM_QUEUED, run_kernel, kernel, NULL, NULL);
    if (result != CUDA_SUCCESS)
        free(kernel);
    return result;
}

/* --- host functions: they take the time they take --- */

struct host_call {
    CUhostFn fn;
    CUstreamCallback callback;
    CUstream handle;
    void *data;
};

static int64_t run_host_call(void *ctx, int64_t start_ns)
{
    struct host_call call = *(struct host_call *)ctx;
    free(ctx);
    int64_t began = sg_real_now();
    if (call.fn)
        call.fn(call.data);
    else
        call.callback(call.handle, CUDA_SUCCESS, call.data);
    return start_ns + (sg_real_now() - began);
}

static CUresult enqueue_host_call(CUstream handle, struct host_call call)
{
    SG_STREAM_OR_RETURN(handle, stream);
    struct host_call *copy = malloc(sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = call;
    CUresult result = sg_enqueue(stream, SG_ITEM_SLEEPS, run_host_call, copy, NULL, NULL);
    if (result != CUDA_SUCCESS)
        free(copy);
    return result;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_host_call(stream, (struct host_call){.fn = function, .data = data});
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_host_call(stream, (struct host_call){.callback = callback, .handle = stream, .data = data});
}
