/* nvtx.h - what a library needs to be told of a program's NVTX ranges: NVTX 3, as in the CUDA 13.0 toolkit's
 * nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h (Apache-2.0 WITH LLVM-exception; github.com/NVIDIA/NVTX, release 3).
 * lib/abi/test compares it with these.
 *
 * NVTX lies in the program, as headers. Each library that has it opens, at its first range, the library that
 * NVTX_INJECTION64_PATH names, and calls its InitializeInjectionNvtx2 with a function that gives tables: of the module's
 * functions the callee may put its own. 0: it wants nothing, and ranges are a look at a null pointer each.
 */
#ifndef PRISM_ABI_NVTX_H
#define PRISM_ABI_NVTX_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_VERSION               3
#define NVTX_NO_PUSH_POP_TRACKING  (-2) /* what a push or pop says that is not counted */

typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;

typedef enum nvtxMessageType_t {
    NVTX_MESSAGE_UNKNOWN = 0,
    NVTX_MESSAGE_TYPE_ASCII = 1,
    NVTX_MESSAGE_TYPE_UNICODE = 2,
    NVTX_MESSAGE_TYPE_REGISTERED = 3,
} nvtxMessageType_t;

typedef union nvtxMessageValue_t {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
    uint16_t version;
    uint16_t size; /* of this structure */
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType;
    int32_t reserved0;
    union {
        uint64_t ullValue;
        int64_t llValue;
        double dValue;
    } payload;
    int32_t messageType; /* nvtxMessageType_t */
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

/* --- what the program's NVTX offers --- */

typedef enum NvtxExportTableID { NVTX_ETID_CALLBACKS = 1 } NvtxExportTableID;

typedef enum NvtxCallbackModule {
    NVTX_CB_MODULE_CORE = 1,
    NVTX_CB_MODULE_CORE2 = 5, /* domains */
    NVTX_CB_MODULE_FORCE_INT = 0x7fffffff,
} NvtxCallbackModule;

/* Places in a module's table. */
typedef enum NvtxCallbackIdCore {
    NVTX_CBID_CORE_RangePushEx = 8,
    NVTX_CBID_CORE_RangePushA = 9,
    NVTX_CBID_CORE_RangePushW = 10,
    NVTX_CBID_CORE_RangePop = 11,
    NVTX_CBID_CORE_SIZE = 16,
} NvtxCallbackIdCore;

typedef enum NvtxCallbackIdCore2 {
    NVTX_CBID_CORE2_DomainRangePushEx = 4,
    NVTX_CBID_CORE2_DomainRangePop = 5,
    NVTX_CBID_CORE2_DomainRegisterStringA = 10,
    NVTX_CBID_CORE2_DomainRegisterStringW = 11,
    NVTX_CBID_CORE2_DomainCreateA = 12,
    NVTX_CBID_CORE2_DomainCreateW = 13,
    NVTX_CBID_CORE2_SIZE = 16,
} NvtxCallbackIdCore2;

typedef int (*nvtxRangePushEx_impl_fntype)(const nvtxEventAttributes_t *attributes);
typedef int (*nvtxRangePushA_impl_fntype)(const char *message);
typedef int (*nvtxRangePushW_impl_fntype)(const wchar_t *message);
typedef int (*nvtxRangePop_impl_fntype)(void);
typedef int (*nvtxDomainRangePushEx_impl_fntype)(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes);
typedef int (*nvtxDomainRangePop_impl_fntype)(nvtxDomainHandle_t domain);
typedef nvtxStringHandle_t (*nvtxDomainRegisterStringA_impl_fntype)(nvtxDomainHandle_t domain, const char *string);
typedef nvtxStringHandle_t (*nvtxDomainRegisterStringW_impl_fntype)(nvtxDomainHandle_t domain, const wchar_t *string);
typedef nvtxDomainHandle_t (*nvtxDomainCreateA_impl_fntype)(const char *name);
typedef nvtxDomainHandle_t (*nvtxDomainCreateW_impl_fntype)(const wchar_t *name);

typedef void (*NvtxFunctionPointer)(void);
typedef NvtxFunctionPointer **NvtxFunctionTable; /* entries point to where the module keeps its function; entry 0 is NULL */

typedef struct NvtxExportTableCallbacks {
    size_t struct_size;
    int (*GetModuleFunctionTable)(NvtxCallbackModule module, NvtxFunctionTable *table, unsigned int *size); /* 0: no such module */
} NvtxExportTableCallbacks;

typedef const void *(*NvtxGetExportTableFunc_t)(uint32_t table); /* NULL: not there */
typedef int (*NvtxInitializeInjectionNvtxFunc_t)(NvtxGetExportTableFunc_t get_table);

#endif
