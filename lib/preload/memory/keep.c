#include "preload/memory/keep.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "preload/preload.h"

#define LOWEST_MOST 2048 /* beyond what select() takes */

static int first = -1;         /* the lowest number that is ours */
static bool used[KEEP_MOST]; /* atomic: a child may be forked at any time */

/* Not higher than has a use: a table of descriptors is as long as its highest, and each fork copies it. */
static int lowest(void)
{
    struct rlimit limit;
    if (first < 0)
        first = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > LOWEST_MOST ? LOWEST_MOST : (int)(limit.rlim_cur / 2);
    return first;
}

int keep_reserve(int any)
{
    int fd = fcntl(any, F_DUPFD_CLOEXEC, lowest());
    if (fd < 0)
        return -1;
    if (fd - first >= KEEP_MOST) {
        close(fd);
        return -1;
    }
    __atomic_store_n(&used[fd - first], true, __ATOMIC_RELEASE);
    return fd;
}

void keep_put(int kept, int fd)
{
    if (dup3(fd, kept, O_CLOEXEC) < 0)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot keep a descriptor of device memory", session.rank);
    close(fd);
}

void keep_close(int kept)
{
    if (kept < 0)
        return;
    __atomic_store_n(&used[kept - first], false, __ATOMIC_RELEASE);
    close(kept);
}

void keep_forget(void)
{
    for (int i = 0; i < KEEP_MOST; i++)
        if (__atomic_load_n(&used[i], __ATOMIC_ACQUIRE)) {
            used[i] = false;
            close(first + i);
        }
}
