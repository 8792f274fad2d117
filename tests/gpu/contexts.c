/* contexts.c - what it costs that many processes share a device: seconds and device memory of a context, by hardware queues,
 * made one after another and all at once.
 *
 *     contexts PROCESSES QUEUES[:STREAMS]...   a line of JSON for each number of queues (CUDA_DEVICE_MAX_CONNECTIONS)
 *
 * STREAMS: so many streams of each process wait at a closed gate (cuStreamWaitValue32) from when it has its context; then they
 * are made one after another only. seconds: of each context in the order of their ends; failed: those that were refused; bytes:
 * device memory that one takes. Every process holds its context until all of its round have theirs.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MOST 256

struct answer {
    int error;
    double seconds;
    size_t free_bytes;
};

/* Streams that wait until the word is 1. */
static uint32_t *close_gates(int streams)
{
    uint32_t *word;
    CUdeviceptr address;
    CUstream stream;
    MUST(CU(cuMemHostAlloc)((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    MUST(CU(cuMemHostGetDevicePointer)(&address, word, 0));
    for (int i = 0; i < streams; i++) {
        MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
        MUST(CU(cuStreamWaitValue32)(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    return word;
}

/* A process that makes a context when a byte comes from `begin` and holds it until `hold` is closed. */
static void child(int begin, int hold, int out, int streams)
{
    struct answer a = {0};
    CUdevice device;
    CUcontext context;
    size_t total;
    char byte;
    if (read(begin, &byte, 1) != 1)
        _exit(1);
    open_cuda = open_library("libcuda.so.1");
    double from = now();
    a.error = CU(cuInit)(0);
    if (!a.error)
        a.error = CU(cuDeviceGet)(&device, 0);
    if (!a.error)
        a.error = CU(cuDevicePrimaryCtxRetain)(&context, device);
    a.seconds = now() - from;
    if (!a.error)
        a.error = CU(cuCtxSetCurrent)(context);
    if (!a.error)
        a.error = CU(cuMemGetInfo)(&a.free_bytes, &total);
    uint32_t *word = a.error || !streams ? NULL : close_gates(streams);
    if (write(out, &a, sizeof a) != sizeof a)
        _exit(1);
    while (read(hold, &byte, 1) > 0)
        ;
    if (word)
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    _exit(0);
}

static void round_of(int n, const char *queues, int streams, bool at_once)
{
    int begin[2], hold[2], out[2], failed = 0;
    size_t first = 0, last = 0;
    if (pipe(begin) || pipe(hold) || pipe(out))
        exit(1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", queues, 1);
    fflush(stdout);
    for (int i = 0; i < n; i++)
        if (!fork()) {
            close(hold[1]);
            close(begin[1]);
            child(begin[0], hold[0], out[1], streams);
        }
    close(out[1]);
    close(hold[0]);
    double from = now();
    printf("{\"queues\": %s, \"processes\": %d, \"waiting_streams\": %d, \"at_once\": %s, \"seconds\": [", queues, n, streams,
           at_once ? "true" : "false");
    for (int i = 0, told = 0; i < n; i++) {
        struct answer a;
        for (; told < (at_once ? n : i + 1); told++)
            if (write(begin[1], "", 1) != 1)
                exit(1);
        if (read(out[0], &a, sizeof a) != sizeof a)
            break;
        printf("%s%.3f", i ? ", " : "", a.seconds);
        failed += a.error != 0;
        if (a.error)
            continue;
        first = first ? first : a.free_bytes;
        last = a.free_bytes;
    }
    printf("], \"all_seconds\": %.3f, \"failed\": %d, \"bytes\": %zu}\n", now() - from, failed, n > 1 && first > last ? (first - last) / (size_t)(n - 1) : 0);
    fflush(stdout);
    close(begin[1]);
    close(begin[0]);
    close(hold[1]);
    close(out[0]);
    while (wait(NULL) > 0)
        ;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[1]) : 0;
    if (n < 1 || n > MOST) {
        fprintf(stderr, "usage: contexts PROCESSES QUEUES[:STREAMS]...\n");
        return 64;
    }
    for (int i = 2; i < argc; i++) {
        char *colon = strchr(argv[i], ':');
        int streams = colon ? atoi(colon + 1) : 0;
        if (colon)
            *colon = 0;
        round_of(n, argv[i], streams, false);
        if (!colon)
            round_of(n, argv[i], 0, true);
    }
    return 0;
}
