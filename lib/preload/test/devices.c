/* devices.c - what the tests of logical devices run as a rank: preload_devices ORDINAL LIBCUTEST LIBNVIDIA-ML, by way of runtime, driver, names and NVML.
 * Ends with "all true", or says which line was not. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#define TRUE(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            printf("line %d: not true: %s\n", __LINE__, #condition);    \
            exit(1);                                                    \
        }                                                               \
    } while (0)
#define OK(call) TRUE(!(int)(call))

static int device, count;

static void runtime_counts(void)
{
    int now = -1, can = -1;
    char text[32], other[32];
    OK(cudaGetDevice(&now));
    TRUE(!now);
    OK(cudaGetDeviceCount(&count));
    for (int i = 0; i < count; i++) {
        OK(cudaDeviceGetPCIBusId(text, sizeof text, i));
        OK(cudaDeviceGetByPCIBusId(&now, text));
        TRUE(now == i);
        OK(cudaDeviceGetPCIBusId(other, sizeof other, (i + 1) % count));
        TRUE(count == 1 || strcmp(text, other));
        OK(cudaDeviceCanAccessPeer(&can, i, (i + 1) % count));
        TRUE(can == (count > 1));
    }
    TRUE(cudaSetDevice(count) == cudaErrorInvalidDevice);
    cudaGetLastError();
    OK(cudaGetDevice(&now));
    TRUE(!now);
}

static void runtime_choice(void)
{
    int now = -1, attribute, other = (device + 1) % count;
    struct cudaDeviceProp properties;
    struct cudaPointerAttributes pointer;
    cudaMemPool_t pool;
    cudaStream_t stream;
    void *memory, *more;
    OK(cudaSetDevice(device));
    OK(cudaSetDevice(device)); /* the way that does not call the runtime */
    OK(cudaGetDevice(&now));
    TRUE(now == device);
    OK(cudaMalloc(&memory, 4096));
    OK(cudaMalloc(&more, 4096));
    OK(cudaPointerGetAttributes(&pointer, memory));
    TRUE(pointer.device == device);
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamGetDevice(stream, &now));
    TRUE(now == device);
    OK(cudaMemcpyPeer(more, device, memory, other, 4096));
    OK(cudaMemcpyPeerAsync(more, other, memory, device, 4096, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceGetDefaultMemPool(&pool, device));
    struct cudaMemAccessDesc access[2] = {{{cudaMemLocationTypeDevice, other}, cudaMemAccessFlagsProtReadWrite},
                                          {{cudaMemLocationTypeDevice, device}, cudaMemAccessFlagsProtReadWrite}};
    OK(cudaMemPoolSetAccess(pool, access, 2));
    OK(cudaGetDeviceProperties(&properties, device));
    OK(cudaDeviceGetAttribute(&attribute, cudaDevAttrPciDomainId, device));
    TRUE(properties.pciDomainID == attribute);
    OK(cudaDeviceGetAttribute(&attribute, cudaDevAttrPciDeviceId, device));
    TRUE(properties.pciDeviceID == attribute);
    TRUE(properties.totalGlobalMem > 0);
    TRUE(cudaDeviceGetAttribute(&attribute, cudaDevAttrWarpSize, count) == cudaErrorInvalidDevice);
    if (count > 1) {
        OK(cudaDeviceEnablePeerAccess(other, 0));
        OK(cudaDeviceDisablePeerAccess(other));
    }
    cudaGetLastError();
}

static void *other_thread(void *context)
{
    int now = -1;
    CUdevice named = -1;
    OK(cudaGetDevice(&now));
    TRUE(!now); /* CUDA's current device is each thread's own */
    OK(cuCtxSetCurrent(context));
    OK(cuCtxGetDevice(&named));
    TRUE(named == device);
    return NULL;
}

static void driver_view(void)
{
    int n = 0, active = -1, ordinal = -1;
    unsigned flags;
    CUdevice d = -1;
    CUuuid mine, others;
    CUcontext context;
    CUdeviceptr pointer, range;
    CUmemGenericAllocationHandle handle;
    pthread_t thread;
    OK(cuDeviceGetCount(&n));
    TRUE(n == count);
    OK(cuDeviceGet(&d, device));
    TRUE(d == device);
    TRUE(cuDeviceGet(&d, count) == CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetUuid(&mine, device));
    OK(cuDeviceGetUuid(&others, (device + 1) % count));
    TRUE(count == 1 || memcmp(&mine, &others, sizeof mine));
    struct cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, device));
    TRUE(!memcmp(&mine, &properties.uuid, sizeof mine));
    OK(cuCtxGetDevice(&d));
    TRUE(d == device);
    for (int i = 0; i < count; i++) {
        OK(cuDevicePrimaryCtxGetState(i, &flags, &active));
        TRUE(active == (i == device));
    }
    OK(cuMemAlloc(&pointer, 4096));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    TRUE(ordinal == device);
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    size_t unit = 0;
    OK(cuMemGetAllocationGranularity(&unit, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemCreate(&handle, unit, &where, 0));
    OK(cuMemAddressReserve(&range, unit, 0, 0, 0));
    OK(cuMemMap(range, unit, 0, handle, 0));
    CUmemAccessDesc access[2] = {{where.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {{CU_MEM_LOCATION_TYPE_DEVICE, (device + 1) % count}, CU_MEM_ACCESS_FLAGS_PROT_NONE}};
    OK(cuMemSetAccess(range, unit, access, 2));
    unsigned long long has = 0;
    OK(cuMemGetAccess(&has, &where.location, range));
    TRUE(has == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuCtxGetCurrent(&context));
    OK(pthread_create(&thread, NULL, other_thread, context));
    OK(pthread_join(thread, NULL));
}

/* As a CUDA runtime in the program's own executable does it: every function by name, contexts by device. */
static void static_runtime(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(&cuGetProcAddress) address = (__typeof__(&cuGetProcAddress))dlsym(driver, "cuGetProcAddress_v2");
    __typeof__(&cuDeviceGetCount) get_count = NULL;
    __typeof__(&cuDevicePrimaryCtxRetain) retain = NULL;
    __typeof__(&cuCtxGetDevice) get_device = NULL;
    CUdriverProcAddressQueryResult found;
    CUcontext context, current;
    CUdevice d = -1;
    int n = 0, other = count - 1 - device;
    OK(address("cuDeviceGetCount", (void **)&get_count, 13000, 0, &found));
    OK(address("cuDevicePrimaryCtxRetain", (void **)&retain, 13000, 0, &found));
    OK(address("cuCtxGetDevice", (void **)&get_device, 12000, 0, &found));
    OK(get_count(&n));
    TRUE(n == count);
    OK(retain(&context, other));
    OK(cuCtxGetCurrent(&current));
    TRUE(context == current);
    OK(get_device(&d));
    TRUE(d == other);
    OK(cudaGetDevice(&n)); /* which the runtime's own choice is not changed by */
    TRUE(n == device);
    OK(cudaSetDevice(device));
    OK(cuCtxSetCurrent(NULL));
    OK(cudaSetDevice(device)); /* brings the context back */
    OK(cuCtxGetCurrent(&current));
    TRUE(context == current);
}

/* One of NVIDIA's libraries, by its name, sees the one device that is there. */
static void native_view(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    TRUE(library);
    int (*look)(int *, int *, int *, char *) = (int (*)(int *, int *, int *, char *))dlsym(library, "native_look");
    int n = -1, driver_n = -1, now = -1, before = -1, after = -1;
    char pci[32];
    OK(cudaGetDevice(&before));
    OK(look(&n, &driver_n, &now, pci));
    printf("native %d %d %d %s\n", n, driver_n, now, pci);
    OK(cudaGetDevice(&after));
    TRUE(before == after);
}

typedef struct nvmlDevice_st *nvmlDevice_t;

static void nvml_view(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    TRUE(library);
    int (*get_count)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
    int (*by_index)(unsigned, nvmlDevice_t *) = (int (*)(unsigned, nvmlDevice_t *))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    int (*uuid_of)(nvmlDevice_t, char *, unsigned) = (int (*)(nvmlDevice_t, char *, unsigned))dlsym(library, "nvmlDeviceGetUUID");
    int (*by_uuid)(const char *, nvmlDevice_t *) = (int (*)(const char *, nvmlDevice_t *))dlsym(library, "nvmlDeviceGetHandleByUUID");
    int (*index_of)(nvmlDevice_t, unsigned *) = (int (*)(nvmlDevice_t, unsigned *))dlsym(library, "nvmlDeviceGetIndex");
    int (*name_of)(nvmlDevice_t, char *, unsigned) = (int (*)(nvmlDevice_t, char *, unsigned))dlsym(library, "nvmlDeviceGetName");
    unsigned n = 0, index = 99;
    nvmlDevice_t handle = NULL, again = NULL;
    char uuid[96], name[96];
    OK(get_count(&n));
    printf("nvml %u", n);
    OK(by_index(n - 1, &handle));
    OK(uuid_of(handle, uuid, sizeof uuid));
    OK(by_index(0, &again));
    TRUE(again == handle);
    OK(by_uuid(uuid, &again));
    OK(index_of(again, &index));
    TRUE(index == n - 1);
    OK(name_of(handle, name, sizeof name));
    printf(" %s %s\n", name, uuid);
    TRUE(by_index(n, &handle) == 2);
}

static void cost(void)
{
    struct timespec begin, end;
    int now;
    enum { CALLS = 100000 };
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++)
        cudaGetDevice(&now);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double get = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++)
        cudaSetDevice(device);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double set = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("nanoseconds: get %.1f set %.1f\n", get / CALLS, set / CALLS);
}

/* A program that asks for the driver's export tables has a runtime inside, which is told the truth. */
static void runtime_inside(void)
{
    static const CUuuid id = {{1}};
    const void *table;
    int n = 0;
    CUdevice d = -1;
    cuGetExportTable(&table, &id);
    OK(cuDeviceGetCount(&n));
    TRUE(n == 1);
    OK(cuCtxGetDevice(&d));
    TRUE(d == 0);
}

int main(int argc, char **argv)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    setvbuf(stdout, NULL, _IOLBF, 0);
    device = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 3)
        nvml_view(argv[3]);
    runtime_counts();
    printf("count %d visible %s\n", count, visible ? visible : "unset");
    runtime_choice();
    driver_view();
    static_runtime();
    if (argc > 2)
        native_view(argv[2]);
    if (argc > 3)
        nvml_view(argv[3]);
    cost();
    TRUE(visible == getenv("CUDA_VISIBLE_DEVICES") || !strcmp(visible, getenv("CUDA_VISIBLE_DEVICES")));
    int in_comm = -1;
    ncclUniqueId id;
    ncclComm_t comm;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclCommCuDevice(comm, &in_comm));
    TRUE(in_comm == (getenv("PRISM_SOCKET") ? device : 0)); /* real NCCL's own in a process that is no rank */
    OK(ncclCommDestroy(comm));
    runtime_inside();
    printf("all true\n");
    return 0;
}
