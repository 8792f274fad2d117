/* per_thread_real.c - per_thread.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/per_thread.c"
