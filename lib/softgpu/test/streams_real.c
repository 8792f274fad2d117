/* streams_real.c - streams.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/streams.c"
