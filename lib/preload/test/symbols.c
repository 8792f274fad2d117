/* symbols.c - libprism.so exports every function of nccl.h, of every release from 2.18 to 2.30, and of the NCCL libraries
 * that are here, or passes it through knowingly. */
#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
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

/* Passed through knowingly, with or without p in front. They know neither communicators nor windows: sizes for
 * nccl_device.h, which lead nowhere without ncclDevCommCreate (refused); NCCL's settings; a hook of NCCL's own tools. */
static const char *const passed_through[] = {
    "ncclLLA2ACalcSlots", "ncclLLA2ACreateRequirement", "ncclLsaBarrierCreateRequirement",
    "ncclGinInboxA2ACreateRequirement", "ncclGinOutboxCreateRequirement",
    "ncclParamBind", "ncclParamDumpAll", "ncclParamGet", "ncclParamGetAllParameterKeys", "ncclParamGetI16",
    "ncclParamGetI32", "ncclParamGetI64", "ncclParamGetI8", "ncclParamGetParameter", "ncclParamGetStr",
    "ncclParamGetU16", "ncclParamGetU32", "ncclParamGetU64", "ncclParamGetU8",
    "ncclResetDebugInitInternal",
};

static bool is_passed_through(const char *name)
{
    for (size_t i = 0; i < sizeof passed_through / sizeof *passed_through; i++)
        if (!strcmp(name + (name[0] == 'p'), passed_through[i]))
            return true;
    return false;
}

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
        bool other = strncmp(name, "nccl", 4) && strncmp(name, "pnccl", 5);
        if (other || !symbols[i].st_value || ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC)
            continue;
        if (!is_passed_through(name) && !dlsym(prism, name))
            fail_msg("NCCL exports %s, which libprism.so neither has nor passes through knowingly", name);
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

/* All that are found where NVIDIA's packages put them, and those of $PRISM_TEST_NCCL (paths, separated by colons). */
static void every_export_of_real_libraries(void **state)
{
    static const char *const places[] = {"/usr/local/cuda*/lib64/libnccl.so.2", "/usr/lib/*/libnccl.so.2",
                                         "/usr/lib64/libnccl.so.2",
                                         "/usr/*/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"};
    char list[65536] = "libnccl.so.2", *rest = list;
    const char *more = getenv("PRISM_TEST_NCCL");
    size_t at = strlen(list);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        glob_t found;
        if (!glob(places[i], 0, NULL, &found))
            for (size_t k = 0; k < found.gl_pathc && at < sizeof list / 2; k++)
                at += (size_t)snprintf(list + at, sizeof list - at, ":%s", found.gl_pathv[k]);
        globfree(&found);
    }
    if (more)
        snprintf(list + at, sizeof list - at, ":%s", more);
    int compared = 0;
    for (const char *path; (path = strsep(&rest, ":"));) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            continue;
        compare_exports(library);
        compared++;
    }
    if (!compared)
        skip();
}

static void every_function_of_any_release(void **state)
{
    static const char *const names[] = {
#include "preload/test/nccl_functions.inc"
    };
    char second[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(second, sizeof second, "p%s", names[i]);
        if (!is_passed_through(names[i]) && (!dlsym(prism, names[i]) || !dlsym(prism, second)))
            fail_msg("libprism.so lacks %s or %s", names[i], second);
    }
    for (size_t i = 0; i < sizeof passed_through / sizeof *passed_through; i++)
        if (dlsym(prism, passed_through[i]))
            fail_msg("libprism.so has %s, which the list here calls passed through", passed_through[i]);
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
        cmocka_unit_test(every_export_of_real_libraries),
        cmocka_unit_test(every_function_of_any_release),
        cmocka_unit_test(nothing_else),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
