/* nvtx.c - the library as NVTX's injection library: prismd names it in NVTX_INJECTION64_PATH, and a program's first range calls here.
 *
 * Names and domains are told apart by 64-bit hashes (common/range_name.h), which are the handles too.
 */
#include <nvtx.h>

#include "common/range_name.h"
#include "preload/nodes/marks.h"
#include "preload/preload.h"

PRISM_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static uint64_t hash_wide(const wchar_t *text)
{
    uint64_t hash = RANGE_NAME_BASIS;
    bool in_number = false;
    if (!text || !*text)
        return 0;
    for (; *text; text++)
        hash = range_name_letter(hash, (uint32_t)*text, &in_number);
    return hash | 1;
}

static uint64_t name_of(const nvtxEventAttributes_t *a)
{
    if (!a || a->size < sizeof *a)
        return 0;
    switch (a->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        return range_name(a->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
        return hash_wide(a->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        return (uintptr_t)a->message.registered;
    default:
        return 0;
    }
}

static int push_ex(const nvtxEventAttributes_t *attributes)
{
    return marks_push(name_of(attributes));
}

static int push_ascii(const char *message)
{
    return marks_push(range_name(message));
}

static int push_wide(const wchar_t *message)
{
    return marks_push(hash_wide(message));
}

/* Domains count their levels apart; nested as they are in a thread, one count for all tells better which range is outside. */
static int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    uint64_t name = name_of(attributes);
    return marks_push(name ? name ^ ((uintptr_t)domain & ~(uintptr_t)1) : 0);
}

static int domain_pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    return marks_pop();
}

static nvtxStringHandle_t register_ascii(nvtxDomainHandle_t domain, const char *string)
{
    (void)domain;
    return (nvtxStringHandle_t)(uintptr_t)range_name(string);
}

static nvtxStringHandle_t register_wide(nvtxDomainHandle_t domain, const wchar_t *string)
{
    (void)domain;
    return (nvtxStringHandle_t)(uintptr_t)hash_wide(string);
}

static nvtxDomainHandle_t create_ascii(const char *name)
{
    return (nvtxDomainHandle_t)(uintptr_t)range_name(name);
}

static nvtxDomainHandle_t create_wide(const wchar_t *name)
{
    return (nvtxDomainHandle_t)(uintptr_t)hash_wide(name);
}

struct subscription {
    NvtxCallbackModule module;
    unsigned id;
    NvtxFunctionPointer function;
};

static const struct subscription subscriptions[] = {
    {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushEx, (NvtxFunctionPointer)push_ex},
    {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushA, (NvtxFunctionPointer)push_ascii},
    {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushW, (NvtxFunctionPointer)push_wide},
    {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePop, (NvtxFunctionPointer)marks_pop},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)domain_push},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)domain_pop},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringA, (NvtxFunctionPointer)register_ascii},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringW, (NvtxFunctionPointer)register_wide},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create_ascii},
    {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateW, (NvtxFunctionPointer)create_wide},
};

/* Once for each library of the program that has NVTX in it; 0: its ranges stay what they are without a tool. */
PRISM_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = session_is_off() ? NULL : get_table(NVTX_ETID_CALLBACKS);
    int subscribed = 0;
    if (!callbacks || callbacks->struct_size < sizeof *callbacks)
        return 0;
    for (size_t i = 0; i < sizeof subscriptions / sizeof *subscriptions; i++) {
        const struct subscription *s = &subscriptions[i];
        NvtxFunctionTable table = NULL;
        unsigned size = 0;
        if (!callbacks->GetModuleFunctionTable(s->module, &table, &size) || !table || s->id >= size || !table[s->id])
            continue;
        *table[s->id] = s->function;
        subscribed = 1;
    }
    return subscribed;
}
