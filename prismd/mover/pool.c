#include "prismd/mover/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "common/clock.h"
#include "common/cores.h"
#include "common/log.h"
#include "prismd/mover/available.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/guest.h"
#include "prismd/mover/limit.h"
#include "prismd/mover/spill.h"

#define SLAB_UNITS (128u)   /* 256 MiB: copies of this size are at full speed, and pinning one takes a tenth of a second */
#define SLABS      8u       /* at least, of a smaller pool */
#define PINNERS    8u       /* threads, at most a quarter of the cores */
#define LOOK_NS    100000000 /* from one look at the node's memory to the next */
#define REST_NS    NSEC_PER_SEC /* after memory was short nothing is added for so long, or slabs would come and go */
#define BYTES_MOST (1ull << 60)
#define GB         1e9

static struct {
    struct units units;
    uint8_t **slabs;  /* pinned; as many as the limit allows, so that the array never moves; NULL = not there */
    uint64_t nslabs;  /* that there have been at once */
    uint64_t slab, limit, pinned; /* units: of a slab, that may be pinned, that are */
    uint64_t prepared, wanted;    /* units: to be pinned in all, foreseen; asked for by a copy that waits */
    uint64_t growing, begun;      /* units that are being pinned now; whose pinning has begun so far */
    uint64_t emptying;            /* POOL_NONE or the slab that is */
    int64_t pinning_ns;           /* during which at least one slab was being pinned */
    int64_t pinning_since_ns;
} pool = {.emptying = POOL_NONE};

/* What the last look said. */
static struct {
    unsigned movers; /* of this node */
    bool known;      /* there was one lately */
    bool is_short;   /* less than the reserve, and nothing was given back since */
    int64_t room;    /* bytes that may be pinned until the next */
    bool rests;      /* memory was short not long ago */
    int64_t short_ns; /* when it was last */
    struct available now;
    uint64_t reserve;
    bool warned;
    uint64_t warned_at; /* units pinned */
} memory;

pthread_cond_t pool_change;

static struct extent run_of(uint64_t slab)
{
    return (struct extent){slab * pool.slab, pool.slab};
}

/* --- pinning --- */

static int64_t bytes_for_all(uint64_t units)
{
    return (int64_t)(units * UNIT_BYTES) * memory.movers;
}

static bool is_below_limit(void)
{
    return pool.pinned + pool.growing < pool.limit;
}

static bool memory_allows(void)
{
    return !memory.rests && memory.room >= bytes_for_all(pool.slab);
}

static bool is_wanted(void)
{
    return is_below_limit() &&
           (pool.pinned + pool.growing < pool.prepared || pool.units.free + pool.growing < pool.wanted);
}

bool pool_may_grow(void)
{
    return pool.growing || (is_below_limit() && (!memory.known || memory_allows()));
}

bool pool_lacks_space(void)
{
    return pool.units.free < pool.wanted && !pool_may_grow();
}

/* The first touch of memory is what takes the time, above all in a virtual machine whose memory grows as it is used. Threads
 * touch side by side; the driver pins one slab after the other. NULL: the system refused. */
static void *make_slab(uint64_t bytes)
{
    void *slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return NULL;
    madvise(slab, bytes, MADV_HUGEPAGE);
    bool touched = !madvise(slab, bytes, MADV_POPULATE_WRITE), refused = !touched && errno == ENOMEM;
    for (uint64_t at = 0; !touched && !refused && at < bytes; at += 4096)
        ((volatile uint8_t *)slab)[at] = 0;
    if (!refused && gpu_cu(cuMemHostRegister)(slab, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
        return slab;
    munmap(slab, bytes);
    return NULL;
}

static void add_slab(uint8_t *slab)
{
    uint64_t i = 0;
    while (i < pool.nslabs && pool.slabs[i])
        i++;
    pool.slabs[i] = slab;
    pool.pinned += pool.slab;
    if (i < pool.nslabs) {
        units_restore(&pool.units, run_of(i));
        return;
    }
    pool.nslabs++;
    units_grow(&pool.units, pool.slab);
}

static void grow(void)
{
    uint64_t bytes = pool.slab * UNIT_BYTES;
    if (!pool.growing)
        pool.pinning_since_ns = clock_now_ns();
    pool.growing += pool.slab;
    pool.begun += pool.slab;
    memory.room -= bytes_for_all(pool.slab);
    pthread_mutex_unlock(&mover_lock);
    int64_t began = clock_now_ns();
    void *slab = make_slab(bytes);
    int64_t now = clock_now_ns();
    pthread_mutex_lock(&mover_lock);
    pool.growing -= pool.slab;
    if (!pool.growing)
        pool.pinning_ns += now - pool.pinning_since_ns;
    if (slab) {
        add_slab(slab);
        log_debug("pinned %llu MiB in %.2f s, %llu MiB in all", (unsigned long long)(bytes >> 20), (double)(now - began) / 1e9,
                  (unsigned long long)(pool.pinned * UNIT_BYTES >> 20));
        return;
    }
    if (pool.limit > pool.pinned)
        log_warn("cannot pin more than %llu MiB of host memory; further memory of ranks goes to disk",
                 (unsigned long long)(pool.pinned * UNIT_BYTES >> 20));
    pool.limit = pool.pinned;
}

static void *pinner(void *arg)
{
    (void)arg;
    gpu_use();
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        while (!(is_wanted() && memory.known && memory_allows()))
            pthread_cond_wait(&pool_change, &mover_lock);
        grow();
        pool_tell();
        pthread_cond_broadcast(&pool_change);
    }
    return NULL;
}

/* --- the node's memory --- */

/* Of slabs in which nothing lies the last, as space is handed out from the first on. */
static uint64_t empty_slab(void)
{
    for (uint64_t i = pool.nslabs; i-- > 0;)
        if (pool.slabs[i] && !units_taken(&pool.units, run_of(i)))
            return i;
    return POOL_NONE;
}

bool pool_must_empty(void)
{
    return memory.is_short && pool.pinned && empty_slab() == POOL_NONE;
}

void pool_empty(uint64_t slab)
{
    pool.emptying = slab;
    units_retire(&pool.units, run_of(slab));
}

uint64_t pool_emptying(void)
{
    return pool.emptying;
}

void pool_keep(void)
{
    if (pool.emptying == POOL_NONE)
        return;
    units_restore(&pool.units, run_of(pool.emptying));
    pool.emptying = POOL_NONE;
}

/* What is being pinned, or was while this looked, may not have been touched yet: all of it is taken off. */
static void look(void)
{
    struct available now;
    uint64_t untouched = pool.growing - pool.begun;
    pthread_mutex_unlock(&mover_lock);
    available_look(&now);
    uint64_t reserve = limit_reserve(now.total);
    pthread_mutex_lock(&mover_lock);
    untouched += pool.begun;
    now.bytes = now.bytes < BYTES_MOST ? now.bytes : BYTES_MOST;
    reserve = reserve < BYTES_MOST ? reserve : BYTES_MOST;
    memory.room = (int64_t)(now.bytes - reserve) - bytes_for_all(untouched);
    memory.is_short = now.bytes < reserve;
    if (memory.is_short)
        memory.short_ns = clock_now_ns();
    memory.rests = memory.short_ns && clock_now_ns() < memory.short_ns + REST_NS;
    memory.known = true;
    memory.now = now;
    memory.reserve = reserve;
    if (!memory.is_short)
        pool_keep();
}

/* Once, and again when half of what was pinned then is gone. */
static void warn(void)
{
    bool held = is_below_limit() && pool_lacks_space();
    if (!(memory.is_short && pool.pinned) && !held)
        return;
    if (memory.warned && (pool.pinned > memory.warned_at / 2 || !memory.warned_at))
        return;
    memory.warned = true;
    memory.warned_at = pool.pinned;
    log_warn("the node's memory is short (%.1f GB available, %.1f GB are kept free: PRISM_HOST_RESERVE): the pinned pool %s, "
             "%.1f GB now of %.1f; memory of ranks goes to %s%s",
             (double)memory.now.bytes / GB, (double)memory.reserve / GB, memory.is_short ? "shrinks" : "does not grow for now",
             (double)(pool.pinned * UNIT_BYTES) / GB, (double)(pool.limit * UNIT_BYTES) / GB, spill_folder(),
             spill_is_memory() ? ", which is memory too: PRISM_SPILL names another folder" : "");
}

static void release(uint64_t slab)
{
    uint8_t *at = pool.slabs[slab];
    units_retire(&pool.units, run_of(slab));
    memory.is_short = false; /* as far as is known until the next look */
    pthread_mutex_unlock(&mover_lock);
    GPU_MUST(gpu_cu(cuMemHostUnregister)(at));
    munmap(at, pool.slab * UNIT_BYTES);
    pthread_mutex_lock(&mover_lock);
    pool.slabs[slab] = NULL;
    pool.pinned -= pool.slab;
    if (pool.emptying == slab)
        pool.emptying = POOL_NONE;
    log_debug("gave back %llu MiB, %llu MiB are pinned: %llu MiB were available, %llu MiB are kept free",
              (unsigned long long)(pool.slab * UNIT_BYTES >> 20), (unsigned long long)(pool.pinned * UNIT_BYTES >> 20),
              (unsigned long long)(memory.now.bytes >> 20), (unsigned long long)(memory.reserve >> 20));
}

/* Until the next look is due, or a slab can be given back. */
static void nap(void)
{
    int64_t until = clock_now_ns() + LOOK_NS;
    struct timespec deadline = {until / NSEC_PER_SEC, until % NSEC_PER_SEC};
    while (!(memory.is_short && empty_slab() != POOL_NONE))
        if (pthread_cond_timedwait(&pool_change, &mover_lock, &deadline))
            return;
}

static void *watcher(void *arg)
{
    (void)arg;
    gpu_use();
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        while (!pool.pinned && !pool.growing && !is_wanted()) {
            memory.known = false;
            pthread_cond_wait(&pool_change, &mover_lock);
        }
        look();
        warn();
        uint64_t slab = memory.is_short ? empty_slab() : POOL_NONE;
        if (slab != POOL_NONE) {
            release(slab);
            pool_tell();
        }
        pthread_cond_broadcast(&pool_change);
        if (slab == POOL_NONE)
            nap();
    }
    return NULL;
}

/* --- space --- */

void pool_prepare(uint64_t bytes)
{
    uint64_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    if (units <= pool.prepared)
        return;
    pool.prepared = units;
    pthread_cond_broadcast(&pool_change);
}

void pool_want(uint64_t units)
{
    pool.wanted = units;
    if (units)
        pthread_cond_broadcast(&pool_change);
}

bool pool_take(uint64_t units, struct extents *out)
{
    return units_take(&pool.units, units, out);
}

void pool_give(struct extents *e)
{
    units_give(&pool.units, e);
    if (pool.emptying != POOL_NONE)
        units_retire(&pool.units, run_of(pool.emptying));
    pthread_cond_broadcast(&pool_change);
}

uint8_t *pool_at(uint64_t unit)
{
    return pool.slabs[unit / pool.slab] + unit % pool.slab * UNIT_BYTES;
}

uint64_t pool_slabs(void)
{
    return pool.nslabs;
}

uint64_t pool_slab_of(uint64_t unit)
{
    return unit / pool.slab;
}

uint64_t pool_taken_in(uint64_t slab)
{
    return units_taken(&pool.units, run_of(slab));
}

uint64_t pool_free_beside(uint64_t slab)
{
    return pool.units.free - (pool.slab - pool_taken_in(slab));
}

void pool_count(uint64_t *used, uint64_t *pinned)
{
    *used = (pool.units.count - pool.units.free - pool.units.retired) * UNIT_BYTES;
    *pinned = pool.pinned * UNIT_BYTES;
}

void pool_tell(void)
{
    struct mover_message host = {.type = MOVER_HOST, .spilled = spill_total(), .ns = pool.pinning_ns};
    host.ns += pool.growing ? clock_now_ns() - pool.pinning_since_ns : 0;
    pool_count(&host.bytes, &host.total);
    outlet_send(&to_prismd, &host);
}

/* --- the beginning --- */

static void begin_thread(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL))
        mover_failed("cannot start a thread");
    pthread_detach(thread);
}

void pool_begin(uint64_t limit, unsigned movers)
{
    uint32_t cores = cores_usable() / 4;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&pool_change, &clock);
    pool.limit = limit / UNIT_BYTES;
    pool.slab = SLAB_UNITS;
    while (pool.slab > 1 && pool.slab * SLABS > pool.limit)
        pool.slab /= 2;
    pool.limit -= pool.limit % pool.slab;
    pool.units.slab = pool.slab;
    memory.movers = movers ? movers : 1;
    pool.slabs = calloc(pool.limit / pool.slab + 1, sizeof *pool.slabs);
    if (!pool.slabs)
        abort();
    begin_thread(watcher);
    for (uint32_t i = 0; i < PINNERS && (!i || i < cores); i++)
        begin_thread(pinner);
}
