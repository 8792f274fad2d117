#include "prismd/mover/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <xxhash.h>

#define GROW_UNITS 512u

static const char *folder;
static bool is_memory;
static int file = -1;
static struct units space;
static uint64_t total;

struct spill_sum {
    XXH3_state_t *state;
};

void spill_begin(const char *where)
{
    struct statfs fs;
    folder = where;
    is_memory = !statfs(where, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

const char *spill_folder(void)
{
    return folder;
}

bool spill_is_memory(void)
{
    return is_memory;
}

/* With O_DIRECT if the file system has it (tmpfs and overlays may not), without a name if it can. */
static int open_file(void)
{
    static const int flags[] = {O_TMPFILE | O_DIRECT, O_TMPFILE};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int fd = open(folder, flags[i] | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/.spill-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

void spill_take(struct range *r)
{
    uint64_t count = (r->bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    if (file < 0 && (file = open_file()) < 0)
        mover_failed("cannot make a file for device memory in %s: %s; PRISM_SPILL names another folder, "
                     "PRISM_HOST_POOL the bytes kept in memory", folder, strerror(errno));
    if (space.free < count)
        units_grow(&space, count > GROW_UNITS ? count : GROW_UNITS);
    units_take(&space, count, &r->disk);
    total += r->bytes;
}

uint64_t spill_total(void)
{
    return total;
}

void spill_give(struct extents *disk)
{
    if (disk->n)
        units_give(&space, disk);
}

/* Place in the file of the byte `at` of the range; *run = bytes that lie there in a row. */
static uint64_t place(const struct range *r, uint64_t at, uint64_t *run)
{
    for (uint32_t i = 0; i < r->disk.n; i++) {
        uint64_t bytes = r->disk.list[i].count * UNIT_BYTES;
        if (at < bytes) {
            *run = bytes - at;
            return r->disk.list[i].first * UNIT_BYTES + at;
        }
        at -= bytes;
    }
    abort();
}

static _Noreturn void failed(const char *what, const struct range *r)
{
    mover_failed("rank %u: cannot %s the file for device memory in %s: %s; PRISM_SPILL names another folder", r->guest->rank,
                 what, folder, strerror(errno));
}

void spill_write(const struct range *r, uint64_t at, const void *data, uint64_t bytes, struct spill_sum *sum)
{
    const uint8_t *from = data;
    XXH3_64bits_update(sum->state, data, bytes);
    while (bytes) {
        uint64_t run, to = place(r, at, &run);
        ssize_t n = pwrite(file, from, run < bytes ? run : bytes, (off_t)to);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            failed("write", r);
        from += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
}

void spill_read(const struct range *r, uint64_t at, void *data, uint64_t bytes, struct spill_sum *sum)
{
    uint8_t *to = data;
    uint64_t left = bytes;
    while (left) {
        uint64_t run, from = place(r, at, &run);
        ssize_t n = pread(file, to, run < left ? run : left, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (!n)
            errno = EIO;
        if (n <= 0)
            failed("read", r);
        to += n;
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    XXH3_64bits_update(sum->state, data, bytes);
}

struct spill_sum *spill_sum_begin(void)
{
    struct spill_sum *s = malloc(sizeof *s);
    if (!s || !(s->state = XXH3_createState()))
        abort();
    XXH3_64bits_reset(s->state);
    return s;
}

uint64_t spill_sum_end(struct spill_sum *s)
{
    uint64_t hash = XXH3_64bits_digest(s->state);
    XXH3_freeState(s->state);
    free(s);
    return hash;
}

void spill_check(const struct range *r, struct spill_sum *sum)
{
    if (spill_sum_end(sum) != r->hash)
        mover_failed("rank %u: %llu bytes of its device memory came back damaged from the file in %s: is the disk sound? "
                     "PRISM_SPILL names another folder", r->guest->rank, (unsigned long long)r->bytes, folder);
}
