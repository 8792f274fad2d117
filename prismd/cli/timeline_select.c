/* timeline_select.c - see timeline_select.h. */
#include "timeline_select.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "spank/parse.h"

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}


/* The first rank of each key 0..nkeys-1, and how many ranks have it. */
static uint32_t first_of_each(const struct graph *g, const uint32_t *key, uint32_t nkeys, uint32_t most, uint32_t *ranks,
                              uint32_t *weight)
{
    uint32_t n = 0;
    int32_t *slot = must(malloc((nkeys + 1u) * sizeof(*slot)));
    memset(slot, -1, (nkeys + 1u) * sizeof(*slot));
    for (uint32_t r = 0; r < g->world; r++) {
        uint32_t k = key ? key[r] : g->ranks[r].klass;
        if (k >= nkeys)
            continue;
        if (slot[k] < 0 && n < most) {
            slot[k] = (int32_t)n;
            ranks[n++] = r;
        }
        if (slot[k] >= 0)
            weight[slot[k]]++;
    }
    free(slot);
    return n;
}

static void sort_by_stage(uint32_t *ranks, uint32_t *weight, uint32_t n, const uint32_t *stage)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && stage[ranks[j]] < stage[ranks[j - 1]]; j--) {
            uint32_t rank = ranks[j], ranks_for = weight[j];
            ranks[j] = ranks[j - 1], weight[j] = weight[j - 1];
            ranks[j - 1] = rank, weight[j - 1] = ranks_for;
        }
}

uint32_t timeline_choose(const struct graph *g, const uint32_t *stage, uint32_t nstages, uint32_t most, uint32_t **ranks,
                         uint32_t **weight, const char **how)
{
    uint32_t n = g->world <= most ? g->world : 0;
    *ranks = must(calloc((most > n ? most : n) + 1u, sizeof(**ranks)));
    *weight = must(calloc((most > n ? most : n) + 1u, sizeof(**weight)));
    *how = "all ranks";
    for (uint32_t i = 0; i < n; i++)
        (*ranks)[i] = i, (*weight)[i] = 1;
    if (n == 0 && nstages > 1) {
        *how = "the first rank of each stage";
        n = first_of_each(g, stage, nstages, most, *ranks, *weight);
    } else if (n == 0) {
        *how = "the first rank of each class of equal ranks";
        n = first_of_each(g, NULL, g->nclasses ? g->nclasses : 1, most, *ranks, *weight);
    }
    if (nstages > 1)
        sort_by_stage(*ranks, *weight, n, stage);
    return n;
}

static void list_ranks(const struct parse_ranks *list, uint32_t **ranks, uint32_t **weight, uint32_t *n)
{
    *n = 0;
    *ranks = must(calloc(list->count + 1, sizeof(**ranks)));
    *weight = must(calloc(list->count + 1, sizeof(**weight)));
    for (size_t i = 0; i < list->nranges; i++)
        for (uint32_t r = list->ranges[i].first; r <= list->ranges[i].last; r++) {
            (*ranks)[*n] = r;
            (*weight)[(*n)++] = 1;
        }
}

int timeline_ranks(const char *list, const struct graph *g, const uint32_t *stage, uint32_t nstages, uint32_t fallback,
                   uint32_t most, uint32_t **ranks, uint32_t **weight, uint32_t *n, const char **how,
                   struct prism_error *err)
{
    struct prism_error why = { 0 };
    struct parse_ranks parsed = { 0 };
    int result = 0;
    if (!list) {
        *n = timeline_choose(g, stage, nstages, fallback, ranks, weight, how);
        return 0;
    }
    if (parse_ranks(list, &parsed, &why) != 0)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--ranks=%s: %s", list, why.text);
    if (parsed.highest >= g->world)
        result = prism_error_set(err, PRISM_EXIT_USAGE, "--ranks: there is no rank %u in a world of %u", parsed.highest, g->world);
    else if (parsed.count > most)
        result = prism_error_set(err, PRISM_EXIT_USAGE, "--ranks: %llu ranks are too many here, at most %u",
                                 (unsigned long long)parsed.count, most);
    else
        list_ranks(&parsed, ranks, weight, n);
    *how = "as named";
    parse_ranks_clear(&parsed);
    return result;
}

int timeline_iterations(const char *list, const struct graph *g, uint32_t *first, uint32_t *last, struct prism_error *err)
{
    struct prism_error why = { 0 };
    struct parse_ranks parsed = { 0 };
    uint32_t recorded = g->world > 0 ? g->ranks[0].niterations : 0;
    if (recorded == 0)
        return prism_error_set(err, PRISM_EXIT_TRACE, "the trace has no iterations: its capture did not end well; recapture");
    *first = *last = recorded - 1;
    if (!list)
        return 0;
    if (parse_ranks(list, &parsed, &why) != 0 || parsed.nranges != 1)
        return parse_ranks_clear(&parsed), prism_error_set(err, PRISM_EXIT_USAGE, "--iterations=%s: one number or N-M is allowed", list);
    *first = parsed.ranges[0].first;
    *last = parsed.ranges[0].last;
    parse_ranks_clear(&parsed);
    if (*last >= recorded)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--iterations=%s: the trace has iterations 0 to %u", list, recorded - 1);
    return 0;
}
