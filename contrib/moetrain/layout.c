#include "layout.h"

struct layout layout_make(int rank, int world, int tp, int pp, int ep)
{
    struct layout layout = {.rank = rank, .world = world, .tp = tp, .pp = pp, .ep = ep};
    layout.dp = world / tp / pp;
    layout.edp = layout.dp / ep;
    layout.tp_rank = rank % tp;
    layout.dp_rank = rank / tp % layout.dp;
    layout.pp_rank = rank / tp / layout.dp;
    layout.ep_rank = layout.dp_rank % ep;
    layout.edp_rank = layout.dp_rank / ep;
    return layout;
}

int layout_rank_of(const struct layout *layout, int pp_rank, int dp_rank, int tp_rank)
{
    return (pp_rank * layout->dp + dp_rank) * layout->tp + tp_rank;
}
