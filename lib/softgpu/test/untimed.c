/* untimed.c - SOFTGPU_UNTIMED: no thread a stream, nothing takes modelled time, and everything still happens in order. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "softgpu/test/child.h"

enum { STREAMS = 12 };

static uint32_t *flags; /* one a stream, as a program and prismd share them */
static _Atomic int log_count;
static long log_entries[256];

static void append(void *args)
{
    log_entries[log_count] = (long)*(intptr_t *)args;
    log_count = log_count + 1;
}

static int threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void begin(void)
{
    OK(cudaSetDevice(0));
    flags = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(flags != MAP_FAILED);
    OK(cudaHostRegister(flags, 4096, cudaHostRegisterMapped));
}

static void become(void)
{
    setenv("SOFTGPU_UNTIMED", "1", 1);
    begin();
}

static void gate(cudaStream_t s, int i)
{
    OK(cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)&flags[i], 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_gate(int i)
{
    __atomic_store_n(&flags[i], 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &flags[i], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *open_all(void *unused)
{
    for (int i = 0; i < 1500 && threads() > 2; i++) /* the watcher lingers for seconds */
        pause_ms(20);
    CHECK(threads() == 2);
    for (int i = 0; i < STREAMS; i++)
        open_gate(i);
    return NULL;
}

/* The host waits for twelve streams at closed gates: no thread but the one that opens them later. */
static void parked_is_one_thread(void)
{
    cudaStream_t s[STREAMS];
    pthread_t opener;
    become();
    for (int i = 0; i < STREAMS; i++) {
        OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        gate(s[i], i);
        launch_ms(s[i], append, (void *)(intptr_t)(i + 1), 1000);
    }
    CHECK(log_count == 0);
    OK(pthread_create(&opener, NULL, open_all, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(log_count == STREAMS);
    OK(pthread_join(opener, NULL));
}
TIMED_IN_CHILD(parked_is_one_thread) /* the thread sanitizer has threads of its own */

/* Seconds of work by the model, done at once. */
static void nothing_takes_time(void)
{
    become();
    for (int i = 0; i < 100; i++)
        launch_ms(NULL, append, (void *)(intptr_t)(i + 1), 600000);
    OK(cudaStreamSynchronize(NULL));
    CHECK(log_count == 100);
}
IN_CHILD(nothing_takes_time)

/* Events and the legacy stream order work behind gates as ever. */
static void order_is_kept(void)
{
    cudaStream_t one, two, blocking;
    cudaEvent_t done;
    become();
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&blocking));
    OK(cudaEventCreate(&done));
    gate(one, 0);
    launch_ms(one, append, (void *)1, 1);
    OK(cudaEventRecord(done, one));
    OK(cudaStreamWaitEvent(two, done, 0));
    launch_ms(two, append, (void *)2, 1);
    OK(cudaEventRecord(done, two));
    OK(cudaStreamWaitEvent(blocking, done, 0));
    launch_ms(NULL, append, (void *)3, 1); /* behind what blocking has */
    OK(cudaStreamDestroy(two));            /* what it has is done all the same */
    CHECK(log_count == 0);
    CHECK_IS(cudaStreamQuery(NULL), cudaErrorNotReady);
    open_gate(0);
    OK(cudaStreamSynchronize(NULL));
    CHECK(log_count == 3 && log_entries[0] == 1 && log_entries[1] == 2 && log_entries[2] == 3);
}
IN_CHILD(order_is_kept)

/* The host does something else: the watcher drives. */
static void goes_on_without_the_host(void)
{
    become();
    gate(NULL, 0);
    launch_ms(NULL, append, (void *)1, 1);
    gate(NULL, 1);
    launch_ms(NULL, append, (void *)2, 1);
    for (int i = 0; i < 2; i++) {
        open_gate(i);
        for (int wait = 0; wait < 1000 && log_count <= i; wait++)
            pause_ms(20);
        CHECK(log_count == i + 1);
    }
}
IN_CHILD(goes_on_without_the_host)

static void sleeps_for_the_other(void *data)
{
    while (!__atomic_load_n((uint32_t *)data, __ATOMIC_ACQUIRE))
        pause_ms(1);
}

static void sets(void *args)
{
    __atomic_store_n(*(uint32_t **)args, 1, __ATOMIC_RELEASE);
}

/* A host function may wait for work of another stream: its stream gets a thread, with what stood on it already. */
static void host_functions_may_sleep(void)
{
    cudaStream_t one, two;
    uint32_t flag = 0;
    become();
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    gate(one, 0);
    OK(cudaLaunchHostFunc(one, sleeps_for_the_other, &flag));
    launch_ms(one, append, (void *)1, 1);
    gate(two, 1);
    launch_ms(two, sets, &flag, 1);
    open_gate(0);
    open_gate(1);
    OK(cudaStreamSynchronize(one));
    CHECK(log_count == 1 && flag == 1);
    OK(cudaStreamSynchronize(two));
}
IN_CHILD(host_functions_may_sleep)

/* Hardware queues run out as ever: the last closed gate stalls kernels elsewhere. */
static void queues_run_out(void)
{
    cudaStream_t s[8], free_one;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    become();
    for (int i = 0; i < 8; i++) {
        OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        gate(s[i], i);
    }
    OK(cudaStreamCreateWithFlags(&free_one, cudaStreamNonBlocking));
    launch_ms(free_one, append, (void *)1, 1);
    CHECK_IS(cudaStreamQuery(free_one), cudaErrorNotReady);
    CHECK(log_count == 0);
    open_gate(3);
    OK(cudaStreamSynchronize(free_one));
    CHECK(log_count == 1);
    for (int i = 0; i < 8; i++)
        open_gate(i);
    OK(cudaDeviceSynchronize());
}
IN_CHILD(queues_run_out)

static void *sleeps_on_flag(void *flag)
{
    struct timespec limit = {20, 0};
    intptr_t rc = syscall(SYS_futex, flag, FUTEX_WAIT, 0, &limit, NULL, 0) ? errno : 0; /* EAGAIN: it was too late to sleep */
    return (void *)rc;
}

/* Whoever sleeps on the last of several words that are written together is woken. */
static void last_write_wakes(void)
{
    pthread_t sleeper;
    void *rc;
    CUstreamBatchMemOpParams ops[3] = {0};
    become();
    OK(pthread_create(&sleeper, NULL, sleeps_on_flag, &flags[2]));
    pause_ms(50);
    for (int i = 0; i < 3; i++) {
        ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].writeValue.address = (CUdeviceptr)(uintptr_t)&flags[i];
        ops[i].writeValue.value = 1;
    }
    OK(cuStreamBatchMemOp(NULL, 3, ops, 0));
    OK(cudaStreamSynchronize(NULL));
    OK(pthread_join(sleeper, &rc));
    CHECK((intptr_t)rc == 0 || (intptr_t)rc == EAGAIN);
    CHECK(flags[0] == 1 && flags[1] == 1 && flags[2] == 1);
}
IN_CHILD(last_write_wakes)

static int queued;

static void *open_when_full(void *seen)
{
    while (__atomic_load_n(&queued, __ATOMIC_ACQUIRE) < 7)
        pause_ms(1);
    pause_ms(50);
    *(int *)seen = __atomic_load_n(&queued, __ATOMIC_ACQUIRE);
    open_gate(0);
    return NULL;
}

/* The gate and seven more fill the queue: the eighth call waits for the gate. */
static void fill_queue(const char *untimed)
{
    pthread_t opener;
    int seen = 0;
    setenv("SOFTGPU_QUEUE_ENTRIES", "8", 1);
    setenv("SOFTGPU_UNTIMED", untimed, 1);
    begin();
    gate(NULL, 0);
    OK(pthread_create(&opener, NULL, open_when_full, &seen));
    for (int i = 0; i < 30; i++) {
        launch_ms(NULL, append, (void *)(intptr_t)i, 1);
        __atomic_add_fetch(&queued, 1, __ATOMIC_RELEASE);
    }
    OK(cudaStreamSynchronize(NULL));
    OK(pthread_join(opener, NULL));
    CHECK(seen == 7 && log_count == 30 && log_entries[29] == 29);
}

static void full_queue(void)
{
    fill_queue("1");
}
IN_CHILD(full_queue)

static void full_queue_of_a_thread(void)
{
    fill_queue("0");
}
IN_CHILD(full_queue_of_a_thread)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parked_is_one_thread),     cmocka_unit_test(test_nothing_takes_time),
        cmocka_unit_test(test_order_is_kept),            cmocka_unit_test(test_goes_on_without_the_host),
        cmocka_unit_test(test_host_functions_may_sleep), cmocka_unit_test(test_queues_run_out),
        cmocka_unit_test(test_last_write_wakes),         cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_full_queue_of_a_thread),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
