/* diagnose_wait.c - play the graph and follow those who stay behind to where their waiting comes from. */
#include <stdio.h>
#include <stdlib.h>

#include "coll/types.h"
#include "common/check.h"
#include "graph/run.h"
#include "prismd/diagnose/diagnose_private.h"

#define RING_SHOWN 4

enum { ARRIVED = 1, ENDED = 2 };

/* Who is missing in a communicator's collective, which all its members ask. */
struct asked {
    uint32_t number, missing;
    bool valid;
};

struct playing {
    uint8_t **nodes; /* by rank and node: ARRIVED (of COMM nodes), ENDED */
    uint64_t eager_bytes;
    struct asked *asked; /* owned; by communicator: the latest answer */
};

/* Where a rank stands. */
struct stand {
    uint32_t node;                 /* COMM node that has begun and never ends; NO_NODE: it stands in none */
    const struct graph_part *part; /* of it, the one that lacks somebody */
    uint32_t number;               /* of part: among the collectives, or among the messages with that peer */
    uint32_t waits_for;            /* the first rank that is missing */
    uint32_t visited;              /* number of the walk that came here */
};

/* ---- Playing ---- */

static double no_time(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    (void)ctx, (void)g, (void)comm, (void)p, (void)parts, (void)n;
    return 0;
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    return bytes <= ((const struct playing *)ctx)->eager_bytes;
}

static void on_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    (void)start_ns, (void)end_ns;
    ((struct playing *)ctx)->nodes[rank][v] |= ENDED;
}

static void on_comm_start(void *ctx, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns)
{
    (void)loop, (void)start_ns;
    ((struct playing *)ctx)->nodes[rank][n] |= ARRIVED;
}

/* Whether everyone came to the end; *sound: whether it could be played. */
static bool play(const struct graph *g, struct playing *p, bool *sound)
{
    struct graph_run_ops ops = {.duration_ns = no_time, .send_is_eager = is_eager, .on_node = on_node,
                                .on_comm_start = on_comm_start, .ctx = p};
    struct graph_run *run = graph_run_create(g, &ops, NULL);
    *sound = run != NULL;
    if (!run)
        return false;
    p->nodes = check(calloc(g->world + 1u, sizeof *p->nodes));
    p->asked = check(calloc(g->ncomms + 1u, sizeof *p->asked));
    for (uint32_t r = 0; r < g->world; r++)
        p->nodes[r] = check(calloc(g->ranks[r].nnodes + 1u, 1));
    graph_run_begin(run, 0);
    bool ended = !graph_run_blocked(run, NULL, 0);
    graph_run_destroy(run);
    return ended;
}

static void played_free(const struct graph *g, struct playing *p)
{
    for (uint32_t r = 0; p->nodes && r < g->world; r++)
        free(p->nodes[r]);
    free(p->nodes);
    free(p->asked);
    p->nodes = NULL;
    p->asked = NULL;
}

/* ---- Where everyone stands ---- */

/* Node of the number'th collective on the communicator (wanted NULL), or message like wanted with that peer. */
static uint32_t find_node(const struct graph *g, uint32_t rank, int32_t global, const struct graph_part *wanted, int32_t peer,
                          uint32_t number)
{
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t local = diagnose_local(g, rank, global);
    for (uint32_t i = 0; local != UINT32_MAX && i < r->nnodes; i++)
        for (uint32_t k = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == local && k < r->nodes[i].nparts; k++)
            if (is_like(&r->parts[r->nodes[i].first_part + k], wanted, peer) && !number--)
                return i;
    return NO_NODE;
}

static uint32_t count_before(const struct graph_rank *r, uint32_t node, uint32_t k, const struct graph_part *part)
{
    uint32_t count = 0, comm = r->nodes[node].comm;
    const struct graph_part *wanted = is_collective(part) ? NULL : part;
    for (uint32_t i = 0; i <= node; i++)
        for (uint32_t j = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == comm && j < r->nodes[i].nparts; j++)
            count += (i < node || j < k) && is_like(&r->parts[r->nodes[i].first_part + j], wanted, part->peer);
    return count;
}

static bool has_arrived(const struct playing *p, uint32_t rank, uint32_t node)
{
    return node != NO_NODE && p->nodes[rank][node] & ARRIVED;
}

/* The first member that has not come to the collective; UINT32_MAX: none is missing. */
static uint32_t missing_of_all(const struct graph *g, const struct playing *p, int32_t global, uint32_t number)
{
    const struct graph_comm *comm = &g->comms[global];
    struct asked *asked = &p->asked[global];
    if (asked->valid && asked->number == number)
        return asked->missing;
    *asked = (struct asked){number, UINT32_MAX, true};
    for (uint32_t m = 0; m < comm->size && asked->missing == UINT32_MAX; m++) {
        uint32_t rank = (uint32_t)comm->ranks[m];
        if (!has_arrived(p, rank, find_node(g, rank, global, NULL, 0, number)))
            asked->missing = rank;
    }
    return asked->missing;
}

static uint32_t missing_peer(const struct graph *g, const struct playing *p, struct graph_member self,
                             const struct graph_part *part, uint32_t number)
{
    struct graph_part other = other_side(part);
    uint32_t peer = (uint32_t)g->comms[self.global].ranks[part->peer];
    if (part->op == GRAPH_OP_SEND && part->count * coll_datatype_size(part->datatype) <= p->eager_bytes)
        return UINT32_MAX;
    return has_arrived(p, peer, find_node(g, peer, self.global, &other, self.rank, number)) ? UINT32_MAX : peer;
}

static uint32_t missing_member(const struct graph *g, const struct playing *p, uint32_t rank, const struct graph_node *n,
                               const struct graph_part *part, uint32_t number)
{
    struct graph_member self = g->ranks[rank].comms[n->comm];
    bool is_root = part->peer == self.rank;
    switch (graph_feeds(part->op)) {
    case GRAPH_FEEDS_FROM_ROOT: {
        uint32_t root = (uint32_t)g->comms[self.global].ranks[part->peer];
        return is_root || has_arrived(p, root, find_node(g, root, self.global, NULL, 0, number)) ? UINT32_MAX : root;
    }
    case GRAPH_FEEDS_TO_ROOT:
        return is_root ? missing_of_all(g, p, self.global, number) : UINT32_MAX;
    case GRAPH_FEEDS_ALL:
        return missing_of_all(g, p, self.global, number);
    default:
        return missing_peer(g, p, self, part, number);
    }
}

static struct stand stand_of(const struct graph *g, const struct playing *p, uint32_t rank)
{
    const struct graph_rank *r = &g->ranks[rank];
    struct stand s = {.node = NO_NODE};
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM || p->nodes[rank][i] != ARRIVED)
            continue;
        for (uint32_t k = 0; k < n->nparts; k++) {
            const struct graph_part *part = &r->parts[n->first_part + k];
            uint32_t number = count_before(r, i, k, part), who = missing_member(g, p, rank, n, part, number);
            if (who != UINT32_MAX)
                return (struct stand){i, part, number, who, 0};
        }
    }
    return s;
}

/* ---- Words ---- */

static const char *words_stand(words out, const struct graph *g, uint32_t rank, const struct stand *s)
{
    words what, where, comm;
    int32_t global = g->ranks[rank].comms[g->ranks[rank].nodes[s->node].comm].global;
    out[0] = 0;
    words_put(out, "%s (%s, %s %u on %s)", words_part(what, g, global, s->part),
             words_place(where, g, rank, s->node), is_collective(s->part) ? "collective" : "message", s->number,
             words_comm(comm, g, global));
    return out;
}

/* What the rank that is waited for has left out, where that can be told. */
static const char *words_stand_apart(words out, const struct graph *g, uint32_t rank, const struct stand *s)
{
    int32_t global = g->ranks[rank].comms[g->ranks[rank].nodes[s->node].comm].global;
    return words_apart(out, g, global, rank, s->waits_for, is_collective(s->part) ? NULL : s->part);
}

static const char *words_last_call(words out, const struct graph *g, uint32_t rank)
{
    const struct graph_rank *r = &g->ranks[rank];
    for (uint32_t i = r->nnodes; i-- > 0;) {
        words what, where;
        if (r->nodes[i].kind != GRAPH_COMM)
            continue;
        int32_t global = r->comms[r->nodes[i].comm].global;
        out[0] = 0;
        words_put(out, "its last call is %s (%s, on communicator %d)",
                 words_part(what, g, global, &r->parts[r->nodes[i].first_part]), words_place(where, g, rank, i), global);
        return out;
    }
    out[0] = 0;
    words_put(out, "it has made no call at all");
    return out;
}

/* ---- Where waiting comes from ---- */

struct waiting {
    struct diagnosing *x;
    struct stand *stands;
    uint32_t *causes; /* by rank: the rank at the end of its waits (of a ring: its lowest); NO_NODE: it waits for nobody */
};

static uint32_t lowest_of_ring(const struct stand *stands, uint32_t rank)
{
    uint32_t lowest = rank;
    for (uint32_t at = stands[rank].waits_for; at != rank; at = stands[at].waits_for)
        lowest = at < lowest ? at : lowest;
    return lowest;
}

static uint32_t cause_of(struct stand *stands, uint32_t rank, uint32_t walk)
{
    uint32_t at = rank;
    while (stands[at].node != NO_NODE) {
        if (stands[at].visited == walk)
            return lowest_of_ring(stands, at);
        stands[at].visited = walk;
        at = stands[at].waits_for;
    }
    return at;
}

/* Who is directly kept waiting, by this rank, and one of them. */
static uint32_t direct_waiters(struct waiting *w, uint32_t rank, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < w->x->g->world; r++)
        if (w->stands[r].node != NO_NODE && w->stands[r].waits_for == rank)
            list[n++] = r;
    return n;
}

static void tell_missing(struct waiting *w, uint32_t rank, uint64_t behind, uint32_t *list)
{
    const struct graph *g = w->x->g;
    words who, stand, last, apart;
    uint32_t n = direct_waiters(w, rank, list);
    const char *host = w->x->options->hosts ? w->x->options->hosts[rank] : NULL;
    words_ranks(who, list, n);
    words_stand(stand, g, list[0], &w->stands[list[0]]);
    words_stand_apart(apart, g, list[0], &w->stands[list[0]]);
    finding_add(w->x, FINDING_MISSING, rank, "%s wait%s for rank %u, rank %u in %s; rank %u does not get there: %s%s%s%s (%llu rank%s wait%s because of it)",
                who, n == 1 ? "s" : "", rank, list[0], stand, rank, words_last_call(last, g, rank), apart, host ? "; " : "",
                host ? host : "", (unsigned long long)behind, behind == 1 ? "" : "s", behind == 1 ? "s" : "");
}

static void tell_ring(struct waiting *w, uint32_t rank, uint64_t behind, enum finding_kind kind)
{
    const struct graph *g = w->x->g;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    uint32_t at = rank, shown = 0, n = 0;
    if (!out)
        abort();
    do {
        words stand, apart;
        n++;
        if (shown < RING_SHOWN && ++shown)
            fprintf(out, "%srank %u waits in %s for rank %u%s", shown > 1 ? ", " : "", at,
                    words_stand(stand, g, at, &w->stands[at]), w->stands[at].waits_for,
                    words_stand_apart(apart, g, at, &w->stands[at]));
        at = w->stands[at].waits_for;
    } while (at != rank);
    fclose(out);
    finding_add(w->x, kind, rank, "%u rank%s in a ring%s: %s%s (%llu wait because of it)", n, n == 1 ? " waits" : "s wait",
                kind == FINDING_BUFFERING ? " once sends wait for their receivers, as large ones do in NCCL" : "", text,
                shown < n ? ", …" : "", (unsigned long long)behind);
    free(text);
}

static uint64_t tell_causes(struct waiting *w, bool buffered)
{
    uint32_t world = w->x->g->world, *list = check(calloc(world + 1u, sizeof *list));
    uint64_t *behind = check(calloc(world + 1u, sizeof *behind)), all = 0;
    for (uint32_t r = 0; r < world; r++) {
        w->causes[r] = w->stands[r].node == NO_NODE ? NO_NODE : cause_of(w->stands, r, r + 1);
        if (w->causes[r] != NO_NODE)
            behind[w->causes[r]]++, all++;
    }
    for (uint32_t r = 0; r < world; r++)
        if (behind[r] && w->stands[r].node == NO_NODE)
            tell_missing(w, r, behind[r], list);
        else if (behind[r])
            tell_ring(w, r, behind[r], buffered ? FINDING_RING : FINDING_BUFFERING);
    free(list);
    free(behind);
    return all;
}

static uint64_t tell_waits(struct diagnosing *x, const struct playing *p, bool buffered)
{
    struct waiting w = {x, check(calloc(x->g->world + 1u, sizeof *w.stands)), check(calloc(x->g->world + 1u, sizeof *w.causes))};
    for (uint32_t r = 0; r < x->g->world; r++)
        w.stands[r] = stand_of(x->g, p, r);
    uint64_t waiting = tell_causes(&w, buffered);
    free(w.stands);
    free(w.causes);
    return waiting;
}

bool diagnose_waits(struct diagnosing *x)
{
    struct playing p = {.eager_bytes = UINT64_MAX};
    bool sound, ended = play(x->g, &p, &sound);
    if (sound && !ended)
        x->out->waiting = tell_waits(x, &p, true);
    played_free(x->g, &p);
    if (!sound || !ended || x->options->ended_early)
        return sound;
    p.eager_bytes = x->options->eager_bytes;
    if (!play(x->g, &p, &sound))
        tell_waits(x, &p, false);
    played_free(x->g, &p);
    return true;
}
