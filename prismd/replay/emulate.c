#include "prismd/replay/emulate.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/clock.h"
#include "common/log.h"
#include "prismd/assistants/assist.h"
#include "prismd/assistants/ballast.h"
#include "prismd/capture/enough.h"
#include "prismd/predict/duration.h"
#include "prismd/predict/durations.h"
#include "prismd/link/link.h"
#include "prismd/replay/arrival.h"
#include "prismd/replay/beginning.h"
#include "prismd/replay/delivery.h"
#include "prismd/replay/live.h"
#include "prismd/replay/player.h"
#include "prismd/capture/membership.h"
#include "prismd/capture/record.h"
#include "prismd/folding/folding.h"
#include "prismd/ranks/rank.h"
#include "prismd/gates/watch.h"

#define PLAYED_BETWEEN_LOOKS 64 /* nodes of virtual ranks: some microseconds */

/* Context of the graph's callbacks. The model comes first: duration_ns wants a struct duration_model. */
struct run_context {
    struct duration_model model;
    struct daemon *daemon;
};

static struct {
    struct player *player; /* NULL: nothing to play for here */
    struct run_context context;
    struct delivery *delivery;
    struct durations *durations; /* measured in calibration */
    uint8_t *external;   /* by world rank: runs in this phase */
    uint32_t *arrivals;  /* by world rank: told by other nodes so far */
    uint32_t *as;         /* by world rank: who is played for it (folding_twins); NULL = itself */
    uint32_t not_left;    /* live ranks of all nodes that have not ended */
    double *pacing_us;
    uint32_t npacing, pacing_cap;
    uint32_t played;       /* nodes, by the caller */
    uint32_t first_change; /* iteration (from 0) of the first group whose sizes were not the recorded ones */
} em;

static struct live *live_of(const struct rank *r)
{
    return r->phase_data;
}

static int64_t lag_out_ns(const struct daemon *d, const struct rank *r)
{
    const struct pace_lag *lag = &live_of(r)->lag_out;
    return d->transport == TRANSPORT_NCCL ? pace_lag_low_ns(lag) : pace_lag_ns(lag);
}

/* --- what was not recorded --- */

/* At a rank's node, behind so many COMM nodes (position). Behind the iterations of a trace that was cut, calibration goes round the last
 * one, and the program may do what that one does not: then the rank is not played on, and what was measured is enough (enough.h).
 * Anywhere else it ends the run. */
__attribute__((format(printf, 5, 6))) static int diverged(struct daemon *d, struct rank *r, uint32_t node, uint32_t position, const char *fmt, ...)
{
    struct live *l = live_of(r);
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!enough_goes_round() || position < l->recorded)
        return daemon_fail(d, PRISM_EXIT_DIVERGED, "rank %u: %s", r->number, text);
    if (!l->over) {
        l->over_from = node;
        if (!(l->over = strdup(text)))
            abort();
    }
    return -1;
}

static bool is_played(const struct live *l, uint32_t node)
{
    return !l->over || node < l->over_from;
}

/* --- communicators: as recorded --- */

static int answer_ready(struct daemon *d, struct rank *r, uint32_t comm, uint64_t nccl)
{
    const struct graph_rank *g = &d->graph->ranks[r->number];
    if (comm >= g->ncomms)
        return diverged(d, r, r->nodes, r->comm_nodes, "it makes communicator %u, but made only %u in capture; was the code changed? capture again",
                        comm, g->ncomms);
    struct msg_comm_ready ready = {.comm = comm};
    if (g->comms[comm].global >= 0) {
        const struct graph_comm *c = &d->graph->comms[g->comms[comm].global];
        ready.size = (int32_t)c->size;
        ready.rank = g->comms[comm].rank;
        rank_comm_made(r, comm, g->comms[comm].global, ready.size, ready.rank);
        if (assist_join(d, r, comm, nccl, &ready))
            return 0;
    } else {
        rank_comm(r, comm)->used = true;
    }
    ballast_ask(d, r, &ready);
    rank_send_ready(r, &ready, NULL);
    return 0;
}

static int on_comm_init(struct daemon *d, struct rank *r, const struct msg_comm_init *m)
{
    const struct graph_rank *g = &d->graph->ranks[r->number];
    if (m->comm < g->ncomms && g->comms[m->comm].global >= 0) {
        const struct graph_comm *c = &d->graph->comms[g->comms[m->comm].global];
        if ((int32_t)c->size != m->size || g->comms[m->comm].rank != m->rank)
            return daemon_fail(d, PRISM_EXIT_DIVERGED,
                               "rank %u: communicator %u is rank %d of %d now and was rank %d of %u in capture; capture again",
                               r->number, m->comm, m->rank, m->size, g->comms[m->comm].rank, c->size);
    }
    return answer_ready(d, r, m->comm, m->nccl);
}

static int on_comm_split(struct daemon *d, struct rank *r, const struct msg_comm_split *m)
{
    return answer_ready(d, r, m->comm, m->nccl);
}

static void on_comm_free(struct daemon *d, struct rank *r, const struct msg_comm_free *m)
{
    assist_freed(d, r, m->comm);
}

/* --- delivery of recorded results --- */

static int report_divergence(struct daemon *d, const struct group *g, const struct graph_node *n, const char *how)
{
    const struct graph_part *p = &d->graph->ranks[g->rank->number].parts[n->first_part];
    const struct msg_part *q = &g->parts[0];
    const char *hint = "was the code changed since capture? capture again, or use --prism-on-divergence=warn";
    if (d->conf->on_divergence == CONF_WARN) {
        log_warn("rank %u: %s on communicator %u (group %u): expected %s of %llu x %s, saw %s of %llu x %s", g->rank->number,
                 how, g->comm, g->ordinal, prism_op_name(p->op), (unsigned long long)p->count,
                 coll_datatype_name(p->datatype), prism_op_name(q->op), (unsigned long long)q->count,
                 coll_datatype_name(q->datatype));
        return 0;
    }
    return diverged(d, g->rank, g->node, g->position, "%s: expected %s of %llu x %s on communicator %u (group %u), saw %s of %llu x %s; %s", how,
                    prism_op_name(p->op), (unsigned long long)p->count, coll_datatype_name(p->datatype), g->comm, g->ordinal,
                    prism_op_name(q->op), (unsigned long long)q->count, coll_datatype_name(q->datatype), hint);
}

/* Sizes may differ (they are live); kinds of operations may not. Parts beyond the recorded ones are p2p to other peers
 * of a data-dependent exchange. */
static bool same_kind(const struct graph_part *p, const struct msg_part *q)
{
    bool p2p = p->op == PRISM_OP_SEND || p->op == PRISM_OP_RECV;
    bool q2q = q->op == PRISM_OP_SEND || q->op == PRISM_OP_RECV;
    return p2p && q2q ? p->datatype == q->datatype : p->op == q->op && p->datatype == q->datatype && p->redop == q->redop;
}

/* Sizes are made from data: the first difference is where the numbers' difference first turned a decision (a routing
 * flip). */
static void note_sizes(const struct daemon *d, const struct group *g)
{
    uint32_t ordinal;
    const struct live *l = live_of(g->rank);
    int64_t node = live_node_of(l, g->comm, g->ordinal, &ordinal);
    if (node < 0 || !l->per_iteration || g->position < l->first_position)
        return;
    const struct graph_rank *r = &d->graph->ranks[g->rank->number];
    const struct graph_node *n = &r->nodes[node];
    bool changed = n->nparts != g->nparts;
    for (uint32_t i = 0; i < g->nparts && !changed; i++)
        changed = r->parts[n->first_part + i].count != g->parts[i].count;
    uint32_t iteration = live_iteration_of(l, g->position);
    if (changed && iteration < em.first_change)
        em.first_change = iteration;
}

static int deliver(struct daemon *d, struct group *g)
{
    uint32_t ordinal;
    int64_t node = live_node_of(live_of(g->rank), g->comm, g->ordinal, &ordinal);
    if (node < 0)
        return diverged(d, g->rank, g->node, g->position,
                        g->comm < live_of(g->rank)->ncomms && live_of(g->rank)->comms[g->comm].ngroups
                            ? "communicator %u is used after the recorded iterations, and not in the last of them; capture as many as are to be emulated"
                            : "communicator %u was never used in capture; capture again",
                        g->comm);
    const struct graph_rank *r = &d->graph->ranks[g->rank->number];
    const struct graph_node *n = &r->nodes[node];
    if (!same_kind(&r->parts[n->first_part], &g->parts[0]) && report_divergence(d, g, n, "another operation than in capture"))
        return -1;
    return delivery_group(em.delivery, g, (uint32_t)node, ordinal);
}

/* --- arrivals and releases --- */

/* The recorded node that an announced group stands for: there is one, or it would have diverged (deliver). */
static uint32_t recorded_node(const struct live *l, const struct group *g)
{
    uint32_t ordinal;
    int64_t node = live_node_of(l, g->comm, g->ordinal, &ordinal);
    return node < 0 ? 0 : (uint32_t)node;
}

/* By how much the group arrived later than it would have, had nothing ended late (origins.h). */
static int64_t carried_ns(const struct live *l, const struct group *g)
{
    return live_carried(l, g->position, recorded_node(l, g));
}

/* When it arrived, or would have; the rank's emulated time. */
static int64_t told_ns(const struct live *l, const struct group *g)
{
    return behind_arrival(&l->behind, g->stream, g->arrived_ns - live_lag_in_ns(l, recorded_node(l, g)) - carried_ns(l, g));
}

/* What a group moves, as the replay is told. Where floating-point data is synthetic, sizes that a program makes of it (how many tokens
 * go where) are none of the full job's: the recorded ones are. Real communication takes the time of what is really sent. */
static struct graph_part *told_parts(const struct daemon *d, const struct live *l, const struct group *g, uint32_t *n)
{
    const struct graph_rank *r = &d->graph->ranks[g->rank->number];
    const struct graph_node *node = &r->nodes[recorded_node(l, g)];
    *n = g->nparts;
    if (d->conf->payload == TRACE_PAYLOAD_FULL || d->transport != TRANSPORT_PACED)
        return record_parts(g);
    *n = node->nparts;
    struct graph_part *parts = malloc((node->nparts + 1u) * sizeof *parts);
    if (!parts)
        abort();
    memcpy(parts, &r->parts[node->first_part], node->nparts * sizeof *parts);
    return parts;
}

/* The end is known, perhaps too late. Real communication has no other clock than the machine's. */
static void fall_behind(struct daemon *d, struct rank *r, struct group *g)
{
    struct live *l = live_of(r);
    int64_t open = g->end_ns - lag_out_ns(d, r);
    int64_t late = d->transport == TRANSPORT_NCCL ? 0 : behind_late(&l->behind, open, clock_now_ns(), carried_ns(l, g));
    if (!late)
        return;
    watch_delay_rank(d->watch, r, late);
    g->started_ns += late;
    g->end_ns += late;
}

static void release(struct daemon *d, const struct player_release *e)
{
    struct rank *r = d->ranks[e->rank];
    if (!r || r->state == RANK_ENDED)
        return;
    int64_t shift = live_of(r)->behind.ns - link_clock_offset_ns(d, NULL);
    for (uint32_t s = 0; s < r->nstreams; s++) {
        struct group *g = r->streams[s];
        if (g && g->comm == e->comm && g->ordinal == e->ordinal && g->arrived) {
            if (g->end_ns) /* told before (player_create_condensed) */
                return;
            g->started_ns = e->started_ns + shift;
            g->end_ns = e->end_ns + shift;
            fall_behind(d, r, g);
            assist_released(d, e->rank, e->comm, e->ordinal, g->started_ns);
            watch_open_at(d->watch, g, g->end_ns - lag_out_ns(d, r));
            return;
        }
    }
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns)
{
    struct player_release e = {rank, comm, ordinal, started_ns, end_ns};
    if (player_is_beside(em.player))
        player_released(em.player, &e);
    else
        release(((struct run_context *)ctx)->daemon, &e);
}

/* What a player beside has found out. */
static void on_look(struct daemon *d)
{
    struct player_release *list;
    struct prism_error err = {0};
    if (!em.player || !player_is_beside(em.player))
        return;
    int64_t n = player_take(em.player, &list, &err);
    if (n < 0)
        daemon_fail(d, PRISM_EXIT_DIVERGED, "%s", err.text);
    for (int64_t i = 0; i < n; i++)
        release(d, &list[i]);
    free(list);
}

static void on_comm_start(void *ctx, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns)
{
    struct daemon *d = ((struct run_context *)ctx)->daemon;
    assist_virtual_started(d, rank, n, loop, start_ns - link_clock_offset_ns(d, NULL));
}

/* While the caller plays nobody else opens gates: an arrival at the end of an iteration may set off milliseconds of the next one. */
static void on_played(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    (void)rank, (void)v, (void)start_ns, (void)end_ns;
    if (++em.played % PLAYED_BETWEEN_LOOKS == 0)
        watch_open_due(((struct run_context *)ctx)->daemon->watch);
}

static void begin(struct daemon *d, int64_t t0_ns)
{
    struct prism_error err = {0};
    if (player_begin(em.player, t0_ns, &err))
        daemon_fail(d, PRISM_EXIT_DIVERGED, "%s", err.text);
}

static void take_arrival(struct daemon *d, const struct player_arrival *a)
{
    struct prism_error err = {0};
    assist_arrived(d, a->rank, a->comm, a->ordinal, a->parts, a->nparts);
    if (player_arrive(em.player, a, &err))
        daemon_fail(d, PRISM_EXIT_DIVERGED, "%s", err.text);
    beginning_arrived(d, a->rank, a->start_ns);
}

static void on_group_arrived(struct daemon *d, struct group *g)
{
    struct live *l = live_of(g->rank);
    if (d->stopping || !is_played(l, g->node))
        return;
    struct player_arrival h = {g->rank->number, g->comm, g->ordinal, told_ns(l, g) + link_clock_offset_ns(d, NULL), NULL, 0};
    h.parts = told_parts(d, l, g, &h.nparts);
    live_position_arrived(l, g->position, g->arrived_ns - l->behind.ns);
    struct bytes b = {0};
    arrival_put(&h, &b);
    link_broadcast(d, LINK_START, &b);
    bytes_free(&b);
    take_arrival(d, &h);
}

static void on_start(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct player_arrival h;
    if (d->stopping || !em.player)
        return;
    if (arrival_take(&h, b, d->graph, em.external, em.arrivals) || d->ranks[h.rank]) {
        free(h.parts);
        daemon_fail(d, PRISM_EXIT_DAEMON, "node %u: malformed message (an arrival of rank %u)", from, h.rank);
        return;
    }
    em.arrivals[h.rank]++;
    take_arrival(d, &h);
}

static void on_opened(struct daemon *d, struct group *g)
{
    struct live *l = live_of(g->rank);
    if (!l)
        return;
    struct live_gate *gate = live_gate(l, g->node);
    *gate = (struct live_gate){g->node, g->position, g->comm, recorded_node(l, g), true, g->arrived_ns, told_ns(l, g) + l->behind.ns,
                               g->open_at_ns, g->end_ns};
    int64_t end = g->open_at_ns + lag_out_ns(d, g->rank);
    live_ended_late(l, g->position, end - g->end_ns);
    live_position_ended(l, g->position, (end > g->end_ns ? end : g->end_ns) - l->behind.ns);
    behind_ended(&l->behind, g->stream, g->end_ns - l->behind.ns);
}

static void add_pacing(double us)
{
    if (em.npacing == em.pacing_cap) {
        em.pacing_cap = em.pacing_cap ? em.pacing_cap * 2 : 1024;
        em.pacing_us = realloc(em.pacing_us, em.pacing_cap * sizeof *em.pacing_us);
        if (!em.pacing_us)
            abort();
    }
    em.pacing_us[em.npacing++] = us;
}

static void on_times(struct daemon *d, struct rank *r, const struct msg_time *times, uint32_t n)
{
    (void)d;
    struct live *l = live_of(r);
    if (!l)
        return;
    if (l->measured)
        measured_times(l->measured, times, n);
    for (uint32_t i = 0; i < n; i++) {
        struct live_gate *gate = live_gate(l, times[i].index);
        if (!gate->used || gate->node != times[i].index)
            continue;
        gate->used = false;
        log_debug("gate %u of rank %u, communicator %u: arrived %lld, seen %lld, told %lld, to end %lld, opened %lld, ended %lld", gate->position,
                  r->number, gate->comm, (long long)times[i].pre_ns, (long long)gate->seen_ns, (long long)gate->told_ns, (long long)gate->end_ns,
                  (long long)gate->go_ns, (long long)times[i].post_ns);
        pace_lag_add(&l->lag_in, gate->seen_ns - times[i].pre_ns);
        pace_recent_add(&l->lag_in_at[gate->recorded], gate->seen_ns - times[i].pre_ns);
        pace_lag_add(&l->lag_out, times[i].post_ns - gate->go_ns);
        add_pacing((double)(times[i].post_ns - gate->end_ns) / 1e3);
    }
}

static void on_node(struct daemon *d, struct rank *r, const struct msg_node *m, struct group *g)
{
    struct live *l = live_of(r);
    if (l->measured)
        measured_node(l->measured, m, g ? g->ordinal : 0);
    if (!g || !is_played(l, g->node))
        return;
    note_sizes(d, g);
    if (deliver(d, g) || d->transport != TRANSPORT_NCCL)
        return;
    struct graph_part *parts = record_parts(g);
    assist_announced(d, r->number, g->comm, g->ordinal, parts, g->nparts);
    free(parts);
}

static void on_left(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)d;
    (void)from;
    (void)b;
    if (em.not_left)
        em.not_left--;
}

bool emulate_is_playing(void)
{
    return em.player && player_is_playing(em.player);
}

bool emulate_may_end(const struct daemon *d)
{
    return d->transport != TRANSPORT_NCCL || !em.not_left;
}

static void on_ended(struct daemon *d, struct rank *r)
{
    if (d->transport == TRANSPORT_NCCL) {
        struct bytes b = {0};
        bytes_put_u32(&b, r->number);
        link_announce(d, LINK_LEFT, &b);
        bytes_free(&b);
    }
    /* A rank that ends without a gate must not hold up the others' beginning; that it left is for the graph to show. */
    if (!d->stopping)
        beginning_left(d, r->number);
}

const struct phase_ops emulate_ops = {
    .name = "emulate",
    .comm_init = on_comm_init,
    .comm_split = on_comm_split,
    .comm_free = on_comm_free,
    .node = on_node,
    .arrived = on_group_arrived,
    .opened = on_opened,
    .times = on_times,
    .ended = on_ended,
    .look = on_look,
};

static bool any_here(const struct daemon *d, const uint32_t *live, uint32_t nlive)
{
    for (uint32_t i = 0; i < nlive; i++)
        if (d->ranks[live[i]])
            return true;
    return false;
}

/* A node without live ranks has nobody to open gates for (but assistants ask when virtual ranks start). Absent ranks end as recorded;
 * where nothing was recorded behind the last iteration (--prism-iterations ended capture), they go on with it as long as the live ones do. */
static int begin_replay(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    if (d->transport == TRANSPORT_PACED && !any_here(d, live, nlive))
        return 0;
    em.as = folding_twins(d, em.external);
    uint64_t nodes = d->transport == TRANSPORT_PACED ? player_nodes(d->graph, em.as) : 0;
    bool beside = nodes > PLAYER_BESIDE;
    struct graph_run_ops ops = {.duration_ns = duration_ns, .send_is_eager = duration_send_is_eager, .on_release = on_release,
                                .on_node = beside ? NULL : on_played,
                                .on_comm_start = d->transport == TRANSPORT_NCCL ? on_comm_start : NULL,
                                .ctx = &em.context};
    struct graph_run_options options = {
        .external = em.external, .iterations = graph_has_teardown(d->graph) ? 0 : UINT32_MAX, .lookahead = 2, .as = em.as};
    if (nodes > PLAYER_CONDENSED && d->phase == PHASE_EMULATE && /* a slice of calibration is over sooner than it would be condensed */
        (em.player = player_create_condensed(&(struct player_replay){.graph = d->graph, .ops = ops, .options = options, .beside = d->watch})))
        return 0;
    struct graph_run *run = graph_run_create(d->graph, &ops, &options);
    if (!run)
        return prism_error_set(err, PRISM_EXIT_TRACE, "the graph in %s is not consistent; capture again", d->conf->trace);
    em.player = player_create(run, beside ? d->watch : NULL);
    return em.player ? 0 : prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot start a thread for the replay");
}

/* Where nothing but the clock ends operations: real ones have an end of their own, and calibration no times to predict with. */
static void find_origins(struct daemon *d, const uint32_t *live, uint32_t nlive)
{
    uint32_t n = 0;
    struct graph_run_ops ops = {.duration_ns = duration_ns, .send_is_eager = duration_send_is_eager, .ctx = &em.context};
    if (d->phase != PHASE_EMULATE || d->transport != TRANSPORT_PACED)
        return;
    uint32_t *here = malloc((nlive + 1u) * sizeof *here);
    struct origins **origins = malloc((nlive + 1u) * sizeof(struct origins *));
    if (!here || !origins)
        abort();
    for (uint32_t i = 0; i < nlive; i++)
        if (d->ranks[live[i]])
            here[n++] = live[i];
    if (n)
        origins_find(d->graph, &ops, em.as, here, n, origins);
    for (uint32_t i = 0; i < n; i++)
        live_of(d->ranks[here[i]])->origins = origins[i];
    free(here);
    free(origins);
}

int emulate_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    memset(&em, 0, sizeof em);
    em.first_change = UINT32_MAX;
    em.external = calloc(d->conf->world, 1);
    em.arrivals = calloc(d->conf->world, sizeof *em.arrivals);
    if (!em.external || !em.arrivals)
        abort();
    for (uint32_t i = 0; i < nlive; i++)
        em.external[live[i]] = 1;
    em.not_left = nlive;
    em.context.daemon = d;
    duration_model_init(&em.context.model, d->graph, d->network);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/durations.json", d->conf->trace);
    if (!(em.durations = d->phase == PHASE_CALIBRATE ? durations_create() : durations_load(path, err))) /* calibration measures its own */
        return -1;
    em.context.model.measured = em.durations;
    if (!(em.delivery = delivery_create(d, live, nlive, err)) || begin_replay(d, live, nlive, err))
        return -1;
    link_on(LINK_START, on_start);
    link_on(LINK_LEFT, on_left);
    if (em.player)
        beginning_begin(d, em.external, nlive, begin);
    for (uint32_t i = 0; i < nlive; i++)
        if (d->ranks[live[i]])
            d->ranks[live[i]]->phase_data = live_create(d->graph, live[i], d->phase == PHASE_CALIBRATE);
    find_origins(d, live, nlive);
    return ballast_begin(d, err) ? -1 : assist_begin(d, live, nlive, err);
}

struct emulate_result emulate_rank_result(const struct daemon *d, uint32_t rank)
{
    const struct live *l = d->ranks[rank] ? live_of(d->ranks[rank]) : NULL;
    return l ? (struct emulate_result){l->seconds, l->iterations, l->per_iteration > 0, l->over, (double)l->behind.ns / 1e9} : (struct emulate_result){0};
}

const double *emulate_pacing_us(uint32_t *n)
{
    *n = em.npacing;
    return em.pacing_us;
}

struct delivery_counts emulate_delivery_counts(void)
{
    struct delivery_counts counts = delivery_counts(em.delivery);
    counts.size_changes += assist_size_changes();
    return counts;
}

uint32_t emulate_first_change(void)
{
    return em.first_change;
}

void emulate_end(struct daemon *d)
{
    assist_end(d);
    ballast_end();
    for (uint32_t i = 0; i < d->conf->world; i++) {
        struct rank *r = d->ranks[i];
        if (!r || !r->phase_data)
            continue;
        struct live *l = live_of(r);
        if (l->measured && !d->failure.code)
            measured_to_works(l->measured, d->graph, r->number);
        live_destroy(l);
        r->phase_data = NULL;
    }
    beginning_end();
    player_destroy(em.player);
    duration_model_clear(&em.context.model);
    durations_destroy(em.durations);
    delivery_destroy(em.delivery);
    free(em.external);
    free(em.arrivals);
    free(em.as);
    free(em.pacing_us);
    memset(&em, 0, sizeof em);
}
