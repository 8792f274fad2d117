#include "graph/multiples.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "graph/feeds.h"

#define CLOSE 1e-6 /* relative: two ratios of small integers are equal */

/* A forest: size[rank] is the length of the rank's period, in periods of its parent. */
struct forest {
    uint32_t *parent;
    double *size;
    bool *contradicted; /* of roots */
};

struct use { /* of a communicator in a rank's period */
    int32_t global;
    uint32_t rank, count;
};

/* Makes the root the parent of all on the way. */
static uint32_t root_of(struct forest *f, uint32_t rank)
{
    uint32_t root = rank;
    double size = 1;
    for (; f->parent[root] != root; root = f->parent[root])
        size *= f->size[root];
    while (f->parent[rank] != root && rank != root) {
        uint32_t next = f->parent[rank];
        double own = f->size[rank];
        f->parent[rank] = root;
        f->size[rank] = size;
        size /= own;
        rank = next;
    }
    return root;
}

/* A period of b is `ratio` periods of a. */
static void relate(struct forest *f, uint32_t a, uint32_t b, double ratio)
{
    uint32_t x = root_of(f, a), y = root_of(f, b);
    double of_x = ratio * (a == x ? 1 : f->size[a]); /* b's period in periods of x */
    double of_y = b == y ? 1 : f->size[b];
    if (x == y) {
        if (fabs(of_x - of_y) > CLOSE * of_x)
            f->contradicted[x] = true;
        return;
    }
    f->parent[y] = x;
    f->size[y] = of_x / of_y;
    f->contradicted[x] |= f->contradicted[y];
}

static uint32_t count_uses(const struct graph_rank *r, uint32_t rank, struct multiples_period p, uint32_t *counts,
                           struct use *uses)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->ncomms; i++)
        counts[i] = 0;
    for (uint32_t i = p.begin; i < p.end; i++) {
        const struct graph_node *node = &r->nodes[i];
        for (uint32_t k = 0; node->kind == GRAPH_COMM && k < node->nparts; k++)
            counts[node->comm] += graph_feeds(r->parts[node->first_part + k].op) < GRAPH_FEEDS_SEND;
    }
    for (uint32_t i = 0; i < r->ncomms; i++)
        if (counts[i])
            uses[n++] = (struct use){r->comms[i].global, rank, counts[i]};
    return n;
}

static int by_comm(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->global != y->global)
        return x->global < y->global ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static struct use *list_uses(const struct graph *g, const struct multiples_period *periods, size_t *n)
{
    size_t all = 0, most = 0;
    for (uint32_t i = 0; i < g->world; i++) {
        all += g->ranks[i].ncomms;
        most = g->ranks[i].ncomms > most ? g->ranks[i].ncomms : most;
    }
    struct use *uses = array_zeros(all, sizeof *uses);
    uint32_t *counts = array_zeros(most, sizeof *counts);
    *n = 0;
    for (uint32_t i = 0; i < g->world; i++)
        *n += count_uses(&g->ranks[i], i, periods[i], counts, uses + *n);
    free(counts);
    qsort(uses, *n, sizeof *uses, by_comm);
    return uses;
}

void multiples_find(const struct graph *g, const struct multiples_period *periods, uint32_t *multiples, uint32_t *sets)
{
    struct forest f = {array_zeros(g->world, sizeof *f.parent), array_zeros(g->world, sizeof *f.size),
                       array_zeros(g->world, sizeof *f.contradicted)};
    double *longest = array_zeros(g->world, sizeof *longest); /* by root: period in periods of the root */
    size_t n;
    struct use *uses = list_uses(g, periods, &n);
    for (uint32_t i = 0; i < g->world; i++) {
        f.parent[i] = i;
        f.size[i] = 1;
    }
    for (size_t i = 1; i < n; i++)
        if (uses[i].global == uses[i - 1].global)
            relate(&f, uses[i - 1].rank, uses[i].rank, (double)uses[i].count / uses[i - 1].count);
    for (size_t i = 0; i < n; i++) {
        uint32_t root = root_of(&f, uses[i].rank);
        longest[root] = fmax(longest[root], uses[i].rank == root ? 1 : f.size[uses[i].rank]);
    }
    for (uint32_t i = 0; i < g->world; i++) {
        uint32_t root = sets[i] = root_of(&f, i);
        double m = longest[root] / (i == root ? 1 : f.size[i]);
        bool whole = m > 0.5 && fabs(m - round(m)) < CLOSE * m && !f.contradicted[root];
        multiples[i] = whole && periods[i].begin < periods[i].end ? (uint32_t)round(m) : 0;
    }
    free(uses);
    free(longest);
    free(f.parent);
    free(f.size);
    free(f.contradicted);
}
