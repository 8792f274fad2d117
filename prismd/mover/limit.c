#include "prismd/mover/limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t available(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    uint64_t kib = 0;
    while (f && !kib && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return kib << 10;
}

/* A number in a file; UINT64_MAX when it is not there or not a number ("max"). */
static uint64_t number_in(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    uint64_t n = UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%" SCNu64, &n) != 1)
        n = UINT64_MAX;
    if (f)
        fclose(f);
    return n;
}

/* What this folder of control groups leaves. */
static uint64_t left_in(const char *folder, const char *most, const char *used)
{
    uint64_t limit = number_in(folder, most), now = number_in(folder, used);
    if (limit == UINT64_MAX || now == UINT64_MAX)
        return UINT64_MAX;
    return limit > now ? limit - now : 0;
}

/* The process's group of version 2 (and those above it), or of version 1's memory controller. */
static uint64_t group_leaves(void)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[PATH_MAX], folder[PATH_MAX + 32];
    uint64_t least = UINT64_MAX;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *path = strchr(line, '/');
        bool second = !strncmp(line, "0::", 3);
        if (!path || (!second && !strstr(line, ":memory:")))
            continue;
        for (;;) {
            snprintf(folder, sizeof folder, "%s%s", second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", path);
            uint64_t left = second ? left_in(folder, "memory.max", "memory.current")
                                   : left_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
            least = left < least ? left : least;
            char *slash = strrchr(path, '/');
            if (!*path)
                break;
            *slash = 0;
        }
    }
    if (f)
        fclose(f);
    return least;
}

static const char *given_limit(void)
{
    const char *given = getenv("PRISM_HOST_POOL");
    return given && *given ? given : NULL;
}

bool limit_is_given(void)
{
    return given_limit();
}

uint64_t limit_pinned(unsigned movers)
{
    const char *given = given_limit();
    uint64_t free_now = available(), group = group_leaves();
    uint64_t all = given ? strtoull(given, NULL, 10) : (free_now < group ? free_now : group) / 10 * 6;
    return all / (movers ? movers : 1);
}
