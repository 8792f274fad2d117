/* gates_real.c - gates.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/gates.c"
