/* folding_p2p.c - sends of live members to, and in place of, members that are folded away. */
#include <stdlib.h>

#include "prismd/capture/record.h"
#include "prismd/folding/folding.h"

static bool goes_to_all(const struct group *g, int32_t self)
{
    struct graph_part *parts = record_parts(g);
    bool all = fold_goes_to_all(parts, g->nparts, self);
    free(parts);
    return all;
}

static int32_t place_of(const struct graph_comm *c, uint32_t rank)
{
    for (uint32_t i = 0; i < c->size; i++)
        if ((uint32_t)c->ranks[i] == rank)
            return (int32_t)i;
    return -1;
}

/* What `self` sends to everyone is to the same member what those say for whom it stands. */
static void send_to_all(const struct fold *f, const struct graph_comm *c, const uint32_t *stand_ins, int32_t self, int32_t peer,
                        folding_message message, void *arg)
{
    if (!fold_is_live(f, (uint32_t)c->ranks[peer]))
        return;
    for (uint32_t m = 0; m < c->size; m++)
        if (stand_ins[m] == (uint32_t)self)
            message(arg, (int32_t)m, peer);
}

/* A member as far from the sender as the peer is: whoever is that far behind a live member of the peer's class sends to it. */
static void send_as_far(const struct fold *f, const struct graph_comm *c, const uint32_t *stand_ins, int32_t self, int32_t peer,
                        folding_message message, void *arg)
{
    uint32_t rank = (uint32_t)c->ranks[self], to = (uint32_t)c->ranks[peer];
    for (uint32_t x = 0; x < c->size; x++) {
        uint32_t live = (uint32_t)c->ranks[x], apart = fold_displacement(f, live, to);
        if (!fold_is_live(f, live) || fold_shift(f, live, apart) != to)
            continue;
        int32_t from = place_of(c, fold_shift(f, rank, fold_inverse(f, apart)));
        if (from >= 0 && stand_ins[from] == (uint32_t)self)
            message(arg, from, (int32_t)x);
    }
}

void folding_send(struct daemon *d, const struct group *g, uint32_t part, folding_message message, void *arg)
{
    const struct membership *m = &g->rank->comms[g->comm];
    const uint32_t *stand_ins;
    int32_t peer = g->parts[part].peer;
    folding_live_members(d, m->global, &stand_ins);
    if (!stand_ins)
        message(arg, m->rank, peer);
    else if (goes_to_all(g, m->rank))
        send_to_all(d->conf->fold, &d->graph->comms[m->global], stand_ins, m->rank, peer, message, arg);
    else
        send_as_far(d->conf->fold, &d->graph->comms[m->global], stand_ins, m->rank, peer, message, arg);
}
