/* checks.c - see checks.h. */
#include "checks.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli.h"
#include "gpu.h"
#include "paths.h"

void check_say(char *out, size_t len, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, len, fmt, args);
    va_end(args);
}

static void check_parts(struct gpu *gpu, struct check *c)
{
    char daemon[PATH_MAX], library[PATH_MAX];
    struct prism_error err = { 0 };
    if (paths_daemon(daemon, sizeof(daemon), &err) != 0 || paths_library(library, sizeof(library), &err) != 0) {
        FOUND(c, "%.500s", err.text);
        MEND(c, CHECK_BAD, "build with make, or install all of Prism under one prefix");
        return;
    }
    FOUND(c, "%.240s, %.240s", daemon, library);
}

/* Beside prismd, which starts it. */
static void check_pmix(struct gpu *gpu, struct check *c)
{
    char path[PATH_MAX + 16], line[128] = "";
    struct prism_error err = { 0 };
    if (paths_daemon(path, PATH_MAX, &err) != 0) {
        FOUND(c, "%.500s", err.text);
        return; /* check_parts tells what to do */
    }
    strcpy(strrchr(path, '/') + 1, "prism-pmix");
    setenv("PRISM_PMIX_SERVER", path, 1);
    FILE *in = access(path, X_OK) == 0 ? popen("\"$PRISM_PMIX_SERVER\" --version 2>/dev/null", "r") : NULL;
    if (in && fgets(line, sizeof(line), in))
        line[strcspn(line, "\n")] = '\0';
    bool works = in && pclose(in) == 0 && line[0];
    unsetenv("PRISM_PMIX_SERVER");
    FOUND(c, "%s", works ? line : in ? "prism-pmix does not start" : "built without PMIx");
    if (!works)
        MEND(c, CHECK_WARN, "only for programs that use PMIx (Open MPI): install %s", in ? "libpmix2" : "libpmix-dev and build again");
}

static void check_driver(struct gpu *gpu, struct check *c)
{
    struct prism_error err = { 0 };
    if (gpu_load_driver(gpu, &err) != 0) {
        FOUND(c, "libcuda.so.1: %.400s", err.text);
        MEND(c, CHECK_BAD, "install the NVIDIA driver; without a GPU put Prism's software GPUs first: "
                           "LD_LIBRARY_PATH=<prefix>/lib/softgpu");
        return;
    }
    FOUND(c, "libcuda.so.1");
}

static void check_runtime(struct gpu *gpu, struct check *c)
{
    struct prism_error err = { 0 };
    int version = 0, devices = 0;
    if (gpu_load_cudart(gpu, &err) != 0) {
        FOUND(c, "libcudart: %.400s", err.text);
        MEND(c, CHECK_WARN, "programs that bring their own (PyTorch does) need none; doctor --measure needs it on "
                            "LD_LIBRARY_PATH");
        return;
    }
    cudaError_t result = gpu->GetDeviceCount(&devices);
    gpu->RuntimeGetVersion(&version);
    if (result != cudaSuccess || devices == 0) {
        FOUND(c, "%s %d.%d, no device: %s", gpu->cudart_name, version / 1000, version % 1000 / 10,
              gpu->GetErrorString(result));
        MEND(c, CHECK_BAD, "ask for a GPU (srun --gpus-per-node), check CUDA_VISIBLE_DEVICES and nvidia-smi");
        return;
    }
    FOUND(c, "%s %d.%d, %d device%s", gpu->cudart_name, version / 1000, version % 1000 / 10, devices,
          devices == 1 ? "" : "s");
}

static void check_nccl(struct gpu *gpu, struct check *c)
{
    struct prism_error err = { 0 };
    int version = 0;
    if (gpu_load_nccl(gpu, &err) != 0) {
        FOUND(c, "libnccl.so.2: %.400s", err.text);
        MEND(c, CHECK_WARN, "programs that bring their own (PyTorch does) need none; assistants and doctor --measure "
                            "need it on LD_LIBRARY_PATH");
        return;
    }
    gpu->ncclGetVersion(&version);
    FOUND(c, "NCCL %d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
    if (version < NCCL_VERSION(2, 18, 1))
        MEND(c, CHECK_WARN, "Prism is written for NCCL 2.28; older than 2.18 lacks ncclCommSplit");
}

/* Write a flag from a stream and wait for it there, as a gate does. */
static int try_gate(struct gpu *gpu, uint32_t *page, size_t size, struct prism_error *err)
{
    cudaStream_t stream;
    void *device;
    GPU_CUDA(gpu, SetDevice(0), err);
    GPU_CUDA(gpu, HostRegister(page, size, cudaHostRegisterMapped), err);
    GPU_CUDA(gpu, HostGetDevicePointer(&device, page, 0), err);
    GPU_CUDA(gpu, StreamCreateWithFlags(&stream, cudaStreamNonBlocking), err);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)device;
    if (gpu->StreamWriteValue32((CUstream)stream, address, 7, 0) != CUDA_SUCCESS ||
        gpu->StreamWaitValue32((CUstream)stream, address, 7, 0) != CUDA_SUCCESS)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "the driver refuses stream memory operations");
    GPU_CUDA(gpu, StreamSynchronize(stream), err);
    GPU_CUDA(gpu, StreamDestroy(stream), err);
    GPU_CUDA(gpu, HostUnregister(page), err);
    if (*(volatile uint32_t *)page != 7)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "a value written by a stream did not arrive in host memory");
    return 0;
}

static void check_gates(struct gpu *gpu, struct check *c)
{
    struct prism_error err = { 0 };
    int devices = 0;
    if (!gpu->cudart || !gpu->StreamWriteValue32 || gpu->GetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        FOUND(c, "not tried: no device");
        MEND(c, CHECK_WARN, "mend what stands above, then run this again");
        return;
    }
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || try_gate(gpu, page, size, &err) != 0) {
        FOUND(c, "%.500s", err.text);
        MEND(c, CHECK_BAD, "gates need cuStreamWriteValue32 on registered host memory: driver 535 or later, and no "
                           "vGPU profile that turns it off");
        return;
    }
    munmap(page, size);
    FOUND(c, "a stream wrote a flag and waited for it");
}

static void check_shm(struct gpu *gpu, struct check *c)
{
    struct statvfs fs;
    char size[40];
    int fd = memfd_create("prism-doctor", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 1 << 20) != 0 || statvfs("/dev/shm", &fs) != 0) {
        FOUND(c, "%s", strerror(errno));
        MEND(c, CHECK_BAD, "shared memory is refused here: mount /dev/shm (containers: --ipc=host or --shm-size)");
    } else {
        double left = (double)fs.f_bavail * (double)fs.f_frsize;
        FOUND(c, "%s free in /dev/shm", format_bytes(size, sizeof(size), left));
        if (left < 256e6)
            MEND(c, CHECK_WARN, "NCCL keeps its buffers there: mount it larger (containers: --shm-size=8g)");
    }
    if (fd >= 0)
        close(fd);
}

static void check_limit(struct check *c, int resource, rlim_t wanted, const char *unit, const char *mend)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        FOUND(c, "%s", strerror(errno));
        MEND(c, CHECK_WARN, "%s", mend);
        return;
    }
    /* prismd raises the soft limit itself, the hard one counts. */
    if (limit.rlim_max == RLIM_INFINITY)
        FOUND(c, "unlimited");
    else
        FOUND(c, "%llu %s", (unsigned long long)limit.rlim_max, unit);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted)
        MEND(c, CHECK_WARN, "%s", mend);
}

static void check_processes(struct gpu *gpu, struct check *c)
{
    check_limit(c, RLIMIT_NPROC, 4096, "processes",
                "one process a logical rank: ulimit -u, or nproc in limits.conf, to the world's size and more");
}

static void check_files(struct gpu *gpu, struct check *c)
{
    check_limit(c, RLIMIT_NOFILE, 16384, "open files",
                "some four descriptors a logical rank: ulimit -n, or nofile in limits.conf");
}

static void check_memlock(struct gpu *gpu, struct check *c)
{
    check_limit(c, RLIMIT_MEMLOCK, (rlim_t)1 << 26, "bytes locked",
                "pinned memory of the payload ring: ulimit -l unlimited; under Slurm also "
                "PropagateResourceLimitsExcept=MEMLOCK");
}

/* pids.max of this process' cgroup bounds what the limits of the user do not show. */
static void check_cgroup(struct gpu *gpu, struct check *c)
{
    char line[PATH_MAX], path[PATH_MAX + 64] = "", value[64] = "max";
    FILE *in = fopen("/proc/self/cgroup", "r");
    while (in && fgets(line, sizeof(line), in))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/pids.max", line + 3);
        }
    if (in)
        fclose(in);
    in = path[0] ? fopen(path, "r") : NULL;
    if (in && fgets(value, sizeof(value), in))
        value[strcspn(value, "\n")] = '\0';
    if (in)
        fclose(in);
    FOUND(c, "%s", strcmp(value, "max") == 0 ? "no limit of processes" : value);
    if (strcmp(value, "max") != 0 && atol(value) < 4096)
        MEND(c, CHECK_WARN, "one process a logical rank: raise pids.max of %.400s", path);
}

static const struct {
    const char *name;
    void (*run)(struct gpu *gpu, struct check *c);
} table[] = {
    { "Prism's own parts", check_parts },
    { "PMIx", check_pmix },
    { "CUDA driver", check_driver },
    { "CUDA runtime", check_runtime },
    { "NCCL", check_nccl },
    { "stream memory operations", check_gates },
    { "shared memory", check_shm },
    { "processes", check_processes },
    { "processes (cgroup)", check_cgroup },
    { "open files", check_files },
    { "locked memory", check_memlock },
};
_Static_assert(sizeof(table) / sizeof(table[0]) <= CHECKS_MAX, "raise CHECKS_MAX");

size_t checks_run(struct check checks[CHECKS_MAX])
{
    static struct gpu gpu; /* the libraries stay loaded until the process ends */
    size_t n = sizeof(table) / sizeof(table[0]);
    for (size_t i = 0; i < n; i++) {
        checks[i] = (struct check){ .name = table[i].name };
        table[i].run(&gpu, &checks[i]);
    }
    return n;
}
