/* unsupported.c - what the software GPU does not have, said with CUDA's own error codes (docs/softgpu.md). */
#include "softgpu/cuda/api.h"

/* --- capture and graphs --- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return CUDA_ERROR_ILLEGAL_STATE; /* no capture was begun */
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    SG_STREAM_OR_RETURN(handle, stream);
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode old = current;
    current = *mode;
    *mode = old;
    return CUDA_SUCCESS;
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
