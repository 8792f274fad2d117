/* condense_private.h - equations (condense.c finds them, condensed.c puts arrivals in).
 *
 * Sources are what moments come from: the beginning (0), external ranks (positions: their groups in issue order, counting on when
 * looped), communicators in which everyone meets (positions: their collectives). Every position but the beginning has an
 * equation. Positions from known on are those of the last loop before known, again and again.
 */
#ifndef PRISM_GRAPH_CONDENSE_PRIVATE_H
#define PRISM_GRAPH_CONDENSE_PRIVATE_H

#include "graph/condense.h"
#include "graph/run_private.h"

enum { BEGINNING = 0 }; /* the source */

struct equation_term {
    uint32_t source;
    uint64_t position;
    int64_t weight_ns;
};

struct equation {
    uint64_t first; /* of its terms */
    uint32_t n;     /* 0 = there is none */
};

struct place { /* a position that is waited for, or known */
    uint64_t position; /* + 1; 0 = empty */
    int64_t ns;        /* when it is known: arrival, meeting */
    int64_t so_far_ns; /* its equation's maximum */
    int64_t duration_ns;
    uint64_t next_position, waiting_position; /* on the list that it is on; head of those that wait for it; of their sources: */
    uint32_t next_source, waiting_source;     /* NONE */
    uint32_t term; /* the next one to look at */
    uint32_t comm, ordinal;
    bool known;
};

struct source {
    struct equation *equations; /* owned; by position */
    uint64_t nequations, cap;
    uint64_t before;  /* positions before the loop */
    uint64_t known;   /* positions with equations of their own; UINT64_MAX: all, nothing is looped */
    uint32_t per_loop;
    uint32_t of;      /* rank, communicator */
    uint32_t *groups; /* owned; external ranks: by node, groups before it */
    /* Arriving. */
    struct place *ring; /* owned; by position */
    uint64_t mask;
    uint64_t first_unknown;
    uint64_t begun; /* meetings before it */
};

struct graph_condensed {
    struct graph_run *run;
    struct graph_run_ops ops;
    struct source *sources;
    uint32_t nsources, nlive; /* live ones are 1 to nlive */
    uint32_t *source_of; /* by world rank */
    struct equation_term *terms;
    uint64_t nterms, terms_cap;
    int64_t ahead; /* loops by which a term may be ahead of its equation */
    int64_t keep; /* loops before the last one that is complete whose places may still be asked for; -1: all */
    uint32_t loops;
    bool only_recorded; /* loops do not become alike */
};

/* condensed.c: once all equations are there. */
void condensed_prepare(struct graph_condensed *c);

/* Loop of a position, below 0 before the first. */
static inline int64_t source_loop(const struct source *s, uint64_t position)
{
    if (!s->per_loop || position < s->before)
        return -1;
    return (int64_t)((position - s->before) / s->per_loop);
}

#endif
