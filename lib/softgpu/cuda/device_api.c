/* device_api.c - what programs ask about devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/api.h"

#define DEVICE_OR_RETURN(ordinal, device)                \
    struct sg_device *device = sg_device_get(ordinal);   \
    if (sg_check_init() != CUDA_SUCCESS)                 \
        return CUDA_ERROR_NOT_INITIALIZED;               \
    if (!device)                                         \
        return CUDA_ERROR_INVALID_DEVICE

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    *device = d->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = sg_check_init();
    if (result == CUDA_SUCCESS)
        *count = sg_device_count();
    return result;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    (void)d;
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", sg_profile()->name);
    return CUDA_SUCCESS;
}

/* "Prism", the node and the index: the same device has the same UUID in every process. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    memset(uuid, 0, sizeof(*uuid));
    memcpy(uuid->bytes, "Prism", 5);
    uuid->bytes[8] = (char)(d->place.node >> 8);
    uuid->bytes[9] = (char)d->place.node;
    uuid->bytes[14] = (char)(d->place.index >> 8);
    uuid->bytes[15] = (char)d->place.index;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v1(CUuuid *uuid, CUdevice ordinal)
{
    return cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    (void)d;
    *bytes = sg_profile()->memory;
    return CUDA_SUCCESS;
}

struct attribute_value {
    CUdevice_attribute attribute;
    int value;
};

/* Attributes that are the same for every profile; those not named here or below are 0: absent. */
static const struct attribute_value fixed[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    if (!value || attribute <= 0 || attribute > CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = sg_profile()->multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = sg_profile()->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = sg_profile()->minor; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = d->place.node; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = d->place.index + 1; break;
    default:
        for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
            if (fixed[i].attribute == attribute)
                *value = fixed[i].value;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice ordinal)
{
    DEVICE_OR_RETURN(ordinal, d);
    if (!text || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)length, "%04X:%02X:00.0", d->place.node, d->place.index + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned node, bus;
    if (!device || !text || (sscanf(text, "%x:%x:", &node, &bus) != 2 && (node = 0, sscanf(text, "%x:", &bus) != 1)))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sg_device_count(); i++) {
        struct sg_device *d = sg_device_get(i);
        if (d->place.node == (int)node && d->place.index + 1 == (int)bus) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer)
{
    DEVICE_OR_RETURN(ordinal, d);
    if (!sg_device_get(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = d->ordinal != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)
{
    DEVICE_OR_RETURN(source, d);
    (void)d;
    if (!sg_device_get(destination) || source == destination)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}
