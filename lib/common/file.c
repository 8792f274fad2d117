#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct prism_error *err)
{
    char tmp[PATH_MAX];
    if (snprintf(tmp, sizeof tmp, "%s.tmp.%d", path, (int)getpid()) >= (int)sizeof tmp)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: path too long", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    int bad = write_all(fd, data, len) || fsync(fd);
    int saved = errno;
    if (close(fd) && !bad) {
        bad = 1;
        saved = errno;
    }
    if (!bad && rename(tmp, path)) {
        bad = 1;
        saved = errno;
    }
    if (!bad)
        return 0;
    unlink(tmp);
    return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot write %s: %s", path, strerror(saved));
}

int file_read(const char *path, size_t limit, struct bytes *out, struct prism_error *err)
{
    bytes_clear(out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    for (;;) {
        void *room = bytes_reserve(out, 65536);
        ssize_t n = read(fd, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int saved = errno;
            close(fd);
            return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot read %s: %s", path, strerror(saved));
        }
        if (!n)
            break;
        out->len += (size_t)n;
        if (out->len > limit) {
            close(fd);
            return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s is larger than %zu bytes", path, limit);
        }
    }
    close(fd);
    return 0;
}

int file_make_dirs(const char *path, mode_t mode, struct prism_error *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: path too long", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p)
            continue;
        char keep = *p;
        *p = 0;
        struct stat st;
        if (mkdir(part, mode) && (errno != EEXIST || stat(part, &st) || !S_ISDIR(st.st_mode)))
            return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make the folder %s: %s", part,
                                   errno == EEXIST ? "a file of that name is in the way" : strerror(errno));
        *p = keep;
        if (!keep)
            return 0;
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int file_remove_tree(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        return -1;
    return 0;
}
