/* copy.c - copies and fills. All addresses are in one space, so a kind that contradicts the pointers does no harm. */
#include "softgpu/cudart/runtime.h"

static bool known_kind(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault;
}

cudaError_t cudaMemcpy(void *destination, const void *source, size_t count, enum cudaMemcpyKind kind)
{
    RT_READY(rt_context());
    if (!known_kind(kind))
        return rt_set_error(cudaErrorInvalidMemcpyDirection);
    return rt_result(rt_driver()->cuMemcpy(RT_DEVPTR(destination), RT_DEVPTR(source), count));
}

cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    RT_READY(rt_context());
    if (!known_kind(kind))
        return rt_set_error(cudaErrorInvalidMemcpyDirection);
    return rt_result(rt_driver()->cuMemcpyAsync(RT_DEVPTR(destination), RT_DEVPTR(source), count, stream));
}

cudaError_t cudaMemcpyPeer(void *destination, int to, const void *source, int from, size_t count)
{
    return cudaMemcpy(destination, source, count, cudaMemcpyDefault);
}

cudaError_t cudaMemcpyPeerAsync(void *destination, int to, const void *source, int from, size_t count,
                                cudaStream_t stream)
{
    return cudaMemcpyAsync(destination, source, count, cudaMemcpyDefault, stream);
}

/* Unified addresses: the driver finds out which memory each is in. */
static CUDA_MEMCPY3D plane_copy(void *destination, size_t dpitch, const void *source, size_t spitch, size_t width,
                                size_t height, size_t depth)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = RT_DEVPTR(source), .srcPitch = spitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = RT_DEVPTR(destination),
                           .dstPitch = dpitch, .WidthInBytes = width, .Height = height, .Depth = depth};
}

cudaError_t cudaMemcpy2D(void *destination, size_t dpitch, const void *source, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = plane_copy(destination, dpitch, source, spitch, width, height, 1);
    RT_READY(rt_context());
    if (!known_kind(kind))
        return rt_set_error(cudaErrorInvalidMemcpyDirection);
    if (width > dpitch || width > spitch)
        return rt_set_error(cudaErrorInvalidPitchValue);
    return rt_result(rt_driver()->cuMemcpy3D(&copy));
}

cudaError_t cudaMemcpy2DAsync(void *destination, size_t dpitch, const void *source, size_t spitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy = plane_copy(destination, dpitch, source, spitch, width, height, 1);
    RT_READY(rt_context());
    if (!known_kind(kind))
        return rt_set_error(cudaErrorInvalidMemcpyDirection);
    if (width > dpitch || width > spitch)
        return rt_set_error(cudaErrorInvalidPitchValue);
    return rt_result(rt_driver()->cuMemcpy3DAsync(&copy, stream));
}

static cudaError_t volume_copy(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy)
{
    if (!p || !known_kind(p->kind))
        return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return cudaErrorNotSupported;
    *copy = plane_copy(p->dstPtr.ptr, p->dstPtr.pitch, p->srcPtr.ptr, p->srcPtr.pitch, p->extent.width,
                       p->extent.height, p->extent.depth);
    copy->srcHeight = p->srcPtr.ysize;
    copy->dstHeight = p->dstPtr.ysize;
    copy->srcXInBytes = p->srcPos.x;
    copy->srcY = p->srcPos.y;
    copy->srcZ = p->srcPos.z;
    copy->dstXInBytes = p->dstPos.x;
    copy->dstY = p->dstPos.y;
    copy->dstZ = p->dstPos.z;
    return cudaSuccess;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D copy;
    RT_READY(rt_context());
    RT_READY(volume_copy(parameters, &copy));
    return rt_result(rt_driver()->cuMemcpy3D(&copy));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *parameters, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    RT_READY(rt_context());
    RT_READY(volume_copy(parameters, &copy));
    return rt_result(rt_driver()->cuMemcpy3DAsync(&copy, stream));
}

/* cudaMemset returns before the fill is done, as CUDA's does for device memory. */
cudaError_t cudaMemset(void *pointer, int value, size_t count)
{
    RT_CALL(cuMemsetD8Async, RT_DEVPTR(pointer), (unsigned char)value, count, CU_STREAM_LEGACY);
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t count, cudaStream_t stream)
{
    RT_CALL(cuMemsetD8Async, RT_DEVPTR(pointer), (unsigned char)value, count, stream);
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    RT_CALL(cuMemsetD2D8Async, RT_DEVPTR(pointer), pitch, (unsigned char)value, width, height, CU_STREAM_LEGACY);
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    RT_CALL(cuMemsetD2D8Async, RT_DEVPTR(pointer), pitch, (unsigned char)value, width, height, stream);
}
