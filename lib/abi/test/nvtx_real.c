/* nvtx_real.c - nvtx.c against the NVTX of an installed CUDA toolkit. */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#define NVTX_REAL
#include "abi/test/nvtx.c"
