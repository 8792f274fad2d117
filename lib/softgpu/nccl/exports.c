/* exports.c - every function of nccl.h under its two names. */
#include "softgpu/nccl/api.h"

#define SOFTNCCL_EXPORT(result, name, parameters, arguments)                                                 \
    result nccl##name parameters                                                                             \
    {                                                                                                        \
        return softnccl_##name arguments;                                                                    \
    }                                                                                                        \
    result pnccl##name parameters                                                                            \
    {                                                                                                        \
        return softnccl_##name arguments;                                                                    \
    }
PRISM_NCCL_FUNCTIONS(SOFTNCCL_EXPORT)
