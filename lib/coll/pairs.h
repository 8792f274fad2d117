/* pairs.h - the order of a reduction: pairs of neighbours, as a program of steps (internal to lib/coll).
 *
 * A balanced binary tree over the members in rank order, from the bottom up: members 0 and 1, 2 and 3 and so on are combined, then
 * pairs of pairs; an odd last one is carried up as it is. Members with equal keys bring the same values, so equal subtrees are
 * made once: a member of a level is known by its two sides. n members with d different keys in a repeating pattern cost some
 * d + log2(n) steps, not n - 1; the tree, and so every bit of the result, is the same as without sharing.
 *
 * Left before right, depth first, and a buffer is free again after its last use: where nothing is shared, log2(n) are enough.
 */
#ifndef PRISM_COLL_PAIRS_H
#define PRISM_COLL_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

/* What a member brings: its input's address and the factor it is multiplied with. */
struct pairs_key {
    uint64_t input, factor;
};

#define PAIRS_NONE UINT32_MAX

/* to = a op b, elementwise. Places below nleaves are leaves, which are only read; place nleaves + i is buffer i. `to` may be a or b.
 * Scaled: without b, to = leaf a times its factor; a leaf as b is to be taken times its factor, a never is one. */
struct pairs_step {
    uint32_t to, a, b;
};

struct pairs {
    uint32_t nleaves, nbuffers, nsteps;
    uint32_t *leaves;         /* owned; by leaf: the first member that brings it */
    struct pairs_step *steps; /* owned; the last one's `to` is the result, the only leaf is where there is none */
};

/* n >= 1 members. scaled: leaves are taken times their factors. Aborts without memory. */
void pairs_build(struct pairs *p, const struct pairs_key *members, uint32_t n, bool scaled);
void pairs_free(struct pairs *p);

#endif
