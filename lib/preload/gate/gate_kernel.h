/* gate_kernel.h - a gate's wait as a kernel: one thread that polls, named prism_gate.
 *
 * A stream that stands at a closed wait value holds a hardware queue, and the last queue held stalls every stream. A
 * kernel that polls does not, which is what NCCL's kernels do too (measured on an H200: even with
 * CUDA_DEVICE_MAX_CONNECTIONS=1). Capture gives CUDA 32 queues instead, because kernels of a process take time slices from
 * the other ranks on the device; in calibration and emulation the program's own value rules, and
 *
 *     kernel      when, this gate counted, the streams with closed gates are as many as the queues less one, or more;
 *                 so with one or two queues always
 *     wait value  else
 *
 * session_lock held throughout, except in gate_kernel_load.
 */
#ifndef PRISM_PRELOAD_GATE_KERNEL_H
#define PRISM_PRELOAD_GATE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "preload/gate/streams.h"

/* Session set-up, the context current: the driver compiles the kernel, which runs once, so that later launches load
 * nothing (that could wait for closed gates). Without a compiler in the driver a warning, and all gates are wait values. */
void gate_kernel_load(void);
/* The next gate on the stream is to be a kernel. */
bool gate_kernel_wanted(const struct stream *s);
/* *arrive := generation; wait until *word has reached it; *done := generation. arrive and done may be 0: no write. */
void gate_kernel_launch(CUstream stream, CUdeviceptr arrive, CUdeviceptr word, CUdeviceptr done, uint32_t generation);

/* The number of queues that a value of CUDA_DEVICE_MAX_CONNECTIONS gives (NULL = unset): 1 to 32. */
uint32_t gate_kernel_queues(const char *value);

#endif
