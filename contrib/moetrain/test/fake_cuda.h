/* fake_cuda.h - a device for unit tests in one process: memory is host memory, every call completes at once.
 * Just what moetrain uses, for a world of one (NCCL calls that need a peer abort). It defines the CUDA and
 * NCCL functions and softgpuLaunchHostFunc themselves: include it in one file of a test program that links
 * neither library. */
#ifndef MOETRAIN_FAKE_CUDA_H
#define MOETRAIN_FAKE_CUDA_H

/* Launches since the start. */
extern long fake_launches;

#endif
