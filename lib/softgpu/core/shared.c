/* shared.c - what all processes that use one device share: memory in use, communication under way, whose turn it is.
 *
 * One file a device, device-<node>-<index> in sg_state_dir(), mapped by each process, guarded by a robust mutex. Each
 * process has a slot with the memory it holds; a slot whose process is gone (killed, say) is taken back when the memory
 * runs short or a slot is wanted. The last process to leave removes the file. flock() orders opening and removing.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/core/internal.h"

#define SHARED_MAGIC 0x53475055u
#define SHARED_VERSION 1u
#define SLOTS 4096
#define INTERVALS 256 /* a ring; older ones are forgotten */

struct slot {
    int32_t pid; /* 0: free */
    uint64_t started; /* field 22 of /proc/<pid>/stat: tells a process from a later one with its number */
    uint64_t used;
};

struct interval {
    int64_t start_ns, end_ns;
};

struct state {
    uint32_t magic, version;
    pthread_mutex_t lock;
    int64_t busy_until_ns; /* time_slicing */
    uint32_t slots_used;   /* slots beyond were never used */
    uint32_t next_interval;
    struct interval intervals[INTERVALS];
    struct slot slots[SLOTS];
};

struct sg_shared {
    struct state *state;
    struct slot *slot;
    pid_t pid;
    char path[4096];
};

static char state_dir[3900];
static pthread_once_t dir_once = PTHREAD_ONCE_INIT;

static void make_state_dir(void)
{
    const char *dir = getenv("SOFTGPU_DIR"), *tmp = getenv("TMPDIR");
    struct stat st;
    if (dir && *dir)
        snprintf(state_dir, sizeof(state_dir), "%s", dir);
    else
        snprintf(state_dir, sizeof(state_dir), "%s/softgpu-%lu", tmp && *tmp ? tmp : "/tmp", (unsigned long)geteuid());
    if (mkdir(state_dir, 0700) != 0 && errno != EEXIST)
        fprintf(stderr, "softgpu: cannot make the state folder %s: %m (SOFTGPU_DIR names another)\n", state_dir);
    else if (lstat(state_dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022))
        return;
    else
        fprintf(stderr, "softgpu: the state folder %s must be a folder of yours that only you can write "
                "(SOFTGPU_DIR names another)\n", state_dir);
    state_dir[0] = '\0';
}

const char *sg_state_dir(void)
{
    pthread_once(&dir_once, make_state_dir);
    return state_dir[0] ? state_dir : NULL;
}

static uint64_t process_started(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    char *field = strrchr(text, ')'); /* the name may hold anything; fields count from behind it */
    for (int i = 0; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

static bool slot_alive(const struct slot *slot)
{
    return slot->pid && process_started(slot->pid) == slot->started;
}

static void lock_state(struct state *state)
{
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&state->lock); /* every field is valid after each store */
}

static void init_state(struct state *state)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    state->version = SHARED_VERSION;
    state->magic = SHARED_MAGIC;
}

/* With the lock. Frees the slots of processes that are gone. */
static void reap(struct state *state)
{
    for (uint32_t i = 0; i < state->slots_used; i++)
        if (state->slots[i].pid && !slot_alive(&state->slots[i]))
            state->slots[i] = (struct slot){0};
}

static struct slot *free_slot(struct state *state)
{
    for (uint32_t i = 0; i < state->slots_used; i++)
        if (!state->slots[i].pid)
            return &state->slots[i];
    return state->slots_used < SLOTS ? &state->slots[state->slots_used++] : NULL;
}

/* Open and lock the file; it may have been removed between the two. */
static int open_locked(const char *path)
{
    for (;;) {
        struct stat st;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0) {
            if (fd >= 0)
                close(fd);
            return -1;
        }
        if (st.st_nlink > 0)
            return fd;
        close(fd);
    }
}

/* A mapping keeps the open file, and with it the lock, so closing does not unlock. */
static void close_locked(int fd)
{
    if (fd < 0)
        return;
    flock(fd, LOCK_UN);
    close(fd);
}

static struct state *map_state(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || (st.st_size == 0 && ftruncate(fd, sizeof(struct state)) != 0))
        return NULL;
    if (st.st_size != 0 && st.st_size != (off_t)sizeof(struct state)) {
        errno = EPROTO;
        return NULL;
    }
    struct state *state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state == MAP_FAILED)
        return NULL;
    if (state->magic != SHARED_MAGIC || state->version != SHARED_VERSION)
        init_state(state);
    return state;
}

void sg_shared_hold(struct sg_shared *shared, double seconds)
{
    if (seconds <= 0)
        return;
    int fd = open_locked(shared->path);
    struct timespec left = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
    close_locked(fd);
}

struct sg_shared *sg_shared_open(int node, int index)
{
    const char *dir = sg_state_dir();
    struct sg_shared *shared = dir ? calloc(1, sizeof(*shared)) : NULL;
    if (!shared)
        return NULL;
    snprintf(shared->path, sizeof(shared->path), "%s/device-%d-%d", dir, node, index);
    int fd = open_locked(shared->path);
    shared->state = fd >= 0 ? map_state(fd) : NULL;
    if (shared->state) {
        lock_state(shared->state);
        shared->slot = free_slot(shared->state);
        if (!shared->slot) {
            reap(shared->state);
            shared->slot = free_slot(shared->state);
        }
        if (shared->slot)
            *shared->slot = (struct slot){.pid = getpid(), .started = process_started(getpid())};
        pthread_mutex_unlock(&shared->state->lock);
    }
    if (!shared->slot) {
        fprintf(stderr, "softgpu: %s: %s\n", shared->path,
                shared->state ? "more processes on this device than there are slots (4096)" : strerror(errno));
        if (shared->state)
            munmap(shared->state, sizeof(*shared->state));
        free(shared);
        shared = NULL;
    } else {
        shared->pid = getpid();
    }
    close_locked(fd);
    return shared;
}

void sg_shared_close(struct sg_shared *shared)
{
    if (!shared || shared->pid != getpid())
        return;
    int fd = open_locked(shared->path);
    bool last = true;
    lock_state(shared->state);
    *shared->slot = (struct slot){0};
    for (uint32_t i = 0; last && i < shared->state->slots_used; i++)
        last = !slot_alive(&shared->state->slots[i]);
    pthread_mutex_unlock(&shared->state->lock);
    if (last && fd >= 0)
        unlink(shared->path);
    close_locked(fd);
    shared->pid = 0; /* stays mapped: threads of streams may still look at it while the process ends */
}

static uint64_t used_by_all(const struct state *state)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < state->slots_used; i++)
        sum += state->slots[i].used;
    return sum;
}

bool sg_shared_take(struct sg_shared *shared, uint64_t bytes, uint64_t capacity)
{
    struct state *state = shared->state;
    bool fits = false;
    lock_state(state);
    for (int attempt = 0; attempt < 2 && !fits; attempt++) {
        uint64_t used = used_by_all(state);
        fits = used <= capacity && bytes <= capacity - used;
        if (!fits && attempt == 0)
            reap(state);
    }
    if (fits)
        shared->slot->used += bytes;
    pthread_mutex_unlock(&state->lock);
    return fits;
}

void sg_shared_give(struct sg_shared *shared, uint64_t bytes)
{
    lock_state(shared->state);
    shared->slot->used -= bytes;
    pthread_mutex_unlock(&shared->state->lock);
}

uint64_t sg_shared_used(struct sg_shared *shared)
{
    lock_state(shared->state);
    reap(shared->state);
    uint64_t used = used_by_all(shared->state);
    pthread_mutex_unlock(&shared->state->lock);
    return used;
}

void sg_shared_comm(struct sg_shared *shared, int64_t start_ns, int64_t end_ns)
{
    if (end_ns <= start_ns)
        return;
    lock_state(shared->state);
    shared->state->intervals[shared->state->next_interval++ % INTERVALS] = (struct interval){start_ns, end_ns};
    pthread_mutex_unlock(&shared->state->lock);
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

int64_t sg_shared_comm_overlap(struct sg_shared *shared, int64_t start_ns, int64_t end_ns)
{
    struct interval found[INTERVALS];
    int n = 0;
    lock_state(shared->state);
    for (int i = 0; i < INTERVALS; i++) {
        struct interval in = shared->state->intervals[i];
        if (in.start_ns < end_ns && in.end_ns > start_ns)
            found[n++] = in;
    }
    pthread_mutex_unlock(&shared->state->lock);
    qsort(found, (size_t)n, sizeof(found[0]), by_start);
    int64_t sum = 0, reached = start_ns; /* overlapping intervals count once */
    for (int i = 0; i < n; i++) {
        int64_t from = SG_MAX(found[i].start_ns, reached), to = found[i].end_ns < end_ns ? found[i].end_ns : end_ns;
        if (to > from) {
            sum += to - from;
            reached = to;
        }
    }
    return sum;
}

int64_t sg_shared_turn(struct sg_shared *shared, int64_t start_ns, int64_t duration_ns)
{
    lock_state(shared->state);
    start_ns = SG_MAX(start_ns, shared->state->busy_until_ns);
    shared->state->busy_until_ns = start_ns + duration_ns;
    pthread_mutex_unlock(&shared->state->lock);
    return start_ns;
}
