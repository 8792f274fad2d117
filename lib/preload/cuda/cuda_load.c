/* cuda_load.c - calls that load code onto the device without launching it, or may (memory/load.h). One branch each while
 * switching is off. Types that are enumerations or handles in CUDA's headers are integers and pointers here: nothing is read. */
#include "preload/cuda/wrap.h"
#include "preload/memory/load.h"

#define CALL(api, name, begin, parameters, arguments) \
    WRAP(api, name, parameters,                       \
         bool loads = begin;                          \
         RESULT_##api r = real arguments;             \
         if (loads)                                   \
             load_end();                              \
         return r;)

/* --- a function by name --- */

#define FUNCTION(name, parameters, arguments) \
    CALL(RT, name, load_begin(function), parameters, arguments)

FUNCTION(cudaFuncGetAttributes, (struct cudaFuncAttributes *attributes, const void *function), (attributes, function))
FUNCTION(cudaFuncSetAttribute, (const void *function, int attribute, int value), (function, attribute, value))
FUNCTION(cudaFuncSetCacheConfig, (const void *function, int config), (function, config))
FUNCTION(cudaGetFuncBySymbol, (CUfunction *found, const void *function), (found, function))
FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *function, int threads, size_t shared_bytes),
         (blocks, function, threads, shared_bytes))
FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int *blocks, const void *function, int threads, size_t shared_bytes, unsigned flags),
         (blocks, function, threads, shared_bytes, flags))
FUNCTION(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t *bytes, const void *function, int blocks, int threads),
         (bytes, function, blocks, threads))
FUNCTION(cudaOccupancyMaxActiveClusters, (int *clusters, const void *function, const cudaLaunchConfig_t *config),
         (clusters, function, config))

/* --- modules and libraries --- */

#define LOAD(name, parameters, arguments) \
    CALL(DRV, name, load_begin_code(), parameters, arguments)

LOAD(cuModuleLoad, (CUmodule *module, const char *path), (module, path))
LOAD(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
LOAD(cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned n, int *options, void **values),
     (module, image, n, options, values))
LOAD(cuModuleLoadFatBinary, (CUmodule *module, const void *image), (module, image))
LOAD(cuLibraryLoadData,
     (void **library, const void *code, int *jit, void **jit_values, unsigned njit, int *options, void **values, unsigned n),
     (library, code, jit, jit_values, njit, options, values, n))
LOAD(cuLibraryLoadFromFile,
     (void **library, const char *path, int *jit, void **jit_values, unsigned njit, int *options, void **values, unsigned n),
     (library, path, jit, jit_values, njit, options, values, n))
