/* layout.h - where a rank sits in the parallel groups.
 *
 * Rank order, inner to outer: tensor (tp), data (dp), pipeline (pp):
 *     rank = (pp_rank * dp + dp_rank) * tp + tp_rank
 * The expert group is the inner part of the data-parallel one: dp_rank = edp_rank * ep + ep_rank. The ranks
 * of a dp group that hold the same experts (same ep_rank) are its expert-data-parallel (edp) group.
 */
#ifndef MOETRAIN_LAYOUT_H
#define MOETRAIN_LAYOUT_H

struct layout {
    int rank, world;
    int tp, dp, pp, ep, edp;                          /* sizes */
    int tp_rank, dp_rank, pp_rank, ep_rank, edp_rank; /* places */
};

/* world must be a multiple of tp * pp, and world / tp / pp of ep (options_check_world). */
struct layout layout_make(int rank, int world, int tp, int pp, int ep);

/* The rank at a place. */
int layout_rank_of(const struct layout *layout, int pp_rank, int dp_rank, int tp_rank);

#endif
