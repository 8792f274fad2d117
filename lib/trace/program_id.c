#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/files.h"

static int open_program(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* As execvp looks for it. */
static int find_program(const char *name)
{
    if (strchr(name, '/'))
        return open_program(name);
    const char *dirs = getenv("PATH");
    for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir;
         dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
        char path[PATH_MAX];
        int len = (int)strcspn(dir, ":");
        if (snprintf(path, sizeof path, "%.*s%s%s", len, dir, len ? "/" : "", name) >= (int)sizeof path)
            continue;
        if (access(path, X_OK) == 0)
            return open_program(path);
    }
    return -1;
}

char *trace_program_id(char *const *argv)
{
    XXH64_state_t *hash = XXH64_createState();
    char *id = malloc(17);
    if (!hash || !id)
        abort();
    XXH64_reset(hash, 0);
    for (char *const *arg = argv; *arg; arg++)
        XXH64_update(hash, *arg, strlen(*arg) + 1); /* with the NUL, so that "a b" and "ab" differ */
    int fd = argv[0] ? find_program(argv[0]) : -1;
    if (fd >= 0) {
        trace_hash_file(hash, fd);
        close(fd);
    }
    snprintf(id, 17, "%016llx", (unsigned long long)XXH64_digest(hash));
    XXH64_freeState(hash);
    return id;
}
