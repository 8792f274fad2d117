#include "prismd/mover/store.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cores.h"
#include "common/log.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/spill.h"

#define SLAB_BYTES (256ull << 20) /* copies of this size are at full speed, and pinning one takes a tenth of a second */
#define SLAB_UNITS (SLAB_BYTES / UNIT_BYTES)
#define PINNERS    8u             /* threads, at most a quarter of the cores */

static struct units pool = {.slab = SLAB_UNITS};
static uint8_t **slabs; /* pinned; as many as the limit allows, so that the array never moves */
static uint64_t nslabs, limit_units; /* limit: whole slabs, or less than one */
static uint64_t prepared, demand; /* units: to be pinned in all, foreseen; asked for by copies that wait */
static uint64_t growing;          /* units that are being pinned now */
static int64_t pinning_ns;        /* during which at least one slab was being pinned */
static int64_t pinning_since_ns;
static bool keeper_works;         /* it writes now */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER; /* space, demand, or the end of a write */

static uint64_t units_of(uint64_t bytes)
{
    return (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

/* --- pinning --- */

static bool may_grow(void)
{
    return pool.count + growing < limit_units;
}

static bool should_grow(void)
{
    return may_grow() && (pool.count + growing < prepared || pool.free + growing < demand);
}

/* The first touch of memory is what takes the time, above all in a virtual machine whose memory grows as it is used. Threads
 * touch side by side; the driver pins one slab after the other. NULL: the system refused. */
static void *make_slab(uint64_t bytes)
{
    void *slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return NULL;
    madvise(slab, bytes, MADV_HUGEPAGE);
    if (madvise(slab, bytes, MADV_POPULATE_WRITE))
        for (uint64_t at = 0; at < bytes; at += 4096)
            ((volatile uint8_t *)slab)[at] = 0;
    if (gpu_cu(cuMemHostRegister)(slab, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
        return slab;
    munmap(slab, bytes);
    return NULL;
}

static void grow(void)
{
    uint64_t units = limit_units < SLAB_UNITS ? limit_units : SLAB_UNITS;
    if (!growing)
        pinning_since_ns = clock_now_ns();
    growing += units;
    pthread_mutex_unlock(&mover_lock);
    int64_t began = clock_now_ns();
    void *slab = make_slab(units * UNIT_BYTES);
    int64_t now = clock_now_ns();
    pthread_mutex_lock(&mover_lock);
    growing -= units;
    if (!growing)
        pinning_ns += now - pinning_since_ns;
    if (!slab) {
        if (limit_units > pool.count)
            log_warn("cannot pin more than %llu MiB of host memory; further memory of ranks goes to disk",
                     (unsigned long long)(pool.count * UNIT_BYTES >> 20));
        limit_units = pool.count;
        return;
    }
    slabs[nslabs++] = slab;
    units_grow(&pool, units);
    log_debug("pinned %llu MiB in %.2f s, %llu MiB in all", (unsigned long long)(units * UNIT_BYTES >> 20), (double)(now - began) / 1e9,
              (unsigned long long)(pool.count * UNIT_BYTES >> 20));
}

static void *pinner(void *arg)
{
    (void)arg;
    gpu_use();
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        while (!should_grow())
            pthread_cond_wait(&change, &mover_lock);
        grow();
        store_tell();
        pthread_cond_broadcast(&change);
    }
    return NULL;
}

/* --- the keeper --- */

/* Of the rank that left longest ago. */
static struct range *choose_to_spill(void)
{
    struct range *best = NULL;
    for (struct guest *g = guests; g; g = g->hh.next) {
        if (best && g->left >= best->guest->left)
            continue;
        for (struct range *r = g->ranges; r; r = r->hh.next)
            if (r->place == RANGE_POOL && !r->leaving) {
                best = r;
                break;
            }
    }
    return best;
}

static void spill(struct range *r)
{
    r->place = RANGE_WRITING;
    spill_take(r);
    pthread_mutex_unlock(&mover_lock);
    uint64_t at = 0;
    struct spill_sum *sum = spill_sum_begin();
    for (uint32_t i = 0; i < r->pinned.n; i++) {
        struct piece p = store_piece(r, i);
        spill_write(r, at, p.host, p.bytes, sum);
        at += p.bytes;
    }
    pthread_mutex_lock(&mover_lock);
    r->hash = spill_sum_end(sum);
    units_give(&pool, &r->pinned);
    r->place = RANGE_DISK;
}

static void *keeper(void *arg)
{
    (void)arg;
    gpu_use();
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        struct range *r = NULL;
        while (pool.free >= demand || may_grow() || growing || !(r = choose_to_spill()))
            pthread_cond_wait(&change, &mover_lock);
        keeper_works = true;
        spill(r);
        keeper_works = false;
        pthread_cond_broadcast(&change);
    }
    return NULL;
}

/* --- for copies --- */

bool store_take(struct range *r)
{
    uint64_t count = units_of(r->bytes);
    demand += count;
    bool taken;
    while (!(taken = units_take(&pool, count, &r->pinned)) && (keeper_works || growing || may_grow() || choose_to_spill())) {
        pthread_cond_broadcast(&change);
        pthread_cond_wait(&change, &mover_lock);
    }
    demand -= count;
    return taken;
}

void store_give(struct range *r)
{
    if (!r->pinned.n)
        return;
    units_give(&pool, &r->pinned);
    pthread_cond_broadcast(&change);
}

void store_keep(struct range *r)
{
    r->place = RANGE_POOL;
    pthread_cond_broadcast(&change);
}

void store_await_writing(struct range *r)
{
    r->leaving = true;
    while (r->place == RANGE_WRITING)
        pthread_cond_wait(&change, &mover_lock);
}

void store_prepare(uint64_t bytes)
{
    if (units_of(bytes) <= prepared)
        return;
    prepared = units_of(bytes);
    pthread_cond_broadcast(&change);
}

void store_count(uint64_t *used, uint64_t *pinned)
{
    *used = (pool.count - pool.free) * UNIT_BYTES;
    *pinned = pool.count * UNIT_BYTES;
}

void store_tell(void)
{
    struct mover_message host = {.type = MOVER_HOST, .spilled = spill_total(), .ns = pinning_ns};
    host.ns += growing ? clock_now_ns() - pinning_since_ns : 0;
    store_count(&host.bytes, &host.total);
    outlet_send(&to_prismd, &host);
}

struct piece store_piece(const struct range *r, uint32_t extent)
{
    const struct extent *e = &r->pinned.list[extent];
    return (struct piece){slabs[e->first / SLAB_UNITS] + e->first % SLAB_UNITS * UNIT_BYTES, e->count * UNIT_BYTES};
}

static void begin_thread(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL))
        mover_failed("cannot start a thread");
    pthread_detach(thread);
}

void store_begin(uint64_t limit)
{
    uint32_t cores = cores_usable() / 4;
    limit_units = limit / UNIT_BYTES;
    if (limit_units > SLAB_UNITS)
        limit_units -= limit_units % SLAB_UNITS;
    slabs = calloc(limit_units / SLAB_UNITS + 1, sizeof *slabs);
    if (!slabs)
        abort();
    begin_thread(keeper);
    for (uint32_t i = 0; i < PINNERS && (!i || i < cores); i++)
        begin_thread(pinner);
}
