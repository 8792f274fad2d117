/* client.h - NVTX in a test program: as much of nvtx3/nvToolsExt.h as the tests call, made of lib/abi/nvtx.h, for machines without the CUDA
 * toolkit; where it is, the same programs are built a second time with NVIDIA's own (-DREAL_NVTX). One source file a program.
 */
#ifndef PRISM_TESTS_NVTX_CLIENT_H
#define PRISM_TESTS_NVTX_CLIENT_H

#ifdef REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#else

#include <dlfcn.h>
#include <stdlib.h>

#include <nvtx.h>

static struct {
    int begun; /* 1: the injection library has been looked for */
    nvtxRangePushEx_impl_fntype push_ex;
    nvtxRangePushA_impl_fntype push_ascii;
    nvtxRangePushW_impl_fntype push_wide;
    nvtxRangePop_impl_fntype pop;
    nvtxDomainRangePushEx_impl_fntype domain_push;
    nvtxDomainRangePop_impl_fntype domain_pop;
    nvtxDomainRegisterStringA_impl_fntype domain_register;
    nvtxDomainCreateA_impl_fntype domain_create;
} nvtx_own;

static int nvtx_table(NvtxCallbackModule module, NvtxFunctionTable *table, unsigned int *size)
{
    static NvtxFunctionPointer *core[NVTX_CBID_CORE_SIZE + 1] = {
        [NVTX_CBID_CORE_RangePushEx] = (NvtxFunctionPointer *)&nvtx_own.push_ex,
        [NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer *)&nvtx_own.push_ascii,
        [NVTX_CBID_CORE_RangePushW] = (NvtxFunctionPointer *)&nvtx_own.push_wide,
        [NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer *)&nvtx_own.pop,
    };
    static NvtxFunctionPointer *core2[NVTX_CBID_CORE2_SIZE + 1] = {
        [NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer *)&nvtx_own.domain_push,
        [NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer *)&nvtx_own.domain_pop,
        [NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer *)&nvtx_own.domain_register,
        [NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer *)&nvtx_own.domain_create,
    };
    *table = module == NVTX_CB_MODULE_CORE ? core : core2;
    *size = 16;
    return module == NVTX_CB_MODULE_CORE || module == NVTX_CB_MODULE_CORE2;
}

static const void *nvtx_export(uint32_t table)
{
    static const NvtxExportTableCallbacks callbacks = {sizeof callbacks, nvtx_table};
    return table == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void nvtx_begin(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = !nvtx_own.begun && path ? dlopen(path, RTLD_LAZY) : NULL;
    NvtxInitializeInjectionNvtxFunc_t init = NULL;
    nvtx_own.begun = 1;
    if (library)
        *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    if (init)
        init(nvtx_export);
}

static inline int nvtxRangePushEx(const nvtxEventAttributes_t *attributes)
{
    nvtx_begin();
    return nvtx_own.push_ex ? nvtx_own.push_ex(attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxRangePushA(const char *message)
{
    nvtx_begin();
    return nvtx_own.push_ascii ? nvtx_own.push_ascii(message) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxRangePushW(const wchar_t *message)
{
    nvtx_begin();
    return nvtx_own.push_wide ? nvtx_own.push_wide(message) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxRangePop(void)
{
    return nvtx_own.pop ? nvtx_own.pop() : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    nvtx_begin();
    return nvtx_own.domain_push ? nvtx_own.domain_push(domain, attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxDomainRangePop(nvtxDomainHandle_t domain)
{
    return nvtx_own.domain_pop ? nvtx_own.domain_pop(domain) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char *string)
{
    nvtx_begin();
    return nvtx_own.domain_register ? nvtx_own.domain_register(domain, string) : NULL;
}

static inline nvtxDomainHandle_t nvtxDomainCreateA(const char *name)
{
    nvtx_begin();
    return nvtx_own.domain_create ? nvtx_own.domain_create(name) : NULL;
}

#endif

#endif
