/* cuda_device.c - the runtime's functions that take or give a device: logical devices for the program (device.h). */
#include <stddef.h>
#include <string.h>

#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"
#include "preload/environment.h"
#include "preload/memory/vmm.h"

static bool is_visible(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count();
}

/* --- the current device --- */

PRISM_EXPORT cudaError_t cudaSetDevice(int device)
{
    FIND(RT, cudaSetDevice);
    bool logical = device_is_logical();
    /* Programs choose a device at every operation: no call of the runtime if it would change nothing. */
    if (logical && is_visible(device) && device_is_bound()) {
        device_set_current(device);
        return cudaSuccess;
    }
    bool ours = frame_enter();
    cudaError_t r = real(device_real(device));
    if (logical && !r) {
        device_set_current(device);
        device_bind();
    }
    if (ours)
        frame_leave();
    return r;
}

PRISM_EXPORT cudaError_t cudaGetDevice(int *device)
{
    FIND(RT, cudaGetDevice);
    if (!device || !device_is_logical())
        return real(device);
    *device = device_current();
    return cudaSuccess;
}

PRISM_EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    FIND(RT, cudaInitDevice);
    bool logical = device_is_logical();
    bool ours = frame_enter();
    cudaError_t r = real(device_real(device), device_flags, flags);
    if (ours)
        frame_leave();
    if (logical && !r)
        device_activate(device, true);
    return r;
}

/* A list of devices to try: any of them is the one. */
PRISM_EXPORT cudaError_t cudaSetValidDevices(int *devices, int n)
{
    FIND(RT, cudaSetValidDevices);
    int device = 0;
    if (!device_is_mapped() || !devices || n < 1)
        return real(devices, n);
    for (int i = 0; i < n; i++)
        if (!is_visible(devices[i]))
            device = device_real(devices[i]);
    return real(&device, 1);
}

/* --- questions --- */

PRISM_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    FIND(RT, cudaGetDeviceCount);
    bool logical = device_is_logical();
    bool asked = environment_ask();
    cudaError_t r = real(count);
    environment_answered(asked);
    if (logical && !r)
        *count = device_count();
    return logical && !r && !*count ? cudaErrorNoDevice : r;
}

/* Where the PCI address lies in the properties of runtimes before 13.0, both of cudaGetDeviceProperties and of its _v2
 * (bus, device, domain: driver_types.h of CUDA 12). */
#define PCI_OFFSET_12 584
#define PCI_OFFSET_13 offsetof(struct cudaDeviceProp, pciBusID)

static void identify(void *properties, int device, size_t pci_offset)
{
    int index = device_index(device);
    struct device_pci pci = device_pci(index);
    int address[3] = {(int)pci.bus, (int)pci.device, (int)pci.domain};
    device_uuid(index, (CUuuid *)(void *)((char *)properties + offsetof(struct cudaDeviceProp, uuid)));
    memcpy((char *)properties + pci_offset, address, sizeof address);
}

static cudaError_t properties_of(cudaError_t (*real)(struct cudaDeviceProp *, int), struct cudaDeviceProp *properties,
                                 int device, bool logical, size_t pci_offset)
{
    bool asked = environment_ask();
    cudaError_t r = real(properties, device_real(device));
    environment_answered(asked);
    if (logical && !r)
        identify(properties, device, pci_offset);
    return r;
}

PRISM_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    FIND(RT, cudaGetDeviceProperties);
    return properties_of(real, properties, device, device_is_logical(),
                         real_runtime_version() < 13000 ? PCI_OFFSET_12 : PCI_OFFSET_13);
}

/* CUDA 12 only. */
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *properties, int device);
PRISM_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *properties, int device)
{
    FIND(RT, cudaGetDeviceProperties_v2);
    return properties_of(real, properties, device, device_is_logical(), PCI_OFFSET_12);
}

PRISM_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    FIND(RT, cudaDeviceGetAttribute);
    bool logical = device_is_logical();
    cudaError_t r = real(value, attribute, device_real(device));
    if (!logical || r)
        return r;
    struct device_pci pci = device_pci(device_index(device));
    if (attribute == cudaDevAttrPciBusId)
        *value = (int)pci.bus;
    if (attribute == cudaDevAttrPciDeviceId)
        *value = (int)pci.device;
    if (attribute == cudaDevAttrPciDomainId)
        *value = (int)pci.domain;
    return r;
}

PRISM_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    FIND(RT, cudaDeviceGetPCIBusId);
    bool logical = device_is_logical();
    bool asked = environment_ask();
    cudaError_t r = real(text, length, device_real(device));
    environment_answered(asked);
    if (logical && !r)
        device_pci_text(device_index(device), text, (size_t)length);
    return r;
}

PRISM_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    FIND(RT, cudaDeviceGetByPCIBusId);
    if (!device || !text || !device_is_logical())
        return real(device, text);
    int ordinal = device_ordinal(device_by_pci_text(text));
    if (ordinal >= 0) {
        *device = ordinal;
        return cudaSuccess;
    }
    cudaError_t r = real(device, text);
    if (!r)
        *device = device_named();
    return r;
}

/* --- between devices: peers all over the node, as on NVLink; in truth there is one device --- */

PRISM_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    FIND(RT, cudaDeviceCanAccessPeer);
    if (!can || !device_is_logical() || !is_visible(device) || !is_visible(peer))
        return real(can, device_real(device), device_real(peer));
    *can = device != peer;
    return cudaSuccess;
}

PRISM_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    FIND(RT, cudaDeviceEnablePeerAccess);
    if (device_is_logical() && is_visible(peer) && peer != device_current())
        return cudaSuccess;
    return real(device_real(peer), flags);
}

PRISM_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    FIND(RT, cudaDeviceDisablePeerAccess);
    if (device_is_logical() && is_visible(peer) && peer != device_current())
        return cudaSuccess;
    return real(device_real(peer));
}

PRISM_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int source,
                                                   int destination)
{
    FIND(RT, cudaDeviceGetP2PAttribute);
    if (!value || !device_is_logical() || !is_visible(source) || !is_visible(destination) || source == destination)
        return real(value, attribute, device_real(source), device_real(destination));
    *value = attribute == cudaDevP2PAttrAccessSupported || attribute == cudaDevP2PAttrNativeAtomicSupported ||
             attribute == cudaDevP2PAttrCudaArrayAccessSupported;
    return cudaSuccess;
}

/* --- a device goes in, and that is all --- */

#define MAPPED(name, parameters, arguments) \
    WRAP(RT, name, parameters, return real arguments;)
MAPPED(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t count),
       (to, device_real(to_device), from, device_real(from_device), count))
MAPPED(cudaMemcpyPeerAsync,
       (void *to, int to_device, const void *from, int from_device, size_t count, cudaStream_t stream),
       (to, device_real(to_device), from, device_real(from_device), count, stream))
MAPPED(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), (pool, device_real(device)))
MAPPED(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), (pool, device_real(device)))
MAPPED(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), (device_real(device), pool))
MAPPED(cudaDeviceGraphMemTrim, (int device), (device_real(device)))
MAPPED(cudaDeviceGetGraphMemAttribute, (int device, int attribute, void *value), (device_real(device), attribute, value))
MAPPED(cudaDeviceSetGraphMemAttribute, (int device, int attribute, void *value), (device_real(device), attribute, value))
MAPPED(cudaDeviceGetTexture1DLinearMaxWidth, (size_t * width, const void *format, int device),
       (width, format, device_real(device)))
MAPPED(cudaDeviceGetHostAtomicCapabilities, (unsigned *capabilities, const int *operations, unsigned n, int device),
       (capabilities, operations, n, device_real(device)))
MAPPED(cudaDeviceRegisterAsyncNotification, (int device, void *callback, void *data, void **handle),
       (device_real(device), callback, data, handle))
MAPPED(cudaDeviceUnregisterAsyncNotification, (int device, void *handle), (device_real(device), handle))
MAPPED(cudaKernelSetAttributeForDevice, (void *kernel, int attribute, int value, int device),
       (kernel, attribute, value, device_real(device)))

/* --- a device comes out --- */

PRISM_EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    FIND(RT, cudaPointerGetAttributes);
    bool logical = device_is_logical();
    bool held = vmm_asking(pointer);
    cudaError_t r = real(attributes, pointer);
    vmm_asked(held);
    if (logical && !r && attributes->device >= 0)
        attributes->device = device_named();
    return r;
}

#define STREAM_DEVICE(name)                            \
    WRAP(RT, name, (cudaStream_t stream, int *device), \
         bool logical = device_is_logical();           \
         cudaError_t r = real(stream, device);         \
         if (logical && !r)                            \
             *device = device_named();                 \
         return r;)
STREAM_DEVICE(cudaStreamGetDevice)
STREAM_DEVICE(cudaStreamGetDevice_ptsz)

/* --- places of memory --- */

/* The runtime's and the driver's locations and access descriptions are the same structures. */
static struct cudaMemLocation map_location(struct cudaMemLocation location)
{
    if (location.type == cudaMemLocationTypeDevice)
        location.id = device_real(location.id);
    return location;
}

/* cudaMemPrefetchAsync and cudaMemAdvise take a device before CUDA 13 and a location since; both travel in one register,
 * a location with its type in the lower half. */
static uint64_t map_word(uint64_t word, bool location)
{
    if (!location)
        return (uint32_t)device_real((int)(uint32_t)word);
    struct cudaMemLocation l;
    memcpy(&l, &word, sizeof l);
    l = map_location(l);
    memcpy(&word, &l, sizeof word);
    return word;
}

typedef cudaError_t (*five_words_fn)(const void *, size_t, uint64_t, uint64_t, uint64_t);

static cudaError_t call_mapped(void *real, const void *pointer, size_t count, uint64_t words[3], int place, bool location)
{
    if (!real)
        return MISSING_RT;
    if (device_is_mapped())
        words[place] = map_word(words[place], location);
    return ((five_words_fn)real)(pointer, count, words[0], words[1], words[2]);
}

#define PLACED(function, name, place, location)                                                                        \
    cudaError_t function(const void *pointer, size_t count, uint64_t a, uint64_t b, uint64_t c) __asm__(name);         \
    PRISM_EXPORT cudaError_t function(const void *pointer, size_t count, uint64_t a, uint64_t b, uint64_t c)           \
    {                                                                                                                  \
        return call_mapped((void *)REAL_NAMED(REAL_CUDART, function, name), pointer, count, (uint64_t[]){a, b, c},     \
                           place, location);                                                                           \
    }
PLACED(prefetch, "cudaMemPrefetchAsync", 0, real_runtime_version() >= 13000)
PLACED(prefetch_ptsz, "cudaMemPrefetchAsync_ptsz", 0, real_runtime_version() >= 13000)
PLACED(prefetch_v2, "cudaMemPrefetchAsync_v2", 0, true)
PLACED(prefetch_v2_ptsz, "cudaMemPrefetchAsync_v2_ptsz", 0, true)
PLACED(advise, "cudaMemAdvise", 1, real_runtime_version() >= 13000)
PLACED(advise_v2, "cudaMemAdvise_v2", 1, true)

PRISM_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    FIND(RT, cudaMemPoolCreate);
    if (!properties || !device_is_mapped())
        return real(pool, properties);
    struct cudaMemPoolProps mapped = *properties;
    mapped.location = map_location(mapped.location);
    return real(pool, &mapped);
}

PRISM_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
    FIND(RT, cudaMemPoolSetAccess);
    CUmemAccessDesc mapped[2 * DEVICES_MAX];
    if (!list || !n || n > 2 * DEVICES_MAX || !device_is_logical())
        return real(pool, list, n);
    n = device_map_access((const CUmemAccessDesc *)(const void *)list, n, mapped);
    return n ? real(pool, (const struct cudaMemAccessDesc *)(const void *)mapped, n) : cudaSuccess;
}

PRISM_EXPORT cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                              struct cudaMemLocation *location)
{
    FIND(RT, cudaMemPoolGetAccess);
    if (!location || !device_is_mapped())
        return real(flags, pool, location);
    struct cudaMemLocation mapped = map_location(*location);
    return real(flags, pool, &mapped);
}

#define POOL_OF_PLACE(name)                                                           \
    WRAP(RT, name, (cudaMemPool_t *pool, struct cudaMemLocation *location, int type), \
         if (!location || !device_is_mapped())                                        \
             return real(pool, location, type);                                       \
         struct cudaMemLocation mapped = map_location(*location);                     \
         return real(pool, &mapped, type);)
POOL_OF_PLACE(cudaMemGetDefaultMemPool)
POOL_OF_PLACE(cudaMemGetMemPool)

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, int type, cudaMemPool_t pool);
PRISM_EXPORT cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, int type, cudaMemPool_t pool)
{
    FIND(RT, cudaMemSetMemPool);
    if (!location || !device_is_mapped())
        return real(location, type, pool);
    struct cudaMemLocation mapped = map_location(*location);
    return real(&mapped, type, pool);
}
