/* memory.c - capacity, rounding, what pointers are, copies, host memory, virtual memory, pools, killed processes. */
#include <signal.h>
#include <sys/mman.h>

#include "softgpu/test/child.h"

#define MIB ((size_t)1 << 20)

static size_t in_use(void)
{
    size_t unused, total;
    OK(cudaMemGetInfo(&unused, &total));
    CHECK(total == 64 * MIB); /* the test profile's */
    return total - unused;
}

/* --- capacity --- */

static void rounding(void)
{
    void *a, *b, *c;
    CHECK(in_use() == 0);
    OK(cudaMalloc(&a, 1));
    CHECK(in_use() == 2 * MIB); /* small ones share a block of 2 MiB */
    OK(cudaMalloc(&b, 513));
    CHECK(in_use() == 2 * MIB && (char *)b == (char *)a + 512);
    OK(cudaMalloc(&c, 3 * MIB + 1));
    CHECK(in_use() == 6 * MIB && (uintptr_t)c % (2 * MIB) == 0);
    OK(cudaFree(a));
    OK(cudaMalloc(&a, 512));
    CHECK((char *)b == (char *)a + 512); /* first fit */
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
    CHECK(in_use() == 0);
    OK(cudaMalloc(&a, 0));
    CHECK(a == NULL);
    OK(cudaFree(NULL));
    CHECK_IS(cudaFree(&a), cudaErrorInvalidValue);
    CUdeviceptr pointer;
    CHECK_IS(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
}
IN_CHILD(rounding)

static void out_of_memory(void)
{
    void *a, *b, *c = (void *)1;
    OK(cudaMalloc(&a, 40 * MIB));
    CHECK_IS(cudaMalloc(&b, 25 * MIB), cudaErrorMemoryAllocation);
    CHECK_IS(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
    OK(cudaMalloc(&b, 24 * MIB));
    CHECK_IS(cudaMalloc(&c, 1), cudaErrorMemoryAllocation);
    OK(cudaFree(a));
    OK(cudaMalloc(&c, 1));
    CHECK_IS(cudaMalloc(&a, (size_t)-1), cudaErrorMemoryAllocation);
    CHECK_IS(cudaMallocPitch(&a, &(size_t){0}, 100 * MIB, 1), cudaErrorMemoryAllocation);
}
IN_CHILD(out_of_memory)

/* Device 1 of this process and of the next one are the same device. */
static int pipe_fds[2];

static void holder(void)
{
    void *a;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&a, 60 * MIB));
    CHECK(write(pipe_fds[1], "x", 1) == 1);
    pause(); /* until killed */
}

static void after_kill(void)
{
    void *a;
    OK(cudaSetDevice(1));
    CHECK(in_use() == 0);
    OK(cudaMalloc(&a, 60 * MIB));
}

static void neighbour(void)
{
    void *a;
    OK(cudaSetDevice(1));
    CHECK(in_use() == 60 * MIB);
    CHECK_IS(cudaMalloc(&a, 6 * MIB), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&a, 4 * MIB));
    OK(cudaSetDevice(0));
    CHECK(in_use() == 0);
}

static void test_killed_process_returns_memory(void **state)
{
    char c;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = start_child(holder);
    assert_int_equal(read(pipe_fds[0], &c, 1), 1);
    in_child(neighbour);
    kill(pid, SIGKILL);
    assert_true(WIFSIGNALED(child_status(pid)));
    in_child(after_kill);
}

/* --- copies --- */

static void copies(void)
{
    enum { N = 300000 };
    unsigned char *host = malloc(N), *back = calloc(1, N), *pinned;
    void *a, *b;
    cudaStream_t stream;
    CHECK(host && back);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&pinned, N));
    OK(cudaMalloc(&a, N));
    OK(cudaMalloc(&b, N));
    for (int i = 0; i < N; i++)
        host[i] = (unsigned char)(i * 7);
    launch_ms(stream, no_work, NULL, 20);
    OK(cudaMemcpyAsync(a, host, N, cudaMemcpyHostToDevice, stream));
    memset(host, 0, N); /* pageable memory has been read when the call returns */
    OK(cudaMemcpyAsync(b, a, N, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync(pinned, b, N, cudaMemcpyDefault, stream));
    OK(cudaMemcpyAsync(back, b, N, cudaMemcpyDeviceToHost, stream)); /* done when it returns, too */
    for (int i = 0; i < N; i++)
        CHECK(back[i] == (unsigned char)(i * 7) && pinned[i] == back[i]);
    OK(cudaMemset(a, 0xab, N));
    OK(cudaMemcpy(back, a, N, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 0xab && back[N - 1] == 0xab);
    CHECK_IS(cudaMemcpy(back, (char *)a + N - 1, 1000, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    CHECK_IS(cudaMemcpy(back, a, 1, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    OK(cudaFreeHost(pinned));
    free(host);
    free(back);
}
IN_CHILD(copies)

static void shaped_copies(void)
{
    unsigned char host[8 * 10], back[5 * 4];
    void *a;
    size_t pitch;
    for (int i = 0; i < 80; i++)
        host[i] = (unsigned char)i;
    OK(cudaMallocPitch(&a, &pitch, 10, 8));
    CHECK(pitch == 512);
    OK(cudaMemset2D(a, pitch, 0xff, 10, 8));
    OK(cudaMemcpy2D(a, pitch, host, 10, 10, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(back, 5, (char *)a + 2 * pitch + 3, pitch, 5, 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 5; x++)
            CHECK(back[5 * y + x] == 10 * (y + 2) + x + 3);
    struct cudaMemcpy3DParms p = {.srcPtr = {a, pitch, 10, 4}, .srcPos = {3, 1, 1}, .dstPtr = {back, 2, 2, 2},
                                  .extent = {2, 2, 1}, .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3D(&p)); /* the same memory as two planes of four rows */
    CHECK(back[0] == 53 && back[1] == 54 && back[2] == 63 && back[3] == 64);
    CUdeviceptr d = (CUdeviceptr)(uintptr_t)a;
    unsigned words[2];
    OK(cuMemsetD32(d, 0x01020304, 2));
    OK(cuMemcpyDtoH(words, d, 8));
    CHECK(words[0] == 0x01020304 && words[1] == 0x01020304);
    CHECK_IS(cudaMemcpy2D(a, 4, host, 10, 10, 8, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
}
IN_CHILD(shaped_copies)

/* --- host memory and what pointers are --- */

static enum cudaMemoryType type_of(const void *pointer, int *device)
{
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, pointer));
    *device = attributes.device;
    return attributes.type;
}

static void pointers(void)
{
    void *device_memory, *pinned, *managed, *plain = malloc(8192), *mapped;
    int device;
    OK(cudaSetDevice(2));
    OK(cudaMalloc(&device_memory, 1000));
    OK(cudaHostAlloc(&pinned, 1000, cudaHostAllocMapped));
    OK(cudaMallocManaged(&managed, 1000, cudaMemAttachGlobal));
    CHECK(type_of(plain, &device) == cudaMemoryTypeUnregistered && device == -2);
    OK(cudaHostRegister(plain, 8192, cudaHostRegisterDefault));
    CHECK_IS(cudaHostRegister(plain, 8192, 0), cudaErrorHostMemoryAlreadyRegistered);
    CHECK(type_of((char *)plain + 100, &device) == cudaMemoryTypeHost);
    OK(cudaHostGetDevicePointer(&mapped, plain, 0));
    CHECK(mapped == plain);
    OK(cudaHostUnregister(plain));
    CHECK_IS(cudaHostUnregister(plain), cudaErrorHostMemoryNotRegistered);
    CHECK(type_of((char *)device_memory + 999, &device) == cudaMemoryTypeDevice && device == 2);
    CHECK(type_of(pinned, &device) == cudaMemoryTypeHost);
    CHECK(type_of(managed, &device) == cudaMemoryTypeManaged);
    CUdeviceptr base;
    size_t size;
    OK(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)device_memory + 500));
    CHECK(base == (CUdeviceptr)(uintptr_t)device_memory && size == 1000);
    unsigned memory_type;
    CHECK_IS(cuPointerGetAttribute(&memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)plain),
             CUDA_ERROR_INVALID_VALUE);
    memset(managed, 1, 1000); /* the host reaches it */
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
    CHECK_IS(cudaFreeHost(plain), cudaErrorInvalidValue);
    free(plain);
}
IN_CHILD(pointers)

/* --- virtual memory --- */

static const CUmemAllocationProp on_device_0 = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc read_write = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* As eviction does: copy out, unmap, release; create, map at the same addresses, copy in. */
static void remap(void)
{
    CUdeviceptr p;
    CUmemGenericAllocationHandle first, second, wanted;
    size_t granularity, size = 4 * MIB;
    int *host, value = 0;
    OK(cudaSetDevice(0));
    OK(cuMemGetAllocationGranularity(&granularity, &on_device_0, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(granularity == 2 * MIB);
    CHECK_IS(cuMemCreate(&first, 1000, &on_device_0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&p, 3 * size, 0, 0, 0));
    CHECK(in_use() == 0); /* addresses are no memory */
    OK(cuMemCreate(&first, size, &on_device_0, 0));
    CHECK(in_use() == size);
    OK(cuMemMap(p + size, size, 0, first, 0));
    CHECK_IS(cuMemMap(p + size + 2 * MIB, 2 * MIB, 0, first, 0), CUDA_ERROR_INVALID_VALUE); /* taken */
    CHECK_IS(cuMemcpyDtoH(&value, p + size, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    OK(cuMemSetAccess(p + size, size, &read_write, 1));
    OK(cuMemRelease(first));
    CHECK(in_use() == size); /* the mapping holds it */
    OK(cuMemsetD32(p + size, 42, size / 4));
    OK(cuMemAllocHost((void **)&host, size));
    OK(cuMemcpyDtoH(host, p + size, size));
    OK(cuMemRetainAllocationHandle(&wanted, (void *)(uintptr_t)(p + size)));
    CHECK(wanted == first);
    OK(cuMemRelease(wanted));
    OK(cuMemUnmap(p + size, size));
    CHECK(in_use() == 0);
    CHECK_IS(cuMemcpyDtoH(host, p + size, 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&second, size, &on_device_0, 0));
    OK(cuMemMap(p + size, size, 0, second, 0));
    OK(cuMemSetAccess(p + size, size, &read_write, 1));
    OK(cuMemcpyHtoD(p + size, host, size));
    OK(cuMemcpyDtoH(&value, p + 2 * size - 4, 4));
    CHECK(value == 42);
    CHECK_IS(cuMemAddressFree(p, 3 * size), CUDA_ERROR_INVALID_VALUE); /* something is mapped */
    OK(cuMemUnmap(p + size, size));
    OK(cuMemRelease(second));
    OK(cuMemAddressFree(p, 3 * size));
    CHECK_IS(cuMemCreate(&first, 66 * MIB, &on_device_0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(in_use() == 0);
    OK(cuMemFreeHost(host));
}
IN_CHILD(remap)

/* One piece of physical memory at two addresses, and through a file descriptor. */
static void aliases(void)
{
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle, imported;
    int fd;
    OK(cudaSetDevice(0));
    OK(cuMemAddressReserve(&p, 6 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * MIB, &on_device_0, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CHECK_IS(cuMemExportToShareableHandle(&fd, imported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(p, 2 * MIB, 0, handle, 0));
    OK(cuMemMap(p + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(cuMemMap(p + 4 * MIB, 2 * MIB, 0, imported, 0));
    OK(cuMemSetAccess(p, 6 * MIB, &read_write, 1));
    CHECK(in_use() == 2 * MIB);
    OK(cuMemsetD8(p, 17, 100));
    unsigned char one = 0, two = 0;
    OK(cuMemcpyDtoH(&one, p + 2 * MIB + 99, 1));
    OK(cuMemcpyDtoH(&two, p + 4 * MIB + 99, 1));
    CHECK(one == 17 && two == 17);
    OK(cuMemUnmap(p, 6 * MIB));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(imported));
    CHECK(in_use() == 0);
    OK(cuMemAddressFree(p, 6 * MIB));
}
IN_CHILD(aliases)

/* --- pools --- */

static cuuint64_t pool_number(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    cuuint64_t value;
    OK(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void pools(void)
{
    cudaStream_t one, two;
    cudaMemPool_t pool;
    void *a, *b, *c;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMallocAsync(&a, 4 * MIB, one));
    CHECK(pool_number(pool, cudaMemPoolAttrUsedMemCurrent) == 4 * MIB);
    launch_ms(one, no_work, NULL, 50);
    OK(cudaFreeAsync(a, one));
    OK(cudaMallocAsync(&b, 4 * MIB, one)); /* the same stream may have it before the free is reached */
    OK(cudaMallocAsync(&c, 4 * MIB, two));
    CHECK(b == a && c != a);
    CHECK(pool_number(pool, cudaMemPoolAttrUsedMemHigh) == 8 * MIB);
    OK(cudaFreeAsync(b, one));
    OK(cudaFreeAsync(c, two));
    OK(cudaDeviceSynchronize());
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == 0 && in_use() == 0); /* threshold 0 */
    cuuint64_t keep = UINT64_MAX;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocAsync(&a, 40 * MIB, one));
    OK(cudaFreeAsync(a, one));
    OK(cudaStreamSynchronize(one));
    CHECK(in_use() == 40 * MIB);
    OK(cudaMalloc(&b, 50 * MIB)); /* what pools keep gives way */
    CHECK(in_use() == 50 * MIB);
    CHECK_IS(cudaMallocAsync(&a, 20 * MIB, one), cudaErrorMemoryAllocation);
    OK(cudaFree(b));
    CHECK_IS(cudaFreeAsync(b, one), cudaErrorInvalidValue);
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned, .location = {cudaMemLocationTypeDevice, 0}};
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMallocFromPoolAsync(&a, 1000, pool, two));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaFree(a)); /* lives on until its last block is freed */
    CHECK(in_use() == 0);
}
IN_CHILD(pools)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_killed_process_returns_memory),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_shaped_copies),
        cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_remap),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_pools),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
