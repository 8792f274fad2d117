#include "prismd/replay/slices.h"

#include <stdlib.h>

static bool may_run(const struct graph *g, const struct fold *fold, uint32_t rank, uint32_t klass)
{
    return g->ranks[rank].klass == klass && (!fold || fold_is_live(fold, rank));
}

static void mark_spread(uint8_t *wanted, const struct graph *g, const struct fold *fold, uint32_t klass, uint32_t count)
{
    uint32_t members = 0, taken = 0;
    for (uint32_t r = 0; r < g->world; r++)
        members += may_run(g, fold, r, klass);
    if (count > members)
        count = members;
    for (uint32_t r = 0, i = 0; r < g->world && taken < count; r++) {
        if (!may_run(g, fold, r, klass))
            continue;
        if ((uint64_t)i * count / members >= taken || !i) {
            wanted[r] = 1;
            taken++;
        }
        i++;
    }
}

void slices_plan(struct slices *s, const struct graph *g, const struct fold *fold, uint32_t per_slice, uint32_t per_class,
                 const uint32_t *always, uint32_t nalways)
{
    uint8_t *wanted = calloc(g->world, 1);
    s->ranks = malloc(g->world * sizeof *s->ranks);
    s->first = malloc((g->world + 1u) * sizeof *s->first);
    if (!wanted || !s->ranks || !s->first)
        abort();
    if (!per_class)
        per_class = (fold ? fold->nlive : g->world) <= SLICES_SMALL_WORLD ? UINT32_MAX : 1;
    for (uint32_t k = 0; k < g->nclasses; k++)
        mark_spread(wanted, g, fold, k, per_class);
    for (uint32_t i = 0; i < nalways; i++)
        wanted[always[i]] = 1;
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->world; r++)
        if (wanted[r])
            s->ranks[n++] = r;
    free(wanted);
    if (!per_slice)
        per_slice = 1;
    s->n = 0;
    for (uint32_t i = 0; i < n; i += per_slice)
        s->first[s->n++] = i;
    s->first[s->n] = n;
}

void slices_clear(struct slices *s)
{
    free(s->ranks);
    free(s->first);
    *s = (struct slices){0};
}
