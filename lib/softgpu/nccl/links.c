#include "softgpu/nccl/links.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/core/engine.h"

#define LINKS 4096 /* names that fit; more share the last one looked at */
#define FLOWS 15   /* at once on a link; the one that ends first makes room */
#define MAGIC 0x53474e4c494e4b31ull

struct flow {
    uint64_t owner;
    int64_t start_ns, end_ns;
};

struct link_state {
    uint64_t name; /* 0: free */
    struct flow flows[FLOWS];
};

struct links_file {
    uint64_t magic;
    uint64_t boot;
    struct link_state links[LINKS];
};

static struct links_file *file;
static int lock_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t boot_hash(void)
{
    char text[64] = "";
    uint64_t hash = 1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) < 0)
            text[0] = '\0';
        close(fd);
    }
    for (const char *c = text; *c; c++)
        hash = sgn_mix(hash, (uint64_t)*c);
    return hash;
}

static void map_file(int fd)
{
    struct stat st;
    uint64_t boot = boot_hash();
    if (fstat(fd, &st) ||
        (st.st_size != (off_t)sizeof(struct links_file) && ftruncate(fd, sizeof(struct links_file))))
        return;
    void *map = mmap(NULL, sizeof(struct links_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return;
    file = map;
    if (file->magic != MAGIC || file->boot != boot) {
        memset(file->links, 0, sizeof(file->links));
        file->magic = MAGIC;
        file->boot = boot;
    }
}

static void open_file(void)
{
    const char *folder = sg_state_dir();
    char path[4096];
    if (!folder || snprintf(path, sizeof(path), "%s/links", folder) >= (int)sizeof(path))
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    flock(fd, LOCK_EX);
    map_file(fd);
    flock(fd, LOCK_UN);
    lock_fd = fd;
}

/* A lock on the file, which the kernel releases when a process dies, below one for the threads of this
 * process. */
void sgn_links_lock(void)
{
    pthread_once(&once, open_file);
    pthread_mutex_lock(&mutex);
    if (lock_fd >= 0)
        flock(lock_fd, LOCK_EX);
}

void sgn_links_unlock(void)
{
    if (lock_fd >= 0)
        flock(lock_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
}

uint64_t sgn_link(struct sgn_place place, enum sgn_class class, enum sgn_direction direction)
{
    int index = class == SGN_INTER && sgn_model()->nic_shared ? -1 : place.index;
    return ((uint64_t)(uint32_t)place.node << 32 | (uint64_t)(index & 0xffffff) << 8 | (uint64_t) class << 1 |
            (uint64_t)direction) +
           1;
}

static struct link_state *find(uint64_t link)
{
    uint64_t at = sgn_mix(link, 7) % LINKS;
    for (int tries = 0; tries < 64; tries++, at = (at + 1) % LINKS) {
        if (file->links[at].name == 0)
            file->links[at].name = link;
        if (file->links[at].name == link)
            break;
    }
    return &file->links[at];
}

int sgn_links_others(uint64_t link, uint64_t owner, int64_t time_ns)
{
    int others = 0;
    if (!file)
        return 0;
    const struct link_state *state = find(link);
    for (int i = 0; i < FLOWS; i++) {
        const struct flow *flow = &state->flows[i];
        others += flow->owner != owner && flow->start_ns <= time_ns && time_ns < flow->end_ns;
    }
    return others;
}

void sgn_links_add(uint64_t link, uint64_t owner, int64_t start_ns, int64_t end_ns)
{
    if (!file)
        return;
    struct link_state *state = find(link);
    struct flow *best = &state->flows[0];
    for (int i = 0; i < FLOWS; i++) {
        struct flow *flow = &state->flows[i];
        if (flow->owner == owner && flow->start_ns <= end_ns && start_ns <= flow->end_ns) {
            flow->start_ns = flow->start_ns < start_ns ? flow->start_ns : start_ns;
            flow->end_ns = flow->end_ns > end_ns ? flow->end_ns : end_ns;
            return;
        }
        if (flow->end_ns < best->end_ns)
            best = flow;
    }
    *best = (struct flow){owner, start_ns, end_ns};
}
