#include "preload/container.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

static bool is_elsewhere(void)
{
    const char *outside = getenv("PRISM_NETWORK_NAMESPACE");
    char here[64];
    ssize_t n = outside ? readlink("/proc/self/ns/net", here, sizeof here - 1) : -1;
    if (n <= 0)
        return false; /* not known: without /proc nothing of us works (docs/slurm.md) */
    here[n] = '\0';
    return strcmp(here, outside) != 0;
}

static _Noreturn void end(void)
{
    const char *complaints = getenv("PRISM_COMPLAINTS");
    if (!complaints || write(atoi(complaints), "n", 1) != 1)
        dprintf(STDERR_FILENO, "prism: this process is in another network namespace than prismd, which it cannot reach: let the container "
                               "share the host's\n");
    _exit(PRISM_EXIT_UNSUPPORTED);
}

void container_check_start(void)
{
    if (getenv("PRISM_CONTAINER_TOOL") && is_elsewhere())
        end();
}

void container_check_lost(void)
{
    if (is_elsewhere())
        end();
}
