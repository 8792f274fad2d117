/* context.c - contexts: the primary one of each device and those that programs make, and each thread's stack of them. */
#include <stdlib.h>

#include <utlist.h>

#include "softgpu/cuda/api.h"

#define CONTEXT_MAGIC 0x53474354u
#define STACK_DEPTH 32
#define MOST_CONTEXTS 1024 /* in the life of a process */

static _Thread_local struct CUctx_st *stack[STACK_DEPTH];
static _Thread_local int depth;

static struct CUctx_st *all[MOST_CONTEXTS]; /* with sg_lock; never freed, so that a stale handle is told from a live one */
static int all_count;

/* Handles are looked up, not looked into: they may be anything. */
bool sg_context_valid(const struct CUctx_st *context)
{
    bool valid = false;
    pthread_mutex_lock(&sg_lock);
    for (int i = 0; i < all_count && !valid; i++)
        valid = all[i] == context && context->magic == CONTEXT_MAGIC;
    pthread_mutex_unlock(&sg_lock);
    return valid;
}

struct CUctx_st *sg_context_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* As with CUDA a thread keeps its current context when that is destroyed, and may have a primary one that nobody has retained. */
CUresult sg_context_usable(struct CUctx_st **out)
{
    struct CUctx_st *context = sg_context_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context;
    return CUDA_SUCCESS;
}

static CUresult context_create(int device, unsigned flags, bool primary, struct CUctx_st **out)
{
    struct sg_device *opened = sg_device_opened(device);
    if (!opened)
        return sg_device_get(device) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_DEVICE;
    if (!sg_shared_take(opened->shared, sg_profile()->context_bytes, sg_profile()->memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_shared_hold(opened->shared, sg_profile()->context_seconds);
    struct CUctx_st *context = all_count < MOST_CONTEXTS ? calloc(1, sizeof(*context)) : NULL;
    if (!context) {
        sg_shared_give(opened->shared, sg_profile()->context_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->magic = CONTEXT_MAGIC;
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->active = !primary;
    pthread_cond_init(&context->queue_free, NULL);
    CUresult result = sg_stream_create(context, CU_STREAM_DEFAULT, 0, &context->legacy);
    if (result != CUDA_SUCCESS) {
        free(context);
        return result;
    }
    context->legacy->legacy = true;
    pthread_mutex_lock(&sg_lock);
    all[all_count++] = context;
    context->id = (unsigned long long)all_count;
    pthread_mutex_unlock(&sg_lock);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult sg_context_primary(int device, struct CUctx_st **out)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct sg_device *d = sg_device_get(device);
    CUresult result = CUDA_SUCCESS;
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&making);
    if (!d->primary)
        result = context_create(device, CU_CTX_SCHED_AUTO, true, &d->primary);
    pthread_mutex_unlock(&making);
    if (result == CUDA_SUCCESS)
        *out = d->primary;
    return result;
}

void sg_device_synchronize(int device)
{
    struct CUctx_st *list[MOST_CONTEXTS];
    pthread_mutex_lock(&sg_lock);
    int n = 0;
    for (int i = 0; i < all_count; i++)
        if (all[i]->device == device && all[i]->magic == CONTEXT_MAGIC)
            list[n++] = all[i];
    pthread_mutex_unlock(&sg_lock);
    for (int i = 0; i < n; i++)
        sg_context_synchronize(list[i]);
}

/* --- driver interface --- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result = sg_check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    result = sg_context_primary(device, context);
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&sg_lock);
        (*context)->retained++;
        (*context)->active = true;
        pthread_mutex_unlock(&sg_lock);
    }
    return result;
}

/* The primary context keeps its streams for the life of the process: CUDA destroys them with the last release. */
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct sg_device *d = sg_device_get(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&sg_lock);
    if (d->primary && d->primary->retained > 0) {
        d->primary->active = --d->primary->retained > 0;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_lock);
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    struct sg_device *d = sg_device_get(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (d->primary) {
        sg_context_synchronize(d->primary);
        pthread_mutex_lock(&sg_lock);
        d->primary->retained = 0;
        d->primary->active = false;
        pthread_mutex_unlock(&sg_lock);
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    struct CUctx_st *context;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sg_context_primary(device, &context);
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    return result;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    struct sg_device *d = sg_device_get(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags)
        *flags = d->primary ? d->primary->flags : 0;
    if (active)
        *active = d->primary && d->primary->active;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    CUresult result = sg_check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!context || depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    sg_device_synchronize(device); /* as measured: it waits at closed gates of other contexts */
    result = context_create(device, flags, false, context);
    if (result == CUDA_SUCCESS)
        stack[depth++] = *context;
    return result;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    return cuCtxCreate_v4(context, NULL, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    if (!sg_context_valid(context) || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_context_synchronize(context);
    if (sg_context_current() == context)
        depth--;
    struct CUstream_st *stream, *next;
    context->magic = 0;
    context->active = false;
    DL_FOREACH_SAFE(context->streams, stream, next) sg_stream_destroy(stream);
    sg_shared_give(sg_device_get(context->device)->shared, sg_profile()->context_bytes);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (!sg_context_valid(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult result = sg_check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (context && !sg_context_valid(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context)
        depth -= depth > 0;
    else if (depth == 0)
        stack[depth++] = context;
    else
        stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult result = sg_check_init();
    if (result == CUDA_SUCCESS)
        *context = sg_context_current();
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    SG_CONTEXT_OR_RETURN(context);
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    SG_CONTEXT_OR_RETURN(context);
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    context = context ? context : sg_context_current();
    if (!sg_context_valid(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    if (context && !sg_context_valid(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    SG_CONTEXT_OR_RETURN(context);
    return sg_context_synchronize(context);
}

/* Limits and the cache configuration concern device code, which there is none of: kept and given back, no effect. */
static size_t limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE + 1] = {1024, 8650752, 8388608, 0, 2048, 64, 0}; /* an H200's */

static bool known_limit(CUlimit limit)
{
    return (unsigned)limit < sizeof(limits) / sizeof(limits[0]) && limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!known_limit(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!known_limit(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = limits[limit];
    return CUDA_SUCCESS;
}

static CUfunc_cache cache_config;

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SG_CONTEXT_OR_RETURN(context);
    *config = cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    SG_CONTEXT_OR_RETURN(context);
    cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SG_CONTEXT_OR_RETURN(context);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* Any device reaches any other of the process at all times; the calls keep CUDA's book of it. */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!sg_context_valid(peer) || peer == context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (context->peers & (1ull << peer->device))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1ull << peer->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!sg_context_valid(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(context->peers & (1ull << peer->device)))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1ull << peer->device);
    return CUDA_SUCCESS;
}
