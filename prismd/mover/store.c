#include "prismd/mover/store.h"

#include <stdlib.h>
#include <string.h>

#include "prismd/mover/gpu.h"
#include "prismd/mover/pool.h"
#include "prismd/mover/spill.h"

static bool keeper_works; /* it moves or writes now */

static uint64_t units_of(const struct range *r)
{
    return (r->bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

static bool is_at_rest(const struct range *r)
{
    return r->place == RANGE_POOL && !r->leaving;
}

/* --- space for copies --- */

/* Who left last; but who is on the move only if there is nobody else. */
static bool is_spilled_before(const struct guest *a, const struct guest *b)
{
    return !a->jobs != !b->jobs ? !a->jobs : a->left > b->left;
}

static struct range *choose_to_spill(void)
{
    struct range *best = NULL;
    for (struct guest *g = guests; g; g = g->hh.next) {
        if (best && !is_spilled_before(g, best->guest))
            continue;
        for (struct range *r = g->ranges; r; r = r->hh.next)
            if (is_at_rest(r)) {
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
        uint64_t n = p.bytes < r->bytes - at ? p.bytes : r->bytes - at; /* the last unit may be used in part */
        spill_write(r, at, p.host, n, sum);
        at += n;
    }
    pthread_mutex_lock(&mover_lock);
    r->hash = spill_sum_end(sum);
    pool_give(&r->pinned);
    r->place = RANGE_DISK;
}

/* --- emptying a slab --- */

static bool lies_in(const struct range *r, uint64_t slab)
{
    for (uint32_t i = 0; i < r->pinned.n; i++)
        if (pool_slab_of(r->pinned.list[i].first) == slab)
            return true;
    return false;
}

/* The one with the least in it, where that has space in the others. */
static uint64_t choose_to_move(void)
{
    uint64_t best = POOL_NONE, least = UINT64_MAX;
    for (uint64_t i = 0; i < pool_slabs(); i++) {
        uint64_t taken = pool_taken_in(i);
        if (taken && taken < least) {
            least = taken;
            best = i;
        }
    }
    return best != POOL_NONE && least <= pool_free_beside(best) ? best : POOL_NONE;
}

/* By slab, the first departure of the ranks that have something in it, without what leaves it anyway. */
static uint64_t *list_departures(void)
{
    uint64_t *list = calloc(pool_slabs() + 1, sizeof *list);
    if (!list)
        abort();
    for (const struct guest *g = guests; g; g = g->hh.next)
        for (const struct range *r = g->ranges; r; r = r->hh.next)
            for (uint32_t i = 0; !r->leaving && i < r->pinned.n; i++) {
                uint64_t *first = &list[pool_slab_of(r->pinned.list[i].first)];
                *first = !*first || g->left < *first ? g->left : *first;
            }
    return list;
}

static uint64_t choose_to_write(void)
{
    uint64_t *first = list_departures(), best = POOL_NONE;
    for (uint64_t i = 0; i < pool_slabs(); i++)
        if (pool_taken_in(i) && (best == POOL_NONE || first[i] > first[best]))
            best = i;
    free(first);
    return best;
}

/* What lies at rest in the slab that is being emptied; one is chosen if none is. */
static struct range *choose_to_empty(void)
{
    uint64_t slab = pool_emptying();
    if (slab == POOL_NONE)
        slab = choose_to_move();
    if (slab == POOL_NONE && !spill_is_memory())
        slab = choose_to_write();
    if (slab == POOL_NONE)
        return NULL;
    if (pool_emptying() == POOL_NONE)
        pool_empty(slab);
    for (const struct guest *g = guests; g; g = g->hh.next)
        for (struct range *r = g->ranges; r; r = r->hh.next)
            if (is_at_rest(r) && lies_in(r, slab))
                return r;
    return NULL;
}

static void copy_units(const struct extents *to, const struct extents *from)
{
    uint64_t done = 0; /* units of to->list[i] */
    for (uint32_t i = 0, k = 0; k < from->n; k++)
        for (uint64_t unit = 0; unit < from->list[k].count; unit++) {
            memcpy(pool_at(to->list[i].first + done), pool_at(from->list[k].first + unit), UNIT_BYTES);
            if (++done == to->list[i].count) {
                done = 0;
                i++;
            }
        }
}

static void move(struct range *r, struct extents to)
{
    struct extents from = r->pinned;
    r->place = RANGE_WRITING;
    pthread_mutex_unlock(&mover_lock);
    copy_units(&to, &from);
    pthread_mutex_lock(&mover_lock);
    r->pinned = to;
    pool_give(&from);
    r->place = RANGE_POOL;
}

/* --- the keeper --- */

/* Returns whether there was something to do. */
static bool work(void)
{
    struct extents to = {0};
    struct range *r = pool_lacks_space() ? choose_to_spill() : NULL;
    bool for_copy = r;
    if (!r && pool_must_empty())
        r = choose_to_empty();
    if (!r)
        return false;
    keeper_works = true;
    bool moves = !for_copy && pool_take(units_of(r), &to);
    if (moves)
        move(r, to);
    else if (for_copy || !spill_is_memory())
        spill(r);
    else
        pool_keep(); /* the space in the others is gone again */
    keeper_works = false;
    return true;
}

static void *keeper(void *arg)
{
    (void)arg;
    gpu_use();
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        while (!work())
            pthread_cond_wait(&pool_change, &mover_lock);
        pthread_cond_broadcast(&pool_change);
    }
    return NULL;
}

/* --- for copies --- */

bool store_take(struct range *r)
{
    uint64_t units = units_of(r);
    bool taken;
    while (!(taken = pool_take(units, &r->pinned)) && (keeper_works || pool_may_grow() || choose_to_spill())) {
        pool_want(units);
        pthread_cond_wait(&pool_change, &mover_lock);
    }
    pool_want(0);
    return taken;
}

void store_give(struct range *r)
{
    if (r->pinned.n)
        pool_give(&r->pinned);
}

void store_keep(struct range *r)
{
    r->place = RANGE_POOL;
    pthread_cond_broadcast(&pool_change);
}

void store_await_writing(struct range *r)
{
    r->leaving = true;
    while (r->place == RANGE_WRITING)
        pthread_cond_wait(&pool_change, &mover_lock);
}

struct piece store_piece(const struct range *r, uint32_t extent)
{
    const struct extent *e = &r->pinned.list[extent];
    return (struct piece){pool_at(e->first), e->count * UNIT_BYTES};
}

void store_begin(uint64_t limit, unsigned movers)
{
    pthread_t thread;
    pool_begin(limit, movers);
    if (pthread_create(&thread, NULL, keeper, NULL))
        mover_failed("cannot start a thread");
    pthread_detach(thread);
}
