/* fold.h - ranks of the same structure (data-parallel replicas) as one class with one representative.
 *
 * 1. Words
 *
 * A layout gives every rank coordinates: dimensions from inner to outer, rank = sum of coordinate x stride. Some dimensions
 * are folded. Ranks that differ in folded coordinates only do the same; a replica is all ranks of equal folded coordinates.
 *
 *   live            ranks that run in capture: the replica of rank 0, which makes unique ids and is the root of what it takes
 *                   part in, and the replica of every sandbox rank. With several folded dimensions also the replicas on the way
 *                   between (some of the sandbox rank's folded coordinates set to 0): they have the roots of its groups.
 *   absent          the others
 *   representative  of an absent rank: the live rank of its class that is most alike: in each folded dimension the same place, else
 *                   one that is not the first either (the first is often special: it is the root, it alone adds a norm); of equals in
 *                   turn. Of a live rank: itself
 *   displacement    what takes a rank to another of its class, added to the folded coordinates, going round; written as the
 *                   rank that it takes rank 0 to
 *
 * 2. Communicators
 *
 * A communicator covers a folded dimension whole or has one coordinate of it: then the displacements within the dimensions that
 * it covers take it to itself, all others to a communicator of other ranks. That is what makes a graph of all ranks from
 * the graph of the live ones. Communicators that split a dimension (every second replica, blocks of consecutive ones) are
 * an error that says so: two dimensions in the layout are then what the program has.
 */
#ifndef PRISM_GRAPH_FOLD_H
#define PRISM_GRAPH_FOLD_H

#include "graph/graph.h"

#define FOLD_DIMENSIONS_MAX 8
#define FOLD_NAME_MAX       15

struct fold_dimension {
    char name[FOLD_NAME_MAX + 1];
    uint32_t size;
    uint32_t stride; /* fold_create fills it in */
    bool folded;
};

struct fold {
    uint32_t world, ndimensions;
    struct fold_dimension dimensions[FOLD_DIMENSIONS_MAX]; /* from inner to outer */
    uint32_t *live; /* owned, ascending */
    uint32_t nlive;
    uint32_t *representative; /* owned, by rank */
    uint32_t *index;          /* owned, by rank: where its representative stands in live */
};

/* sandbox: n ranks of the world, which is the product of the sizes. */
struct fold *fold_create(const struct fold_dimension *dimensions, uint32_t ndimensions, const uint32_t *sandbox, uint32_t n);
void fold_destroy(struct fold *f); /* NULL is fine */

bool fold_is_live(const struct fold *f, uint32_t rank);
uint32_t fold_shift(const struct fold *f, uint32_t rank, uint32_t displacement);
/* fold_shift(from, it) is `to`; both of one class. */
uint32_t fold_displacement(const struct fold *f, uint32_t from, uint32_t to);
uint32_t fold_inverse(const struct fold *f, uint32_t displacement);
/* A displacement without its coordinates in the dimensions of a mask (bit i: dimension i). */
uint32_t fold_outside(const struct fold *f, uint32_t displacement, unsigned mask);

/* 3. Members of a communicator, from the live ones that have called ncclCommInitRank */

enum fold_answer {
    FOLD_LATER,   /* others may still call */
    FOLD_WHOLE,   /* members are known */
    FOLD_SEVERAL, /* last: it could be one over either of two dimensions */
    FOLD_NONE,    /* last: no dimensions give it */
};

/* callers: by rank in the communicator, -1 = has not called. Members are what some of the folded dimensions make of the
 * callers, in the order of their ranks, in which the callers must have their places (all of them called: in any order). While
 * callers may be missing, and the layout has dimensions that would explain a larger communicator within a replica, or it is one of two
 * ranks, the answer is to wait for them: `last` says that whoever has not called will not before this one is made.
 * members (size of them) is filled for FOLD_WHOLE. */
enum fold_answer fold_members(const struct fold *f, const int32_t *callers, uint32_t size, bool last, int32_t *members);

/* The folded dimensions that a communicator covers, as a mask; -1: it covers one in part. */
int fold_covers(const struct fold *f, const int32_t *ranks, uint32_t size);
/* What all of the mask's displacements make of n live ranks, ascending; room for size of them. Returns how many (0: more than
 * size). */
uint32_t fold_spread(const struct fold *f, const int32_t *ranks, uint32_t n, unsigned mask, int32_t *members, uint32_t size);
/* Who stands for each member of a communicator (size of them, by place): a live member itself, an absent one's representative, or
 * where that is in another communicator a live one that the covered dimensions take to it. */
void fold_stand_ins(const struct fold *f, const struct graph_comm *c, uint32_t *places);

/* "ep:4,dp:8": the folded dimensions in words, for errors. */
void fold_describe(const struct fold *f, char *text, size_t len);

/* 4. The graph of all ranks. g has what the live ranks recorded, and for each of their communicators all members. Absent ranks get
 * their representative's nodes and parts (shared; peers of sends and receives on communicators over folded dimensions are
 * displaced) and communicators. -1 with err (PRISM_EXIT_UNSUPPORTED): a communicator that splits a dimension, by its members. */
int fold_expand(const struct fold *f, struct graph *g, struct prism_error *err);
/* After graph_find_classes: absent ranks are of their representative's class (which of them is a root, only, may differ), so
 * that its works are theirs. */
void fold_classes(const struct fold *f, struct graph *g);

/* A group of sends and receives that goes to everyone, the rank itself as well (an all-to-all as PyTorch makes it): absent
 * members then send what their representative sends to the same member; else what it sends to the one as far away (a ring, a
 * pipeline, an all-to-all without oneself). */
bool fold_goes_to_all(const struct graph_part *parts, uint32_t nparts, int32_t self);

/* 5. Replaying one replica for many. Exchange two places of a folded dimension at which no rank is external or has works of its own:
 * communicators become communicators, and who waits for whom stays, as long as replicas meet only where all wait for all. So what
 * happens at the one place happens at the same times at the other, and the first such place of each dimension can be played
 * for the others. as (world entries): by rank, the rank that is played for it, itself for those that are played (graph/run.h).
 * Returns how many are. All of them (as[r] = r) where it is not so: a root in a replica that is not played, groups of two
 * replicas that are spread over nodes in two ways, other work, and messages between replicas, but for
 *
 *   exchanges: groups that are one send to and one receive from every other member of the communicator (and perhaps the rank
 *   itself). Whether a send is eager, a receive waits for its send; so each member ends after the start of the last, as in a
 *   collective. How long it takes then is each member's own: what it sends and receives within its node and to others.
 *   That has to be the same, in messages and in bytes, for a rank and the one that is played for it: equal splits, and members
 *   that lie alike on nodes. With splits from data (and PyTorch leaves out sends of nothing), members end at different times
 *   and every rank is played. So it is with a ring or any other message to some members only: a wave takes time to go round. The
 *   n-th exchange of a member is then everyone's n-th, so that other messages on the same communicator count as well.
 *
 * external may be NULL. */
uint32_t fold_twins(const struct fold *f, const struct graph *g, const uint8_t *external, uint32_t *as);

#endif
