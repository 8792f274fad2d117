/* facts.c - prints what a compiler makes of the CUDA and NCCL headers it was given: constants, sizes, offsets,
 * signatures. Compiled against lib/abi and, as facts_real.c, against the real headers; the test abi compares the two.
 */
#include <stddef.h>
#include <stdio.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#ifndef FACTS_NO_NCCL
#include <nccl.h>
#endif

#include "abi/cuda_errors.h"
#include "abi/test/facts_list.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the real headers deprecate some */

#define V(name) printf("value %s %lld\n", #name, (long long)(name));
#define S(type) printf("size %s %zu\n", #type, sizeof(type));
#define O(type, member) printf("offset %s.%s %zu\n", #type, #member, offsetof(type, member));
#define F(name, result, parameters)      \
    printf("signature %s %s\n", #name,   \
           __builtin_types_compatible_p(__typeof__(&name), result(*) parameters) ? "ok" : "differs");

static void print_cuda(void)
{
#define BOTH(value, driver, runtime, text) V(driver) V(runtime)
#define DRIVER(value, driver, text) V(driver)
#define RUNTIME(value, runtime, text) V(runtime)
    PRISM_CUDA_ERRORS(BOTH, DRIVER, RUNTIME)
    CUDA_VALUES(V)
    CUDA_SIZES(S)
    CUDA_OFFSETS(O)
    CUDA_FUNCTIONS(F)
    printf("value cudaStreamLegacy %p\nvalue cudaStreamPerThread %p\n", (void *)cudaStreamLegacy,
           (void *)cudaStreamPerThread);
}

#ifndef FACTS_NO_NCCL
static void print_nccl(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    NCCL_VALUES(V)
    NCCL_SIZES(S)
    NCCL_OFFSETS(O)
    NCCL_FUNCTIONS(F)
    printf("value config.magic %u\nvalue config.version %u\nvalue config.blocking %d\n", config.magic, config.version,
           config.blocking);
    printf("value info.magic %u\nvalue info.version %u\nvalue info.time %g\n", info.magic, info.version,
           (double)info.estimatedTime);
}
#endif

int main(void)
{
    print_cuda();
#ifndef FACTS_NO_NCCL
    print_nccl();
#endif
    return 0;
}
