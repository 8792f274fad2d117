/* real.h - the real CUDA, NCCL and NVML functions behind the interposed ones.
 *
 * libprism.so links none of these libraries. A function is looked for behind us in the global scope (RTLD_NEXT), then in
 * the library the process has loaded privately (Python loads its libraries RTLD_LOCAL), then in the library itself.
 */
#ifndef PRISM_PRELOAD_REAL_H
#define PRISM_PRELOAD_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

enum real_library { REAL_CUDA, REAL_CUDART, REAL_NCCL, REAL_NVML, REAL_LIBC };

/* Address of the real function, NULL when the library or the function is missing. Thread-safe; does not print. */
void *real_find(enum real_library library, const char *name);

/* For what runs inside dlsym: a sanitizer's runtime calls that before it is set up itself. */
#define REAL_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/* dlsym as the C library has it: never answers with our functions for handles other than RTLD_DEFAULT. */
void *real_dlsym(void *handle, const char *name);
void *real_dlsym_address(void);

/* Our own exported function of that name, NULL if we have none (only cu*, nccl*, pnccl*, nvml*). */
void *real_interposed(const char *name);
/* True for names that real_interposed looks for. */
bool real_may_be_ours(const char *name);
/* True if the address lies in this library. */
bool real_is_own(const void *address);

/* Version of the CUDA runtime that the process uses, 13000 for 13.0; 0 without one. */
int real_runtime_version(void);

/* Calls from the library that holds this function pass through from now on (NCCL's own threads). */
void real_exclude_library(const void *function);
bool real_is_excluded(const void *address);

/* The real function `name` with the type of its declaration, looked up once per place. */
#define REAL_NAMED(library, name, text)                                       \
    (__extension__({                                                          \
        static void *real_cached_;                                            \
        void *real_p_ = __atomic_load_n(&real_cached_, __ATOMIC_RELAXED);     \
        if (!real_p_) {                                                       \
            real_p_ = real_find(library, text);                               \
            __atomic_store_n(&real_cached_, real_p_, __ATOMIC_RELAXED);       \
        }                                                                     \
        (__typeof__(&name))real_p_;                                           \
    }))
#define REAL_TEXT_(name) #name
/* Expands versioned names first: REAL_CU(cuMemAlloc) looks for "cuMemAlloc_v2". */
#define REAL_TEXT(name) REAL_TEXT_(name)
#define REAL_CU(name) REAL_NAMED(REAL_CUDA, name, REAL_TEXT(name))

/* Driver functions that our own work on streams uses. Pointers, filled by driver_load. */
#define DRIVER_FUNCTIONS(F)                                                                                            \
    F(cuInit) F(cuDeviceGet) F(cuCtxGetDevice) F(cuDevicePrimaryCtxRetain) F(cuCtxGetCurrent) F(cuCtxSetCurrent) F(cuCtxSynchronize)     \
    F(cuMemHostRegister) F(cuMemHostGetDevicePointer) F(cuMemcpyAsync) F(cuMemcpyDtoHAsync) F(cuMemcpyHtoDAsync)       \
    F(cuMemcpyDtoDAsync) F(cuMemcpyDtoH) F(cuMemAlloc) F(cuMemFree) F(cuPointerGetAttribute) F(cuStreamCreate)         \
    F(cuStreamGetFlags) F(cuStreamWaitEvent) F(cuStreamWaitValue32) F(cuStreamWriteValue32) F(cuStreamIsCapturing)     \
    F(cuStreamBatchMemOp) F(cuStreamDestroy) F(cuModuleLoadData) F(cuModuleGetFunction) F(cuLaunchKernel)               \
    F(cuStreamSynchronize) F(cuThreadExchangeStreamCaptureMode) F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord)    \
    F(cuEventQuery) F(cuEventElapsedTime) F(cuGetErrorName) F(cuStreamQuery) F(cuMemGetInfo) F(cuMemCreate)            \
    F(cuMemRelease) F(cuMemMap) F(cuMemUnmap) F(cuMemSetAccess) F(cuMemAddressReserve) F(cuMemAddressFree)              \
    F(cuMemExportToShareableHandle) F(cuMemImportFromShareableHandle)

struct driver {
#define DRIVER_MEMBER_(name) __typeof__(&name) p_##name;
#define DRIVER_MEMBER(name) DRIVER_MEMBER_(name)
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
#undef DRIVER_MEMBER_
};
extern struct driver driver_;
/* driver(cuMemAlloc)(...) calls the real cuMemAlloc_v2. */
#define DRIVER_PASTE(name) driver_.p_##name
#define driver(name)       DRIVER_PASTE(name)

/* Fill driver_. Returns NULL, or the name of the first function that is missing. */
const char *driver_load(void);

#endif
