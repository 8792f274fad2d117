/* devices_real.c - devices.c, compiled against the headers of an installed CUDA toolkit. */
#include "softgpu/test/devices.c"
