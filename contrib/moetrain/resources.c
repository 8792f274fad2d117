#include "resources.h"

#include <stdlib.h>

#include "check.h"

enum kind { KIND_STREAM, KIND_EVENT, KIND_PINNED, KIND_HOST, KIND_DEVICE };

struct resource {
    struct resource *next;
    enum kind kind;
    void *handle;
};

static struct resource *resources;

static void *keep(enum kind kind, void *handle)
{
    struct resource *resource = malloc(sizeof *resource);
    if (!resource || !handle)
        die("out of host memory");
    *resource = (struct resource){resources, kind, handle};
    resources = resource;
    return handle;
}

cudaStream_t resource_stream(void)
{
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return keep(KIND_STREAM, stream);
}

static cudaEvent_t make_event(unsigned int flags)
{
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, flags | cudaEventBlockingSync));
    return keep(KIND_EVENT, event);
}

cudaEvent_t resource_event(void)
{
    return make_event(cudaEventDisableTiming);
}

cudaEvent_t resource_timer(void)
{
    return make_event(0);
}

void *resource_pinned(size_t bytes)
{
    void *address;
    CUDA_CHECK(cudaHostAlloc(&address, bytes ? bytes : 1, cudaHostAllocDefault));
    return keep(KIND_PINNED, address);
}

void *resource_host(size_t count, size_t size)
{
    return keep(KIND_HOST, calloc(count ? count : 1, size));
}

void *resource_device(size_t bytes)
{
    void *address;
    cudaError_t error = cudaMalloc(&address, bytes ? bytes : 1);
    if (error == cudaErrorMemoryAllocation)
        die("the device has no room for %zu bytes more: use a smaller model or micro-batch", bytes);
    CUDA_CHECK(error);
    return keep(KIND_DEVICE, address);
}

static void give_back(const struct resource *resource)
{
    switch (resource->kind) {
    case KIND_STREAM:
        CUDA_CHECK(cudaStreamDestroy(resource->handle));
        break;
    case KIND_EVENT:
        CUDA_CHECK(cudaEventDestroy(resource->handle));
        break;
    case KIND_PINNED:
        CUDA_CHECK(cudaFreeHost(resource->handle));
        break;
    case KIND_HOST:
        free(resource->handle);
        break;
    case KIND_DEVICE:
        CUDA_CHECK(cudaFree(resource->handle));
        break;
    }
}

void resources_release(void)
{
    CUDA_CHECK(cudaDeviceSynchronize());
    while (resources) {
        struct resource *resource = resources;
        resources = resource->next;
        give_back(resource);
        free(resource);
    }
}
