/* softgpu.h - the documented extension of the software GPU beyond CUDA.
 *
 * A program written for CUDA runs on the software GPU unchanged, except that there is no
 * instruction set: a "kernel" is a host function launched with the cost it would have on a device.
 * The device profile (etc/device) turns the cost into time; the function really runs, on the stream's thread,
 * so its results are real.
 *
 * Exported by libcuda.so.1 (looked up with dlsym by programs that also run on real CUDA).
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel costs. Device time = max(flops / device flops per second, bytes / device bytes per second)
 * + launch overhead, times the seeded jitter and, while communication is running on the same device, the
 * overlap slow-down of the profile. */
struct softgpuCost {
    double flops; /* floating-point operations */
    double bytes; /* bytes moved to and from device memory */
};

/* Launch fn as a kernel on stream (a CUstream / cudaStream_t; NULL is the legacy default stream).
 * args[0..args_bytes) is copied at launch, as kernel parameters are; fn gets a pointer to the copy.
 * Returns a CUresult value (0 = CUDA_SUCCESS). */
int softgpuLaunchHostFunc(void *stream, void (*fn)(void *args), const void *args, size_t args_bytes,
                          const struct softgpuCost *cost);

#ifdef __cplusplus
}
#endif
#endif
