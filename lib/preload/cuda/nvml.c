/* nvml.c - the devices of a node as NVML shows them, for programs that count or name devices through it, or ask for their memory
 * (PyTorch, monitors). All else of NVML passes through, with the physical device's handle.
 *
 * NVML knows no CUDA_VISIBLE_DEVICES: its indices are the node's. The handles of all logical devices are one, so that the
 * functions that pass through understand it; what a handle's own name is (index, UUID, PCI address) is answered for the
 * device that this thread asked a handle for last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"
#include "preload/memory/residence.h"
#include "preload/memory/vmm.h"

/* nvml.h, as far as it is needed. */
typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
enum { NVML_SUCCESS = 0, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_INSUFFICIENT_SIZE = 7, NVML_ERROR_LIBRARY_NOT_FOUND = 12 };
struct nvml_pci_3 {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

#define RESULT_NVML  nvmlReturn_t
#define LIBRARY_NVML REAL_NVML
#define MISSING_NVML NVML_ERROR_LIBRARY_NOT_FOUND

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device);

static PRISM_THREAD int asked; /* node index + 1 of the last handle asked for here, 0 = none */

static int asked_index(void)
{
    return asked ? asked - 1 : device_index(device_named());
}

/* CUDA numbers devices in an order of its own (fastest first), so a device that CUDA has started on is found by its PCI
 * address. Before that an ordinal is taken for NVML's, which is right where all devices are of one model. */
static nvmlReturn_t physical_handle(nvmlDevice_t *handle)
{
    const char *id = device_physical();
    char pci[32];
    __typeof__(&nvmlDeviceGetHandleByIndex_v2) by_index =
        REAL_NAMED(REAL_NVML, nvmlDeviceGetHandleByIndex_v2, "nvmlDeviceGetHandleByIndex_v2");
    __typeof__(&nvmlDeviceGetHandleByUUID) by_uuid =
        REAL_NAMED(REAL_NVML, nvmlDeviceGetHandleByUUID, "nvmlDeviceGetHandleByUUID");
    __typeof__(&nvmlDeviceGetHandleByPciBusId_v2) by_pci =
        REAL_NAMED(REAL_NVML, nvmlDeviceGetHandleByPciBusId_v2, "nvmlDeviceGetHandleByPciBusId_v2");
    __typeof__(&cuDeviceGetPCIBusId) pci_of = REAL_CU(cuDeviceGetPCIBusId);
    if (!by_index || !by_uuid || !by_pci)
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    if (pci_of && !pci_of(pci, sizeof pci, 0))
        return by_pci(pci, handle);
    return strchr(id, '-') ? by_uuid(id, handle) : by_index((unsigned)atoi(id), handle);
}

static nvmlReturn_t handle_of(int index, nvmlDevice_t *handle)
{
    if (index < 0 || index >= device_node_count() || !handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t r = physical_handle(handle);
    if (!r)
        asked = index + 1;
    return r;
}

static bool is_ours(nvmlDevice_t handle)
{
    nvmlDevice_t physical;
    return !physical_handle(&physical) && handle == physical;
}

#define COUNT(name)                                  \
    WRAP(NVML, name, (unsigned *count),              \
         nvmlReturn_t r = real(count);               \
         if (!r && device_is_logical())              \
             *count = (unsigned)device_node_count(); \
         return r;)
COUNT(nvmlDeviceGetCount)
COUNT(nvmlDeviceGetCount_v2)

#define HANDLE(name, type, index) \
    WRAP(NVML, name, (type key, nvmlDevice_t *device), return device_is_logical() ? handle_of(index, device) : real(key, device);)
HANDLE(nvmlDeviceGetHandleByIndex, unsigned, (int)key)
HANDLE(nvmlDeviceGetHandleByIndex_v2, unsigned, (int)key)
HANDLE(nvmlDeviceGetHandleByUUID, const char *, key ? device_by_uuid_text(key) : -1)
HANDLE(nvmlDeviceGetHandleByPciBusId, const char *, device_by_pci_text(key))
HANDLE(nvmlDeviceGetHandleByPciBusId_v2, const char *, device_by_pci_text(key))

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned length);
PRISM_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned length)
{
    FIND(NVML, nvmlDeviceGetUUID);
    nvmlReturn_t r = real(device, text, length);
    char ours[DEVICE_UUID_TEXT];
    if (r || !device_is_logical() || !is_ours(device))
        return r;
    device_uuid_text(asked_index(), ours);
    if (length < sizeof ours)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, ours, sizeof ours);
    return NVML_SUCCESS;
}

#define INDEX(name)                                          \
    WRAP(NVML, name, (nvmlDevice_t device, unsigned *index), \
         nvmlReturn_t r = real(device, index);               \
         if (!r && device_is_logical() && is_ours(device))   \
             *index = (unsigned)asked_index();               \
         return r;)
INDEX(nvmlDeviceGetIndex)
INDEX(nvmlDeviceGetMinorNumber)

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci_3 *pci);
PRISM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci_3 *pci)
{
    FIND(NVML, nvmlDeviceGetPciInfo_v3);
    nvmlReturn_t r = real(device, pci);
    if (r || !device_is_logical() || !is_ours(device))
        return r;
    struct device_pci ours = device_pci(asked_index());
    pci->domain = ours.domain;
    pci->bus = ours.bus;
    pci->device = ours.device;
    device_pci_text(asked_index(), pci->bus_id_legacy, sizeof pci->bus_id_legacy);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", ours.domain, ours.bus, ours.device);
    return NVML_SUCCESS;
}

/* --- memory: in capture the rank has a device of its own (vmm.h), of which other ranks take nothing --- */

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

/* False: nothing moves here, so the device is as it is. */
static bool own_free(nvmlDevice_t device, unsigned long long *free_bytes)
{
    uint64_t own, total;
    if (!residence_is_on() || !is_ours(device))
        return false;
    vmm_info(&own, &total);
    *free_bytes = own;
    return true;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory);
PRISM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory)
{
    FIND(NVML, nvmlDeviceGetMemoryInfo);
    nvmlReturn_t r = real(device, memory);
    if (!r && device_is_logical() && own_free(device, &memory->free))
        memory->used = memory->total - memory->free;
    return r;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_2 *memory);
PRISM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_2 *memory)
{
    FIND(NVML, nvmlDeviceGetMemoryInfo_v2);
    nvmlReturn_t r = real(device, memory);
    if (!r && device_is_logical() && own_free(device, &memory->free)) {
        unsigned long long taken = memory->reserved + memory->free;
        memory->used = taken < memory->total ? memory->total - taken : 0;
    }
    return r;
}
