#include "policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void policy_file_find(const char *slurm_conf, const char *otherwise, char *path, size_t size)
{
    const char *slash = slurm_conf ? strrchr(slurm_conf, '/') : NULL;
    if (slash) {
        snprintf(path, size, "%.*s/prism.conf", (int)(slash - slurm_conf), slurm_conf);
        if (!access(path, F_OK))
            return;
    }
    snprintf(path, size, "%s", otherwise && *otherwise ? otherwise : PRISM_CONF_FILE);
}

static int read_file(const char *path, char *text, size_t size, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = 0;
    *len = 0;
    if (fd < 0)
        return -1;
    while (*len < size && (n = read(fd, text + *len, size - *len)) > 0)
        *len += (size_t)n;
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 ? -1 : 0;
}

int policy_file_read(const char *path, struct policy *policy, struct prism_error *err)
{
    size_t len;
    struct prism_error why = {0};
    char *text = malloc(POLICY_FILE_MAX + 1);
    int rc = 0;
    *policy = (struct policy){0};
    if (!text || read_file(path, text, POLICY_FILE_MAX + 1, &len))
        rc = prism_error_set(err, PRISM_EXIT_USAGE, "%.200s cannot be read (%s)", path, strerror(errno));
    else if (policy_parse(text, len, policy, &why))
        rc = prism_error_set(err, PRISM_EXIT_USAGE, "%.200s: %s", path, why.text);
    free(text);
    return rc;
}
