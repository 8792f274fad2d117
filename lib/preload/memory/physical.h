/* physical.h - ranges: pieces of the device's physical memory, and where they are mapped.
 *
 * A range keeps its number, size and mappings while its physical memory comes and goes (eviction): physical_make creates
 * it, maps it at all its addresses and gives access, physical_take does so with memory of a rank that left, physical_drop is the
 * reverse. The memory is made so that it can be exported as a file descriptor. residence_lock held throughout, except physical_export and in the switch thread while
 * the memory is not present (residence.h).
 */
#ifndef PRISM_PRELOAD_PHYSICAL_H
#define PRISM_PRELOAD_PHYSICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#define PHYSICAL_GRAIN ((uint64_t)2 << 20) /* sizes and mapped addresses are multiples of it */

struct range {
    uint64_t number; /* never used twice */
    uint64_t bytes;
    CUmemGenericAllocationHandle handle; /* valid while made */
    bool made;
    int given; /* the descriptor that its memory came through (keep.h); -1 = it was made here */
    CUmemAllocationProp properties; /* as the program gave them; real ones differ in the handle type */
    struct mapping *mappings;       /* owned */
    uint32_t nmappings, mappings_cap;
    uint32_t handles; /* the program's references; our own allocations have one */
    struct range *previous, *next;
};

struct mapping {
    CUdeviceptr address;
    uint64_t bytes, offset;
    unsigned access; /* CUmemAccess_flags, 0 = none yet */
};

/* The rank's device, in CUDA's numbers. */
void physical_init(CUdevice device);
uint64_t physical_round(uint64_t bytes);

/* A new range with its memory; bytes are granted. CUDA's error, OUT_OF_MEMORY when the device refuses. */
CUresult physical_new(uint64_t bytes, const CUmemAllocationProp *properties, struct range **range);
/* Map a piece of the range; unmap the one at exactly that address. */
CUresult physical_map(struct range *r, CUdeviceptr address, uint64_t bytes, uint64_t offset);
CUresult physical_unmap(struct range *r, uint32_t mapping);
CUresult physical_access(struct range *r, uint32_t mapping, unsigned flags);
/* Unmap everything, release and forget the range (its memory may be absent). */
void physical_delete(struct range *r);
/* All ranges, newest first. */
struct range *physical_first(void);

/* --- eviction --- */

CUresult physical_make(struct range *r);
/* The same with memory that another rank made: `kept` is its descriptor. */
CUresult physical_take(struct range *r, int kept);
void physical_drop(struct range *r);
/* Its memory is like any other rank's of that size. */
bool physical_is_plain(const struct range *r);
/* A descriptor of the memory; the caller closes it. CUDA does not export what was imported: then it is another of what came. */
CUresult physical_export(const struct range *r, int *fd);

#endif
