/* cuda_runtime.h - for C programs the same as cuda_runtime_api.h; Prism's headers have no device code. */
#ifndef PRISM_ABI_CUDA_RUNTIME_H
#define PRISM_ABI_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#endif
