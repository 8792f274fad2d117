/* ranged_real.c - ranged.c with the NVTX of an installed CUDA toolkit. */
#define REAL_NVTX
#include "preload/test/ranged.c"
