/* stream_api.c - streams and events. */
#include <stdlib.h>

#include "softgpu/cuda/api.h"

#define EVENT_MAGIC 0x53474556u

/* --- streams --- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    SG_CONTEXT_OR_RETURN(context);
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    int least, greatest;
    cuCtxGetStreamPriorityRange(&least, &greatest);
    priority = priority > least ? least : priority < greatest ? greatest : priority;
    return sg_stream_create(context, flags, priority, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    SG_STREAM_OR_RETURN(handle, stream);
    return sg_stream_destroy(stream);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *id = stream->legacy ? 1 : stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *context = stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    return sg_stream_query(stream);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    return sg_stream_synchronize(stream);
}

/* Memory belongs to no stream here. */
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t length, unsigned int flags)
{
    SG_STREAM_OR_RETURN(handle, stream);
    (void)stream;
    return sg_range_find_kind((uintptr_t)pointer, SG_RANGE_MANAGED, NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- events --- */

static bool event_valid(CUevent event)
{
    return event && event->magic == EVENT_MAGIC;
}

/* The mark of the latest record, referenced; NULL: none. */
static struct sg_mark *event_mark(CUevent event)
{
    pthread_mutex_lock(&sg_lock);
    struct sg_mark *mark = event->mark ? sg_mark_ref(event->mark) : NULL;
    pthread_mutex_unlock(&sg_lock);
    return mark;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    SG_CONTEXT_OR_RETURN(context);
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!event || (flags & ~known) || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    *event = calloc(1, sizeof(**event));
    if (!*event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    **event = (struct CUevent_st){.magic = EVENT_MAGIC, .flags = flags, .device = context->device};
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    if (!event_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    event->magic = 0;
    sg_mark_unref(event->mark);
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (!event_valid(event) || event->device != stream->context->device)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_mark *mark, *old;
    CUresult result = sg_enqueue(stream, SG_ITEM_QUEUED, NULL, NULL, NULL, &mark);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&sg_lock);
    old = event->mark;
    event->mark = mark;
    pthread_mutex_unlock(&sg_lock);
    sg_mark_unref(old);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
    return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(event, handle);
}

/* An event that was never recorded holds nobody up. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (!event_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_mark *mark = event_mark(event);
    CUresult result = mark ? sg_enqueue(stream, SG_ITEM_QUEUED, NULL, NULL, mark, NULL) : CUDA_SUCCESS;
    sg_mark_unref(mark);
    return result;
}

CUresult cuEventQuery(CUevent event)
{
    if (!event_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_mark *mark = event_mark(event);
    if (mark && !sg_mark_done(mark) && sg_profile()->untimed) {
        pthread_mutex_lock(&sg_lock);
        sg_drive_once();
        pthread_mutex_unlock(&sg_lock);
    }
    bool done = !mark || sg_mark_done(mark);
    int64_t now = sg_host_now();
    if (mark && done && mark->end_ns > now)
        sg_host_waited(now, mark->end_ns);
    sg_mark_unref(mark);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    if (!event_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_mark *mark = event_mark(event);
    if (mark) {
        int64_t entered = sg_host_now();
        sg_host_waited(entered, sg_mark_wait(mark));
        sg_mark_unref(mark);
    }
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    if (!event_valid(start) || !event_valid(end) || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_mark *from = event_mark(start), *to = event_mark(end);
    CUresult result = !from || !to                                  ? CUDA_ERROR_INVALID_HANDLE
                      : !sg_mark_done(from) || !sg_mark_done(to)    ? CUDA_ERROR_NOT_READY
                                                                    : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        *milliseconds = (float)((double)(to->end_ns - from->end_ns) * 1e-6);
    sg_mark_unref(from);
    sg_mark_unref(to);
    return result;
}

CUresult cuEventElapsedTime_v1(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
