/* lookup.c - programs that ask for functions by name (dlsym, cuGetProcAddress, cudaGetDriverEntryPoint) get ours too.
 *
 * A CUDA runtime linked statically into a library finds the driver this way, so LD_PRELOAD alone would miss it.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "preload/cuda/device.h"
#include "preload/cuda/wrap.h"

/* What dlsym(handle, name) shall answer instead of the real function; NULL: leave it to the C library.
 * RTLD_DEFAULT finds us by itself, and RTLD_NEXT depends on who asks. */
void *lookup_dlsym(void *handle, const char *name);

REAL_EARLY __attribute__((used)) void *lookup_dlsym(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name)
        return NULL;
    if (!real_may_be_ours(name))
        return NULL;
    if (!real_dlsym(handle, name))
        return NULL;
    return real_interposed(name);
}

#if defined(__x86_64__)
/* The C library tells from the return address who asks for RTLD_NEXT, so this is a jump and never a call. */
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call lookup_dlsym\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    call real_dlsym_address\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "1:  .cfi_adjust_cfa_offset 24\n"
        "    addq $24, %rsp\n"
        "    .cfi_adjust_cfa_offset -24\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#else
PRISM_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    void *ours = lookup_dlsym(handle, name);
    if (ours)
        return ours;
    /* Compiled as a jump at -O2 (sibling call). */
    return ((void *(*)(void *, const char *))real_dlsym_address())(handle, name);
}
#endif

/* Functions of ours whose versions differ in their parameters, and the CUDA version that each came with (cudaTypedefs.h);
 * of all others with several versions the newest is what programs since CUDA 12.0 mean. */
static bool came_later(const char *name, int version)
{
    static const struct {
        const char *name;
        int since;
    } versions[] = {
        {"cuCtxCreate_v4", 12050},       {"cuCtxCreate_v3", 11040},     {"cuMemPrefetchAsync_v2", 12020},
        {"cuMemPrefetchAsync_v2_ptsz", 12020}, {"cuMemAdvise_v2", 12020}, {"cuCtxSynchronize_v2", 13000},
        {"cuCtxGetDevice_v2", 13000},
    };
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (!strcmp(name, versions[i].name))
            return version < versions[i].since;
    return false;
}

/* Our function for what the driver answered to `symbol`: the versioned name is found by comparing addresses. */
static void *entry_point(const char *symbol, void *real, int version, bool per_thread)
{
    static const char *const suffixes[] = {"_v4_ptsz", "_v3_ptsz", "_v2_ptsz", "_ptsz", "_v2_ptds", "_ptds",
                                           "_v4",      "_v3",      "_v2",      ""};
    char name[128];
    if (real_is_own(real)) /* a CUDA runtime that asks our own cuGetProcAddress */
        return real;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        if (real_find(REAL_CUDA, name) == real)
            return real_interposed(name);
    }
    /* A driver whose answers are not its exported symbols: since 12.0 the newest version we know is meant. */
    for (size_t i = per_thread ? 0 : 6; version >= 12000 && i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        void *ours = came_later(name, version) ? NULL : real_interposed(name);
        if (ours)
            return ours;
    }
    return NULL;
}

static void replace(const char *symbol, void **function, int version, bool per_thread)
{
    if ((session_is_off() && !device_is_mapped()) || !symbol || !function || !*function || strlen(symbol) > 100)
        return;
    void *ours = entry_point(symbol, *function, version, per_thread);
    if (ours)
        *function = ours;
}

#define PROC_ADDRESS(name, always_per_thread)                                                                          \
    WRAP(DRV, name,                                                                                                    \
         (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status), \
         CUresult r = real(symbol, function, version, flags, status);                                                  \
         if (r == CUDA_SUCCESS)                                                                                        \
             replace(symbol, function, version,                                                                        \
                     always_per_thread ? !(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM)                                  \
                                       : (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);                \
         return r;)
PROC_ADDRESS(cuGetProcAddress_v2, false)
PROC_ADDRESS(cuGetProcAddress_v2_ptsz, true)

/* The first version, for programs built before CUDA 12. Its symbol is the plain name, which cuda.h maps to the newest. */
typedef CUresult (*first_proc_address_fn)(const char *, void **, int, cuuint64_t);
CUresult lookup_first_proc_address(const char *symbol, void **function, int version, cuuint64_t flags) __asm__("cuGetProcAddress");
PRISM_EXPORT CUresult lookup_first_proc_address(const char *symbol, void **function, int version, cuuint64_t flags)
{
    first_proc_address_fn real = (first_proc_address_fn)real_find(REAL_CUDA, "cuGetProcAddress");
    if (!real)
        return CUDA_ERROR_NO_DEVICE;
    CUresult r = real(symbol, function, version, flags);
    if (r == CUDA_SUCCESS)
        replace(symbol, function, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    return r;
}

#define ENTRY_POINT(name, per_thread)                                                                                   \
    WRAP(RT, name,                                                                                                      \
         (const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status), \
         cudaError_t r = real(symbol, function, flags, status);                                                         \
         if (r == cudaSuccess)                                                                                          \
             replace(symbol, function, real_runtime_version(),                                                          \
                     per_thread ? !(flags & cudaEnableLegacyStream) : (flags & cudaEnablePerThreadDefaultStream) != 0); \
         return r;)
ENTRY_POINT(cudaGetDriverEntryPoint, false)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, true)

#define ENTRY_POINT_BY_VERSION(name, per_thread)                                                                        \
    WRAP(RT, name,                                                                                                      \
         (const char *symbol, void **function, unsigned int version, unsigned long long flags,                          \
          enum cudaDriverEntryPointQueryResult *status),                                                                \
         cudaError_t r = real(symbol, function, version, flags, status);                                                \
         if (r == cudaSuccess)                                                                                          \
             replace(symbol, function, (int)version,                                                                    \
                     per_thread ? !(flags & cudaEnableLegacyStream) : (flags & cudaEnablePerThreadDefaultStream) != 0); \
         return r;)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion, false)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz, true)
