/* library.c - loading the driver, errors, versions, entry points. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "softgpu/cudart/runtime.h"

static struct rt_driver driver;
static CUresult init_result = CUDA_ERROR_UNKNOWN;
static cudaError_t load_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local cudaError_t last_error;
_Thread_local int rt_device;

#define STRING(name) STRING_(name)
#define STRING_(name) #name

/* name after cuda.h's mapping, without its version: what cuGetProcAddress is asked for. */
static bool look_up(const char *mapped, void **function)
{
    char name[64];
    size_t n = strlen(mapped);
    if (n >= sizeof(name))
        return false;
    memcpy(name, mapped, n + 1);
    if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v')
        name[n - 3] = '\0';
    if (!strcmp(name, "cuGraphInstantiateWithFlags"))
        name[sizeof("cuGraphInstantiate") - 1] = '\0';
    return driver.get_proc_address(name, function, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) == CUDA_SUCCESS &&
           *function;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    load_error = cudaErrorInsufficientDriver;
    if (!library)
        return;
    *(void **)&driver.get_proc_address = dlsym(library, "cuGetProcAddress_v2");
    if (!driver.get_proc_address)
        return;
#define LOAD(name)                                      \
    if (!look_up(STRING(name), (void **)&driver.name)) \
        return;
    RT_DRIVER_CALLS(LOAD)
#undef LOAD
    load_error = cudaSuccess;
    init_result = driver.cuInit(0);
}

const struct rt_driver *rt_driver(void)
{
    return &driver;
}

cudaError_t rt_init(void)
{
    pthread_once(&once, load);
    return load_error != cudaSuccess ? load_error : (cudaError_t)init_result;
}

cudaError_t rt_context(void)
{
    CUcontext context;
    unsigned flags;
    cudaError_t error = rt_init();
    if (error != cudaSuccess)
        return error;
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_NOT_INITIALIZED ? cudaErrorInitializationError : (cudaError_t)result;
    if (context && driver.cuCtxGetFlags(&flags) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return cudaSuccess;
    result = driver.cuDevicePrimaryCtxRetain(&context, rt_device);
    if (result == CUDA_SUCCESS)
        result = driver.cuCtxSetCurrent(context);
    return (cudaError_t)result;
}

/* --- errors --- */

cudaError_t rt_set_error(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

/* The two sets of codes agree in value wherever both have the error. */
cudaError_t rt_result(CUresult result)
{
    return rt_set_error((cudaError_t)result);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct error_text {
    int code;
    const char *name, *text;
} errors[] = {
#define ERROR_BOTH(value, drv, runtime, text) {value, #runtime, text},
#define ERROR_DRIVER(value, drv, text)
#define ERROR_RUNTIME(value, runtime, text) {value, #runtime, text},
    PRISM_CUDA_ERRORS(ERROR_BOTH, ERROR_DRIVER, ERROR_RUNTIME)};

static const struct error_text *find_error(cudaError_t code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == (int)code)
            return &errors[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const struct error_text *found = find_error(error);
    return found ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const struct error_text *found = find_error(error);
    return found ? found->text : "unrecognized error code";
}

/* --- versions, entry points --- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return rt_set_error(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* 0 without a driver, and no error. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return rt_set_error(cudaErrorInvalidValue);
    *version = 0;
    rt_init();
    if (load_error == cudaSuccess)
        driver.cuDriverGetVersion(version);
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    RT_READY(rt_init());
    if (!symbol || !function)
        return rt_set_error(cudaErrorInvalidValue);
    CUresult result = driver.get_proc_address(symbol, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return rt_result(result);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

cudaError_t cudaProfilerStart(void)
{
    RT_PLAIN(cuProfilerStart);
}

cudaError_t cudaProfilerStop(void)
{
    RT_PLAIN(cuProfilerStop);
}
