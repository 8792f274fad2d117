#include "preload/real.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct driver driver_;

typedef void *(*dlsym_fn)(void *handle, const char *name);

/* glibc 2.34 moved dlsym into libc.so.6 under a new version; older programs and libraries carry the first one. */
REAL_EARLY void *real_dlsym_address(void)
{
    static void *found;
    void *p = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (p)
        return p;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; !p && i < sizeof versions / sizeof *versions; i++)
        p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!p)
        abort(); /* not glibc: nothing here can work */
    __atomic_store_n(&found, p, __ATOMIC_RELAXED);
    return p;
}

void *real_dlsym(void *handle, const char *name)
{
    return ((dlsym_fn)real_dlsym_address())(handle, name);
}

REAL_EARLY bool real_may_be_ours(const char *name)
{
    return !strncmp(name, "cu", 2) || !strncmp(name, "nccl", 4) || !strncmp(name, "pnccl", 5) ||
           !strncmp(name, "nvml", 4) || !strncmp(name, "softgpu", 7);
}

void *real_interposed(const char *name)
{
    static void *self;
    if (!real_may_be_ours(name))
        return NULL;
    void *handle = __atomic_load_n(&self, __ATOMIC_RELAXED);
    if (!handle) {
        Dl_info info;
        if (!dladdr((void *)real_interposed, &info) || !info.dli_fname)
            return NULL;
        handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        if (!handle)
            return NULL;
        __atomic_store_n(&self, handle, __ATOMIC_RELAXED);
    }
    return real_dlsym(handle, name);
}

/* Of the linker: where this library begins and ends. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool real_is_own(const void *address)
{
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

/* --- a library whose calls are not the program's --- */

static uintptr_t excluded_begin, excluded_end;

static int find_range(struct dl_phdr_info *info, size_t size, void *wanted)
{
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        begin = at < begin ? at : begin;
        end = at + p->p_memsz > end ? at + p->p_memsz : end;
    }
    if ((uintptr_t)wanted < begin || (uintptr_t)wanted >= end)
        return 0;
    excluded_begin = begin;
    __atomic_store_n(&excluded_end, end, __ATOMIC_RELEASE);
    return 1;
}

void real_exclude_library(const void *function)
{
    dl_iterate_phdr(find_range, (void *)(uintptr_t)function);
}

bool real_is_excluded(const void *address)
{
    uintptr_t end = __atomic_load_n(&excluded_end, __ATOMIC_ACQUIRE);
    return (uintptr_t)address < end && (uintptr_t)address >= excluded_begin;
}

/* --- finding --- */

static void *open_library(enum real_library library)
{
    static void *handles[REAL_LIBC];
    static const char *const sonames[REAL_LIBC][4] = {
        [REAL_CUDA] = {"libcuda.so.1"},
        [REAL_CUDART] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
        [REAL_NCCL] = {"libnccl.so.2"},
        [REAL_NVML] = {"libnvidia-ml.so.1"},
    };
    void *handle = __atomic_load_n(&handles[library], __ATOMIC_RELAXED);
    for (int flags = RTLD_NOW | RTLD_NOLOAD; !handle; flags = RTLD_NOW) {
        for (int i = 0; i < 4 && sonames[library][i] && !handle; i++)
            handle = dlopen(sonames[library][i], flags);
        if (flags == RTLD_NOW)
            break;
    }
    __atomic_store_n(&handles[library], handle, __ATOMIC_RELAXED);
    return handle;
}

void *real_find(enum real_library library, const char *name)
{
    void *p = real_dlsym(RTLD_NEXT, name);
    if (p || library == REAL_LIBC)
        return p;
    void *handle = open_library(library);
    return handle ? real_dlsym(handle, name) : NULL;
}

int real_runtime_version(void)
{
    static int known; /* 0 = not asked yet */
    int version = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (version)
        return version;
    int (*get)(int *) = (int (*)(int *))real_find(REAL_CUDART, "cudaRuntimeGetVersion");
    if (!get || get(&version))
        return 0;
    __atomic_store_n(&known, version, __ATOMIC_RELAXED);
    return version;
}

const char *driver_load(void)
{
#define DRIVER_FIND(name)                                                  \
    if (!(driver(name) = (__typeof__(&name))real_find(REAL_CUDA, REAL_TEXT(name)))) \
        return REAL_TEXT(name);
    DRIVER_FUNCTIONS(DRIVER_FIND)
#undef DRIVER_FIND
    return NULL;
}
