/* hand.c - device memory that one process made and another goes on with, by way of a third that imported it, as the mover hands
 * it from a rank that leaves to one that comes.
 *
 *     gpu_hand [MiB] [times]      one GPU; one JSON line; default 80 MiB, 32 times
 *
 * "again": CUDA's error for exporting a handle that was imported. "alone": whether memory of which only a descriptor is left can be imported.
 * "kept": whether its contents came through all hands. Microseconds (medians): creating or importing, each with mapping and access; exporting.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/open.h"

#define MIB  ((size_t)1 << 20)
#define MOST 256

static size_t bytes = 80 * MIB;
static unsigned times = 32;

struct note {
    unsigned char fill;
    int error;
};

static void put(int socket, struct note n, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {&n, sizeof n};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    if (sendmsg(socket, &m, MSG_NOSIGNAL) != sizeof n)
        exit(1);
}

static struct note get(int socket, int *fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct note n;
    struct iovec io = {&n, sizeof n};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &m, 0) != sizeof n)
        exit(1);
    *fd = -1;
    if (m.msg_controllen)
        memcpy(fd, CMSG_DATA(&control.head), sizeof *fd);
    return n;
}

static void begin(void)
{
    CUdevice device;
    CUcontext context;
    open_cuda = open_library("libcuda.so.1");
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, device));
    MUST(CU(cuCtxSetCurrent)(context));
}

static CUdeviceptr map(CUmemGenericAllocationHandle h)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    static CUdeviceptr at;
    if (!at)
        MUST(CU(cuMemAddressReserve)(&at, bytes, 0, 0, 0));
    MUST(CU(cuMemMap)(at, bytes, 0, h, 0));
    MUST(CU(cuMemSetAccess)(at, bytes, &access, 1));
    return at;
}

static void unmap(CUdeviceptr at, CUmemGenericAllocationHandle h)
{
    MUST(CU(cuMemUnmap)(at, bytes));
    MUST(CU(cuMemRelease)(h));
}

static CUresult create(CUmemGenericAllocationHandle *h)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    return CU(cuMemCreate)(h, bytes, &prop, 0);
}

static CUresult import(CUmemGenericAllocationHandle *h, int fd)
{
    CUresult r = CU(cuMemImportFromShareableHandle)(h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(fd);
    return r;
}

static unsigned char look(CUdeviceptr at)
{
    unsigned char first, last;
    MUST(CU(cuMemcpyDtoH)(&first, at, 1));
    MUST(CU(cuMemcpyDtoH)(&last, at + bytes - 1, 1));
    return first == last ? first : 0;
}

/* Makes memory, fills it, hands it over and releases it. */
static int leave(struct note *n, int none)
{
    CUmemGenericAllocationHandle h;
    int fd = none;
    MUST(create(&h));
    CUdeviceptr at = map(h);
    MUST(CU(cuMemsetD8)(at, n->fill, bytes));
    MUST(CU(cuCtxSynchronize)());
    MUST(CU(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    unmap(at, h);
    return fd;
}

/* Goes on with memory that it is handed, and hands it on again. */
static int come(struct note *n, int handed)
{
    CUmemGenericAllocationHandle h;
    int fd = -1;
    n->error = import(&h, handed);
    if (n->error)
        return -1;
    CUdeviceptr at = map(h);
    n->fill = look(at) == n->fill ? n->fill : 0;
    MUST(CU(cuMemsetD8)(at, n->fill + 1, bytes));
    MUST(CU(cuCtxSynchronize)());
    n->error = CU(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    unmap(at, h);
    return n->error ? -1 : fd;
}

/* Answers notes until one of fill 0 comes; role: what to do for one, with its descriptor and the answer's (-1 = none). */
static void serve(int socket, int (*role)(struct note *n, int fd))
{
    int fd;
    begin();
    for (struct note n; (n = get(socket, &fd)).fill;) {
        fd = role(&n, fd);
        put(socket, n, fd);
        if (fd >= 0)
            close(fd);
    }
    _exit(0);
}

static int partner(int (*role)(struct note *n, int fd))
{
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    if (!fork()) {
        close(pair[0]);
        serve(pair[1], role);
    }
    close(pair[1]);
    return pair[0];
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, times, sizeof *t, order);
    return t[times / 2] * 1e6;
}

/* Memory of the leaver, by way of us, to the comer and back to us. alone: we do not keep it ourselves meanwhile. */
static struct note round_trip(int from, int to, unsigned char fill, bool alone)
{
    CUmemGenericAllocationHandle h = 0, back;
    int fd;
    put(from, (struct note){fill, 0}, -1);
    get(from, &fd);
    if (!alone)
        MUST(import(&h, dup(fd)));
    put(to, (struct note){fill, 0}, fd);
    close(fd);
    struct note n = get(to, &fd);
    if (h)
        MUST(CU(cuMemRelease)(h));
    if (fd >= 0) {
        MUST(import(&back, fd));
        CUdeviceptr at = map(back);
        if (look(at) != fill + 1)
            n.fill = 0;
        unmap(at, back);
    }
    return n;
}

/* How long the device takes to say that it has no more. */
static double refusal(void)
{
    static CUmemGenericAllocationHandle all[8192];
    double worst = 0;
    unsigned n = 0;
    while (n < 8192 && !create(&all[n]))
        n++;
    for (int i = 0; i < 5; i++) {
        double began = now();
        CUmemGenericAllocationHandle h;
        if (create(&h))
            worst = now() - began > worst ? now() - began : worst;
    }
    while (n)
        MUST(CU(cuMemRelease)(all[--n]));
    return worst * 1e6;
}

int main(int argc, char **argv)
{
    static double creating[MOST], importing[MOST], exporting[MOST];
    size_t free_before, free_after, total;
    bytes = argc > 1 ? (size_t)atoi(argv[1]) * MIB : bytes;
    times = argc > 2 ? (unsigned)atoi(argv[2]) : times;
    if (!bytes || bytes % (2 * MIB) || !times || times > MOST) {
        fprintf(stderr, "gpu_hand [MiB, an even number] [times, %d at most]\n", MOST);
        return 2;
    }
    int from = partner(leave), to = partner(come);
    begin();
    struct note kept = round_trip(from, to, 7, false), alone = round_trip(from, to, 11, true);
    MUST(CU(cuMemGetInfo)(&free_before, &total));
    for (unsigned i = 0; i < times; i++) {
        CUmemGenericAllocationHandle h, second;
        int fd;
        double t0 = now();
        MUST(create(&h));
        CUdeviceptr at = map(h);
        double t1 = now();
        MUST(CU(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        double t2 = now();
        MUST(CU(cuMemUnmap)(at, bytes));
        double t3 = now();
        MUST(import(&second, fd));
        at = map(second);
        double t4 = now();
        unmap(at, second);
        MUST(CU(cuMemRelease)(h));
        creating[i] = t1 - t0;
        exporting[i] = t2 - t1;
        importing[i] = t4 - t3;
    }
    for (unsigned char i = 0; i < 8; i++)
        round_trip(from, to, (unsigned char)(20 + 2 * i), false);
    MUST(CU(cuMemGetInfo)(&free_after, &total));
    printf("{\"row\": \"hand\", \"mib\": %zu, \"again\": %d, \"alone\": %d, \"kept\": %s, \"kept_alone\": %s, \"lost_bytes\": %lld, \"create_us\": %.1f, "
           "\"import_us\": %.1f, \"export_us\": %.1f, \"refused_us\": %.1f}\n",
           bytes / MIB, kept.error, alone.error, kept.fill == 7 ? "true" : "false", alone.fill == 11 ? "true" : "false",
           (long long)free_before - (long long)free_after, median(creating), median(importing), median(exporting), refusal());
    put(from, (struct note){0}, -1);
    put(to, (struct note){0}, -1);
    while (wait(NULL) > 0)
        ;
    return 0;
}
