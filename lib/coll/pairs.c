#include "coll/pairs.h"

#include <stdlib.h>

#include <uthash.h>

/* A leaf, or the sum of two nodes. */
struct node {
    struct pairs_key key; /* a sum's: left and right */
    uint32_t uses;        /* as a side of other nodes, that are still to come */
    uint32_t place;       /* PAIRS_NONE: not made yet */
    UT_hash_handle hh;
};

struct builder {
    struct pairs *p;
    struct node *nodes; /* leaves first */
    uint32_t nnodes;
    struct node *known; /* hash by key: of leaves, then of sums */
    uint32_t *unused; /* buffers */
    uint32_t nunused;
};

static void *room(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        abort();
    return p;
}

static uint32_t add(struct builder *b, struct pairs_key key)
{
    b->nodes[b->nnodes] = (struct node){.key = key, .place = PAIRS_NONE};
    return b->nnodes++;
}

/* The node of this key, a new one where there is none yet. */
static uint32_t find_or_add(struct builder *b, struct pairs_key key)
{
    struct node *node;
    HASH_FIND(hh, b->known, &key, sizeof key, node);
    if (!node) {
        node = &b->nodes[add(b, key)];
        HASH_ADD(hh, b->known, key, sizeof key, node);
    }
    return (uint32_t)(node - b->nodes);
}

static void add_leaves(struct builder *b, const struct pairs_key *members, uint32_t n, uint32_t *level)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = b->nnodes;
        level[i] = find_or_add(b, members[i]);
        if (b->nnodes > before)
            b->p->leaves[before] = i;
    }
    b->p->nleaves = b->nnodes;
}

/* The root. level: n leaves, overwritten. Leaves that all differ have sums that all differ: nothing to look up. */
static uint32_t add_sums(struct builder *b, uint32_t *level, uint32_t n)
{
    bool shared = b->p->nleaves < n;
    HASH_CLEAR(hh, b->known);
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t i = 0; i < n; i += 2) {
            struct pairs_key sides = {level[i], i + 1 < n ? level[i + 1] : 0};
            uint32_t before = b->nnodes;
            level[i / 2] = i + 1 == n ? level[i] : shared ? find_or_add(b, sides) : add(b, sides);
            if (b->nnodes > before) {
                b->nodes[sides.input].uses++;
                b->nodes[sides.factor].uses++;
            }
        }
    return level[0];
}

static void drop(struct builder *b, uint32_t node)
{
    const struct node *x = &b->nodes[node];
    if (--b->nodes[node].uses == 0 && x->place >= b->p->nleaves)
        b->unused[b->nunused++] = x->place;
}

static uint32_t take(struct builder *b)
{
    return b->nunused ? b->unused[--b->nunused] : b->p->nleaves + b->p->nbuffers++;
}

/* A leaf for one step: needs no buffer to be scaled in. */
static bool is_read_once(const struct builder *b, uint32_t node)
{
    const struct node *x = &b->nodes[node];
    return node < b->p->nleaves && x->uses == 1 && x->place == PAIRS_NONE;
}

/* As deep as the tree, 32 at most. */
static uint32_t make(struct builder *b, uint32_t node, bool scaled)
{
    struct node *x = &b->nodes[node];
    if (x->place != PAIRS_NONE)
        return x->place;
    struct pairs_step step = {.a = node, .b = PAIRS_NONE};
    if (node >= b->p->nleaves) {
        uint32_t left = (uint32_t)x->key.input, right = (uint32_t)x->key.factor;
        step.a = make(b, left, scaled);
        if (is_read_once(b, right))
            b->nodes[right].place = right;
        step.b = make(b, right, scaled);
        drop(b, left);
        drop(b, right);
    } else if (!scaled) {
        return x->place = node;
    }
    step.to = x->place = take(b);
    b->p->steps[b->p->nsteps++] = step;
    return step.to;
}

void pairs_build(struct pairs *p, const struct pairs_key *members, uint32_t n, bool scaled)
{
    uint32_t *level = room(n, sizeof *level);
    struct builder b = {.p = p, .nodes = room(2 * (size_t)n, sizeof *b.nodes)}; /* a binary tree of n leaves has 2n - 1 */
    *p = (struct pairs){.leaves = room(n, sizeof *p->leaves)};
    add_leaves(&b, members, n, level);
    uint32_t root = add_sums(&b, level, n);
    p->steps = room(b.nnodes, sizeof *p->steps);
    b.unused = room(b.nnodes, sizeof *b.unused);
    make(&b, root, scaled);
    HASH_CLEAR(hh, b.known);
    free(level);
    free(b.nodes);
    free(b.unused);
}

void pairs_free(struct pairs *p)
{
    free(p->leaves);
    free(p->steps);
    *p = (struct pairs){0};
}
