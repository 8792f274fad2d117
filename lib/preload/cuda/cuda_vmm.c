/* cuda_vmm.c - the program's own virtual memory and what it asks about its memory, served by vmm.h while switching is on.
 * cuMemCreate and cuMemRelease are in cuda_memory.c, cuMemSetAccess and pointer attributes in driver_device.c. */
#include "common/log.h"
#include "preload/cuda/wrap.h"
#include "preload/memory/residence.h"
#include "preload/memory/switch.h"
#include "preload/memory/vmm.h"

/* ours: fills r and is false where CUDA is to be asked. */
#define SERVED(name, parameters, arguments, ours)         \
    WRAP(DRV, name, parameters,                           \
         CUresult r;                                      \
         if (residence_is_on() && !frame.depth && (ours)) \
             return r;                                    \
         return real arguments;)
SERVED(cuMemMap,
       (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
       (address, size, offset, handle, flags), !flags && vmm_map(address, size, offset, handle, &r))
SERVED(cuMemUnmap, (CUdeviceptr address, size_t size), (address, size), vmm_unmap(address, size, &r))
SERVED(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address), (handle, address),
       vmm_retain(handle, (CUdeviceptr)(uintptr_t)address, &r))
SERVED(cuMemExportToShareableHandle,
       (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags),
       (shared, handle, type, flags), vmm_export(shared, handle, type, flags, &r))

/* --- memory of other processes --- */

PRISM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                                     CUmemAllocationHandleType type)
{
    FIND(DRV, cuMemImportFromShareableHandle);
    if (residence_is_on() && !frame.depth)
        switch_tie("it uses device memory of other processes (cuMemImportFromShareableHandle)");
    return real(handle, shared, type);
}

static bool refuse_ipc(const void *pointer)
{
    if (!vmm_owns(pointer))
        return false;
    log_warn("rank %u: cudaIpcGetMemHandle is not possible in capture, where device memory moves off the device and back; "
             "use one process a rank or run without memory pressure", session.rank);
    return true;
}

#define IPC_HANDLE(api, name, refusal, parameters, arguments, pointer) \
    WRAP(api, name, parameters, return refuse_ipc((const void *)(uintptr_t)(pointer)) ? refusal : real arguments;)
IPC_HANDLE(RT, cudaIpcGetMemHandle, cudaErrorNotSupported, (cudaIpcMemHandle_t * handle, void *pointer), (handle, pointer),
           pointer)
IPC_HANDLE(DRV, cuIpcGetMemHandle, CUDA_ERROR_NOT_SUPPORTED, (CUipcMemHandle * handle, CUdeviceptr pointer), (handle, pointer),
           pointer)

/* --- questions --- */

PRISM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    FIND(DRV, cuMemGetAddressRange);
    CUdeviceptr own_base;
    uint64_t bytes;
    if (!vmm_find(pointer, &own_base, &bytes))
        return real(base, size, pointer);
    if (base)
        *base = own_base;
    if (size)
        *size = bytes;
    return CUDA_SUCCESS;
}

static void answer_info(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t own_free, own_total;
    vmm_info(&own_free, &own_total);
    if (free_bytes)
        *free_bytes = own_free;
    if (total_bytes)
        *total_bytes = own_total;
}

/* Asking for memory makes the process its rank, as any use of the device does. */
#define MEM_INFO(api, name)                                    \
    WRAP(api, name, (size_t *free_bytes, size_t *total_bytes), \
         bool ours = frame_enter();                            \
         RESULT_##api r = real(free_bytes, total_bytes);       \
         if (ours && !r && residence_is_on())                  \
             answer_info(free_bytes, total_bytes);             \
         if (ours)                                             \
             frame_leave();                                    \
         return r;)
MEM_INFO(RT, cudaMemGetInfo)
MEM_INFO(DRV, cuMemGetInfo)
