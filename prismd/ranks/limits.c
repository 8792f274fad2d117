#include "prismd/ranks/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/log.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number in a file of one; UINT64_MAX where there is none, or it says "max". */
static uint64_t number_in(const char *path)
{
    unsigned long long value;
    FILE *f = fopen(path, "re");
    if (!f)
        return UINT64_MAX;
    int n = fscanf(f, "%llu", &value);
    fclose(f);
    return n == 1 ? value : UINT64_MAX;
}

static uint64_t limit_of(int resource)
{
    struct rlimit r;
    return getrlimit(resource, &r) || r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
}

/* Version 2's hierarchy, or version 1's with its controllers; a job's group is below one that may be tighter, which fork() finds out. */
static uint64_t control_group(const char *controller, const char *file)
{
    char line[4096], path[8400];
    uint64_t limit = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        bool unified = !names[1];
        if (!unified && !strstr(names, controller))
            continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s%s/%s", unified ? "" : controller, unified ? "" : "/", group, file);
        limit = least(limit, number_in(path));
    }
    if (f)
        fclose(f);
    return limit;
}

static uint64_t available_memory(void)
{
    char line[256];
    unsigned long long kib;
    uint64_t bytes = UINT64_MAX;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            bytes = kib * 1024;
    if (f)
        fclose(f);
    return bytes;
}

struct limits limits_read(void)
{
    struct limits l = {.files = limit_of(RLIMIT_NOFILE), .memory = least(available_memory(), control_group("memory", "memory.max"))};
    l.threads = least(number_in("/proc/sys/kernel/pid_max"), number_in("/proc/sys/kernel/threads-max"));
    l.threads = least(l.threads, control_group("pids", "pids.max"));
    if (geteuid())
        l.threads = least(l.threads, limit_of(RLIMIT_NPROC));
    return l;
}

int limits_check(const struct limits *l, uint32_t world, uint32_t ranks, uint32_t sharers, bool coordinator, struct prism_error *err)
{
    uint64_t files = (uint64_t)ranks * LIMITS_FILES_A_RANK + (coordinator ? world : 0) + LIMITS_FILES_BESIDE;
    uint64_t here = (uint64_t)ranks * (sharers ? sharers : 1), threads = here * LIMITS_THREADS_A_RANK, memory = here * LIMITS_BYTES_A_RANK;
    if (files > l->files)
        return prism_error_set(err, PRISM_EXIT_SYSTEM,
                               "capturing %u ranks on this node takes %" PRIu64 " open files, a process may have %" PRIu64 ": raise the limit "
                               "(ulimit -n, in Slurm LimitNOFILE of slurmd), or capture on more nodes or fewer ranks", ranks, files, l->files);
    if (threads > l->threads)
        return prism_error_set(err, PRISM_EXIT_SYSTEM,
                               "capturing %" PRIu64 " ranks on this machine takes %" PRIu64 " processes and threads, it may have %" PRIu64 ": raise the limit "
                               "(sysctl kernel.pid_max, ulimit -u, pids.max of the control group), or capture on more nodes or fewer ranks",
                               here, threads, l->threads);
    if (memory > l->memory)
        log_warn("capture of %" PRIu64 " ranks on this machine may take %" PRIu64 " MiB besides what the program itself takes, %" PRIu64 " MiB are available: "
                 "if it runs out, capture on more nodes or fewer ranks", here, memory >> 20, l->memory >> 20);
    return 0;
}
