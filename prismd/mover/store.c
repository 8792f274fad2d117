#include "prismd/mover/store.h"

#include <stdlib.h>

#include "common/log.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/spill.h"

#define SLAB_BYTES (256ull << 20) /* copies of this size are at full speed, and pinning one takes a tenth of a second */
#define SLAB_UNITS (SLAB_BYTES / UNIT_BYTES)

static struct units pool = {.slab = SLAB_UNITS};
static uint8_t **slabs; /* pinned; as many as the limit allows, so that the array never moves */
static uint64_t nslabs, limit_units;
static uint64_t expected, demand; /* units: foreseen, and asked for by copies that wait */
static bool keeper_works;         /* it pins or writes now */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER; /* space, demand, or the end of a write */

static uint64_t units_of(uint64_t bytes)
{
    return (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- the keeper --- */

static bool may_grow(void)
{
    return pool.count < limit_units;
}

static void grow(void)
{
    void *slab = NULL;
    uint64_t units = limit_units - pool.count < SLAB_UNITS ? limit_units - pool.count : SLAB_UNITS;
    pthread_mutex_unlock(&mover_lock);
    CUresult rc = gpu_cu(cuMemHostAlloc)(&slab, units * UNIT_BYTES, CU_MEMHOSTALLOC_PORTABLE);
    pthread_mutex_lock(&mover_lock);
    if (rc != CUDA_SUCCESS) {
        log_warn("cannot pin more than %llu MiB of host memory; further memory of ranks goes to disk",
                 (unsigned long long)(pool.count * UNIT_BYTES >> 20));
        limit_units = pool.count;
        return;
    }
    slabs[nslabs++] = slab;
    units_grow(&pool, units);
}

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
        struct range *r;
        keeper_works = true;
        if (pool.free < most(expected, demand) && may_grow()) {
            grow();
        } else if (pool.free < demand && (r = choose_to_spill())) {
            spill(r);
        } else {
            keeper_works = false;
            pthread_cond_broadcast(&change);
            pthread_cond_wait(&change, &mover_lock);
            continue;
        }
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
    while (!(taken = units_take(&pool, count, &r->pinned)) && (keeper_works || may_grow() || choose_to_spill())) {
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

void store_expect(uint64_t bytes)
{
    expected = units_of(bytes);
    pthread_cond_broadcast(&change);
}

void store_count(uint64_t *used, uint64_t *pinned)
{
    *used = (pool.count - pool.free) * UNIT_BYTES;
    *pinned = pool.count * UNIT_BYTES;
}

struct piece store_piece(const struct range *r, uint32_t extent)
{
    const struct extent *e = &r->pinned.list[extent];
    return (struct piece){slabs[e->first / SLAB_UNITS] + e->first % SLAB_UNITS * UNIT_BYTES, e->count * UNIT_BYTES};
}

void store_begin(uint64_t limit)
{
    pthread_t thread;
    limit_units = limit / UNIT_BYTES;
    slabs = calloc(limit_units / SLAB_UNITS + 1, sizeof *slabs);
    if (!slabs)
        abort();
    if (pthread_create(&thread, NULL, keeper, NULL))
        mover_failed("cannot start a thread");
    pthread_detach(thread);
}
