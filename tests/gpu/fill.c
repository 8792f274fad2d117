/* fill.c - what control mode makes on the device (lib/preload/gate/fill.h), by the kernel and by copies: whether it is the pattern of
 * lib/coll/synthetic.h, and what it costs.
 *
 *     gpu_fill [check]     a line of JSON for each way and width of launch; with check the contents only
 *
 * wrong: buffers that differ, or bytes beside them that changed, of all datatypes, odd sizes and places. calls: of the driver for
 * 67 MB; host_us: what they take its caller, the median of REPEATS fills, the stream idle; device_us: one of BATCH fills, by events.
 * load_ms: of the kernel, before another stream stands at a closed gate. The exit code is 1 where contents differ, 69 where there
 * is no kernel; killed by an alarm: the first launch waited for that gate.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "coll/synthetic.h"
#include "coll/types.h"
#include "preload/gate/fill.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "tests/gpu/open.h"

#define LARGE   ((uint64_t)67108864)
#define GUARD   64u /* bytes before and behind that stay as they were */
#define UNUSED  0x5a
#define REPEATS 41
#define BATCH   20

/* What the library's fill.o refers to. */
struct driver driver_;
struct session session;

void session_cuda_failed(const char *call, int error)
{
    fprintf(stderr, "%s = %d\n", call, error);
    exit(1);
}

typedef void (*way)(CUstream stream, CUdeviceptr to, uint64_t bytes, int datatype);

static CUstream stream;
static CUdeviceptr buffer;
static uint8_t *seen, *wanted; /* LARGE + 2 GUARD each */
static unsigned calls;
static uint32_t blocks = FILL_BLOCKS;

static void by_kernel(CUstream s, CUdeviceptr to, uint64_t bytes, int datatype)
{
    if (!fill_by_kernel(s, to, bytes, datatype, blocks))
        exit(69);
}

/* --- the driver, its calls counted --- */

static struct driver real;

static CUresult count_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                             CUstream s, void **parameters, void **extra)
{
    calls++;
    return real.p_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, parameters, extra);
}

static CUresult count_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    calls++;
    return real.p_cuMemcpyAsync(to, from, bytes, s);
}

#define UPLOAD_(name) p_##name
#define UPLOAD(name)  UPLOAD_(name)

static CUresult count_upload(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
    calls++;
    return real.UPLOAD(cuMemcpyHtoDAsync)(to, from, bytes, s);
}

static void open_driver(void)
{
    open_cuda = open_library("libcuda.so.1");
#define OPEN(name) driver(name) = CU(name);
    DRIVER_FUNCTIONS(OPEN)
#undef OPEN
    real = driver_;
    driver(cuLaunchKernel) = count_launch;
    driver(cuMemcpyAsync) = count_copy;
    driver(cuMemcpyHtoDAsync) = count_upload;
}

/* --- lazy loading --- */

/* Where loading the kernel was left to this launch, it waits for the gate for ever. */
static void launch_beside_gate(void)
{
    CUstream gated;
    CUdeviceptr word;
    MUST(CU(cuStreamCreate)(&gated, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuMemAlloc)(&word, sizeof(uint32_t)));
    MUST(CU(cuMemsetD32Async)(word, 0, 1, stream));
    MUST(CU(cuStreamSynchronize)(stream));
    MUST(CU(cuStreamWaitValue32)(gated, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    alarm(30);
    by_kernel(stream, buffer, LARGE, COLL_BFLOAT16);
    MUST(CU(cuStreamSynchronize)(stream));
    alarm(0);
    MUST(CU(cuStreamWriteValue32)(stream, word, 1, 0));
    MUST(CU(cuStreamSynchronize)(gated));
    printf("{\"beside_closed_gate\": true}\n");
}

/* --- contents --- */

static bool is_right(way fill_one, uint64_t offset, uint64_t bytes, int datatype)
{
    uint64_t all = GUARD + offset + bytes + GUARD;
    memset(wanted, UNUSED, all);
    coll_synthetic_fill(wanted + GUARD + offset, bytes, datatype);
    MUST(CU(cuMemsetD8Async)(buffer, UNUSED, all, stream));
    fill_one(stream, buffer + GUARD + offset, bytes, datatype);
    MUST(CU(cuMemcpyDtoHAsync)(seen, buffer, all, stream));
    MUST(CU(cuStreamSynchronize)(stream));
    if (!memcmp(seen, wanted, all))
        return true;
    uint64_t at = 0;
    while (seen[at] == wanted[at])
        at++;
    fprintf(stderr, "%s: %llu bytes at offset %llu: byte %lld is %#x, not %#x\n", coll_datatype_name(datatype), (unsigned long long)bytes,
            (unsigned long long)offset, (long long)at - GUARD - (long long)offset, seen[at], wanted[at]);
    return false;
}

/* Ends and starts on either side of what a thread, a block and a launch store at once, and of the pattern's period. */
static unsigned count_wrong(way fill_one)
{
    static const uint64_t sizes[] = {1, 2, 15, 16, 17, 31, 255, 2047, 2048, 4095, 4096, 4097, 5000, 8191, 65535, 65537, 1000003, 2162688, 4325393},
                          offsets[] = {0, 1, 2, 4, 7, 8, 15, 16, 24, 1021, 2047, 2048, 4090};
    unsigned wrong = 0;
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++)
                if (sizes[i] < 100000 || k % 4 == 0)
                    wrong += !is_right(fill_one, offsets[k], sizes[i], datatype);
    return wrong + !is_right(fill_one, 0, LARGE, COLL_BFLOAT16) + !is_right(fill_one, 2, LARGE - 2, COLL_BFLOAT16);
}

/* --- cost --- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double host_us(way fill_one)
{
    double us[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        MUST(CU(cuStreamSynchronize)(stream));
        double began = now();
        fill_one(stream, buffer, LARGE, COLL_BFLOAT16);
        us[i] = (now() - began) * 1e6;
    }
    qsort(us, REPEATS, sizeof *us, by_size);
    return us[REPEATS / 2];
}

static double device_us(way fill_one)
{
    CUevent before, after;
    float ms;
    MUST(CU(cuEventCreate)(&before, 0));
    MUST(CU(cuEventCreate)(&after, 0));
    MUST(CU(cuEventRecord)(before, stream));
    for (int i = 0; i < BATCH; i++)
        fill_one(stream, buffer, LARGE, COLL_BFLOAT16);
    MUST(CU(cuEventRecord)(after, stream));
    MUST(CU(cuEventSynchronize)(after));
    MUST(CU(cuEventElapsedTime)(&ms, before, after));
    MUST(CU(cuEventDestroy)(before));
    MUST(CU(cuEventDestroy)(after));
    return (double)ms * 1e3 / BATCH;
}

static void tell_cost(const char *name, way fill_one)
{
    calls = 0;
    fill_one(stream, buffer, LARGE, COLL_BFLOAT16);
    unsigned one = calls;
    double host = host_us(fill_one), device = device_us(fill_one);
    printf("{\"way\": \"%s\", \"blocks\": %u, \"bytes\": %llu, \"calls\": %u, \"host_us\": %.2f, \"device_us\": %.1f}\n", name,
           fill_one == by_kernel ? blocks : 0, (unsigned long long)LARGE, one, host, device);
    fflush(stdout);
}

static void set_up(void)
{
    CUcontext context;
    CUdevice device;
    open_driver();
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuMemAlloc)(&buffer, LARGE + 2 * GUARD));
    if (!(seen = malloc(LARGE + 2 * GUARD)) || !(wanted = malloc(LARGE + 2 * GUARD)))
        abort();
    double began = now();
    fill_load();
    printf("{\"load_ms\": %.1f}\n", (now() - began) * 1e3);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        way fill;
    } ways[] = {{"kernel", by_kernel}, {"copies", fill_by_copies}};
    unsigned all = 0;
    set_up();
    launch_beside_gate();
    for (size_t i = 0; i < 2; i++) {
        unsigned wrong = count_wrong(ways[i].fill);
        printf("{\"way\": \"%s\", \"wrong\": %u}\n", ways[i].name, wrong);
        fflush(stdout);
        all += wrong;
    }
    if (argc > 1 && !strcmp(argv[1], "check"))
        return all != 0;
    tell_cost("copies", fill_by_copies);
    for (blocks = FILL_BLOCKS / 4; blocks <= 4 * FILL_BLOCKS; blocks *= 2)
        tell_cost("kernel", by_kernel);
    return all != 0;
}
