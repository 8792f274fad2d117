/* cuda_profiler_api.h - cudaProfilerStart and cudaProfilerStop; ours are in cuda_runtime_api.h. */
#include <cuda_runtime_api.h>
