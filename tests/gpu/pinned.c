/* pinned.c - host memory for copies: how long each kind takes to make, and how fast copies from and to it are.
 *
 *     gpu_pinned [MiB a piece] [pieces] [kind] [threads]      one GPU; one JSON line a kind; default 256 MiB, 4 pieces, all kinds
 *
 * Kinds: "alloc" cuMemHostAlloc; "register" anonymous memory, touched, then cuMemHostRegister; "aligned" the same at a multiple of
 * 2 MiB; "shared" a memfd; "hugetlb" where the system has such pages. "both": half of the
 * pieces goes in while the other half comes out; each: GB/s of every piece of it. Threads: so many make pieces at once.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MIB  ((size_t)1 << 20)
#define MOST 512
#define THREADS 16

static CUstream stream, other;
static CUdeviceptr device, second;
static size_t bytes;
static int pieces;

static void *anonymous(size_t align, int flags, int fd)
{
    char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (align)
        p += (align - (size_t)p % align) % align;
    madvise(p, bytes, MADV_HUGEPAGE);
    if (madvise(p, bytes, MADV_POPULATE_WRITE))
        memset(p, 0, bytes);
    return p;
}

static void *make(const char *kind, double *touched)
{
    void *p = NULL;
    double began = now();
    if (!strcmp(kind, "alloc")) {
        MUST(CU(cuMemHostAlloc)(&p, bytes, CU_MEMHOSTALLOC_PORTABLE));
        return p;
    }
    if (!strcmp(kind, "register"))
        p = anonymous(0, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    else if (!strcmp(kind, "aligned"))
        p = anonymous(2 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    else if (!strcmp(kind, "hugetlb"))
        p = anonymous(0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    else {
        int fd = memfd_create("pinned", MFD_CLOEXEC);
        MUST(ftruncate(fd, (off_t)(bytes + 2 * MIB)));
        p = anonymous(2 * MIB, MAP_SHARED, fd);
    }
    *touched += now() - began;
    if (p && CU(cuMemHostRegister)(p, bytes, CU_MEMHOSTREGISTER_PORTABLE))
        p = NULL;
    return p;
}

static double speed(void *const *at, int out)
{
    double best = 0;
    for (int k = 0; k < 4; k++) {
        double began = now();
        for (int i = 0; i < pieces; i++)
            MUST(out ? CU(cuMemcpyDtoHAsync)(at[i], device, bytes, stream) : CU(cuMemcpyHtoDAsync)(device, at[i], bytes, stream));
        MUST(CU(cuStreamSynchronize)(stream));
        double gb = (double)bytes * pieces * 1e-9 / (now() - began);
        best = gb > best ? gb : best;
    }
    return best;
}

/* GB/s of each way while both are busy, until the first of them ends; each: of every piece in that time, 0 of the rest. */
static void speed_of_both(void *const *at, double gb[2], double each[2][MOST])
{
    CUevent done[2][MOST];
    int half = pieces / 2, counts[2] = {0, 0};
    double before[2], ended = 0;
    for (int i = 0; i < 2 * half; i++)
        MUST(CU(cuEventCreate)(&done[i / half][i % half], CU_EVENT_DISABLE_TIMING));
    memset(each, 0, sizeof(double[2][MOST]));
    double began = before[0] = before[1] = now();
    for (size_t i = 0; i < (size_t)half; i++) {
        MUST(CU(cuMemcpyHtoDAsync)(device + i * bytes, at[i], bytes, stream));
        MUST(CU(cuEventRecord)(done[0][i], stream));
        MUST(CU(cuMemcpyDtoHAsync)(at[half + i], second + i * bytes, bytes, other));
        MUST(CU(cuEventRecord)(done[1][i], other));
    }
    while (counts[0] < half && counts[1] < half)
        for (int way = 0; way < 2; way++)
            if (CU(cuEventQuery)(done[way][counts[way]]) == CUDA_SUCCESS) {
                ended = now();
                each[way][counts[way]++] = (double)bytes * 1e-9 / (ended - before[way]);
                before[way] = ended;
            }
    MUST(CU(cuStreamSynchronize)(stream));
    MUST(CU(cuStreamSynchronize)(other));
    for (int way = 0; way < 2; way++)
        gb[way] = (double)bytes * counts[way] * 1e-9 / (ended - began);
    for (int i = 0; i < 2 * half; i++)
        MUST(CU(cuEventDestroy)(done[i / half][i % half]));
}

static void print_each(const char *name, const double *each)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < pieces / 2; i++)
        printf("%s%.1f", i ? ", " : "", each[i]);
    printf("]");
}

static void *at[MOST];
static CUcontext context;
static const char *wanted;
static int threads = 1, next_piece;
static double touching[MOST]; /* by piece */

static void *make_pieces(void *unused)
{
    MUST(CU(cuCtxSetCurrent)(context));
    for (int i; (i = __atomic_fetch_add(&next_piece, 1, __ATOMIC_RELAXED)) < pieces;) {
        touching[i] = 0;
        at[i] = make(wanted, &touching[i]);
    }
    return unused;
}

static void measure(const char *kind)
{
    pthread_t makers[THREADS];
    double touched = 0, began = now();
    wanted = kind;
    next_piece = 0;
    for (int i = 0; i < threads; i++)
        MUST(pthread_create(&makers[i], NULL, make_pieces, NULL));
    for (int i = 0; i < threads; i++)
        MUST(pthread_join(makers[i], NULL));
    for (int i = 0; i < pieces; i++) {
        touched += touching[i] / threads;
        if (!at[i]) {
            printf("{\"row\": \"pinned\", \"kind\": \"%s\", \"made\": false}\n", kind);
            return;
        }
    }
    double made = now() - began, in = speed(at, 0), out = speed(at, 1), both[2] = {0, 0};
    static double each[2][MOST];
    for (int i = 0; i < 3 && pieces > 1; i++)
        speed_of_both(at, both, each);
    printf("{\"row\": \"pinned\", \"kind\": \"%s\", \"threads\": %d, \"made\": true, \"touch_gb_per_s\": %.2f, \"make_gb_per_s\": %.2f, \"in_gb_per_s\": %.2f, "
           "\"out_gb_per_s\": %.2f, \"both_in_gb_per_s\": %.2f, \"both_out_gb_per_s\": %.2f",
           kind, threads, touched > 0 ? (double)bytes * pieces * 1e-9 / touched : 0, (double)bytes * pieces * 1e-9 / made, in, out, both[0], both[1]);
    print_each("both_in_each", each[0]);
    print_each("both_out_each", each[1]);
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CUdevice first;
    bytes = (argc > 1 ? (size_t)atoi(argv[1]) : 256) * MIB;
    pieces = argc > 2 ? atoi(argv[2]) : 4;
    pieces = pieces < 1 ? 1 : pieces > MOST ? MOST : pieces;
    threads = argc > 4 ? atoi(argv[4]) : 1;
    threads = threads < 1 ? 1 : threads > THREADS ? THREADS : threads;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&first, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, first));
    MUST(CU(cuCtxSetCurrent)(context));
    MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    size_t half = pieces / 2 ? (size_t)pieces / 2 : 1;
    MUST(CU(cuMemAlloc)(&device, half * bytes));
    MUST(CU(cuMemAlloc)(&second, half * bytes));
    static const char *const kinds[] = {"alloc", "register", "aligned", "shared", "hugetlb", "alloc", "register"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc <= 3 || (!strcmp(argv[3], kinds[i]) && i < 5))
            measure(kinds[i]);
    return 0;
}
