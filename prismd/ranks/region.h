/* region.h - making the memory that a rank shares with prismd (proto/region.h): how large, and how.
 *
 * It is a memfd: nothing of it has a name, /dev/shm's size does not bound it, and the kernel counts its pages when they are touched.
 * So it costs address space only, of prismd for all its ranks and of each rank for its own.
 */
#ifndef PRISM_PRISMD_RANKS_REGION_H
#define PRISM_PRISMD_RANKS_REGION_H

#include "prismd/daemon.h"

/* Bytes of a region: 256 GiB, twice what one operation on the largest devices can be, as long as the regions of all ranks of the
 * node together are at most 32 TiB (a quarter of what x86-64 gives a process: 16 GiB each with 2,048 ranks) and at most a quarter
 * of the address space that limits leave; then a smaller power of two. A heap of staging bytes at least; never more than the
 * largest file that may be made. space, file: limits in bytes, UINT64_MAX = none. */
uint64_t rank_region_bytes(uint32_t ranks, uint64_t staging, uint64_t space, uint64_t file);

/* What a rank's operations in flight may take: wanted, or if that is 0 an eighth of the available memory shared by the ranks of
 * the node, between 256 MiB and 4 GiB. Where few ranks run, as in emulation, hosts then hardly ever wait for it, as
 * with NCCL itself; it is pinned as far as it is used. */
uint64_t rank_staging(uint64_t wanted, uint32_t ranks, uint64_t available);

/* Make and map the region of r: region, region_size, region_fd. -1 with errno. */
int rank_region_make(struct rank *r);

#endif
