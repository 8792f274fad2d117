/* symbols.c - libprism.so exports every function of nccl.h, and every NCCL function of the libraries that are here. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <nccl.h>

static void *prism;

/* Exported by NCCL 2.28 besides nccl.h and passed through, with or without p in front: the parts of nccl_device.h that
 * lead nowhere without ncclDevCommCreate (which is ours and refuses), and a hook of NCCL's own tools. */
static const char *const passed_through[] = {
    "ncclGinBarrierCreateRequirement", "ncclLLA2ACalcSlots", "ncclLLA2ACreateRequirement",
    "ncclLsaBarrierCreateRequirement", "ncclTeamLsa",        "ncclTeamRail",
    "ncclTeamRankToLsa",               "ncclTeamRankToWorld", "ncclTeamWorld",
    "ncclResetDebugInitInternal",      NULL,
};

static void *open_built(const char *name)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    *strrchr(path, '/') = '\0';
    snprintf(path + strlen(path), sizeof path - strlen(path), "/lib/%s", name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        print_message("%s\n", dlerror());
    return handle;
}

static int set_up(void **state)
{
    prism = open_built("libprism.so");
    return prism ? 0 : -1;
}

static void every_function_of_the_header(void **state)
{
#define LOOK(result, name, parameters, arguments)                  \
    if (!dlsym(prism, "nccl" #name) || !dlsym(prism, "pnccl" #name)) \
        fail_msg("libprism.so lacks nccl" #name " or pnccl" #name);
    PRISM_NCCL_FUNCTIONS(LOOK)
}

/* Symbols in a DT_GNU_HASH table: the highest one that a chain reaches. */
static uint32_t symbol_count(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static void compare_exports(void *library)
{
    struct link_map *map;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            strings = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_GNU_HASH)
            hash = (const void *)d->d_un.d_ptr;
    }
    assert_true(symbols && strings && hash);
    uint32_t seen = 0, n = symbol_count(hash);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = strings + symbols[i].st_name;
        bool known = strncmp(name, "nccl", 4) && strncmp(name, "pnccl", 5);
        if (known || !symbols[i].st_value || ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC)
            continue;
        for (size_t k = 0; passed_through[k]; k++)
            known |= !strcmp(name + (name[0] == 'p'), passed_through[k]);
        if (!known && !dlsym(prism, name))
            fail_msg("NCCL exports %s, libprism.so does not", name);
        seen++;
    }
    assert_true(seen > 60);
}

static void every_export_of_the_software_library(void **state)
{
    open_built("softgpu/libcuda.so.1");
    void *library = open_built("softgpu/libnccl.so.2");
    if (!library)
        skip();
    compare_exports(library);
}

static void every_export_of_the_real_library(void **state)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int version = 0;
    if (!library)
        skip();
    ncclResult_t (*get_version)(int *) = (__typeof__(get_version))dlsym(library, "ncclGetVersion");
    if (!get_version || get_version(&version) || version / 100 != 228)
        skip();
    compare_exports(library);
}

/* Anything else of ours would get in the way of the program's own symbols. */
static void nothing_else(void **state)
{
    static const char *const inner[] = {"session", "frame_enter", "log_error", "prism_log", "heap_take", "comm_of"};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        assert_null(dlsym(prism, inner[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_the_header),
        cmocka_unit_test(every_export_of_the_software_library),
        cmocka_unit_test(every_export_of_the_real_library),
        cmocka_unit_test(nothing_else),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
