/* library.c - initialisation, versions, errors, and looking up entry points. */
#include <string.h>

#include "softgpu/cuda/api.h"
#include "softgpu/cuda/symbols.h"

CUresult cuInit(unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : sg_init();
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static const struct error_text {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR_BOTH(value, driver, runtime, text) {driver, #driver, text},
#define ERROR_DRIVER(value, driver, text) {driver, #driver, text},
#define ERROR_RUNTIME(value, runtime, text)
    PRISM_CUDA_ERRORS(ERROR_BOTH, ERROR_DRIVER, ERROR_RUNTIME)};

static const struct error_text *find_error(CUresult code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    const struct error_text *error = find_error(code);
    *text = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    const struct error_text *error = find_error(code);
    *name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Private tables between NVIDIA's own libraries: we have none. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuProfilerStart(void)
{
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    return CUDA_SUCCESS;
}

/* --- entry points by name and version --- */

struct entry {
    const char *name;
    int since; /* version of CUDA that this form of the call came with */
    void *function, *per_thread;
};

static const struct entry entries[] = {
#define ENTRY(name, function, since) {#name, since, (void *)(function), (void *)(function)},
#define ENTRY_PTSZ(name, function, since) {#name, since, (void *)(function), (void *)(function##_ptsz)},
#define ENTRY_PTDS(name, function, since) {#name, since, (void *)(function), (void *)(function##_ptds)},
    SG_DRIVER_SYMBOLS(ENTRY, ENTRY_PTSZ, ENTRY_PTDS)};

/* The newest form that is not newer than cuda_version. */
static CUdriverProcAddressQueryResult find_entry(const char *symbol, int cuda_version, bool per_thread, void **function)
{
    const struct entry *best = NULL;
    bool known = false;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, symbol) != 0)
            continue;
        known = true;
        if (e->since <= cuda_version && (!best || e->since > best->since))
            best = e;
    }
    *function = best ? (per_thread ? best->per_thread : best->function) : NULL;
    return best    ? CU_GET_PROC_ADDRESS_SUCCESS
           : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !function)
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found =
        find_entry(symbol, cuda_version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, function);
    if (status)
        *status = found;
    return CUDA_SUCCESS; /* whatever was found: the function is NULL if nothing was (measured, driver 580) */
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int cuda_version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    if (!(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM))
        flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return cuGetProcAddress_v2(symbol, function, cuda_version, flags, status);
}

CUresult cuGetProcAddress_v1(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, cuda_version, flags, NULL);
}
