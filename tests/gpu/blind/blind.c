/* blind.c - PyTorch's CUDA build on software GPUs, with kernels that do nothing: for rehearsals of what PyTorch does around them,
 * start-up, the c10d store, communicators, streams, allocations. Numbers and times mean nothing.
 *
 * Preloaded before lib/softgpu's libraries (tests/gpu/blind/python3), it is what compiled device code needs of the CUDA runtime:
 * the registration of kernels and the launches that nvcc makes of <<<>>>. A launch takes the time of a small kernel on the software
 * GPU. Of cuBLAS the functions that PyTorch's matrix products call, which do nothing either. Nothing else of the real
 * libraries is replaced: what needs cuDNN, cuSOLVER and the like fails as on a machine without a GPU.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dim3 { unsigned x, y, z; };

struct call_configuration {
    struct dim3 grid, block;
    size_t shared;
    void *stream;
};

/* --- kernels --- */

void **__cudaRegisterFatBinary(void *binary) { (void)binary; static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *tid, void *bid,
                            void *bdim, void *gdim, int *wsize)
{
    (void)handle, (void)host, (void)device, (void)name, (void)threads, (void)tid, (void)bid, (void)bdim, (void)gdim, (void)wsize;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)size, (void)constant, (void)global;
}

static _Thread_local struct call_configuration pushed;

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
    pushed = (struct call_configuration){grid, block, shared, stream};
    return 0;
}

int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *(void **)stream = pushed.stream;
    return 0;
}

static void nothing(void *arguments) { (void)arguments; }

static int launch(void *stream)
{
    static int (*host_func)(void *, void (*)(void *), const void *, size_t, const double *);
    static const double cost[2] = {0, 0}; /* struct softgpuCost */
    if (!host_func)
        *(void **)&host_func = dlsym(RTLD_DEFAULT, "softgpuLaunchHostFunc");
    return host_func(stream, nothing, "", 1, cost) ? 1 : 0;
}

int __cudaGetKernel(void **kernel, const void *host) { *kernel = (void *)host; return 0; }

int __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared;
    return launch(stream);
}

int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
    return __cudaLaunchKernel((void *)kernel, grid, block, args, shared, stream);
}

int cudaLaunchCooperativeKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
    return __cudaLaunchKernel((void *)kernel, grid, block, args, shared, stream);
}

/* struct cudaLaunchConfig_t: grid, block, dynamic shared memory, stream. */
int cudaLaunchKernelExC(const void *config, const void *kernel, void **args)
{
    const struct call_configuration *c = config;
    (void)kernel, (void)args;
    return launch(c->stream);
}

/* struct cudaFuncAttributes begins with three sizes; then ints: most threads of a block, registers, versions. */
int cudaFuncGetAttributes(void *attributes, const void *kernel)
{
    int *values = (int *)((size_t *)attributes + 3);
    (void)kernel;
    memset(attributes, 0, 3 * sizeof(size_t) + 8 * sizeof *values);
    values[0] = 1024, values[1] = 32, values[2] = values[3] = 90, values[5] = 48 << 10;
    return 0;
}

int cudaFuncSetAttribute(const void *kernel, int attribute, int value) { (void)kernel, (void)attribute, (void)value; return 0; }

int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared)
{
    (void)kernel, (void)threads, (void)shared;
    *blocks = 2;
    return 0;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared, unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}

int cudaGetSymbolAddress(void **address, const void *symbol) { *address = (void *)symbol; return 0; }
int cudaMemcpyToSymbol(const void *symbol, const void *source, size_t count, size_t offset, int kind)
{
    (void)symbol, (void)source, (void)count, (void)offset, (void)kind;
    return 0;
}

/* Nobody records graphs here. */
int cudaStreamGetCaptureInfo(void *stream, int *status, void *id, void *graph, void *nodes, void *edges, void *count)
{
    (void)stream, (void)id, (void)graph, (void)nodes, (void)edges, (void)count;
    *status = 0;
    return 0;
}

#define REFUSED(NAME) int NAME(void) { return 801; } /* cudaErrorNotSupported */
REFUSED(cudaGraphDebugDotPrint)
REFUSED(cudaGraphGetNodes)
REFUSED(cudaGraphInstantiateWithFlags)
REFUSED(cudaGraphNodeGetDependencies)
REFUSED(cuFileBufDeregister)
REFUSED(cuFileBufRegister)
REFUSED(cuFileHandleDeregister)
REFUSED(cuFileHandleRegister)
REFUSED(cuFileRead)
REFUSED(cuFileWrite)
REFUSED(ncclDevCommCreate)
REFUSED(ncclDevCommDestroy)

/* --- cuBLAS: the stream of a handle is all that is kept of it --- */

struct handle { void *stream; };

int cublasCreate_v2(void **handle) { *handle = calloc(1, sizeof(struct handle)); return 0; }
int cublasDestroy_v2(void *handle) { free(handle); return 0; }
int cublasSetStream_v2(struct handle *handle, void *stream) { handle->stream = stream; return 0; }
int cublasGetMathMode(void *handle, int *mode) { (void)handle, *mode = 0; return 0; }
int cublasGetPointerMode_v2(void *handle, int *mode) { (void)handle, *mode = 0; return 0; }

#define ACCEPTED(NAME) int NAME(void) { return 0; }
ACCEPTED(cublasSetWorkspace_v2)
ACCEPTED(cublasSetMathMode)
ACCEPTED(cublasSetPointerMode_v2)

#define PRODUCT(NAME) int NAME(struct handle *handle) { return launch(handle->stream); }
PRODUCT(cublasSgemm_v2)
PRODUCT(cublasSgemmEx)
PRODUCT(cublasSgemmStridedBatched)
PRODUCT(cublasGemmEx)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasSgemv_v2)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDotEx)
