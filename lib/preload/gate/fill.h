/* fill.h - control mode: what takes the place of results that it does not keep (coll/synthetic.h), made on the device.
 *
 *     kernel   one launch of prism_fill: stores of 16 bytes, at any address
 *     copies   where the kernel cannot be had: one copy of a block from the host, then each copy within the device doubles what is
 *              there, 11 calls of the driver for 67 MB
 *
 * Every call costs the live rank's host a few microseconds that the full job's does not have. session_lock held, but in fill_load.
 */
#ifndef PRISM_PRELOAD_FILL_H
#define PRISM_PRELOAD_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Blocks of a launch at most: four on each of an H200's 132 multiprocessors, half of the threads that it holds. Stores need no more
 * to fill its memory's width, and what computes meanwhile finds room. */
#define FILL_BLOCKS 528u

/* Session set-up, the context current: the driver compiles the kernel, which runs once, as its first launch loads it and would wait
 * for closed gates. Without a compiler in the driver a warning, and copies from then on. */
void fill_load(void);
/* to: bytes of the pattern of a datatype, which need not be a multiple of its size. */
void fill(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype);

/* The two ways, for those who compare them (tests/gpu/fill.c). by_kernel is false, and nothing is done, where the kernel cannot be
 * had, or not on that stream, which may be of another context; blocks: of the launch at most. */
bool fill_by_kernel(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype, uint32_t blocks);
void fill_by_copies(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype);

#endif
