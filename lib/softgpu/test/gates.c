/* gates.c - wait and write value, in one process and between two, and the hardware queues that closed gates hold. */
#include <sys/mman.h>

#include "softgpu/test/child.h"

static uint32_t *flags; /* a page that test processes share, as a program and prismd do */

static void map_flags(void)
{
    if (flags)
        return;
    int fd = memfd_create("flags", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    flags = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(flags != MAP_FAILED);
    close(fd);
}

static CUdeviceptr flag(int i)
{
    CUdeviceptr address;
    OK(cuMemHostGetDevicePointer(&address, flags, 0));
    CHECK(address == (CUdeviceptr)(uintptr_t)flags);
    return address + 8 * (CUdeviceptr)i;
}

static void begin(void)
{
    OK(cudaSetDevice(0));
    OK(cudaHostRegister(flags, 4096, cudaHostRegisterMapped));
    memset(flags, 0, 4096);
}

static void open_flag(int i, uint32_t value)
{
    __atomic_store_n(&flags[2 * i], value, __ATOMIC_RELEASE); /* no wake: the stream looks now and then */
}

static uint32_t read_flag(int i)
{
    return __atomic_load_n(&flags[2 * i], __ATOMIC_ACQUIRE);
}

static void wait_until(int i, uint32_t value)
{
    for (int n = 0; n < 5000 && read_flag(i) != value; n++)
        pause_ms(1);
    CHECK(read_flag(i) == value);
}

/* --- conditions --- */

static void closes_and_opens(cudaStream_t stream, unsigned condition, uint32_t initial, uint32_t value, uint32_t open)
{
    open_flag(1, initial);
    open_flag(2, 0);
    OK(cuStreamWaitValue32(stream, flag(1), value, condition));
    OK(cuStreamWriteValue32(stream, flag(2), 1, 0));
    pause_ms(15);
    CHECK(read_flag(2) == 0);
    CHECK_IS(cudaStreamQuery(stream), cudaErrorNotReady);
    open_flag(1, open);
    OK(cudaStreamSynchronize(stream));
    CHECK(read_flag(2) == 1);
}

static void conditions(void)
{
    cudaStream_t stream;
    begin();
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    closes_and_opens(stream, CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 6);
    closes_and_opens(stream, CU_STREAM_WAIT_VALUE_GEQ, 0xfffffffe, 1, 2); /* counters may wrap */
    closes_and_opens(stream, CU_STREAM_WAIT_VALUE_EQ, 6, 5, 5);
    closes_and_opens(stream, CU_STREAM_WAIT_VALUE_AND, 4, 3, 2);
    closes_and_opens(stream, CU_STREAM_WAIT_VALUE_NOR, 0x0000ffff, 0xffff0000, 0);
    uint64_t *wide = (uint64_t *)flags;
    wide[3] = 1ull << 32;
    OK(cuStreamWaitValue64(stream, flag(3), 2ull << 32, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue64(stream, flag(4), 7ull << 40, 0));
    pause_ms(15);
    CHECK(__atomic_load_n(&wide[4], __ATOMIC_ACQUIRE) == 0);
    __atomic_store_n(&wide[3], 3ull << 32, __ATOMIC_RELEASE);
    OK(cudaStreamSynchronize(stream));
    CHECK(wide[4] == 7ull << 40);
}
IN_CHILD(conditions)

static void batches(void)
{
    begin();
    CUstreamBatchMemOpParams ops[3] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = flag(1), .value = 5}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = flag(1), .value = 5}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = flag(2), .value = 6}}};
    OK(cuStreamBatchMemOp(NULL, 3, ops, 0));
    OK(cudaStreamSynchronize(NULL));
    CHECK(read_flag(1) == 5 && read_flag(2) == 6);
    uint32_t unregistered = 0;
    CHECK_IS(cuStreamWaitValue32(NULL, (CUdeviceptr)(uintptr_t)&unregistered, 1, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(cuStreamWaitValue32(NULL, flag(0) + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
}
IN_CHILD(batches)

/* A gate in device memory, opened by another stream. */
static void gates_in_device_memory(void)
{
    cudaStream_t one, two;
    void *memory;
    uint32_t seen = 0;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaMalloc(&memory, 4096));
    OK(cudaMemset(memory, 0, 4096));
    OK(cudaDeviceSynchronize());
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    OK(cuStreamWaitValue32(one, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(one, address + 4, 9, 0));
    OK(cuStreamWriteValue32(two, address, 1, 0));
    OK(cudaStreamSynchronize(one));
    OK(cudaMemcpy(&seen, (char *)memory + 4, 4, cudaMemcpyDeviceToHost));
    CHECK(seen == 9);
}
IN_CHILD(gates_in_device_memory)

/* --- two processes --- */

enum { ARRIVE = 10, GO = 11, ROUNDS = 50 };

static void program_side(void)
{
    begin();
    flags[2 * ARRIVE] = flags[2 * GO] = 0;
    __atomic_store_n(&flags[0], 1, __ATOMIC_RELEASE);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        OK(cuStreamWriteValue32(NULL, flag(ARRIVE), i, 0));
        OK(cuStreamWaitValue32(NULL, flag(GO), i, CU_STREAM_WAIT_VALUE_GEQ));
    }
    OK(cudaStreamSynchronize(NULL));
}

static void other_side(void)
{
    wait_until(0, 1);
    OK(cudaSetDevice(1));
    OK(cudaHostRegister(flags, 4096, cudaHostRegisterMapped));
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        OK(cuStreamWaitValue32(NULL, flag(ARRIVE), i, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuStreamWriteValue32(NULL, flag(GO), i, 0));
    }
    OK(cudaStreamSynchronize(NULL));
}

static void test_two_processes(void **state)
{
    map_flags();
    memset(flags, 0, 4096);
    pid_t one = start_child(program_side), two = start_child(other_side);
    assert_int_equal(child_status(one), 0);
    assert_int_equal(child_status(two), 0);
    assert_int_equal(flags[2 * ARRIVE], ROUNDS);
}

/* --- model time --- */

static void open_gates_take_no_time(void)
{
    cudaEvent_t a, b;
    float ms;
    begin();
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    open_flag(1, 1);
    launch_ms(NULL, no_work, NULL, 5);
    OK(cudaEventRecord(a, NULL));
    for (int i = 0; i < 20; i++)
        OK(cuStreamWaitValue32(NULL, flag(1), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cudaEventRecord(b, NULL));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    CHECK(ms >= 0 && ms < 0.001f);
    OK(cudaEventRecord(a, NULL));
    OK(cuStreamWaitValue32(NULL, flag(2), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cudaEventRecord(b, NULL));
    pause_ms(60);
    open_flag(2, 1);
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    CHECK(ms > 50 && ms < 2000);
}
TIMED_IN_CHILD(open_gates_take_no_time)

/* --- hardware queues --- */

static void set_flag(void *args)
{
    open_flag(20, 1);
}

static void counted(void *data)
{
    ++*(int *)data;
}

/* What a stream does while all hardware queues are held. */
static void goes_on(void *memory, void *host)
{
    cudaStream_t stream;
    void *more, *pooled;
    int count = 0;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemcpyAsync(memory, host, 4096, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(host, memory, 4096, cudaMemcpyDeviceToHost, stream));
    OK(cudaLaunchHostFunc(stream, counted, &count));
    OK(cudaMallocAsync(&pooled, 4096, stream));
    OK(cudaFreeAsync(pooled, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(count == 1);
    OK(cudaMalloc(&more, 4096));
    OK(cudaHostRegister(&count, 4, 0));
    OK(cudaStreamDestroy(stream));
}

static void stalls(cudaStream_t stream)
{
    pause_ms(20);
    CHECK_IS(cudaStreamQuery(stream), cudaErrorNotReady);
}

/* n - 1 closed gates leave a kernel on another stream alone; the n-th stalls it, and some more. */
static void queue_stall(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int n = text ? atoi(text) : 8;
    cudaStream_t gates[32], other;
    void *memory, *host;
    begin();
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMalloc(&memory, 4096));
    OK(cudaMallocHost(&host, 4096));
    for (int i = 0; i < n; i++)
        OK(cudaStreamCreateWithFlags(&gates[i], cudaStreamNonBlocking));
    for (int i = 0; i < n - 1; i++)
        OK(cuStreamWaitValue32(gates[i], flag(1), 1, CU_STREAM_WAIT_VALUE_GEQ));
    pause_ms(20);
    launch_ms(other, set_flag, NULL, 1);
    OK(cudaStreamSynchronize(other));
    CHECK(read_flag(20) == 1);
    open_flag(20, 0);
    OK(cuStreamWaitValue32(gates[n - 1], flag(2), 1, CU_STREAM_WAIT_VALUE_GEQ));
    pause_ms(50);
    launch_ms(other, set_flag, NULL, 1);
    pause_ms(50);
    CHECK(read_flag(20) == 0);
    cudaStream_t stalled[4];
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    for (int i = 0; i < 4; i++)
        OK(cudaStreamCreateWithFlags(&stalled[i], cudaStreamNonBlocking));
    OK(cudaMemsetAsync(memory, 0, 64, stalled[0]));
    OK(cudaMemcpyAsync((char *)memory + 2048, memory, 64, cudaMemcpyDeviceToDevice, stalled[1]));
    OK(cudaEventRecord(event, stalled[2]));
    OK(cuStreamWriteValue32(stalled[3], flag(21), 1, 0));
    goes_on(memory, host);
    for (int i = 0; i < 4; i++)
        stalls(stalled[i]);
    CHECK(read_flag(20) == 0 && read_flag(21) == 0);
    open_flag(2, 1);
    OK(cudaStreamSynchronize(other));
    CHECK(read_flag(20) == 1);
    open_flag(1, 1);
    OK(cudaDeviceSynchronize());
}

static void test_queue_stall(void **state)
{
    map_flags();
    const char *settings[] = {"1", "2", "8", NULL, "32"};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (settings[i])
            setenv("CUDA_DEVICE_MAX_CONNECTIONS", settings[i], 1);
        else
            unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
        in_child(queue_stall);
    }
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

/* A module of text whose entries are known, by name; nothing else. */
static void modules(void)
{
    CUmodule module;
    CUfunction function;
    begin();
    CHECK_IS(cuModuleLoadData(&module, ".version 6.3\n.visible .entry someone_elses(.param .u64 p) { ret; }"),
             CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_IS(cuModuleLoadData(&module, "\177ELF"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    OK(cuModuleLoadData(&module, ".version 6.3\n.visible .entry prism_gate(.param .u64 p) { ret; }"));
    CHECK_IS(cuModuleGetFunction(&function, module, "prism"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&function, module, "prism_gate"));
    CHECK_IS(cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleUnload(module));
    CHECK_IS(cuModuleGetFunction(&function, module, "prism_gate"), CUDA_ERROR_INVALID_HANDLE);
}
IN_CHILD(modules)

static void no_compiler(void)
{
    CUmodule module;
    setenv("SOFTGPU_PTX_COMPILER", "0", 1);
    begin();
    CHECK_IS(cuModuleLoadData(&module, ".version 6.3\n.visible .entry prism_gate(.param .u64 p) { ret; }"), CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
}
IN_CHILD(no_compiler)

/* A byte at address a is pattern[a mod 2048], whatever the launch's width; it takes a fill's time. */
static void filling_kernel(void)
{
    enum { BYTES = 8000000, FROM = 7 };
    static CUmodule module; /* stays, as does its record if it is unloaded */
    CUfunction function;
    cudaEvent_t before, after;
    float ms;
    uint8_t pattern[2048], *memory;
    uint64_t bytes = BYTES;
    CUdeviceptr to;
    void *parameters[] = {&to, &bytes, pattern};
    begin();
    for (int i = 0; i < 2048; i++)
        pattern[i] = (uint8_t)(i % 251 + 1);
    OK(cudaMalloc((void **)&memory, BYTES + 2 * FROM));
    OK(cudaMemset(memory, 0, BYTES + 2 * FROM));
    OK(cudaEventCreate(&before));
    OK(cudaEventCreate(&after));
    to = (CUdeviceptr)(uintptr_t)memory + FROM;
    OK(cuModuleLoadData(&module, ".version 6.3\n.visible .entry prism_fill(.param .u64 p) { ret; }"));
    OK(cuModuleGetFunction(&function, module, "prism_fill"));
    CHECK_IS(cuLaunchKernel(function, 1, 2, 1, 256, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_IS(cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cudaEventRecord(before, NULL));
    OK(cuLaunchKernel(function, 3, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
    memset(pattern, 0, sizeof pattern); /* the launch has taken it */
    OK(cudaEventRecord(after, NULL));
    OK(cudaStreamSynchronize(NULL));
    for (uintptr_t i = 0; i < BYTES + 2 * FROM; i++) {
        bool inside = i >= FROM && i < FROM + BYTES;
        CHECK(memory[i] == (inside ? ((uintptr_t)memory + i) % 2048 % 251 + 1 : 0));
    }
    OK(cudaEventElapsedTime(&ms, before, after));
    CHECK(ms > 0.999f); /* 8 GB a second */
    OK(cudaEventDestroy(before));
    OK(cudaEventDestroy(after));
}
IN_CHILD(filling_kernel)

/* A kernel that polls holds no queue: with one queue, other streams go on. */
static void polling_kernel(void)
{
    CUmodule module;
    CUfunction function;
    cudaStream_t gate, other;
    CUdeviceptr arrive, word, done;
    uint32_t generation = 1;
    void *parameters[] = {&arrive, &word, &done, &generation}, *memory;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    begin();
    arrive = flag(1), word = flag(2), done = flag(3);
    OK(cudaStreamCreateWithFlags(&gate, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMalloc(&memory, 4096));
    OK(cuModuleLoadData(&module, ".version 6.3\n.visible .entry prism_gate(.param .u64 p) { ret; }"));
    OK(cuModuleGetFunction(&function, module, "prism_gate"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, (CUstream)gate, parameters, NULL));
    wait_until(1, 1);
    OK(cudaMemsetAsync(memory, 0, 4096, other));
    OK(cudaStreamSynchronize(other));
    CHECK(read_flag(3) == 0);
    CHECK_IS(cudaStreamQuery(gate), cudaErrorNotReady);
    open_flag(2, 1);
    OK(cudaStreamSynchronize(gate));
    CHECK(read_flag(3) == 1);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}
IN_CHILD(polling_kernel)

/* cudaFree waits for the device, a closed gate included. */
static void open_later(void *argument)
{
    pause_ms(50);
    open_flag(1, 1);
}

static void free_waits_for_gates(void)
{
    cudaStream_t gate, opener;
    void *memory;
    begin();
    OK(cudaStreamCreateWithFlags(&gate, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
    OK(cudaMalloc(&memory, 4096));
    OK(cuStreamWaitValue32(gate, flag(1), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cudaLaunchHostFunc(opener, open_later, NULL));
    OK(cudaFree(memory));
    CHECK(read_flag(1) == 1);
    OK(cudaStreamQuery(gate));
}
IN_CHILD(free_waits_for_gates)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_gates_in_device_memory),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_open_gates_take_no_time),
        cmocka_unit_test(test_queue_stall),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_filling_kernel),
        cmocka_unit_test(test_polling_kernel),
        cmocka_unit_test(test_free_waits_for_gates),
    };
    map_flags();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
