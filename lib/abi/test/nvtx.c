/* nvtx.c - prints what a compiler makes of NVTX's headers: as facts.c for CUDA's and NCCL's. */
#include <stddef.h>
#include <stdio.h>

#ifndef NVTX_REAL
#include <nvtx.h>
#endif

#define V(name) printf("value %s %lld\n", #name, (long long)(name));
#define S(type) printf("size %s %zu\n", #type, sizeof(type));
#define O(type, member) printf("offset %s.%s %zu\n", #type, #member, offsetof(type, member));
#define F(type, result, parameters) \
    printf("signature %s %s\n", #type, __builtin_types_compatible_p(type, result(*) parameters) ? "ok" : "differs");

int main(void)
{
    V(NVTX_VERSION) V(NVTX_NO_PUSH_POP_TRACKING)
    V(NVTX_MESSAGE_UNKNOWN) V(NVTX_MESSAGE_TYPE_ASCII) V(NVTX_MESSAGE_TYPE_UNICODE) V(NVTX_MESSAGE_TYPE_REGISTERED)
    V(NVTX_ETID_CALLBACKS) V(NVTX_CB_MODULE_CORE) V(NVTX_CB_MODULE_CORE2)
    V(NVTX_CBID_CORE_RangePushEx) V(NVTX_CBID_CORE_RangePushA) V(NVTX_CBID_CORE_RangePushW) V(NVTX_CBID_CORE_RangePop) V(NVTX_CBID_CORE_SIZE)
    V(NVTX_CBID_CORE2_DomainRangePushEx) V(NVTX_CBID_CORE2_DomainRangePop) V(NVTX_CBID_CORE2_DomainRegisterStringA)
    V(NVTX_CBID_CORE2_DomainRegisterStringW) V(NVTX_CBID_CORE2_DomainCreateA) V(NVTX_CBID_CORE2_DomainCreateW) V(NVTX_CBID_CORE2_SIZE)
    S(nvtxEventAttributes_t) S(nvtxMessageValue_t) S(NvtxExportTableCallbacks) S(NvtxCallbackModule) S(nvtxDomainHandle_t) S(nvtxStringHandle_t)
    O(nvtxEventAttributes_t, version) O(nvtxEventAttributes_t, size) O(nvtxEventAttributes_t, messageType) O(nvtxEventAttributes_t, message)
    O(NvtxExportTableCallbacks, struct_size) O(NvtxExportTableCallbacks, GetModuleFunctionTable)
    F(nvtxRangePushEx_impl_fntype, int, (const nvtxEventAttributes_t *))
    F(nvtxRangePushA_impl_fntype, int, (const char *))
    F(nvtxRangePushW_impl_fntype, int, (const wchar_t *))
    F(nvtxRangePop_impl_fntype, int, (void))
    F(nvtxDomainRangePushEx_impl_fntype, int, (nvtxDomainHandle_t, const nvtxEventAttributes_t *))
    F(nvtxDomainRangePop_impl_fntype, int, (nvtxDomainHandle_t))
    F(nvtxDomainRegisterStringA_impl_fntype, nvtxStringHandle_t, (nvtxDomainHandle_t, const char *))
    F(nvtxDomainRegisterStringW_impl_fntype, nvtxStringHandle_t, (nvtxDomainHandle_t, const wchar_t *))
    F(nvtxDomainCreateA_impl_fntype, nvtxDomainHandle_t, (const char *))
    F(nvtxDomainCreateW_impl_fntype, nvtxDomainHandle_t, (const wchar_t *))
    F(NvtxGetExportTableFunc_t, const void *, (uint32_t))
    F(NvtxInitializeInjectionNvtxFunc_t, int, (NvtxGetExportTableFunc_t))
    F(NvtxFunctionPointer, void, (void))
    return 0;
}
