#include "coll/pairs.h"

#include <stdlib.h>
#include <string.h>

/* A leaf, or the sum of two nodes. */
struct node {
    struct pairs_key key; /* a sum's: left and right */
    uint32_t uses;        /* as a side of other nodes, that are still to come */
    uint32_t place;       /* PAIRS_NONE: not made yet */
};

struct builder {
    struct pairs *p;
    struct node *nodes; /* leaves first */
    uint32_t nnodes;
    uint32_t *slots; /* hash table: node + 1, 0 = empty */
    uint32_t mask;
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

/* Mixing as of splitmix64 (Steele, Lea, Flood 2014): addresses differ in few bits. */
static uint32_t hash(const struct pairs_key *k)
{
    uint64_t h = k->input * 0x9e3779b97f4a7c15u + k->factor;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(h ^ (h >> 31));
}

static uint32_t add(struct builder *b, struct pairs_key key)
{
    b->nodes[b->nnodes] = (struct node){.key = key, .place = PAIRS_NONE};
    return b->nnodes++;
}

/* The node of this key, a new one where there is none yet. */
static uint32_t find_or_add(struct builder *b, struct pairs_key key)
{
    uint32_t at = hash(&key) & b->mask;
    for (; b->slots[at]; at = (at + 1) & b->mask) {
        const struct pairs_key *k = &b->nodes[b->slots[at] - 1].key;
        if (k->input == key.input && k->factor == key.factor)
            return b->slots[at] - 1;
    }
    uint32_t node = add(b, key);
    b->slots[at] = node + 1;
    return node;
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
    memset(b->slots, 0, ((size_t)b->mask + 1) * sizeof *b->slots);
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
    uint32_t slots = 4, most = 2 * n; /* nodes of a binary tree of n leaves: 2n - 1 */
    while (slots < 2 * n)
        slots *= 2;
    uint32_t *level = room(n, sizeof *level);
    struct builder b = {.p = p, .nodes = room(most, sizeof *b.nodes), .slots = room(slots, sizeof *b.slots), .mask = slots - 1};
    *p = (struct pairs){.leaves = room(n, sizeof *p->leaves)};
    add_leaves(&b, members, n, level);
    uint32_t root = add_sums(&b, level, n);
    p->steps = room(b.nnodes, sizeof *p->steps);
    b.unused = room(b.nnodes, sizeof *b.unused);
    make(&b, root, scaled);
    free(level);
    free(b.nodes);
    free(b.slots);
    free(b.unused);
}

void pairs_free(struct pairs *p)
{
    free(p->leaves);
    free(p->steps);
    *p = (struct pairs){0};
}
