/* diagnose.h - why ranks of a graph wait for each other, in words that lead to the line of the program.
 *
 * Three questions, in this order:
 *   1. Do the members of each communicator call the same collectives in the same order, with equal count, datatype, reduction
 *      and root? The first call that differs is told, with who calls what. Messages: do both sides mean the same size?
 *   2. Played with sends that are buffered (as in capture), who never gets on, and for whom do they wait? Waits are followed
 *      from rank to rank to where they come from: a rank that makes no further call, or ranks that wait in a ring.
 *   3. Is there a send that nobody receives? And, played with sends that wait for their receiver (as NCCL's do above a few
 *      hundred KiB), does it still come to its end?
 * Works on whole graphs and on those of a capture that was ended in the middle.
 */
#ifndef PRISM_PRISMD_DIAGNOSE_H
#define PRISM_PRISMD_DIAGNOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "graph/graph.h"

enum finding_kind {
    FINDING_DAMAGED,   /* not a consistent graph: nothing else can be said */
    FINDING_ORDER,     /* the same collectives, in another order */
    FINDING_MISMATCH,  /* another operation, count, datatype, reduction or root */
    FINDING_SIZE,      /* a send and its receive */
    FINDING_MISSING,   /* ranks wait for one that makes no further call */
    FINDING_RING,      /* ranks wait for each other */
    FINDING_UNMATCHED, /* a send that nobody receives */
    FINDING_BUFFERING, /* hangs unless sends are buffered */
    FINDINGS
};

struct finding {
    enum finding_kind kind;
    uint32_t rank; /* the one to look at first */
    char *text;    /* owned; one sentence or two */
};

#define DIAGNOSE_MOST 16 /* findings kept; the rest is counted */

struct diagnosis {
    struct finding list[DIAGNOSE_MOST];
    uint32_t n;
    uint64_t more;    /* findings not kept */
    uint64_t waiting; /* ranks that never get on */
};

struct diagnose_options {
    const char *const *hosts; /* by rank: what its host did at the end ("its host waits in ncclCommInitRank"), or NULL each; may be NULL */
    bool ended_early;         /* the graph stops in the middle: what is under way is no fault by itself */
    uint64_t eager_bytes;     /* sends up to this are buffered by NCCL (question 3) */
};

void diagnose(const struct graph *g, const struct diagnose_options *options, struct diagnosis *out);
void diagnosis_clear(struct diagnosis *d);
const char *finding_name(enum finding_kind kind); /* "order", "ring", … */

#endif
