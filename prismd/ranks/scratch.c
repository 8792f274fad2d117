#include "prismd/ranks/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"

#define NAMED_FILES 3

/* nftw has no context of its own. */
static struct {
    const char *from, *to, *trace;
    uint64_t bytes, most;
    unsigned written;
    char names[512];
    char why[PATH_MAX + 128];
} walk;

static void path_of(const struct conf *c, enum msg_phase phase, char path[PATH_MAX])
{
    static const char *const names[] = {[PHASE_CAPTURE] = "capture", [PHASE_CALIBRATE] = "calibrate", [PHASE_EMULATE] = "emulate"};
    snprintf(path, PATH_MAX, "%s/scratch/%s", c->trace, names[phase]);
}

static bool is_trace(const char *path)
{
    return !strcmp(path, walk.trace);
}

static int add_size(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_D && is_trace(path))
        return FTW_SKIP_SUBTREE;
    if (S_ISREG(st->st_mode))
        walk.bytes += (uint64_t)st->st_size;
    return walk.bytes > walk.most ? FTW_STOP : FTW_CONTINUE;
}

static int copy_bytes(int from, int to)
{
    char buffer[65536];
    ssize_t n;
    while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
        ;
    if (!n)
        return 0;
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0, w; done < n; done += w)
            if ((w = write(to, buffer + done, (size_t)(n - done))) < 0)
                return -1;
    return n ? -1 : 0;
}

static int copy_file(const char *path, const char *to, const struct stat *st)
{
    int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
    int rc = out < 0 ? -1 : copy_bytes(in, out);
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (!rc)
        rc = futimens(out, times);
    int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    errno = error;
    return rc;
}

static int copy_link(const char *path, const char *to)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    return n < 0 ? -1 : symlink(target, to);
}

static int copy_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char to[PATH_MAX];
    int rc = 0;
    (void)at;
    if (type == FTW_D && is_trace(path))
        return FTW_SKIP_SUBTREE;
    if (snprintf(to, sizeof to, "%s%s", walk.to, path + strlen(walk.from)) >= (int)sizeof to)
        rc = -1, errno = ENAMETOOLONG;
    else if (type == FTW_D)
        rc = mkdir(to, (st->st_mode & 0777) | 0700) && errno != EEXIST ? -1 : 0;
    else if (S_ISREG(st->st_mode))
        rc = copy_file(path, to, st);
    else if (S_ISLNK(st->st_mode))
        rc = copy_link(path, to);
    if (!rc)
        return FTW_CONTINUE;
    snprintf(walk.why, sizeof walk.why, "%.3000s: %s", path, strerror(errno));
    return FTW_STOP;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    remove(path);
    return FTW_CONTINUE;
}

static uint64_t most_bytes(void)
{
    const char *text = getenv("PRISM_SCRATCH_BYTES");
    return text && *text ? strtoull(text, NULL, 10) : SCRATCH_BYTES_MAX;
}

/* The copy of the phase, from the working directory's point of view. */
static bool set_walk(const struct daemon *d, enum msg_phase phase, char from[PATH_MAX], char to[PATH_MAX])
{
    if (!d->conf->scratch || !getcwd(from, PATH_MAX))
        return false;
    path_of(d->conf, phase, to);
    walk.from = from;
    walk.to = to;
    walk.trace = d->conf->trace;
    walk.written = 0;
    walk.names[0] = walk.why[0] = 0;
    return true;
}

int scratch_begin(const struct daemon *d, enum msg_phase phase, struct prism_error *err)
{
    char to[PATH_MAX], from[PATH_MAX];
    if (!d->conf->scratch)
        return 0;
    if (!set_walk(d, phase, from, to))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "the working directory is gone: %s", strerror(errno));
    walk.bytes = 0;
    walk.most = most_bytes();
    nftw(from, add_size, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    if (walk.bytes > walk.most)
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "--prism-scratch copies the working directory, and %s holds more than %llu bytes (PRISM_SCRATCH_BYTES): "
                               "start in a smaller one", from, (unsigned long long)walk.most);
    nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_ACTIONRETVAL);
    if (file_make_dirs(to, 0700, err))
        return -1;
    nftw(from, copy_entry, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    if (walk.why[0])
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "--prism-scratch: cannot copy %s", walk.why);
    return 0;
}

/* Is the copy's entry not as the original is? Folders: is there none. */
static bool is_written(const char *path, const struct stat *st, char original[PATH_MAX])
{
    struct stat was;
    if (snprintf(original, PATH_MAX, "%s%s", walk.from, path + strlen(walk.to)) >= PATH_MAX)
        return false;
    return lstat(original, &was) ||
           (S_ISREG(st->st_mode) && (was.st_mtim.tv_sec != st->st_mtim.tv_sec || was.st_mtim.tv_nsec != st->st_mtim.tv_nsec ||
                                     was.st_size != st->st_size));
}

static int keep_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char original[PATH_MAX];
    int rc = 0;
    (void)at;
    if (!is_written(path, st, original))
        return FTW_CONTINUE;
    if (type == FTW_D)
        rc = mkdir(original, st->st_mode & 0777);
    else if ((!unlink(original) || errno == ENOENT) && S_ISREG(st->st_mode))
        rc = copy_file(path, original, st);
    else if (S_ISLNK(st->st_mode))
        rc = copy_link(path, original);
    if (!rc)
        return FTW_CONTINUE;
    snprintf(walk.why, sizeof walk.why, "%.3000s: %s", original, strerror(errno));
    return FTW_STOP;
}

int scratch_keep(const struct daemon *d, struct prism_error *err)
{
    char to[PATH_MAX], from[PATH_MAX];
    if (!set_walk(d, PHASE_CAPTURE, from, to))
        return 0;
    nftw(to, keep_entry, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    return walk.why[0] ? prism_error_set(err, PRISM_EXIT_SYSTEM, "--prism-scratch: cannot keep %s", walk.why) : 0;
}

static int look_for_written(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char original[PATH_MAX];
    (void)type;
    (void)at;
    if (!S_ISREG(st->st_mode) || !is_written(path, st, original))
        return FTW_CONTINUE;
    const char *name = path + strlen(walk.to);
    size_t len = strlen(walk.names);
    if (walk.written++ < NAMED_FILES)
        snprintf(walk.names + len, sizeof walk.names - len, "%s%.120s", len ? ", " : "", name + 1);
    return FTW_CONTINUE;
}

void scratch_end(const struct daemon *d, enum msg_phase phase)
{
    char to[PATH_MAX], from[PATH_MAX];
    if (!set_walk(d, phase, from, to))
        return;
    if (phase == PHASE_CAPTURE)
        nftw(to, look_for_written, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    if (walk.written)
        log_warn("capture wrote %u file%s in its copy of the working directory (%s%s): a program that opens them in emulation will not find "
                 "them, or finds the old ones", walk.written, walk.written == 1 ? "" : "s", walk.names,
                 walk.written > NAMED_FILES ? ", ..." : "");
    if (phase == PHASE_EMULATE)
        log_info("what was written lies in %s", to);
    else
        nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_ACTIONRETVAL);
}

int scratch_enter(const struct conf *c, enum msg_phase phase)
{
    char path[PATH_MAX];
    if (!c->scratch)
        return 0;
    path_of(c, phase, path);
    if (chdir(path))
        return -1;
    setenv("PWD", path, 1);
    return 0;
}
