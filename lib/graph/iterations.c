/* iterations.c - where training iterations begin: periods in the sequence of COMM nodes. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "graph/graph.h"
#include "graph/multiples.h"
#include "graph/structure.h"
#include "graph/validate.h"

/* Steps of the search for the end of the last iteration, all in all: keeps a program without any period
 * affordable. */
#define SEARCH_MAX 200000000u

/* Periods that stand for one as long as the largest communicator does not occur in them, or the host waits in few of them. */
#define UNUSED_FACTOR 16

struct region { /* tokens [start, start + length) have that period; length >= 2 * period; 0 = there is none */
    uint32_t start, length, period;
};

/* Views of a COMM node, in the order in which they are asked for a period. All have its structure without counts; what
 * they know beyond it tells an iteration from the layers in it, which may look alike: */
enum view {
    VIEW_SYNCED, /* whether the host has waited for the device since the COMM node before (a loss is read, say) */
    VIEW_JOINED, /* whether another stream has waited for something since (the optimizer for the last gradients) */
    VIEW_COUNTED,
    VIEW_LOOSE,
    VIEWS,
};

struct sequence { /* of a rank's COMM nodes */
    uint64_t *tokens[VIEWS];
    bool *synced, *joined;
    uint32_t *node;
    uint32_t n;
};

struct known { /* ranks of one kind share the search */
    uint64_t hash;
    uint32_t n;
    struct region region;
};

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
    uint32_t *failure = array_zeros(n, sizeof *failure);
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

static uint64_t with_flag(uint64_t structure, bool flag)
{
    return flag ? structure * 0x9e3779b97f4a7c15u + 1 : structure;
}

static void add_token(struct sequence *s, const struct graph *g, const struct graph_rank *r, uint32_t node, bool synced, bool joined)
{
    uint64_t loose = structure_of_group(g, r, &r->nodes[node], STRUCTURE_ROOTS);
    s->tokens[VIEW_SYNCED][s->n] = with_flag(loose, synced);
    s->tokens[VIEW_JOINED][s->n] = with_flag(loose, joined);
    s->tokens[VIEW_COUNTED][s->n] = structure_of_group(g, r, &r->nodes[node], STRUCTURE_ROOTS | STRUCTURE_COUNTS);
    s->tokens[VIEW_LOOSE][s->n] = loose;
    s->synced[s->n] = synced;
    s->joined[s->n] = joined;
    s->node[s->n++] = node;
}

/* Of the rank's first `nodes` nodes. */
static struct sequence read_sequence(const struct graph *g, const struct graph_rank *r, uint32_t nodes)
{
    struct sequence s = {0};
    bool synced = false, *waited = array_zeros(r->nstreams, sizeof *waited); /* by stream */
    uint32_t nwaited = 0;
    for (int v = 0; v < VIEWS; v++)
        s.tokens[v] = array_zeros(nodes, sizeof **s.tokens);
    s.synced = array_zeros(nodes, sizeof *s.synced);
    s.joined = array_zeros(nodes, sizeof *s.joined);
    s.node = array_zeros(nodes, sizeof *s.node);
    for (uint32_t i = 0; i < nodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind == GRAPH_SYNC) {
            synced = true;
        } else if (n->kind == GRAPH_WAIT && !waited[n->stream]) {
            waited[n->stream] = true;
            nwaited++;
        } else if (n->kind == GRAPH_COMM) {
            add_token(&s, g, r, i, synced, nwaited > waited[n->stream]);
            synced = false;
            for (uint32_t k = 0; nwaited && k < r->nstreams; k++)
                waited[k] = false;
            nwaited = 0;
        }
    }
    free(waited);
    return s;
}

static void sequence_free(struct sequence *s)
{
    for (int v = 0; v < VIEWS; v++)
        free(s->tokens[v]);
    free(s->synced);
    free(s->joined);
    free(s->node);
}

/* A view that has nothing to say within a period is no better than the next. */
static bool view_speaks(const struct sequence *s, enum view view, struct region r)
{
    const bool *flags = view == VIEW_SYNCED ? s->synced : s->joined;
    if (view >= VIEW_COUNTED)
        return r.period;
    for (uint32_t i = r.start; r.period && i < r.start + r.period; i++)
        if (flags[i])
            return true;
    return false;
}

/* What stands in front of a region belongs to it as far as its structure, without what the view adds, repeats. */
static struct region extend(struct region r, const uint64_t *loose)
{
    while (r.start && loose[r.start - 1] == loose[r.start - 1 + r.period]) {
        r.start--;
        r.length++;
    }
    return r;
}

static struct region search(struct known *known, uint32_t *nknown, const uint64_t *tokens, uint32_t n)
{
    uint64_t hash = XXH3_64bits(tokens, n * sizeof *tokens);
    for (uint32_t i = 0; i < *nknown; i++)
        if (known[i].hash == hash && known[i].n == n)
            return known[i].region;
    known[*nknown] = (struct known){hash, n, find_region(tokens, n)};
    return known[(*nknown)++].region;
}

/* By the first view whose period covers most of the sequence. */
static struct region region_of(struct known *known, uint32_t *nknown, const struct sequence *s)
{
    for (enum view v = 0; v < VIEW_LOOSE; v++) {
        struct region r = search(known, nknown, s->tokens[v], s->n);
        if (r.length > s->n / 2 && view_speaks(s, v, r))
            return extend(r, s->tokens[VIEW_LOOSE]);
    }
    return search(known, nknown, s->tokens[VIEW_LOOSE], s->n);
}

static void set_bounds(struct graph_rank *r, uint32_t n)
{
    free(r->iterations);
    r->iterations = array_zeros((size_t)n + 1, sizeof *r->iterations);
    r->niterations = n;
}

static void mark_everything(struct graph_rank *r)
{
    set_bounds(r, 1);
    r->iterations[1] = r->nnodes;
}

static void mark(struct graph_rank *r, const struct sequence *s, struct region region, uint32_t periods, uint32_t n)
{
    set_bounds(r, n);
    if (!s->n) { /* never communicates: nothing tells its iterations apart */
        for (uint32_t i = 1; i <= n; i++)
            r->iterations[i] = r->nnodes;
        return;
    }
    uint32_t period = periods * region.period;
    uint32_t start = region.start, spare = region.length - n * period;
    /* Set-up may end as an iteration does. Counts, where they do not depend on data, tell them apart. */
    for (; spare && s->tokens[VIEW_COUNTED][start] != s->tokens[VIEW_COUNTED][start + period]; spare--)
        start++;
    r->iterations[0] = start ? s->node[start - 1] + 1 : 0;
    for (uint32_t i = 1; i <= n; i++)
        r->iterations[i] = s->node[start + i * period - 1] + 1;
}

struct finding {
    struct region *regions; /* by rank, as all here */
    struct sequence *sequences;
    struct multiples_period *periods;
    uint32_t *multiples, *sets;
    uint32_t *found; /* iterations */
    uint32_t *least; /* by set: of its ranks */
};

static struct finding finding_create(uint32_t world)
{
    return (struct finding){array_zeros(world, sizeof(struct region)),  array_zeros(world, sizeof(struct sequence)),
                            array_zeros(world, sizeof(struct multiples_period)), array_zeros(world, sizeof(uint32_t)),
                            array_zeros(world, sizeof(uint32_t)),       array_zeros(world, sizeof(uint32_t)),
                            array_zeros(world, sizeof(uint32_t))};
}

static void finding_free(struct finding *f, uint32_t world)
{
    for (uint32_t i = 0; i < world; i++)
        sequence_free(&f->sequences[i]);
    free(f->regions);
    free(f->sequences);
    free(f->periods);
    free(f->multiples);
    free(f->sets);
    free(f->found);
    free(f->least);
}

static void find_regions(const struct graph *g, struct finding *f)
{
    struct known *known = array_zeros((size_t)g->world * VIEWS, sizeof *known);
    uint32_t nknown = 0;
    for (uint32_t i = 0; i < g->world; i++) {
        struct sequence *s = &f->sequences[i];
        *s = read_sequence(g, &g->ranks[i], g->ranks[i].nnodes);
        if (!s->n)
            continue;
        struct region r = f->regions[i] = region_of(known, &nknown, s);
        if (r.period)
            f->periods[i] = (struct multiples_period){s->node[r.start + r.length - r.period], s->node[r.start + r.length - 1] + 1};
    }
    free(known);
}

/* The world's number of iterations, and what each set of ranks has at least. */
static uint32_t count_found(const struct graph *g, struct finding *f)
{
    uint32_t n = UINT32_MAX;
    for (uint32_t i = 0; i < g->world; i++)
        f->least[i] = UINT32_MAX;
    for (uint32_t i = 0; i < g->world; i++) {
        if (!f->sequences[i].n)
            continue;
        struct region r = f->regions[i];
        f->found[i] = r.period ? r.length / r.period / (f->multiples[i] ? f->multiples[i] : 1) : 1;
        uint32_t *least = &f->least[f->sets[i]];
        *least = f->found[i] < *least ? f->found[i] : *least;
        n = f->found[i] < n ? f->found[i] : n;
    }
    return n;
}

int graph_find_iterations(struct graph *g, struct prism_error *err)
{
    if (graph_validate(g, err))
        return -1;
    struct finding f = finding_create(g->world);
    find_regions(g, &f);
    multiples_find(g, f.periods, f.multiples, f.sets);
    uint32_t n = count_found(g, &f);
    for (uint32_t i = 0; i < g->world; i++) {
        if (n < 2 || n == UINT32_MAX) {
            mark_everything(&g->ranks[i]);
            continue;
        }
        /* More iterations than the world's: several make one. Of ranks that know of each other some are only ahead. */
        uint32_t m = f.multiples[i];
        uint32_t periods = !f.sequences[i].n ? 0 : m ? m * (f.least[f.sets[i]] / n) : f.found[i] / n;
        mark(&g->ranks[i], &f.sequences[i], f.regions[i], periods, n);
    }
    finding_free(&f, g->world);
    return 0;
}

static uint32_t size_of_comm(const struct graph *g, const struct graph_rank *r, uint32_t comm)
{
    return r->comms[comm].global < 0 ? 0 : g->comms[r->comms[comm].global].size;
}

/* A communicator is used that is as large as the largest the rank has made. */
static bool uses_largest_comm(const struct graph *g, const struct graph_rank *r, uint32_t begin, uint32_t end)
{
    uint32_t made = 0, used = 0;
    for (uint32_t i = 0; i < r->ncomms; i++)
        made = size_of_comm(g, r, i) > made ? size_of_comm(g, r, i) : made;
    for (uint32_t i = begin; i < end; i++)
        if (r->nodes[i].kind == GRAPH_COMM && size_of_comm(g, r, r->nodes[i].comm) > used)
            used = size_of_comm(g, r, r->nodes[i].comm);
    return used == made;
}

/* The host waits for the device. */
static bool has_sync(const struct graph_rank *r, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        if (r->nodes[i].kind == GRAPH_SYNC)
            return true;
    return false;
}

/* Periods from the first COMM node to before the first of the next one in which the host waits; the last may not have come so far. */
static uint32_t synced_periods(const struct graph_rank *r, const struct sequence *s, struct region region)
{
    uint32_t n = 0, last = region.start + region.length;
    for (uint32_t i = region.start; i < last; i += region.period)
        n += i + region.period == last || has_sync(r, s->node[i], s->node[i + region.period]);
    return n;
}

uint32_t graph_count_iterations(const struct graph *g, uint32_t rank, uint32_t nodes)
{
    const struct graph_rank *r = &g->ranks[rank];
    struct sequence s = read_sequence(g, r, nodes < r->nnodes ? nodes : r->nnodes);
    uint32_t *failure = array_zeros(s.n, sizeof *failure), count = 0;
    struct region region = {0};
    for (enum view v = 0; v < VIEWS && s.n && !count; v = v == VIEW_SYNCED ? VIEW_LOOSE : VIEWS) {
        region = periodic_suffix(s.tokens[v], s.n, failure);
        if (!view_speaks(&s, v, region))
            continue;
        region = extend(region, s.tokens[VIEW_LOOSE]);
        uint32_t begin = s.node[region.start], end = s.node[s.n - 1] + 1;
        count = has_sync(r, begin, end) ? region.length / region.period : 0;
        if (count && (!uses_largest_comm(g, r, s.node[s.n - region.period], end) || 2 * synced_periods(r, &s, region) <= count))
            count /= UNUSED_FACTOR;
    }
    free(failure);
    sequence_free(&s);
    return count;
}

int graph_truncate(struct graph *g, uint32_t n)
{
    for (uint32_t i = 0; i < g->world; i++)
        if (!n || g->ranks[i].niterations < n)
            return -1;
    for (uint32_t i = 0; i < g->world; i++) {
        struct graph_rank *r = &g->ranks[i];
        r->niterations = n;
        r->nnodes = r->iterations[n];
        r->nparts = 0;
        for (uint32_t k = 0; k < r->nnodes; k++)
            if (r->nodes[k].kind == GRAPH_COMM && r->nodes[k].first_part + r->nodes[k].nparts > r->nparts)
                r->nparts = r->nodes[k].first_part + r->nodes[k].nparts;
    }
    return 0;
}

bool graph_has_teardown(const struct graph *g)
{
    for (uint32_t i = 0; i < g->world; i++) {
        const struct graph_rank *r = &g->ranks[i];
        for (uint32_t k = r->niterations ? r->iterations[r->niterations] : r->nnodes; k < r->nnodes; k++)
            if (r->nodes[k].kind == GRAPH_COMM)
                return true;
    }
    return false;
}
