/* untimed_real.c - untimed.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/untimed.c"
