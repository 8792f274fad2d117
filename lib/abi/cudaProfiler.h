/* cudaProfiler.h - cuProfilerStart and cuProfilerStop; ours are in cuda.h. */
#include <cuda.h>
