/* ranges_real.c - ranges.c with the NVTX of an installed CUDA toolkit. */
#define REAL_NVTX
#include "tests/system/ranges.c"
