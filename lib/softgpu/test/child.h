/* child.h - each test of the software GPU runs in a process of its own, since CUDA does not outlive fork() and reads
 * its environment once. In the child CHECK ends the process with a message; the parent asserts that it went well.
 */
#ifndef SOFTGPU_TEST_CHILD_H
#define SOFTGPU_TEST_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "softgpu/softgpu.h"

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            fflush(NULL);                                                             \
            _exit(1);                                                                 \
        }                                                                             \
    } while (0)
#define CHECK_IS(call, expected)                                                                       \
    do {                                                                                               \
        int child_got = (int)(call);                                                                   \
        if (child_got != (int)(expected)) {                                                            \
            fprintf(stderr, "%s:%d: %s is %d, not %s\n", __FILE__, __LINE__, #call, child_got, #expected); \
            fflush(NULL);                                                                              \
            _exit(1);                                                                                  \
        }                                                                                              \
    } while (0)
#define OK(call) CHECK_IS(call, 0)

/* A state folder and a profile without jitter, where a kernel of `flops` takes flops / 1e6 seconds and nothing else. */
static char test_folder[64];

static inline int make_folder(void **state)
{
    char path[128];
    snprintf(test_folder, sizeof(test_folder), "/tmp/softgpu-test-XXXXXX");
    if (!mkdtemp(test_folder))
        return -1;
    snprintf(path, sizeof(path), "%s/profile.conf", test_folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f, "seed = 1;\ndevice = { flops = 1e6; bandwidth = 1e6; launch_overhead = 0.0; jitter = 0.0;\n"
               "  pcie_bandwidth = 1e12; pcie_latency = 0.0; memory = \"64M\"; overlap_slowdown = 0.5; };\n");
    fclose(f);
    setenv("SOFTGPU_DIR", test_folder, 1);
    setenv("SOFTGPU_PROFILE", path, 1);
    unsetenv("SOFTGPU_TIME_SCALE");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("SOFTGPU_DEVICES");
    unsetenv("SOFTGPU_NODE");
    unsetenv("SOFTGPU_STATS");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return 0;
}

/* Fails if processes left their state files behind. */
static inline int remove_folder(void **state)
{
    char command[160];
    snprintf(command, sizeof(command), "rm -f %s/profile.conf; rmdir %s", test_folder, test_folder);
    return system(command);
}

static inline int child_status(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return status;
}

static inline pid_t start_child(void (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        body();
        exit(0);
    }
    return pid;
}

static inline void in_child(void (*body)(void))
{
    int status = child_status(start_child(body));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Launch fn with one pointer as its argument block, taking ms milliseconds of the test profile. */
static inline void launch_ms(cudaStream_t stream, void (*fn)(void *), void *pointer, double ms)
{
    struct softgpuCost cost = {.flops = ms * 1e3};
    OK(softgpuLaunchHostFunc(stream, fn, &pointer, sizeof(pointer), &cost));
}

static inline void no_work(void *args)
{
}

#define IN_CHILD(name)                   \
    static void test_##name(void **state) \
    {                                    \
        in_child(name);                  \
    }

/* The same for what compares modelled times with the clock, for which hosts are too slow under the thread sanitizer. */
#ifdef __SANITIZE_THREAD__
#define TIMED_IN_CHILD(name)             \
    static void test_##name(void **state) \
    {                                    \
        (void)name;                      \
        skip();                          \
    }
#else
#define TIMED_IN_CHILD(name) IN_CHILD(name)
#endif

#endif
