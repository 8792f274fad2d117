#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"

int scratch_make(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/prism-trace-XXXXXX", tmp ? tmp : "/tmp");
    *state = mkdtemp(path) ? strdup(path) : NULL;
    return *state ? 0 : -1;
}

int scratch_remove(void **state)
{
    int rc = file_remove_tree(*state);
    free(*state);
    return rc;
}

void scratch_path(char *path, size_t len, const char *dir, const char *name)
{
    if (snprintf(path, len, "%s/%s", dir, name) >= (int)len)
        abort();
}

long scratch_size(const char *dir, const char *name)
{
    char path[1024];
    struct stat st;
    scratch_path(path, sizeof path, dir, name);
    return stat(path, &st) ? -1 : (long)st.st_size;
}

void scratch_flip(const char *dir, const char *name, long offset)
{
    char path[1024];
    scratch_path(path, sizeof path, dir, name);
    FILE *f = fopen(path, "r+b");
    if (!f || fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET))
        abort();
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 0x20, f);
    fclose(f);
}

void scratch_truncate(const char *dir, const char *name, long size)
{
    char path[1024];
    scratch_path(path, sizeof path, dir, name);
    if (truncate(path, size < 0 ? scratch_size(dir, name) + size : size))
        abort();
}

uint64_t scratch_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
