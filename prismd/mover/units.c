#include "prismd/mover/units.h"

#include <stdlib.h>
#include <string.h>

enum { FREE, TAKEN, RETIRED };

void units_grow(struct units *u, uint64_t more)
{
    u->state = realloc(u->state, u->count + more);
    if (!u->state)
        abort();
    memset(u->state + u->count, FREE, more);
    u->count += more;
    u->free += more;
}

/* The next run of free units at or after `from`, at most `most` long; count 0 = none. */
static struct extent next_run(const struct units *u, uint64_t from, uint64_t most)
{
    const uint8_t *at = from < u->count ? memchr(u->state + from, FREE, u->count - from) : NULL;
    if (!at)
        return (struct extent){u->count, 0};
    struct extent run = {(uint64_t)(at - u->state), 0};
    uint64_t end = run.first + most < u->count ? run.first + most : u->count;
    if (u->slab && end > (run.first / u->slab + 1) * u->slab)
        end = (run.first / u->slab + 1) * u->slab;
    while (run.first + run.count < end && u->state[run.first + run.count] == FREE)
        run.count++;
    return run;
}

static void add(struct units *u, struct extents *out, struct extent run)
{
    out->list = realloc(out->list, (out->n + 1) * sizeof *out->list);
    if (!out->list)
        abort();
    out->list[out->n++] = run;
    memset(u->state + run.first, TAKEN, run.count);
    u->free -= run.count;
}

bool units_take(struct units *u, uint64_t count, struct extents *out)
{
    *out = (struct extents){0};
    if (!count || count > u->free)
        return false;
    struct extent run;
    for (uint64_t at = 0; (run = next_run(u, at, count)).count; at = run.first + run.count)
        if (run.count == count) {
            add(u, out, run);
            return true;
        }
    for (uint64_t at = 0; count; at = run.first + run.count) {
        run = next_run(u, at, count);
        add(u, out, run);
        count -= run.count;
    }
    return true;
}

void units_give(struct units *u, struct extents *e)
{
    for (uint32_t i = 0; i < e->n; i++) {
        memset(u->state + e->list[i].first, FREE, e->list[i].count);
        u->free += e->list[i].count;
    }
    free(e->list);
    *e = (struct extents){0};
}

/* Units of the run in one state are put into another. Returns how many there were. */
static uint64_t change(struct units *u, struct extent run, uint8_t from, uint8_t to)
{
    uint64_t n = 0;
    for (uint64_t i = run.first; i < run.first + run.count; i++)
        if (u->state[i] == from) {
            u->state[i] = to;
            n++;
        }
    return n;
}

void units_retire(struct units *u, struct extent run)
{
    uint64_t n = change(u, run, FREE, RETIRED);
    u->free -= n;
    u->retired += n;
}

void units_restore(struct units *u, struct extent run)
{
    uint64_t n = change(u, run, RETIRED, FREE);
    u->free += n;
    u->retired -= n;
}

uint64_t units_taken(const struct units *u, struct extent run)
{
    uint64_t n = 0;
    for (uint64_t i = run.first; i < run.first + run.count; i++)
        n += u->state[i] == TAKEN;
    return n;
}

void units_free(struct units *u)
{
    free(u->state);
    *u = (struct units){0};
}
