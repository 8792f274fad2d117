/* copy.c - copies and fills. Each moves real bytes on the stream's thread and takes the profile's time. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/api.h"

int64_t sg_copy_ns(uintptr_t destination, uintptr_t source, size_t bytes)
{
    const struct sg_profile *p = sg_profile();
    int to = -1, from = -1;
    if (p->untimed)
        return 0;
    bool to_device = sg_address_is_device(destination, &to), from_device = sg_address_is_device(source, &from);
    double rate = to_device && from_device ? (to == from ? p->bandwidth / 2 : p->peer_bandwidth) : p->pcie_bandwidth;
    if (to_device && from_device && to == from)
        rate = SG_MAX(rate, p->pcie_bandwidth); /* the slow-motion memory is for kernels; copies keep the copy engine's pace */
    return sg_scaled_ns(p->pcie_latency + (double)bytes / rate);
}

int64_t sg_fill_ns(size_t bytes)
{
    const struct sg_profile *p = sg_profile();
    return sg_scaled_ns(p->pcie_latency + (double)bytes / p->peer_bandwidth);
}

/* --- copies: rows of width bytes, in planes; a plain copy is one row --- */

struct copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, to_plane, from_plane;
    size_t width, height, depth;
    void *staging; /* freed afterwards */
};

static int64_t run_copy(void *ctx, int64_t start_ns)
{
    struct copy *copy = ctx;
    size_t bytes = copy->width * copy->height * copy->depth;
    int64_t duration = sg_copy_ns((uintptr_t)copy->to, (uintptr_t)copy->from, bytes);
    int64_t began = sg_real_now();
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove(copy->to + z * copy->to_plane + y * copy->to_pitch,
                    copy->from + z * copy->from_plane + y * copy->from_pitch, copy->width);
    sg_count_item(sg_real_now() - began, duration);
    free(copy->staging);
    free(copy);
    return start_ns + duration;
}

static bool is_pageable(const void *address)
{
    int device;
    return !sg_address_is_device((uintptr_t)address, &device) && !sg_address_is_pinned((uintptr_t)address);
}

/* CUDA has read a pageable source when the call returns, so the program may reuse it: copy it aside. */
static CUresult stage(struct copy *copy)
{
    size_t n = copy->width * copy->height * copy->depth;
    char *staging = malloc(n ? n : 1), *p = staging;
    if (!staging)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++, p += copy->width)
            memcpy(p, copy->from + z * copy->from_plane + y * copy->from_pitch, copy->width);
    copy->from = copy->staging = staging;
    copy->from_pitch = copy->width;
    copy->from_plane = copy->width * copy->height;
    return CUDA_SUCCESS;
}

/* Whether all of [address, address + bytes) can be touched. Memory that CUDA does not know is the program's affair. */
static bool valid_range(uintptr_t address, size_t bytes)
{
    struct sg_range range;
    for (uintptr_t at = address, end = address + bytes; at < end; at = range.base + range.size) {
        if (!sg_range_find(at, &range))
            return at == address;
        if (range.kind == SG_RANGE_RESERVED || (range.kind == SG_RANGE_MAPPED && !range.flags))
            return false; /* nothing there, or cuMemSetAccess is lacking */
        if (range.kind != SG_RANGE_MAPPED)
            return range.kind == SG_RANGE_REGISTERED || bytes <= range.size - (address - range.base);
    }
    return true;
}

static bool within_device(const struct copy *copy)
{
    int to, from;
    return sg_address_is_device((uintptr_t)copy->to, &to) && sg_address_is_device((uintptr_t)copy->from, &from) &&
           to == from;
}

static CUresult enqueue_copy(CUstream handle, struct copy request)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (request.width == 0 || request.height == 0 || request.depth == 0)
        return CUDA_SUCCESS;
    if (!request.to || !request.from)
        return CUDA_ERROR_INVALID_VALUE;
    size_t rows = request.height - 1, planes = request.depth - 1;
    if (!valid_range((uintptr_t)request.to, planes * request.to_plane + rows * request.to_pitch + request.width) ||
        !valid_range((uintptr_t)request.from,
                            planes * request.from_plane + rows * request.from_pitch + request.width))
        return CUDA_ERROR_INVALID_VALUE;
    struct copy *copy = malloc(sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = request;
    bool to_pageable = is_pageable(request.to), staged = is_pageable(request.from);
    CUresult result = staged && !to_pageable ? stage(copy) : CUDA_SUCCESS;
    struct sg_mark *mark = NULL;
    if (result == CUDA_SUCCESS)
        result = sg_enqueue(stream, within_device(copy) ? SG_ITEM_QUEUED : SG_ITEM_FREE, run_copy, copy, NULL, to_pageable ? &mark : NULL);
    if (result != CUDA_SUCCESS) {
        free(copy->staging);
        free(copy);
        return result;
    }
    if (mark) { /* a copy to pageable memory returns when it is done */
        int64_t entered = sg_host_now();
        sg_host_waited(entered, sg_mark_wait(mark));
        sg_mark_unref(mark);
    }
    return CUDA_SUCCESS;
}

static CUresult plain_copy(uintptr_t to, uintptr_t from, size_t bytes, CUstream stream)
{
    return enqueue_copy(stream, (struct copy){.to = (char *)to, .from = (const char *)from, .width = bytes, .height = 1,
                                              .depth = 1});
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
    return plain_copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
}

/* Which side must be device memory is checked, as CUDA does. */
static bool reaches(CUdeviceptr pointer)
{
    struct sg_range range;
    return sg_range_find((uintptr_t)pointer, &range) && range.kind != SG_RANGE_RESERVED;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)
{
    if (bytes && !reaches(destination))
        return CUDA_ERROR_INVALID_VALUE;
    return plain_copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
    if (bytes && !reaches(source))
        return CUDA_ERROR_INVALID_VALUE;
    return plain_copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
    if (bytes && (!reaches(destination) || !reaches(source)))
        return CUDA_ERROR_INVALID_VALUE;
    return plain_copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes,
                           CUstream stream)
{
    if (!sg_context_valid(to) || !sg_context_valid(from))
        return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoDAsync_v2(destination, source, bytes, stream);
}

static uintptr_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t to_pitch = c->dstPitch ? c->dstPitch : c->dstXInBytes + c->WidthInBytes;
    size_t from_pitch = c->srcPitch ? c->srcPitch : c->srcXInBytes + c->WidthInBytes;
    size_t to_plane = to_pitch * (c->dstHeight ? c->dstHeight : c->dstY + c->Height);
    size_t from_plane = from_pitch * (c->srcHeight ? c->srcHeight : c->srcY + c->Height);
    if (to_pitch < c->WidthInBytes || from_pitch < c->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t to = base_of(c->dstMemoryType, c->dstHost, c->dstDevice);
    uintptr_t from = base_of(c->srcMemoryType, c->srcHost, c->srcDevice);
    if (!to || !from)
        return CUDA_ERROR_INVALID_VALUE;
    to += c->dstZ * to_plane + c->dstY * to_pitch + c->dstXInBytes;
    from += c->srcZ * from_plane + c->srcY * from_pitch + c->srcXInBytes;
    return enqueue_copy(stream, (struct copy){.to = (char *)to, .from = (const char *)from, .to_pitch = to_pitch,
                                              .from_pitch = from_pitch, .to_plane = to_plane, .from_plane = from_plane,
                                              .width = c->WidthInBytes, .height = c->Height, .depth = c->Depth});
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D wide = {
        .srcXInBytes = c->srcXInBytes, .srcY = c->srcY, .srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost,
        .srcDevice = c->srcDevice, .srcPitch = c->srcPitch, .dstXInBytes = c->dstXInBytes, .dstY = c->dstY,
        .dstMemoryType = c->dstMemoryType, .dstHost = c->dstHost, .dstDevice = c->dstDevice, .dstPitch = c->dstPitch,
        .WidthInBytes = c->WidthInBytes, .Height = c->Height, .Depth = 1};
    return cuMemcpy3DAsync_v2(&wide, stream);
}

/* --- fills --- */

struct fill {
    char *to;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;     /* element: bytes, 1, 2 or 4 */
};

static void fill_row(char *to, unsigned value, unsigned element, size_t n)
{
    if (element == 1)
        memset(to, (int)value, n);
    else if (element == 2)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)(void *)to)[i] = (uint16_t)value;
    else
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)(void *)to)[i] = value;
}

static int64_t run_fill(void *ctx, int64_t start_ns)
{
    struct fill *fill = ctx;
    int64_t duration = sg_fill_ns(fill->width * fill->element * fill->height), began = sg_real_now();
    for (size_t y = 0; y < fill->height; y++)
        fill_row(fill->to + y * fill->pitch, fill->value, fill->element, fill->width);
    sg_count_item(sg_real_now() - began, duration);
    free(fill);
    return start_ns + duration;
}

static CUresult enqueue_fill(CUstream handle, struct fill request)
{
    SG_STREAM_OR_RETURN(handle, stream);
    if (request.width == 0 || request.height == 0)
        return CUDA_SUCCESS;
    size_t row = request.width * request.element;
    if ((uintptr_t)request.to % request.element || !reaches((CUdeviceptr)(uintptr_t)request.to) ||
        (request.height > 1 && request.pitch < row) ||
        !valid_range((uintptr_t)request.to, (request.height - 1) * request.pitch + row))
        return CUDA_ERROR_INVALID_VALUE;
    struct fill *fill = malloc(sizeof(*fill));
    if (!fill)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *fill = request;
    CUresult result = sg_enqueue(stream, SG_ITEM_QUEUED, run_fill, fill, NULL, NULL);
    if (result != CUDA_SUCCESS)
        free(fill);
    return result;
}

#define DEFINE_FILL(bits, type)                                                                                        \
    CUresult cuMemsetD##bits##Async(CUdeviceptr pointer, type value, size_t count, CUstream stream)                    \
    {                                                                                                                  \
        return enqueue_fill(stream, (struct fill){.to = (char *)(uintptr_t)pointer, .width = count, .height = 1,       \
                                                  .value = value, .element = (bits) / 8});                             \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr pointer, size_t pitch, type value, size_t width, size_t height,      \
                                      CUstream stream)                                                                 \
    {                                                                                                                  \
        return enqueue_fill(stream, (struct fill){.to = (char *)(uintptr_t)pointer, .pitch = pitch, .width = width,    \
                                                  .height = height, .value = value, .element = (bits) / 8});           \
    }
DEFINE_FILL(8, unsigned char)
DEFINE_FILL(16, unsigned short)
DEFINE_FILL(32, unsigned int)
