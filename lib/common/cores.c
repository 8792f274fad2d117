#include "common/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A set of 1,024 is refused by a kernel that can have more: this is 8,192, the most that Linux is built for. */
#define SETS 8

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t of_affinity(void)
{
    cpu_set_t sets[SETS];
    return sched_getaffinity(0, sizeof sets, sets) ? 1 : (uint32_t)CPU_COUNT_S(sizeof sets, sets);
}

/* How many numbers the file begins with, at most two. */
static int read_numbers(const char *folder, const char *name, long long *a, long long *b)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "re");
    int n = f ? fscanf(f, "%lld %lld", a, b) : 0;
    if (f)
        fclose(f);
    return n;
}

static uint32_t of_folder(const char *folder)
{
    long long quota, period, none;
    bool limited = read_numbers(folder, "cpu.max", &quota, &period) == 2 || /* "max 100000": no limit */
                   (read_numbers(folder, "cpu.cfs_quota_us", &quota, &none) == 1 && /* -1: no limit */
                    read_numbers(folder, "cpu.cfs_period_us", &period, &none) == 1);
    if (!limited || quota < 0 || period < 1)
        return UINT32_MAX;
    long long n = quota / period + (quota % period != 0);
    return n < 1 ? 1 : n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The least of a cgroup and those above it, up to the mount. In a container the path may be the host's, of which nothing is to be seen:
 * the mount is the container's then. */
static uint32_t of_group(const char *root, const char *mount, const char *group)
{
    char folder[PATH_MAX], *slash;
    uint32_t n = UINT32_MAX;
    size_t top = strlen(root) + strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s%s", root, mount, group) >= (int)sizeof folder)
        return n;
    do
        n = least(n, of_folder(folder));
    while ((slash = strrchr(folder, '/')) && slash >= folder + top && (*slash = 0, true));
    return n;
}

static bool is_in(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
            return true;
    return false;
}

/* UINT32_MAX: no limit, or no cgroups. Lines are NUMBER:CONTROLLERS:PATH, cgroups(7). */
static uint32_t of_cgroup(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint32_t n = UINT32_MAX;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return n;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (!*controllers)
            n = least(n, of_group(root, "/sys/fs/cgroup", group));
        else if (is_in(controllers, "cpu"))
            n = least(n, of_group(root, "/sys/fs/cgroup/cpu", group));
    }
    if (f)
        fclose(f);
    return n;
}

uint32_t cores_usable_below(const char *root)
{
    return least(of_affinity(), of_cgroup(root));
}

uint32_t cores_usable(void)
{
    static _Atomic uint32_t of_time; /* 0: not looked at yet */
    if (!of_time)
        of_time = of_cgroup("");
    return least(of_affinity(), of_time);
}
