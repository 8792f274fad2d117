#include "prismd/pmix/pmix_fence.h"

#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

void pmix_fence_sort(uint32_t *ranks, uint32_t nranks)
{
    qsort(ranks, nranks, sizeof *ranks, by_number);
}

static struct pmix_fence *new_fence(const struct pmix_world *w, const uint32_t *ranks, uint32_t nranks)
{
    struct pmix_fence *f = calloc(1, sizeof *f);
    if (!f || !(f->ranks = malloc((nranks + 1u) * sizeof *ranks)) || !(f->entries = calloc(w->servers, sizeof *f->entries)))
        abort();
    f->nranks = nranks;
    memcpy(f->ranks, ranks, nranks * sizeof *ranks);
    pmix_fence_sort(f->ranks, nranks);
    return f;
}

bool pmix_fence_has(const struct pmix_fence *f, uint32_t rank)
{
    if (f->nranks && f->ranks[f->nranks - 1] == PMIX_EVERYONE)
        return true;
    return bsearch(&rank, f->ranks, f->nranks, sizeof *f->ranks, by_number) != NULL;
}

void pmix_fence_destroy(struct pmix_fence *f, uint32_t servers)
{
    for (uint32_t i = 0; i < servers; i++)
        bytes_free(&f->entries[i].data);
    free(f->entries);
    free(f->ranks);
    free(f);
}

void pmix_fences_clear(struct pmix_fences *f)
{
    for (struct pmix_fence *next; f->open; f->open = next) {
        next = f->open->next;
        pmix_fence_destroy(f->open, f->world->servers);
    }
}

static bool same_ranks(const struct pmix_fence *a, const struct pmix_fence *b)
{
    return a->nranks == b->nranks && !memcmp(a->ranks, b->ranks, a->nranks * sizeof *a->ranks);
}

struct pmix_fence *pmix_fence_enter(struct pmix_fences *f, uint32_t server, const uint32_t *ranks, uint32_t nranks)
{
    struct pmix_fence *mine = new_fence(f->world, ranks, nranks), **at = &f->open;
    for (; *at; at = &(*at)->next)
        if (same_ranks(*at, mine) && !(*at)->entries[server].entered)
            break;
    if (*at)
        pmix_fence_destroy(mine, f->world->servers);
    else
        *at = mine;
    (*at)->entries[server].entered = true;
    return *at;
}

enum part { PART_NONE, PART_MISSING, PART_LOST };

/* What a server that has not entered is to a fence. */
static enum part part_of(const struct pmix_world *w, const struct pmix_fence *f, uint32_t server)
{
    enum part part = PART_NONE;
    for (uint32_t r = w->first[server]; r < w->end[server]; r++) {
        if (w->server[r] != server || !pmix_fence_has(f, r))
            continue;
        if (!w->ended[r])
            return PART_MISSING;
        part = PART_LOST;
    }
    return part;
}

struct pmix_fence *pmix_fence_complete(struct pmix_fences *f, bool *lost)
{
    for (struct pmix_fence **at = &f->open; *at; at = &(*at)->next) {
        struct pmix_fence *fence = *at;
        bool missing = false;
        *lost = false;
        for (uint32_t n = 0; n < f->world->servers && !missing; n++) {
            enum part part = fence->entries[n].entered ? PART_NONE : part_of(f->world, fence, n);
            missing = part == PART_MISSING;
            *lost |= part == PART_LOST;
        }
        if (missing)
            continue;
        *at = fence->next;
        return fence;
    }
    return NULL;
}
