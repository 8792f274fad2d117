/* memory_real.c - memory.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/memory.c"
