/* unsupported.c - what the software GPU does not have, said with CUDA's own error codes (docs/softgpu.md). */
#include "softgpu/cuda/api.h"

/* --- capture and graphs --- */

/* A capture begins and says so, but takes no work: the stream's next call invalidates it, and no graph comes of it. */
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static CUstream global_capture; /* the latest in global mode, until it ends */

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    int none = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!atomic_compare_exchange_strong(&stream->capture, &none, CU_STREAM_CAPTURE_STATUS_ACTIVE))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        __atomic_store_n(&global_capture, stream, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    SG_STREAM_OR_RETURN(handle, stream);
    CUstream expected = stream;
    __atomic_compare_exchange_n(&global_capture, &expected, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (atomic_exchange(&stream->capture, CU_STREAM_CAPTURE_STATUS_NONE) == CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_ILLEGAL_STATE; /* no capture was begun */
    *graph = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    SG_STREAM_OR_RETURN(handle, stream);
    *status = (CUstreamCaptureStatus)atomic_load(&stream->capture);
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* Calls that CUDA calls unsafe: from a thread that is not relaxed they invalidate a capture in global mode. */
CUresult sg_capture_check_unsafe(void)
{
    CUstream capturing = __atomic_load_n(&global_capture, __ATOMIC_ACQUIRE);
    if (!capturing || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    atomic_store(&capturing->capture, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- memory of other processes (virtual memory handles can be shared instead, cuMemExportToShareableHandle) --- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}
