#include "prismd/mover/units.h"

#include <stdlib.h>
#include <string.h>

void units_grow(struct units *u, uint64_t more)
{
    u->taken = realloc(u->taken, u->count + more);
    if (!u->taken)
        abort();
    memset(u->taken + u->count, 0, more);
    u->count += more;
    u->free += more;
}

/* The next run of free units at or after `from`, at most `most` long; count 0 = none. */
static struct extent next_run(const struct units *u, uint64_t from, uint64_t most)
{
    const uint8_t *at = from < u->count ? memchr(u->taken + from, 0, u->count - from) : NULL;
    if (!at)
        return (struct extent){u->count, 0};
    struct extent run = {(uint64_t)(at - u->taken), 0};
    uint64_t end = run.first + most < u->count ? run.first + most : u->count;
    if (u->slab && end > (run.first / u->slab + 1) * u->slab)
        end = (run.first / u->slab + 1) * u->slab;
    const uint8_t *stop = memchr(at, 1, end - run.first);
    run.count = (stop ? (uint64_t)(stop - u->taken) : end) - run.first;
    return run;
}

static void add(struct units *u, struct extents *out, struct extent run)
{
    out->list = realloc(out->list, (out->n + 1) * sizeof *out->list);
    if (!out->list)
        abort();
    out->list[out->n++] = run;
    memset(u->taken + run.first, 1, run.count);
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
        memset(u->taken + e->list[i].first, 0, e->list[i].count);
        u->free += e->list[i].count;
    }
    free(e->list);
    *e = (struct extents){0};
}

void units_free(struct units *u)
{
    free(u->taken);
    *u = (struct units){0};
}
