/* main.c - the constructor: in a Slurm task, become prismd before the program's main() runs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/log.h"
#include "preload/container.h"
#include "preload/launcher.h"
#include "preload/preload.h"

static _Noreturn void cannot_launch(const char *what, const char *name)
{
    dprintf(STDERR_FILENO, "prism: cannot start prismd: %s %s: %s\n", what, name, strerror(errno));
    _exit(PRISM_EXIT_DAEMON);
}

/* The program's arguments as the kernel has them: constructors of libraries get no argv by any standard. */
static char **read_arguments(void)
{
    static const char path[] = "/proc/self/cmdline";
    struct bytes all = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    while (fd >= 0 && (n = read(fd, bytes_reserve(&all, 65536), 65536)) > 0)
        all.len += (size_t)n;
    if (fd < 0 || n < 0)
        cannot_launch("reading", path);
    close(fd);
    bytes_put_u8(&all, 0);
    size_t count = 0;
    for (size_t i = 0; i + 1 < all.len; i++)
        count += !all.data[i];
    char **argv = calloc(count + 2, sizeof *argv);
    if (!argv)
        abort();
    size_t k = 0;
    argv[k++] = (char *)(uintptr_t) "prismd"; /* prismd PROGRAM ARGUMENTS */
    for (size_t at = 0; k <= count; at += strlen((char *)all.data + at) + 1)
        argv[k++] = (char *)all.data + at;
    return argv; /* kept: borrowed by what follows */
}

/* The environment for prismd. Not by setenv: bash has functions of these names of its own, which do nothing before main(). */
static char **make_environment(const char *exe)
{
    static const char *const gone[] = {"PRISM_LAUNCH=", "PRISM_LAUNCH_PID=", "PRISM_PROGRAM_EXE="};
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **out = calloc(n + 2, sizeof *out);
    if (!out || asprintf(&out[k++], "PRISM_PROGRAM_EXE=%s", exe) < 0)
        abort();
    for (size_t i = 0; i < n; i++) {
        bool keep = true;
        for (size_t g = 0; g < sizeof gone / sizeof *gone; g++)
            keep &= strncmp(environ[i], gone[g], strlen(gone[g])) != 0;
        if (keep)
            out[k++] = environ[i];
    }
    return out; /* kept: exec follows */
}

static _Noreturn void launch(const char *prismd)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0)
        cannot_launch("reading", "/proc/self/exe");
    exe[n] = '\0';
    char **argv = read_arguments();
    /* No PR_SET_PDEATHSIG: prismd sees for itself that its slurmstepd has gone, and ends the whole step (prismd/ranks/step.h). */
    execve(prismd, argv, make_environment(exe));
    cannot_launch("running", prismd);
}

/* Slurm gives a task prolog the task's environment: only the process that is named becomes prismd. */
static int is_meant(void)
{
    const char *wanted = getenv("PRISM_LAUNCH"), *pid = getenv("PRISM_LAUNCH_PID");
    return wanted && !strcmp(wanted, "1") && (!pid || atol(pid) == (long)getpid());
}

static bool is_python(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(exe, '/');
    return slash && !strncmp(slash + 1, "python", 6);
}

/* Not opened by NVTX later on, in a program that was started without the library in front: nothing of this is for the middle of main(). */
static bool is_preloaded(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && *preload;
}

__attribute__((constructor)) static void begin(void)
{
    if (getauxval(AT_SECURE))
        return;
    if (is_meant()) {
        const char *prismd = getenv("PRISM_PRISMD");
        if (!prismd || !*prismd) {
            errno = ENOENT;
            cannot_launch("PRISM_PRISMD is not set for", "PRISM_LAUNCH=1");
        }
        launch(prismd);
    }
    if (session_is_off() || !is_preloaded())
        return;
    container_check_start();
    prism_log_init("prism");
    if (is_python())
        launcher_skip(read_arguments() + 1);
}
