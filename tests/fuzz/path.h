/* path.h - an input as a file that has a path, for readers that take one. */
#ifndef PRISM_TESTS_FUZZ_PATH_H
#define PRISM_TESTS_FUZZ_PATH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file lies in memory, good until the next call. */
static inline const char *fuzz_path(const uint8_t *data, size_t len)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, len, 0) != (ssize_t)len)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

#endif
