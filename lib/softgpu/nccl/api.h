/* api.h - the functions of nccl.h as they are inside the library: softnccl_X is behind ncclX and pncclX
 * (exports.c), so that a preloaded ncclX can call pncclX and get the library's own. */
#ifndef SOFTGPU_NCCL_API_H
#define SOFTGPU_NCCL_API_H

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#define SOFTNCCL_DECLARE(result, name, parameters, arguments) result softnccl_##name parameters;
PRISM_NCCL_FUNCTIONS(SOFTNCCL_DECLARE)

/* cudaSetDevice by way of the driver interface. */
ncclResult_t sgn_select_device(int device);

#endif
