/* run_why.c - what is still blocked, in words. */
#include <stdio.h>

#include "graph/run_private.h"

static bool line_blocked(const struct run_line *l)
{
    return l->n != NONE && !(l->is_host && l->state == LINE_IDLE);
}

/* The first part of the group that nothing has fed. */
static void explain_comm(const struct graph_run *run, const struct run_line *l, char *why, size_t len)
{
    const struct run_rank *r = &run->ranks[l->rank];
    const struct graph_node *node = &r->nodes[l->n];
    struct graph_member member = r->recorded->comms[node->comm];
    int used = snprintf(why, len, "rank %u, node %u (stream %u), group %u of communicator %u: ", l->rank,
                        l->n, node->stream, node->ordinal, node->comm);
    if (used < 0 || (size_t)used >= len)
        return;
    why += used;
    len -= (size_t)used;
    for (uint32_t i = 0; i < node->nparts; i++) {
        const struct graph_part *p = &r->recorded->parts[node->first_part + i];
        const struct run_sequence *s = &r->sequences[node->first_part + i];
        uint64_t sequence = s->first + (l->n >= r->loop_begin ? (uint64_t)l->k * s->step : 0);
        enum graph_feeds feeds = graph_feeds(p->op);
        bool send = feeds == GRAPH_FEEDS_SEND;
        bool exchange = feeds >= GRAPH_FEEDS_SEND && run_is_exchange(run, member.global), p2p = feeds >= GRAPH_FEEDS_SEND && !exchange;
        int32_t place = exchange ? RUN_EXCHANGE : RUN_COLLECTIVE;
        int32_t source = !p2p   ? place
                         : send ? member.rank
                                : p->peer,
                destination = !p2p   ? place
                              : send ? p->peer
                                     : member.rank;
        const struct run_open *o =
            run_table_find(&run->table, sequence, (uint32_t)member.global, source, destination);
        if (!o || o->fed)
            continue;
        const struct graph_comm *comm = &run->graph->comms[member.global];
        if (p2p)
            snprintf(why, len, "%s %s rank %d waits for its %s", graph_op_name(p->op), send ? "to" : "from",
                     comm->ranks[p->peer], send ? "receive" : "send");
        else if (feeds == GRAPH_FEEDS_FROM_ROOT)
            snprintf(why, len, "%s waits for its root, rank %d", graph_op_name(p->op), comm->ranks[p->peer]);
        else
            snprintf(why, len, "%s has %u of %u members", exchange ? "exchange of all with all" : graph_op_name(p->op), o->count,
                     run_members(run, member.global));
        return;
    }
}

static void explain(const struct graph_run *run, const struct run_line *l, char *why, size_t len)
{
    const struct run_rank *r = &run->ranks[l->rank];
    const char *line = l->is_host ? "host thread" : "stream";
    uint32_t number = l->is_host ? r->nodes[l->n].host : r->nodes[l->n].stream;
    switch (l->state) {
    case LINE_AT_COMM:
        explain_comm(run, l, why, len);
        return;
    case LINE_PARKED:
        snprintf(why, len, "rank %u, node %u (%s %u): waits for the sandbox ranks to come to its iteration",
                 l->rank, l->n, line, number);
        return;
    case LINE_AT_LINE:
        snprintf(why, len, "rank %u, node %u (%s %u): waits for node at position %llu of its own rank",
                 l->rank, l->n, line, number, (unsigned long long)l->wait_for);
        return;
    default:
        snprintf(why, len, "rank %u, node %u (%s %u): not begun", l->rank, l->n, line, number);
    }
}

uint64_t graph_run_blocked(const struct graph_run *run, char *why, size_t why_len)
{
    uint64_t blocked = 0;
    const struct run_line *shown = NULL;
    for (uint32_t i = 0; i < run->nlines; i++) {
        const struct run_line *l = &run->lines[i];
        if (!line_blocked(l))
            continue;
        blocked++;
        /* What waits for another rank is the cause, what waits within its rank a consequence. */
        if (!shown || (shown->state != LINE_AT_COMM && l->state == LINE_AT_COMM))
            shown = l;
    }
    if (why && why_len) {
        why[0] = 0;
        if (shown)
            explain(run, shown, why, why_len);
    }
    return blocked;
}
