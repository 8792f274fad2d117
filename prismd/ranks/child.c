#include "prismd/ranks/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/error.h"

int child_find(const char *name, char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (strlen(name) >= (size_t)(path + PATH_MAX - base))
        return -1;
    strcpy(base, name);
    return access(path, X_OK);
}

void child_begin(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(PRISM_EXIT_DAEMON);
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
}

void child_detach(pid_t parent)
{
    child_begin(parent);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
}

void child_keep(int fd)
{
    fcntl(fd, F_SETFD, 0);
}

void child_drop_preload(const char *library)
{
    char *before = getenv("LD_PRELOAD"), *kept, *save = NULL;
    if (!before || !(kept = calloc(1, strlen(before) + 1)))
        return;
    for (char *name = strtok_r(before, ": ", &save); name; name = strtok_r(NULL, ": ", &save)) {
        const char *base = strrchr(name, '/');
        if (!strcmp(name, library) || !strcmp(base ? base + 1 : name, "libprism.so"))
            continue;
        if (*kept)
            strcat(kept, ":");
        strcat(kept, name);
    }
    if (*kept)
        setenv("LD_PRELOAD", kept, 1);
    else
        unsetenv("LD_PRELOAD");
    free(kept);
}
