/* condense.h - the replay of run.h at a cost that does not grow with the world.
 *
 * An operation's end at an external rank (a live one) is made of arrivals of external ranks by maxima and additions only:
 *
 *     end(j) = duration(j) + max( arrival(j), max over arrivals i of (arrival(i) + weight(i, j)), t0 + weight(t0, j) )
 *
 * The weights hang on the graph alone. graph_condense finds them once: it plays the graph with graph_run itself, where each
 * arrival is a moment not known yet and each time a maximum of such (terms.h); so matching, durations, eager sends and loops are
 * the replay's by construction. Then an arrival costs as many additions as weights it is in: those of an iteration are at most
 * about the square of the external ranks' groups in it, whatever the world.
 *
 * Meetings. A collective in which every rank waits for every other is a moment of its own with an equation of its own, and what
 * it makes needless is left out: behind it little hangs on what was before.
 *
 * Iterations. Those recorded have equations of their own, always. Beyond them (options.iterations UINT32_MAX) the last one is looped until
 * loops in a row are alike: every node of every virtual rank is the same terms, as many loops before, and the same weights.
 * Nothing else is taken over from loop to loop (that is checked: distances are shorter than a loop, and every host thread in it that
 * takes time waits somewhere, so that where it stands is a node's end). If in m + 2 loops in a row no term is of a moment more than m loops
 * back, then they alone have made the last one's terms, and all later ones are alike: its equations serve for ever.
 * Likeness is told by 64 bit hashes. Where there is no meeting in the loop, or where streams of a rank are so full that they never come to
 * rest behind it, old terms stay for ever: it is given up when the oldest moment of a loop is that of the loop before. Then (only_recorded) there
 * are equations for what was recorded, and beyond it graph_run must be asked (GRAPH_CONDENSED_LEFT).
 *
 * Live sizes only lengthen or shorten the group they belong to, which is added here. Where they change whether a send is eager the
 * equations are others: GRAPH_CONDENSED_LEFT, too.
 *
 * What it costs: the recorded iterations and up to twelve more are played, some two times as slowly as by graph_run (8,192 ranks, 18 million nodes
 * of three iterations: 3 s), and weights: nodes times moments since the last meeting, in the worst case. It is refused, and the caller takes
 * graph_run, where the limits below are passed, and for what is said above.
 */
#ifndef PRISM_GRAPH_CONDENSE_H
#define PRISM_GRAPH_CONDENSE_H

#include "graph/run.h"

struct graph_condense_options {
    size_t bytes;   /* of weights while it is found out, at most; 0 = 1 GiB */
    uint64_t steps; /* weights that are looked at, at most; 0 = 2e10, six to twenty seconds */
};

struct graph_condensed;

/* ops: on_release is called by graph_condensed_arrive and _begin as graph_run would, at the same arrivals (but for lookahead: it
 * plays no role here). on_node and on_comm_start are not called. options: as for the run; iterations is 0 or UINT32_MAX. The
 * graph must outlive it and not change. how may be NULL. NULL: refused, and why. */
struct graph_condensed *graph_condense(const struct graph *g, const struct graph_run_ops *ops, const struct graph_run_options *options,
                                       const struct graph_condense_options *how, struct prism_error *why);
void graph_condensed_destroy(struct graph_condensed *c); /* NULL is fine */

void graph_condensed_begin(struct graph_condensed *c, int64_t t0_ns);

enum { GRAPH_CONDENSED_LEFT = 1 };
/* As graph_run_arrive. GRAPH_CONDENSED_LEFT: its equations are not those of what has arrived, and nothing has changed. A graph_run that is told all,
 * from the beginning on and this one too, goes on; it releases again what has been released. */
int graph_condensed_arrive(struct graph_condensed *c, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t start_ns,
                           const struct graph_part *live_parts, uint32_t nlive, struct prism_error *err);

/* Whether parts of a group (n = 0: not told) are those recorded, to the last. */
bool graph_condensed_is_recorded(const struct graph_condensed *c, uint32_t rank, uint32_t comm, uint32_t ordinal, const struct graph_part *parts,
                                 uint32_t n);

struct graph_condensed_size {
    uint32_t loops;    /* played beyond the recorded iterations */
    uint64_t terms;    /* weights kept */
    uint64_t per_loop; /* of them, in an iteration that is looped; 0 = none is */
    bool only_recorded; /* what lies beyond has no equations */
};
struct graph_condensed_size graph_condensed_size(const struct graph_condensed *c);

#endif
