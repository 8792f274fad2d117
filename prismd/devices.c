#include "prismd/devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICES_MAX 255

static int count_in_child(void)
{
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (!pid) {
        void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
        int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
        int (*count)(int *) = cuda ? (int (*)(int *))dlsym(cuda, "cuDeviceGetCount") : NULL;
        int n = 0;
        if (!init || !count || init(0) || count(&n))
            n = 0;
        _exit(n > DEVICES_MAX ? DEVICES_MAX : n);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static void add(char ***devices, uint32_t *n, const char *id, size_t len)
{
    *devices = realloc(*devices, (*n + 1) * sizeof **devices);
    char *copy = *devices ? strndup(id, len) : NULL;
    if (!copy)
        abort();
    (*devices)[(*n)++] = copy;
}

int devices_find(char ***devices, uint32_t *n, struct prism_error *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *cap = getenv("PRISM_DEVICES_PER_NODE");
    *devices = NULL;
    *n = 0;
    if (visible && *visible) {
        for (const char *p = visible; *p; p += strspn(p, ",")) {
            size_t len = strcspn(p, ",");
            if (len)
                add(devices, n, p, len);
            p += len;
        }
    } else {
        int count = count_in_child();
        char id[16];
        for (int i = 0; i < count; i++)
            add(devices, n, id, (size_t)snprintf(id, sizeof id, "%d", i));
    }
    while (cap && atoi(cap) > 0 && *n > (uint32_t)atoi(cap))
        free((*devices)[--*n]);
    if (!*n)
        return prism_error_set(err, PRISM_EXIT_SYSTEM,
                               "no GPU: libcuda.so.1 shows none here and CUDA_VISIBLE_DEVICES is not set; run on a GPU node, or put the "
                               "software GPU's folder into LD_LIBRARY_PATH");
    return 0;
}
