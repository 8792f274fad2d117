/* open.h - CUDA's driver and NCCL by name, for measuring programs that are built without either. */
#ifndef PRISM_TESTS_GPU_OPEN_H
#define PRISM_TESTS_GPU_OPEN_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>
#include <nccl.h>

#define OPEN_TEXT_(name) #name
#define OPEN_TEXT(name)  OPEN_TEXT_(name)

static void *open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s (PyTorch's libnccl.so.2 wants its folder in LD_LIBRARY_PATH)\n", dlerror());
        exit(69);
    }
    return library;
}

static void *open_name(void *library, const char *name)
{
    void *p = dlsym(library, name);
    if (!p) {
        fprintf(stderr, "no %s\n", name);
        exit(69);
    }
    return p;
}

static void *open_cuda, *open_nccl;

static inline void open_all(void)
{
    open_cuda = open_library("libcuda.so.1");
    open_nccl = open_library("libnccl.so.2");
}

/* CU(cuMemAlloc)(...): names are taken after macros have put their versions on. */
#define CU(name)   ((__typeof__(&name))open_name(open_cuda, OPEN_TEXT(name)))
#define NCCL(name) ((__typeof__(&name))open_name(open_nccl, #name))
#define MUST(call)                                                              \
    do {                                                                        \
        int must_ = (int)(call);                                                \
        if (must_) {                                                            \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, must_); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
