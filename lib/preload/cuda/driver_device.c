/* driver_device.c - the driver's functions that take or give a device: logical devices for the program, also for CUDA
 * runtimes linked statically into it (device.h). cuMemCreate, and the ends of contexts, are in cuda_memory.c. */
#include <string.h>

#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"
#include "preload/environment.h"
#include "preload/memory/residence.h"
#include "preload/memory/vmm.h"

/* Here a plain name is that symbol: the first version of a function. */
#undef cuDeviceTotalMem
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxSetFlags
#undef cuMemPrefetchAsync
#undef cuMemAdvise

static bool is_visible(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count();
}

/* --- a device goes in, and that is all --- */

#define MAPPED(name, parameters, arguments) \
    WRAP(DRV, name, parameters, return real arguments;)
MAPPED(cuDeviceGetName, (char *name, int length, CUdevice device), (name, length, device_real(device)))
MAPPED(cuDeviceTotalMem, (unsigned *bytes, CUdevice device), (bytes, device_real(device)))
MAPPED(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device), (bytes, device_real(device)))
MAPPED(cuDeviceGetLuid, (char *luid, unsigned *mask, CUdevice device), (luid, mask, device_real(device)))
MAPPED(cuDeviceGetProperties, (void *properties, CUdevice device), (properties, device_real(device)))
MAPPED(cuDeviceComputeCapability, (int *major, int *minor, CUdevice device), (major, minor, device_real(device)))
MAPPED(cuDeviceGetTexture1DLinearMaxWidth, (size_t * width, int format, unsigned channels, CUdevice device),
       (width, format, channels, device_real(device)))
MAPPED(cuDeviceGetExecAffinitySupport, (int *value, int type, CUdevice device), (value, type, device_real(device)))
MAPPED(cuDeviceGetHostAtomicCapabilities, (unsigned *capabilities, const int *operations, unsigned n, CUdevice device),
       (capabilities, operations, n, device_real(device)))
MAPPED(cuDeviceGetDevResource, (CUdevice device, void *resource, int type), (device_real(device), resource, type))
MAPPED(cuGreenCtxCreate, (void **context, void *resources, CUdevice device, unsigned flags),
       (context, resources, device_real(device), flags))
MAPPED(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device_real(device)))
MAPPED(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device_real(device)))
MAPPED(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device_real(device), pool))
MAPPED(cuDeviceGraphMemTrim, (CUdevice device), (device_real(device)))
MAPPED(cuDeviceGetGraphMemAttribute, (CUdevice device, int attribute, void *value),
       (device_real(device), attribute, value))
MAPPED(cuDeviceSetGraphMemAttribute, (CUdevice device, int attribute, void *value),
       (device_real(device), attribute, value))
MAPPED(cuDeviceRegisterAsyncNotification, (CUdevice device, void *callback, void *data, void **handle),
       (device_real(device), callback, data, handle))
MAPPED(cuDeviceUnregisterAsyncNotification, (CUdevice device, void *handle), (device_real(device), handle))
MAPPED(cuKernelGetAttribute, (int *value, int attribute, CUkernel kernel, CUdevice device),
       (value, attribute, kernel, device_real(device)))
MAPPED(cuKernelSetAttribute, (int attribute, int value, CUkernel kernel, CUdevice device),
       (attribute, value, kernel, device_real(device)))
MAPPED(cuKernelSetCacheConfig, (CUkernel kernel, int config, CUdevice device), (kernel, config, device_real(device)))
MAPPED(cuArrayGetMemoryRequirements, (void *requirements, CUarray array, CUdevice device),
       (requirements, array, device_real(device)))
MAPPED(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), (device_real(device), flags))
MAPPED(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags), (device_real(device), flags))
MAPPED(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream),
       (pointer, count, device_real(device), stream))
MAPPED(cuMemPrefetchAsync_ptsz, (CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream),
       (pointer, count, device_real(device), stream))
MAPPED(cuMemPrefetchAsync_v2,
       (CUdeviceptr pointer, size_t count, CUmemLocation location, unsigned flags, CUstream stream),
       (pointer, count, device_map_location(location), flags, stream))
MAPPED(cuMemPrefetchAsync_v2_ptsz,
       (CUdeviceptr pointer, size_t count, CUmemLocation location, unsigned flags, CUstream stream),
       (pointer, count, device_map_location(location), flags, stream))
MAPPED(cuMemAdvise, (CUdeviceptr pointer, size_t count, CUmem_advise advice, CUdevice device),
       (pointer, count, advice, device_real(device)))
MAPPED(cuMemAdvise_v2, (CUdeviceptr pointer, size_t count, CUmem_advise advice, CUmemLocation location),
       (pointer, count, advice, device_map_location(location)))

/* --- contexts --- */

PRISM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FIND(DRV, cuDevicePrimaryCtxRetain);
    bool logical = device_is_logical();
    bool ours = frame_enter();
    CUresult r = real(context, device_real(device));
    if (ours)
        frame_leave();
    if (logical && !r) {
        device_name(device);
        device_activate(device, true);
    }
    return r;
}

#define RELEASE(name)                            \
    WRAP(DRV, name, (CUdevice device),           \
         CUresult r = real(device_real(device)); \
         device_unbind_all();                    \
         return r;)
RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)

#define CURRENT(name, parameters, arguments) \
    WRAP(DRV, name, parameters,              \
         device_unbind();                    \
         return real arguments;)
CURRENT(cuCtxSetCurrent, (CUcontext context), (context))
CURRENT(cuCtxPushCurrent_v2, (CUcontext context), (context))
CURRENT(cuCtxPopCurrent_v2, (CUcontext * context), (context))

PRISM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    FIND(DRV, cuDevicePrimaryCtxGetState);
    bool logical = device_is_logical();
    CUresult r = real(device_real(device), flags, active);
    if (logical && !r)
        *active = *active && device_is_active(device);
    return r;
}

/* The program's own context comes before our first use of a device, so CUDA only starts here. */
#define CREATE(name, parameters, arguments)  \
    WRAP(DRV, name, parameters,              \
         bool logical = device_is_logical(); \
         bool asked = environment_ask();     \
         CUresult r = real arguments;        \
         environment_answered(asked);        \
         device_unbind();                    \
         if (logical && !r)                  \
             device_name(device);            \
         return r;)
CREATE(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device_real(device)))
CREATE(cuCtxCreate_v3, (CUcontext * context, void *affinities, int n, unsigned flags, CUdevice device),
       (context, affinities, n, flags, device_real(device)))
CREATE(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams *parameters, unsigned flags, CUdevice device),
       (context, parameters, flags, device_real(device)))

/* --- a device comes out --- */

#define NAMED(name, parameters, arguments)   \
    WRAP(DRV, name, parameters,              \
         bool logical = device_is_logical(); \
         CUresult r = real arguments;        \
         if (logical && !r)                  \
             *device = device_named();       \
         return r;)
NAMED(cuCtxGetDevice, (CUdevice * device), (device))
NAMED(cuCtxGetDevice_v2, (CUdevice * device, CUcontext context), (device, context))
NAMED(cuStreamGetDevice, (CUstream stream, CUdevice *device), (stream, device))
NAMED(cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *device), (stream, device))

PRISM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    FIND(DRV, cuPointerGetAttribute);
    bool logical = device_is_logical();
    bool held = vmm_asking((const void *)(uintptr_t)pointer);
    CUresult r = real(data, attribute, pointer);
    vmm_asked(held);
    if (held && !r)
        vmm_correct_attribute(data, attribute, pointer);
    if (logical && !r && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && *(int *)data >= 0)
        *(int *)data = device_named();
    return r;
}

PRISM_EXPORT CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data,
                                             CUdeviceptr pointer)
{
    FIND(DRV, cuPointerGetAttributes);
    bool logical = device_is_logical();
    bool held = vmm_asking((const void *)(uintptr_t)pointer);
    CUresult r = real(n, attributes, data, pointer);
    vmm_asked(held);
    for (unsigned i = 0; held && !r && i < n; i++)
        vmm_correct_attribute(data[i], attributes[i], pointer);
    for (unsigned i = 0; logical && !r && i < n; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && *(int *)data[i] >= 0)
            *(int *)data[i] = device_named();
    return r;
}

PRISM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                             CUmemGenericAllocationHandle handle)
{
    FIND(DRV, cuMemGetAllocationPropertiesFromHandle);
    bool logical = device_is_logical();
    CUresult r = residence_is_on() && vmm_properties(properties, handle) ? CUDA_SUCCESS : real(properties, handle);
    if (logical && !r && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        properties->location.id = device_named();
    return r;
}

/* --- which devices there are --- */

PRISM_EXPORT CUresult cuDeviceGetCount(int *count)
{
    FIND(DRV, cuDeviceGetCount);
    bool logical = device_is_logical();
    CUresult r = real(count);
    if (logical && !r)
        *count = device_count();
    return r;
}

PRISM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    FIND(DRV, cuDeviceGet);
    bool logical = device_is_logical();
    CUresult r = real(device, device_real(ordinal));
    if (logical && !r)
        *device = ordinal;
    return r;
}

#define UUID(name)                                     \
    WRAP(DRV, name, (CUuuid *uuid, CUdevice device),   \
         bool logical = device_is_logical();           \
         CUresult r = real(uuid, device_real(device)); \
         if (logical && !r)                            \
             device_uuid(device_index(device), uuid);  \
         return r;)
UUID(cuDeviceGetUuid)
UUID(cuDeviceGetUuid_v2)

PRISM_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    FIND(DRV, cuDeviceGetAttribute);
    bool logical = device_is_logical();
    CUresult r = real(value, attribute, device_real(device));
    if (!logical || r)
        return r;
    struct device_pci pci = device_pci(device_index(device));
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = (int)pci.bus;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
        *value = (int)pci.device;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)
        *value = (int)pci.domain;
    return r;
}

PRISM_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    FIND(DRV, cuDeviceGetPCIBusId);
    bool logical = device_is_logical();
    CUresult r = real(text, length, device_real(device));
    if (logical && !r)
        device_pci_text(device_index(device), text, (size_t)length);
    return r;
}

PRISM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    FIND(DRV, cuDeviceGetByPCIBusId);
    if (!device || !text || !device_is_logical())
        return real(device, text);
    int ordinal = device_ordinal(device_by_pci_text(text));
    if (ordinal >= 0) {
        *device = ordinal;
        return CUDA_SUCCESS;
    }
    CUresult r = real(device, text);
    if (!r)
        *device = device_named();
    return r;
}

/* --- between devices --- */

PRISM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    FIND(DRV, cuDeviceCanAccessPeer);
    if (!can || !device_is_logical() || !is_visible(device) || !is_visible(peer))
        return real(can, device_real(device), device_real(peer));
    *can = device != peer;
    return CUDA_SUCCESS;
}

PRISM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
                                              CUdevice destination)
{
    FIND(DRV, cuDeviceGetP2PAttribute);
    if (!value || !device_is_logical() || !is_visible(source) || !is_visible(destination) || source == destination)
        return real(value, attribute, device_real(source), device_real(destination));
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}

/* Peers have one context, which has access to itself. */
static bool is_own_context(CUcontext peer)
{
    CUcontext now = NULL;
    __typeof__(&cuCtxGetCurrent) current = REAL_CU(cuCtxGetCurrent);
    return current && !current(&now) && now && now == peer;
}

PRISM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    FIND(DRV, cuCtxEnablePeerAccess);
    return device_is_logical() && is_own_context(peer) ? CUDA_SUCCESS : real(peer, flags);
}

PRISM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    FIND(DRV, cuCtxDisablePeerAccess);
    return device_is_logical() && is_own_context(peer) ? CUDA_SUCCESS : real(peer);
}

/* --- places of memory --- */

PRISM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                                    CUmemAllocationGranularity_flags option)
{
    FIND(DRV, cuMemGetAllocationGranularity);
    CUmemAllocationProp mapped;
    return real(granularity, device_map_allocation(properties, &mapped), option);
}

PRISM_EXPORT CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *list, size_t n)
{
    FIND(DRV, cuMemSetAccess);
    CUresult r;
    if (residence_is_on() && vmm_set_access(pointer, size, list, n, &r))
        return r;
    CUmemAccessDesc mapped[2 * DEVICES_MAX];
    if (!list || !n || n > 2 * DEVICES_MAX || !device_is_logical())
        return real(pointer, size, list, n);
    n = device_map_access(list, n, mapped);
    return n ? real(pointer, size, mapped, n) : CUDA_SUCCESS;
}

PRISM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    FIND(DRV, cuMemGetAccess);
    CUmemLocation mapped;
    if (location && device_is_mapped()) {
        mapped = device_map_location(*location);
        location = &mapped;
    }
    bool held = vmm_asking((const void *)(uintptr_t)pointer);
    CUresult r = real(flags, location, pointer);
    vmm_asked(held);
    return r;
}

PRISM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    FIND(DRV, cuMemPoolCreate);
    if (!properties || !device_is_mapped())
        return real(pool, properties);
    CUmemPoolProps mapped = *properties;
    mapped.location = device_map_location(mapped.location);
    return real(pool, &mapped);
}

PRISM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t n)
{
    FIND(DRV, cuMemPoolSetAccess);
    CUmemAccessDesc mapped[2 * DEVICES_MAX];
    if (!list || !n || n > 2 * DEVICES_MAX || !device_is_logical())
        return real(pool, list, n);
    n = device_map_access(list, n, mapped);
    return n ? real(pool, mapped, n) : CUDA_SUCCESS;
}

PRISM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    FIND(DRV, cuMemPoolGetAccess);
    if (!location || !device_is_mapped())
        return real(flags, pool, location);
    CUmemLocation mapped = device_map_location(*location);
    return real(flags, pool, &mapped);
}

#define POOL_OF_PLACE(name)                                                  \
    WRAP(DRV, name, (CUmemoryPool *pool, CUmemLocation *location, int type), \
         if (!location || !device_is_mapped())                               \
             return real(pool, location, type);                              \
         CUmemLocation mapped = device_map_location(*location);              \
         return real(pool, &mapped, type);)
POOL_OF_PLACE(cuMemGetDefaultMemPool)
POOL_OF_PLACE(cuMemGetMemPool)

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool);
PRISM_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
    FIND(DRV, cuMemSetMemPool);
    if (!location || !device_is_mapped())
        return real(location, type, pool);
    CUmemLocation mapped = device_map_location(*location);
    return real(&mapped, type, pool);
}

/* Private tables of the driver, which CUDA runtimes alone ask for. */
CUresult cuGetExportTable(const void **table, const CUuuid *id);
PRISM_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    FIND(DRV, cuGetExportTable);
    device_note_runtime(__builtin_return_address(0));
    return real(table, id);
}
