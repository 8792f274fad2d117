/* iterations.c - where training iterations begin: periods in the sequence of COMM nodes. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/graph.h"
#include "graph/structure.h"
#include "graph/validate.h"

/* Steps of the search for the end of the last iteration, all in all: keeps a program without any period
 * affordable. */
#define SEARCH_MAX 200000000u

struct region { /* tokens [start, start + length) have that period; length >= 2 * period; 0 = there is none */
    uint32_t start, length, period;
};

struct sequence {             /* of a rank's COMM nodes */
    uint64_t *loose, *strict; /* structure without and with counts */
    uint32_t *node;
    uint32_t n;
};

struct known { /* ranks of one kind share the search */
    uint64_t hash;
    uint32_t n;
    struct region region;
};

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

/* The longest suffix of tokens[0 … n) that repeats at least twice. Its period is the smallest one: that of
 * the reversed sequence's prefix, by the failure function of Knuth, Morris and Pratt. */
static struct region periodic_suffix(const uint64_t *tokens, uint32_t n, uint32_t *failure)
{
    struct region best = {0, 0, 0};
    const uint64_t *last = tokens + n - 1;
    failure[0] = 0;
    for (uint32_t i = 1, k = 0; i < n; i++) {
        while (k > 0 && *(last - i) != *(last - k))
            k = failure[k - 1];
        if (*(last - i) == *(last - k))
            k++;
        failure[i] = k;
        uint32_t length = i + 1, period = length - k;
        if (2 * (uint64_t)period <= length)
            best = (struct region){n - length, length, period};
    }
    return best;
}

/* The longest periodic region, whatever follows it (teardown). One that covers more than half is taken at
 * once. */
static struct region find_region(const uint64_t *tokens, uint32_t n)
{
    struct region best = {0, 0, 0};
    uint32_t *failure = allocate(n, sizeof *failure);
    uint64_t budget = SEARCH_MAX;
    for (uint32_t end = n; end >= 2 && end > best.length && budget >= end; end--) {
        struct region r = periodic_suffix(tokens, end, failure);
        if (r.length > best.length)
            best = r;
        if (best.length > n / 2)
            break;
        budget -= end;
    }
    free(failure);
    return best;
}

static struct sequence read_sequence(const struct graph *g, const struct graph_rank *r)
{
    struct sequence s = {0};
    s.loose = allocate(r->nnodes, sizeof *s.loose);
    s.strict = allocate(r->nnodes, sizeof *s.strict);
    s.node = allocate(r->nnodes, sizeof *s.node);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        if (r->nodes[i].kind != GRAPH_COMM)
            continue;
        s.loose[s.n] = structure_of_group(g, r, &r->nodes[i], STRUCTURE_ROOTS);
        s.strict[s.n] = structure_of_group(g, r, &r->nodes[i], STRUCTURE_ROOTS | STRUCTURE_COUNTS);
        s.node[s.n++] = i;
    }
    return s;
}

static void sequence_free(struct sequence *s)
{
    free(s->loose);
    free(s->strict);
    free(s->node);
}

static struct region region_of(struct known *known, uint32_t *nknown, const struct sequence *s)
{
    uint64_t hash = XXH3_64bits(s->loose, s->n * sizeof *s->loose);
    for (uint32_t i = 0; i < *nknown; i++)
        if (known[i].hash == hash && known[i].n == s->n)
            return known[i].region;
    known[*nknown] = (struct known){hash, s->n, find_region(s->loose, s->n)};
    return known[(*nknown)++].region;
}

static void set_bounds(struct graph_rank *r, uint32_t n)
{
    free(r->iterations);
    r->iterations = allocate((size_t)n + 1, sizeof *r->iterations);
    r->niterations = n;
}

static void mark_everything(struct graph_rank *r)
{
    set_bounds(r, 1);
    r->iterations[1] = r->nnodes;
}

static void mark(struct graph_rank *r, const struct sequence *s, struct region region, uint32_t n)
{
    set_bounds(r, n);
    if (!s->n) { /* never communicates: nothing tells its iterations apart */
        for (uint32_t i = 1; i <= n; i++)
            r->iterations[i] = r->nnodes;
        return;
    }
    /* More periods than iterations: several make one (micro-batches look alike to this rank). */
    uint32_t period = region.length / region.period / n * region.period;
    uint32_t start = region.start, spare = region.length - n * period;
    /* Set-up may end as an iteration does. Counts, where they do not depend on data, tell them apart. */
    for (; spare && s->strict[start] != s->strict[start + period]; spare--)
        start++;
    r->iterations[0] = start ? s->node[start - 1] + 1 : 0;
    for (uint32_t i = 1; i <= n; i++)
        r->iterations[i] = s->node[start + i * period - 1] + 1;
}

int graph_find_iterations(struct graph *g, struct prism_error *err)
{
    if (graph_validate(g, err))
        return -1;
    struct region *regions = allocate(g->world, sizeof *regions);
    struct sequence *sequences = allocate(g->world, sizeof *sequences);
    struct known *known = allocate(g->world, sizeof *known);
    uint32_t nknown = 0, n = UINT32_MAX;
    for (uint32_t i = 0; i < g->world; i++) {
        sequences[i] = read_sequence(g, &g->ranks[i]);
        if (!sequences[i].n)
            continue;
        regions[i] = region_of(known, &nknown, &sequences[i]);
        uint32_t found = regions[i].period ? regions[i].length / regions[i].period : 1;
        n = found < n ? found : n;
    }
    for (uint32_t i = 0; i < g->world; i++) {
        if (n < 2 || n == UINT32_MAX)
            mark_everything(&g->ranks[i]);
        else
            mark(&g->ranks[i], &sequences[i], regions[i], n);
        sequence_free(&sequences[i]);
    }
    free(regions);
    free(sequences);
    free(known);
    return 0;
}
