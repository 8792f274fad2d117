/* vmm.h - the program's device memory served from CUDA virtual memory, in capture with switching on (switch.h).
 *
 * 1. Allocations (cudaMalloc, cuMemAlloc, the pitched, pooled and NCCL's). As CUDA's own: up to 1 MiB out of 2 MiB blocks,
 *    first fit, 512-byte aligned; larger ones in multiples of 2 MiB, each a range of its own (physical.h), except that a rank
 *    that holds much takes those up to 20 MiB out of 80 MiB blocks.
 * 2. The program's own virtual memory (cuMemCreate and so on; PyTorch's expandable segments). It gets handles of ours,
 *    as the real one changes with every eviction. Memory that it exports or imports ties the rank to the device.
 * 3. Frees in stream order take effect when the stream gets there, looked up at later calls.
 *
 * Device errors come back as CUresult. All functions take residence_lock and sleep while the memory is being moved; those
 * that allocate sleep for memory, so session_lock must not be held, except where it says so.
 */
#ifndef PRISM_PRELOAD_VMM_H
#define PRISM_PRELOAD_VMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* --- 1 --- */

/* bytes > 0. */
CUresult vmm_alloc(CUdeviceptr *address, uint64_t bytes);
/* Free at once; the caller has synchronised. False: not an allocation of ours. Any thread, also while evicted. */
bool vmm_free(CUdeviceptr address);
/* The allocation or mapping that holds address; base and bytes may be NULL. May be called with session_lock held. */
bool vmm_find(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes);
static inline bool vmm_owns(const void *address)
{
    return vmm_find((CUdeviceptr)(uintptr_t)address, NULL, NULL);
}
/* Memory of ours that CUDA is about to be asked about: held until vmm_asked, which takes the answer of vmm_asking. */
bool vmm_asking(const void *address);
void vmm_asked(bool held);
/* Fill the attributes in which an address of ours differs from what CUDA says (the range is the program's allocation). */
void vmm_correct_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address);
void vmm_info(uint64_t *free_bytes, uint64_t *total_bytes);

/* --- 2; CUDA's functions of these names. Return false, nothing done: not ours, ask CUDA. --- */

bool vmm_create(CUmemGenericAllocationHandle *handle, uint64_t bytes, const CUmemAllocationProp *properties, CUresult *result);
bool vmm_release(CUmemGenericAllocationHandle handle, CUresult *result);
bool vmm_map(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemGenericAllocationHandle handle, CUresult *result);
bool vmm_unmap(CUdeviceptr address, uint64_t bytes, CUresult *result);
bool vmm_set_access(CUdeviceptr address, uint64_t bytes, const CUmemAccessDesc *descriptions, size_t n, CUresult *result);
bool vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address, CUresult *result);
bool vmm_export(void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags,
                CUresult *result);
bool vmm_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle);

/* --- 3 --- */

/* As vmm_alloc, in stream order: may use what the same stream has freed. */
CUresult vmm_alloc_async(CUdeviceptr *address, uint64_t bytes, CUstream stream);
/* False: not an allocation of ours. */
bool vmm_free_async(CUdeviceptr address, CUstream stream, CUresult *result);
/* Free what streams have passed. */
void vmm_reclaim(void);

#endif
