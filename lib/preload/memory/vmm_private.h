/* vmm_private.h - what the files of vmm.h share; residence_lock held, the memory present unless it says so. */
#ifndef PRISM_PRELOAD_VMM_PRIVATE_H
#define PRISM_PRELOAD_VMM_PRIVATE_H

#include "preload/memory/physical.h"
#include "preload/memory/vmm.h"

/* vmm.c: granted physical memory, and giving it back (present or absent). */
CUresult vmm_range(uint64_t bytes, const CUmemAllocationProp *properties, struct range **range);
void vmm_drop_range(struct range *r);
CUresult vmm_alloc_locked(CUdeviceptr *address, uint64_t bytes);
bool vmm_free_locked(CUdeviceptr address); /* present or absent */
bool vmm_find_allocation(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes); /* in any state */
/* vmm_program.c */
bool vmm_find_mapping(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes); /* in any state */
/* vmm_async.c; present or absent. */
void vmm_reclaim_locked(void);
/* Wait for all frees under way (lock given up meanwhile); false if there are none. */
bool vmm_await_frees(void);

/* Index of the first of `count` entries behind address, in a table by address: entries of `size` bytes that begin with theirs. */
static inline size_t vmm_upper_bound(const void *table, size_t size, size_t count, CUdeviceptr address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (*(const CUdeviceptr *)((const char *)table + middle * size) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
