/* module.c - modules: PTX is recognised, not executed. The entries of its text are looked up by name in a table of kernels
 * that the software GPU knows (there is no instruction set); one that is not there makes the module unloadable. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/api.h"

#define MODULE_MAGIC 0x53474d44u
#define FUNCTION_MAGIC 0x53474655u

struct CUfunc_st {
    uint32_t magic;
    const char *name;
    bool single;            /* has one thread */
    enum sg_item_kind kind;
    size_t parameter_bytes; /* of the copy that the launch makes */
    void (*take)(void *copy, void **parameters);
    sg_work_fn run; /* frees the copy */
    bool loaded;    /* atomic: it has been launched */
};

struct CUmod_st {
    uint32_t magic;
    char *text;
};

/* --- prism_gate: write one word, wait for another as long as it takes, write a third. It polls, so it holds no
 * hardware queue. --- */

struct gate_copy {
    CUdeviceptr arrive, word, done;
    uint32_t generation;
};

static void take_gate(void *copy, void **parameters)
{
    struct gate_copy *g = copy;
    g->arrive = *(CUdeviceptr *)parameters[0];
    g->word = *(CUdeviceptr *)parameters[1];
    g->done = *(CUdeviceptr *)parameters[2];
    g->generation = *(uint32_t *)parameters[3];
}

static int64_t run_gate(void *copy, int64_t start_ns)
{
    struct gate_copy g = *(struct gate_copy *)copy;
    free(copy);
    if (g.arrive)
        sg_memop_write(g.arrive, g.generation);
    int64_t end = sg_memop_poll(g.word, g.generation, start_ns);
    if (g.done)
        sg_memop_write(g.done, g.generation);
    return end;
}

/* --- prism_fill: the byte at address a is pattern[a mod 2048], by any number of threads. A fill, whose pace it has: the
 * slow-motion memory of the profile is for the program's kernels. --- */

#define FILL_PERIOD 2048u

struct fill_copy {
    CUdeviceptr to;
    uint64_t bytes;
    uint8_t pattern[FILL_PERIOD];
};

static void take_fill(void *copy, void **parameters)
{
    struct fill_copy *f = copy;
    f->to = *(CUdeviceptr *)parameters[0];
    f->bytes = *(uint64_t *)parameters[1];
    memcpy(f->pattern, parameters[2], FILL_PERIOD);
}

static int64_t run_fill(void *copy, int64_t start_ns)
{
    const struct fill_copy *f = copy;
    int64_t duration = sg_fill_ns(f->bytes), began = sg_real_now();
    for (uint64_t at = f->to, end = at + f->bytes, n; at < end; at += n) {
        n = FILL_PERIOD - at % FILL_PERIOD;
        n = n < end - at ? n : end - at;
        memcpy((void *)(uintptr_t)at, f->pattern + at % FILL_PERIOD, n);
    }
    sg_count_item(sg_real_now() - began, duration);
    free(copy);
    return start_ns + duration;
}

static struct CUfunc_st known[] = {
    {FUNCTION_MAGIC, "prism_gate", true, SG_ITEM_QUEUED_SLEEPS, sizeof(struct gate_copy), take_gate, run_gate, false},
    {FUNCTION_MAGIC, "prism_fill", false, SG_ITEM_QUEUED, sizeof(struct fill_copy), take_fill, run_fill, false},
};

/* --- modules --- */

static struct CUfunc_st *find_known(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].name) == length && !strncmp(known[i].name, name, length))
            return &known[i];
    return NULL;
}

/* The name after the next ".entry"; *text goes on behind it. NULL: no more. */
static const char *next_entry(const char **text, size_t *length)
{
    const char *at = strstr(*text, ".entry");
    if (!at)
        return NULL;
    for (at += strlen(".entry"); isspace((unsigned char)*at); at++)
        ;
    for (*length = 0; isalnum((unsigned char)at[*length]) || strchr("_$", at[*length] ? at[*length] : ' '); ++*length)
        ;
    *text = at + *length;
    return at;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *text = image, *name;
    size_t length;
    SG_CONTEXT_OR_RETURN(context);
    (void)context;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if (strncmp(text, ".version", 8)) /* machine code */
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!sg_profile()->ptx_compiler)
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    while ((name = next_entry(&text, &length)))
        if (!find_known(name, length))
            return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *module = calloc(1, sizeof(**module));
    if (!*module || !((*module)->text = strdup(image))) {
        free(*module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*module)->magic = MODULE_MAGIC;
    return CUDA_SUCCESS;
}

/* The record stays, so that an unloaded module is an invalid handle and not a crash. */
CUresult cuModuleUnload(CUmodule module)
{
    if (!module || module->magic != MODULE_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    module->magic = 0;
    free(module->text);
    module->text = NULL;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    if (!module || module->magic != MODULE_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = module->text, *entry;
    size_t length;
    while ((entry = next_entry(&text, &length)))
        if (strlen(name) == length && !strncmp(entry, name, length)) {
            *function = find_known(name, length);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream handle, void **parameters, void **extra)
{
    if (!function || function->magic != FUNCTION_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!grid_x || !block_x || block_x > 1024 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes ||
        !parameters || extra || (function->single && (grid_x != 1 || block_x != 1)))
        return CUDA_ERROR_INVALID_VALUE; /* what is known has one dimension */
    SG_STREAM_OR_RETURN(handle, stream);
    if (sg_profile()->lazy_loading && !__atomic_exchange_n(&function->loaded, true, __ATOMIC_RELAXED))
        sg_context_load(stream->context);
    void *copy = malloc(function->parameter_bytes);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    function->take(copy, parameters);
    CUresult result = sg_enqueue(stream, function->kind, function->run, copy, NULL, NULL);
    if (result != CUDA_SUCCESS)
        free(copy);
    return result;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}
