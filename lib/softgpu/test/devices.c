/* devices.c - enumeration, properties, contexts, entry points, errors, kernels beside communication. */
#include <dlfcn.h>

#include "softgpu/core/engine.h"
#include "softgpu/test/child.h"

static int gate_fds[2], answer_fds[2];

/* --- which devices --- */

static int visible(const char *list, int *indices)
{
    int count = 0;
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    CUresult result = cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return 0;
    OK(result);
    OK(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        struct sg_place place;
        OK(sg_device_place(i, &place));
        CHECK(place.node == 3);
        indices[i] = place.index;
    }
    return count;
}

static void reordered(void)
{
    int indices[8];
    CHECK(visible("5,2", indices) == 2 && indices[0] == 5 && indices[1] == 2);
    int order;
    OK(cudaDeviceGetByPCIBusId(&order, "0003:03:00.0"));
    CHECK(order == 1);
    CHECK_IS(cudaSetDevice(2), cudaErrorInvalidDevice);
}

static void cut_short(void)
{
    int indices[8];
    CHECK(visible("1,9,2", indices) == 1 && indices[0] == 1); /* the list ends at the first that is none */
}

static void none(void)
{
    int indices[8], count = 7;
    CHECK(visible("", indices) == 0);
    CHECK_IS(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    CHECK(count == 0);
    CHECK_IS(cudaSetDevice(0), cudaErrorNoDevice);
}

static void test_visible_devices(void **state)
{
    setenv("SOFTGPU_DEVICES", "6", 1);
    setenv("SOFTGPU_NODE", "3", 1);
    in_child(reordered);
    in_child(cut_short);
    in_child(none);
    unsetenv("SOFTGPU_DEVICES");
    unsetenv("SOFTGPU_NODE");
}

static void properties(void)
{
    struct cudaDeviceProp p;
    int count, value;
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 8);
    OK(cudaGetDeviceProperties(&p, 1));
    CHECK(strstr(p.name, "software GPU") && p.totalGlobalMem == 64 << 20 && p.major == 9 && p.multiProcessorCount > 0 &&
          p.pciBusID == 2 && p.warpSize == 32 && p.sharedMemPerBlockOptin == 227 << 10);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(value == 9);
    CHECK_IS(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 8), cudaErrorInvalidDevice);
    int runtime, driver;
    OK(cudaRuntimeGetVersion(&runtime));
    OK(cudaDriverGetVersion(&driver));
    CHECK(runtime == 13000 && driver == 13000);
}
IN_CHILD(properties)

static void contexts(void)
{
    CUcontext context, primary, own;
    CUdevice device;
    CHECK_IS(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    OK(cuCtxGetCurrent(&context));
    CHECK(context == NULL);
    CHECK_IS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    unsigned flags;
    int active;
    OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(!active);
    OK(cudaSetDevice(1));
    OK(cuCtxGetCurrent(&primary));
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    CHECK(context == primary);
    OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(active);
    OK(cuCtxCreate(&own, NULL, 0, 2));
    OK(cuCtxGetDevice(&device));
    CHECK(device == 2);
    OK(cuCtxDestroy(own));
    OK(cuCtxGetDevice(&device));
    CHECK(device == 1);
    OK(cuCtxPopCurrent(NULL));
    CHECK_IS(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_IS(cuCtxSetCurrent((CUcontext)&device), CUDA_ERROR_INVALID_CONTEXT);
}
IN_CHILD(contexts)

/* A released primary context stays current, and no call can use it until it is retained again. */
static void released(void)
{
    CUcontext context, current;
    CUdeviceptr pointer;
    size_t free_bytes, total_bytes;
    int device;
    unsigned flags;
    void *memory;
    static char page[4096];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD));
    OK(cuDevicePrimaryCtxGetState(1, &flags, &device));
    CHECK(flags == CU_CTX_SCHED_YIELD && !device);
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&pointer, 100));
    OK(cuDevicePrimaryCtxRelease(1));
    CHECK_IS(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context);
    CHECK_IS(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_IS(cuMemAlloc(&pointer, 100), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_IS(cuMemHostRegister(page, sizeof page, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_IS(cuCtxGetDevice(&device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_IS(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_IS(cuStreamSynchronize(NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(context));
    CHECK_IS(cuCtxGetFlags(&flags), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&current, 1));
    CHECK(current == context);
    OK(cuMemAlloc(&pointer, 100));
    OK(cudaSetDevice(1));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cudaGetDevice(&device)); /* the runtime brings it up again */
    CHECK(device == 1);
    OK(cudaMalloc(&memory, 100));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context);
    OK(cudaDeviceReset());
    CHECK_IS(cuMemAlloc(&pointer, 100), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cudaMalloc(&memory, 100));
    OK(cuMemAlloc(&pointer, 100));
}
IN_CHILD(released)

static void forked_child(void)
{
    OK(cudaSetDevice(0));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) { /* CUDA does not outlive fork() */
        void *p;
        CHECK_IS(cudaMalloc(&p, 100), cudaErrorInitializationError);
        exit(0);
    }
    CHECK(child_status(pid) == 0);
}
IN_CHILD(forked_child)

/* --- entry points --- */

static void entry_points(void)
{
    void *p, *old, *thread;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuStreamWaitValue32", &p, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS && p == dlsym(RTLD_DEFAULT, "cuStreamWaitValue32_v2"));
    OK(cuGetProcAddress("cuStreamWaitValue32", &thread, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    CHECK(thread == dlsym(RTLD_DEFAULT, "cuStreamWaitValue32_v2_ptsz"));
    OK(cuGetProcAddress("cuMemAllocAsync", &p, 11000, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && !p);
    OK(cuGetProcAddress("cuNoSuchThing", &p, 13000, 0, &status));
    CHECK(!p && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress("cuCtxCreate", &old, 11000, 0, NULL));
    OK(cuGetProcAddress("cuCtxCreate", &p, 13000, 0, NULL));
    CHECK(old == dlsym(RTLD_DEFAULT, "cuCtxCreate_v2") && p == dlsym(RTLD_DEFAULT, "cuCtxCreate_v4"));
    enum cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuMemFree", &p, 12000, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSuccess && p == dlsym(RTLD_DEFAULT, "cuMemFree_v2"));
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &p, 12000, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSymbolNotFound);
}
IN_CHILD(entry_points)

static void errors(void)
{
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(!strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
    OK(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
    CHECK(text[0]);
    CHECK_IS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    CHECK(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
    CHECK(!strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code"));
}
IN_CHILD(errors)

/* --- kernels --- */

static float kernel_ms(double ms)
{
    cudaEvent_t a, b;
    float result;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    launch_ms(NULL, no_work, NULL, 2);
    OK(cudaEventRecord(a, NULL));
    launch_ms(NULL, no_work, NULL, ms);
    OK(cudaEventRecord(b, NULL));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&result, a, b));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
    return result;
}

/* The test profile slows kernels to 1.5 times beside communication. */
static void slower_beside_communication(void)
{
    OK(cudaSetDevice(0));
    float alone = kernel_ms(20);
    int64_t now = sg_host_now();
    sg_device_comm_active(0, now, now + 1000000000);
    float beside = kernel_ms(20);
    CHECK(alone > 19.9f && alone < 20.1f);
    CHECK(beside > 29.f && beside < 30.1f);
    OK(cudaSetDevice(1));
    CHECK(kernel_ms(20) < 20.1f);
}
TIMED_IN_CHILD(slower_beside_communication)

static void bad_launches(void)
{
    struct softgpuCost cost = {1, 1}, wrong = {-1, 0};
    OK(cudaSetDevice(0));
    CHECK_IS(softgpuLaunchHostFunc(NULL, NULL, NULL, 0, &cost), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(softgpuLaunchHostFunc(NULL, no_work, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(softgpuLaunchHostFunc(NULL, no_work, NULL, 8, &cost), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(softgpuLaunchHostFunc(NULL, no_work, NULL, 0, &wrong), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(cudaLaunchKernel((void *)1, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
             cudaErrorInvalidDeviceFunction);
}
IN_CHILD(bad_launches)

static void jitter_is_seeded(void)
{
    double sum = 0, square = 0;
    CHECK(sg_jitter(1, 2) == sg_jitter(1, 2) && sg_jitter(1, 2) != sg_jitter(1, 3));
    for (uint64_t i = 0; i < 10000; i++) {
        double x = sg_jitter(7, i) - 1;
        sum += x;
        square += x * x;
    }
    CHECK(sum / 10000 < 0.001 && sum / 10000 > -0.001);
    CHECK(square / 10000 > 0.0035 * 0.0035 / 2 && square / 10000 < 0.0035 * 0.0035);
}

static void test_jitter(void **state)
{
    unsetenv("SOFTGPU_PROFILE"); /* the built-in 0.3 % */
    in_child(jitter_is_seeded);
    char path[128];
    snprintf(path, sizeof(path), "%s/profile.conf", test_folder);
    setenv("SOFTGPU_PROFILE", path, 1);
}

/* --- several processes on one device --- */

enum { KERNELS = 10 };

static void busy_process(void)
{
    cudaEvent_t a, b;
    float ms;
    char c;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    CHECK(read(gate_fds[0], &c, 1) == 1); /* both begin together */
    OK(cudaEventRecord(a, NULL));
    for (int i = 0; i < KERNELS; i++)
        launch_ms(NULL, no_work, NULL, 20);
    OK(cudaEventRecord(b, NULL));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    CHECK(write(answer_fds[1], &ms, sizeof(ms)) == sizeof(ms));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
}

static float slower_of_two(void)
{
    float one, two;
    assert_int_equal(pipe(gate_fds), 0);
    assert_int_equal(pipe(answer_fds), 0);
    pid_t first = start_child(busy_process), second = start_child(busy_process);
    assert_int_equal(write(gate_fds[1], "xx", 2), 2);
    assert_int_equal(read(answer_fds[0], &one, sizeof(one)), sizeof(one));
    assert_int_equal(read(answer_fds[0], &two, sizeof(two)), sizeof(two));
    assert_int_equal(child_status(first), 0);
    assert_int_equal(child_status(second), 0);
    for (int i = 0; i < 2; i++) {
        close(gate_fds[i]);
        close(answer_fds[i]);
    }
    return one > two ? one : two;
}

static void test_time_slicing(void **state)
{
    char path[128], original[128];
    float beside = slower_of_two();
    assert_true(beside > 199.9f && beside < 350.f);
    snprintf(original, sizeof(original), "%s/profile.conf", test_folder);
    snprintf(path, sizeof(path), "%s/slicing.conf", test_folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "device = { flops = 1e6; launch_overhead = 0.0; jitter = 0.0; time_slicing = true; };\n");
    fclose(f);
    setenv("SOFTGPU_PROFILE", path, 1);
    float taking_turns = slower_of_two();
    setenv("SOFTGPU_PROFILE", original, 1);
    unlink(path);
    assert_true(taking_turns > 370.f);
}

static void test_statistics(void **state)
{
    char prefix[128], path[160], text[512];
    snprintf(prefix, sizeof(prefix), "%s/stats", test_folder);
    setenv("SOFTGPU_STATS", prefix, 1);
    pid_t pid = start_child(slower_beside_communication);
    assert_int_equal(child_status(pid), 0);
    unsetenv("SOFTGPU_STATS");
    snprintf(path, sizeof(path), "%s.%ld", prefix, (long)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    unlink(path);
    double late, most, overrun;
    unsigned long long overruns, items;
    assert_int_equal(sscanf(text,
                            "{\"late_sum_s\": %lf, \"late_max_s\": %lf, \"overrun_sum_s\": %lf, \"overruns\": %llu, "
                            "\"items\": %llu}",
                            &late, &most, &overrun, &overruns, &items),
                     5);
    assert_int_equal(items, 6);
    assert_true(late >= most && most >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visible_devices), cmocka_unit_test(test_properties),
        cmocka_unit_test(test_contexts),        cmocka_unit_test(test_released),        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_entry_points),    cmocka_unit_test(test_errors),
        cmocka_unit_test(test_slower_beside_communication), cmocka_unit_test(test_bad_launches),
        cmocka_unit_test(test_jitter),          cmocka_unit_test(test_time_slicing),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
