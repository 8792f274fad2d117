/* paths.c - see paths.h. */
#include "paths.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int own_folder(char *out, size_t len, struct prism_error *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    snprintf(out, len, "%s", dirname(self));
    return 0;
}

/* The first of two places beside our own folder, unless the variable names one; also may be NULL. */
static int find(const char *variable, const char *relative, const char *also, int mode, char *out, size_t len, struct prism_error *err)
{
    char folder[PATH_MAX];
    const char *named = getenv(variable);
    if (own_folder(folder, sizeof(folder), err) != 0)
        return -1;
    if (named && named[0])
        snprintf(out, len, "%s", named);
    else
        snprintf(out, len, "%s/%s", folder, relative);
    if (also && access(out, mode) != 0 && !(named && named[0])) {
        char second[2 * PATH_MAX];
        snprintf(second, sizeof(second), "%s/%s", folder, also);
        if (access(second, mode) == 0)
            snprintf(out, len, "%s", second);
    }
    if (access(out, mode) != 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: %s; reinstall Prism, or name it in %s", out,
                               strerror(errno), variable);
    return 0;
}

int paths_daemon(char *out, size_t len, struct prism_error *err)
{
    return find("PRISM_DAEMON", "prismd", NULL, X_OK, out, len, err);
}

int paths_library(char *out, size_t len, struct prism_error *err)
{
    return find("PRISM_LIBRARY", "../lib/libprism.so", "../lib/prism/libprism.so", R_OK, out, len, err);
}

int paths_presets(char *out, size_t len, struct prism_error *err)
{
    return find("PRISM_SYNTH", "../share/prism/synth", NULL, X_OK, out, len, err);
}
