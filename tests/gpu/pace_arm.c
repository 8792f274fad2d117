/* pace_arm.c - how exactly the end of a real NCCL operation is set from its other participant.
 *
 *     pace_arm [communicators] [operations]      two GPUs (or two software GPUs); one JSON line a row
 *
 * Two processes, a GPU each: the sandbox writes arrive and calls ncclAllReduce; the assistant waits for go and calls it
 * too. Go is written at arrive + (target - natural), natural being the gated median. Armed "after": the assistant puts
 * wait and call on its stream once the sandbox has arrived; "before": ahead of that. With several communicators the
 * sandbox issues one operation on each at once, and every one has its own target; beyond GATES closed gates the
 * assistant arms without one, since the hardware's queues end there. The duration is the sandbox's, by timing events.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MOST  64
#define GATES 30
#define BYTES_MOST (16u << 20)

struct shared {
    uint32_t arrive[1024], go[1024]; /* a word a communicator; registered */
    ncclUniqueId id[MOST];
    volatile int ids, phase[2];
    volatile double natural[8];
};

static struct shared *s;
static int me, n, operations;
static ncclComm_t comm[MOST];
static CUstream stream[MOST];
static CUdeviceptr buffer[MOST], words;
static CUevent begin[MOST], end[MOST];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Both processes come to this point. */
static void meet(void)
{
    int phase = ++s->phase[me];
    __sync_synchronize();
    while (s->phase[!me] < phase)
        usleep(50);
}

static CUdeviceptr arrive_of(int c)
{
    return words + offsetof(struct shared, arrive) + (size_t)c * 4;
}

static CUdeviceptr go_of(int c)
{
    return words + offsetof(struct shared, go) + (size_t)c * 4;
}

static void reduce(int c, size_t bytes)
{
    void *p = (void *)(uintptr_t)buffer[c];
    MUST(NCCL(ncclAllReduce)(p, p, bytes / 4, ncclFloat, ncclSum, comm[c], (cudaStream_t)stream[c]));
}

static void sandbox(uint32_t *sequence, size_t bytes, double *us)
{
    for (int i = 0; i < operations; i++) {
        ++*sequence;
        usleep((useconds_t)(rand() % 500));
        for (int c = 0; c < n; c++) {
            MUST(CU(cuEventRecord)(begin[c], stream[c]));
            MUST(CU(cuStreamWriteValue32)(stream[c], arrive_of(c), *sequence, 0));
            reduce(c, bytes);
            MUST(CU(cuEventRecord)(end[c], stream[c]));
        }
        for (int c = 0; c < n; c++) {
            float ms;
            MUST(CU(cuEventSynchronize)(end[c]));
            MUST(CU(cuEventElapsedTime)(&ms, begin[c], end[c]));
            us[i * n + c] = (double)ms * 1e3;
        }
    }
}

static void arm(int c, uint32_t sequence, size_t bytes, bool gate)
{
    if (gate)
        MUST(CU(cuStreamWaitValue32)(stream[c], go_of(c), sequence, CU_STREAM_WAIT_VALUE_GEQ));
    reduce(c, bytes);
}

static void set(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* pad: seconds from an arrival to its go. */
static void assistant(uint32_t *sequence, size_t bytes, double pad, bool before)
{
    for (int i = 0; i < operations; i++) {
        double due[MOST] = {0};
        bool gated[MOST] = {false};
        ++*sequence;
        for (int c = 0; before && c < n; c++)
            arm(c, *sequence, bytes, gated[c] = c < GATES);
        for (int left = n, closed = 0; left;) {
            for (int c = 0; c < n; c++) {
                if (due[c] == 0 && __atomic_load_n(&s->arrive[c], __ATOMIC_ACQUIRE) == *sequence) {
                    due[c] = now() + pad;
                    gated[c] = before ? gated[c] : closed < GATES;
                    closed += gated[c];
                    if (!before)
                        arm(c, *sequence, bytes, gated[c]);
                }
                if (due[c] > 0 && now() >= due[c]) {
                    set(&s->go[c], *sequence);
                    due[c] = -1;
                    closed -= gated[c];
                    left--;
                }
            }
        }
    }
    for (int c = 0; c < n; c++)
        MUST(CU(cuStreamSynchronize)(stream[c]));
}

static void print(const char *armed, size_t bytes, double target, double *us)
{
    int m = operations * n;
    qsort(us, (size_t)m, sizeof *us, by_value);
    printf("{\"armed\": \"%s\", \"communicators\": %d, \"bytes\": %zu, \"target_us\": %.1f, \"p5\": %.2f, \"p50\": %.2f, \"p95\": %.2f, "
           "\"max\": %.2f, \"operations\": %d}\n",
           armed, n, bytes, target * 1e6, us[m / 20], us[m / 2], us[m * 19 / 20], us[m - 1], m);
    fflush(stdout);
}

static void measure(void)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, BYTES_MOST};
    static const double targets[] = {0, 200e-6, 1e-3};
    double *us = malloc((size_t)operations * (size_t)n * sizeof *us);
    uint32_t sequence = 0;
    for (size_t z = 0; z < 3; z++)
        for (int before = 0; before < 2; before++)
            for (size_t t = 0; t < 3; t++) {
                meet();
                double pad = t ? targets[t] - s->natural[z] : 0;
                if (me) {
                    assistant(&sequence, sizes[z], pad > 0 ? pad : 0, before);
                } else {
                    sandbox(&sequence, sizes[z], us);
                    print(before ? "before" : "after", sizes[z], targets[t], us);
                    if (!t)
                        s->natural[z] = us[operations * n / 2] * 1e-6;
                }
                meet();
            }
    free(us);
}

static void set_up(void)
{
    CUcontext context;
    CUdevice device;
    open_all();
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, me));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuMemHostRegister)(s, sizeof *s, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
    MUST(CU(cuMemHostGetDevicePointer)(&words, s, 0));
    for (int c = 0; c < n; c++) {
        if (!me)
            MUST(NCCL(ncclGetUniqueId)(&s->id[c]));
        meet();
        MUST(NCCL(ncclCommInitRank)(&comm[c], 2, s->id[c], me));
        MUST(CU(cuStreamCreate)(&stream[c], CU_STREAM_NON_BLOCKING));
        MUST(CU(cuMemAlloc)(&buffer[c], BYTES_MOST));
        MUST(CU(cuEventCreate)(&begin[c], CU_EVENT_DEFAULT));
        MUST(CU(cuEventCreate)(&end[c], CU_EVENT_DEFAULT));
    }
    for (int c = 0; c < n; c++)
        for (size_t bytes = 64 << 10; bytes <= BYTES_MOST; bytes *= 16)
            reduce(c, bytes);
    for (int c = 0; c < n; c++)
        MUST(CU(cuStreamSynchronize)(stream[c]));
}

int main(int argc, char **argv)
{
    n = argc > 1 ? atoi(argv[1]) : 1;
    operations = argc > 2 ? atoi(argv[2]) : 200;
    if (n < 1 || n > MOST || operations < 1)
        return 64;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    s = mmap(NULL, (sizeof *s + 65535) / 65536 * 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 71;
    pid_t child = fork();
    me = child == 0;
    set_up();
    meet();
    measure();
    if (me)
        _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}
