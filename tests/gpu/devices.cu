// devices.cu - a program with a CUDA runtime of its own inside (nvcc -cudart=static): it sees the one real device, number 0.
// Prints "ok NAME" or "failed NAME" a check. NCCL is opened by name: a communicator of one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

static const char *rank;

static void check(const char *name, bool fine, int error)
{
    printf("%s rank %s static %s", fine ? "ok" : "failed", rank, name);
    fine ? printf("\n") : printf(": error %d\n", error);
    fflush(stdout);
}

__global__ void add(float *x, float y)
{
    x[threadIdx.x] += y;
}

int main()
{
    rank = getenv("RANK");
    int n = -1, now = -1, e;
    e = cudaGetDeviceCount(&n);
    check("count", !e && n == 1, e ? e : n);
    e = cudaSetDevice(1);
    check("out of range", e == cudaErrorInvalidDevice, e);
    cudaGetLastError();
    e = cudaSetDevice(0);
    check("set", !e, e);
    e = cudaGetDevice(&now);
    check("get", !e && now == 0, e ? e : now);
    float *x, host[32] = {0};
    e = cudaMalloc(&x, sizeof host);
    check("malloc", !e, e);
    cudaPointerAttributes attributes;
    e = cudaPointerGetAttributes(&attributes, x);
    check("pointer", !e && attributes.device == 0, e ? e : attributes.device);
    cudaStream_t stream;
    e = cudaStreamCreate(&stream);
    check("stream", !e, e);
    e = cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, stream);
    add<<<1, 32, 0, stream>>>(x, 3);
    e = e ? e : cudaGetLastError();
    e = e ? e : cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
    e = e ? e : cudaStreamSynchronize(stream);
    check("kernel", !e && host[31] == 3, e);
    cudaDeviceProp p;
    e = cudaGetDeviceProperties(&p, 0);
    check("properties", !e && p.multiProcessorCount > 0, e);
    cudaMemPool_t pool;
    e = cudaDeviceGetDefaultMemPool(&pool, 0);
    check("pool", !e, e);
    void *y;
    e = cudaMallocAsync(&y, 1 << 20, stream);
    e = e ? e : cudaFreeAsync(y, stream);
    e = e ? e : cudaDeviceSynchronize();
    check("pool allocation", !e, e);
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW);
    struct unique_id {
        char bytes[128];
    } id;
    auto get_id = (int (*)(unique_id *))dlsym(nccl, "ncclGetUniqueId");
    auto init = (int (*)(void **, int, unique_id, int))dlsym(nccl, "ncclCommInitRank");
    auto device = (int (*)(void *, int *))dlsym(nccl, "ncclCommCuDevice");
    auto destroy = (int (*)(void *))dlsym(nccl, "ncclCommDestroy");
    void *comm;
    e = get_id(&id);
    e = e ? e : init(&comm, 1, id, 0);
    e = e ? e : device(comm, &now);
    check("communicator", !e && now == 0, e ? e : now);
    destroy(comm);
    return 0;
}
