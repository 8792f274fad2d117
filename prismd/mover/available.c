#include "prismd/mover/available.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX
#define PATH (PATH_MAX + 64)

static const struct version {
    const char *mount, *limits[2], *used, *inactive;
} first = {"/sys/fs/cgroup/memory", {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file"},
  second = {"/sys/fs/cgroup", {"memory.max", "memory.high"}, "memory.current", "inactive_file"};

static FILE *open_at(const char *folder, const char *name)
{
    const char *root = getenv("PRISM_TEST_MEMORY");
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s%s/%s", root ? root : "", folder, name);
    return fopen(path, "re");
}

/* The only number in a file; NONE when it is not there or not a number ("max"). */
static uint64_t number_in(const char *folder, const char *name)
{
    uint64_t n = NONE;
    FILE *f = open_at(folder, name);
    if (f && fscanf(f, "%" SCNu64, &n) != 1)
        n = NONE;
    if (f)
        fclose(f);
    return n;
}

/* The number behind a name at the beginning of a line. */
static uint64_t number_after(const char *folder, const char *file, const char *name)
{
    size_t len = strlen(name);
    char line[160];
    uint64_t n = NONE;
    FILE *f = open_at(folder, file);
    while (f && n == NONE && fgets(line, sizeof line, f))
        if (!strncmp(line, name, len) && (line[len] == ' ' || line[len] == ':'))
            n = strtoull(line + len + 1, NULL, 10);
    if (f)
        fclose(f);
    return n;
}

/* A limit that is more than the node has bounds nothing. */
static void look_in(const struct version *v, const char *folder, struct available *a)
{
    uint64_t limit = number_in(folder, v->limits[0]), other = v->limits[1] ? number_in(folder, v->limits[1]) : NONE;
    limit = other < limit ? other : limit;
    if (limit >= a->total)
        return;
    uint64_t used = number_in(folder, v->used), inactive = number_after(folder, "memory.stat", v->inactive);
    if (used == NONE)
        return;
    if (inactive != NONE)
        used -= inactive < used ? inactive : used;
    uint64_t left = limit > used ? limit - used : 0;
    a->bytes = left < a->bytes ? left : a->bytes;
    a->total = limit;
}

/* Whether a line of /proc/self/cgroup, "4:cpu,memory:/path", is of version 1's memory controller. */
static bool is_memory(char *list)
{
    char *save, *name = strtok_r(list, ",", &save);
    while (name && strcmp(name, "memory"))
        name = strtok_r(NULL, ",", &save);
    return name;
}

/* The group at this path, and those above it. */
static void look_up(const struct version *v, char *path, struct available *a)
{
    char folder[PATH];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", v->mount, path);
        look_in(v, folder, a);
        if (!*path)
            return;
        *strrchr(path, '/') = 0;
    }
}

void available_look(struct available *a)
{
    uint64_t total = number_after("/proc", "meminfo", "MemTotal"), kib = number_after("/proc", "meminfo", "MemAvailable");
    char line[PATH_MAX];
    a->total = total == NONE ? NONE : total << 10;
    a->bytes = kib == NONE ? NONE : kib << 10;
    FILE *f = open_at("/proc/self", "cgroup");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = 0;
        if (!list[1])
            look_up(&second, path, a);
        else if (is_memory(list + 1))
            look_up(&first, path, a);
    }
    if (f)
        fclose(f);
}
