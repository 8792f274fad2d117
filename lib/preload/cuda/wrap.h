/* wrap.h - how an interposed function begins: it finds the real one, and without it refuses as that API does without its library.
 *
 * An API is named RT (the CUDA runtime) or DRV (the driver); a file that interposes another one defines RESULT_, LIBRARY_ and
 * MISSING_ for it: what its functions return, where they are, and what is returned where they are not.
 */
#ifndef PRISM_PRELOAD_WRAP_H
#define PRISM_PRELOAD_WRAP_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "preload/preload.h"
#include "preload/real.h"

#define RESULT_RT   cudaError_t
#define LIBRARY_RT  REAL_CUDART
#define MISSING_RT  cudaErrorInsufficientDriver
#define RESULT_DRV  CUresult
#define LIBRARY_DRV REAL_CUDA
#define MISSING_DRV CUDA_ERROR_NO_DEVICE

/* A declaration of `real`, the real function of that name (which is expanded: cuMemFree is cuMemFree_v2); returns from the function
 * that it stands in if there is none. */
#define FIND(api, name)                                                        \
    __typeof__(&name) real = REAL_NAMED(LIBRARY_##api, name, REAL_TEXT(name)); \
    if (!real)                                                                 \
    return MISSING_##api

/* The exported function of that name. The statements of its body are the last argument, commas included; they have `real`. */
#define WRAP(api, name, parameters, ...)      \
    RESULT_##api name parameters;             \
    PRISM_EXPORT RESULT_##api name parameters \
    {                                         \
        FIND(api, name);                      \
        __VA_ARGS__                           \
    }

#endif
