/* diagnose_private.h - what the files of diagnose.h share: operations of a rank by communicator and order, and words. */
#ifndef PRISM_PRISMD_DIAGNOSE_PRIVATE_H
#define PRISM_PRISMD_DIAGNOSE_PRIVATE_H

#include "graph/feeds.h"
#include "prismd/diagnose/diagnose.h"
#include "prismd/diagnose/words.h"

#define NO_NODE UINT32_MAX

struct diagnosing {
    const struct graph *g;
    const struct diagnose_options *options;
    struct diagnosis *out;
};

void finding_add(struct diagnosing *x, enum finding_kind kind, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static inline bool is_collective(const struct graph_part *p)
{
    return graph_feeds(p->op) < GRAPH_FEEDS_SEND;
}

/* A collective (wanted NULL), or a message in wanted's direction with that peer. */
static inline bool is_like(const struct graph_part *p, const struct graph_part *wanted, int32_t peer)
{
    return wanted ? p->op == wanted->op && p->peer == peer : is_collective(p);
}

/* The same message as its other side has it: only the operation. */
static inline struct graph_part other_side(const struct graph_part *part)
{
    return (struct graph_part){.op = part->op == GRAPH_OP_SEND ? GRAPH_OP_RECV : GRAPH_OP_SEND};
}

/* The rank's own number of a global communicator; UINT32_MAX: it is no member. */
uint32_t diagnose_local(const struct graph *g, uint32_t rank, int32_t global);

/* "AllReduce of 4096 x bf16", with root, or with the other side of a message. */
const char *words_part(words out, const struct graph *g, int32_t global, const struct graph_part *part);
/* "iteration 3, micro-batch 2, node 17": as far as known. */
const char *words_place(words out, const struct graph *g, uint32_t rank, uint32_t node);
/* "; such messages in iteration 2: 8 Send by rank 3, 7 Recv by rank 7": the first iteration in which two members do unlike numbers of
 * collectives of a communicator, or (part: a's own) of one's messages to the other. "": in none, or iterations are not known. */
const char *words_apart(words out, const struct graph *g, int32_t global, uint32_t a, uint32_t b, const struct graph_part *part);
/* "communicator 4 (8 ranks: 0-7)" */
const char *words_comm(words out, const struct graph *g, int32_t global);

/* diagnose_match.c: question 1, and the first half of 3. */
void diagnose_match(struct diagnosing *x);
void diagnose_unmatched(struct diagnosing *x);
/* diagnose_wait.c: question 2, and the second half of 3. False: the graph cannot be played at all. */
bool diagnose_waits(struct diagnosing *x);

#endif
