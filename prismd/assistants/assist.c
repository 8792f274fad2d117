#include "prismd/assistants/assist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "coll/types.h"
#include "common/log.h"
#include "prismd/assistants/arming.h"
#include "prismd/assistants/assist_place.h"
#include "prismd/assistants/assist_process.h"
#include "prismd/assistants/ballast.h"
#include "prismd/predict/durations.h"
#include "prismd/link/link.h"
#include "prismd/replay/live.h"
#include "prismd/ranks/rank.h"
#include "prismd/assistants/shrink.h"
#include "prismd/gates/watch.h"

/* Streams of an assistant that may stand at a closed gate: the hardware has 32 queues, and the last one must stay free. */
#define GATES_CLOSED 24
#define ARMED_AHEAD  2 /* operations of a communicator */
#define OPEN_EARLY_NS 20000

/* A local member that waits for the communicator. */
struct joiner {
    struct rank *rank;
    struct msg_comm_ready ready;
    struct joiner *next;
};

/* A communicator with sandbox ranks. The part below `by` is kept by its assistant's node only. */
struct comm {
    struct shrink *shrink;
    struct joiner *joiners;
    struct assistant *by; /* NULL: on another node */
    int joined, freed;
    struct arming *live;  /* groups that have arrived */
    struct arming *ahead; /* groups as recorded, for what is to come */
    uint32_t *cursor;     /* owned; by member: ordinal of the next recorded group */
    bool exhausted;       /* nothing more is recorded */
    uint64_t ran, foreseen;
    uint64_t ahead_bytes[ORDER_AHEAD];
    bool changed; /* the latest order's sizes were not the recorded ones */
    uint32_t gate; /* of the assistant, or ORDER_NO_GATE */
    bool stands_for_full;
    bool ahead_of_arrival; /* may be armed when announced (arm rule, section 2 of assist.h) */
    bool collectives_only;
    uint64_t arrived;      /* groups; kept where ahead_of_arrival */
};

static struct {
    bool active;
    uint8_t *sandbox;              /* by world rank */
    struct comm **comms;           /* by global index; NULL = not used yet */
    struct live **recorded;        /* by world rank; how live groups map to recorded ones */
    struct assistant **assistants; /* of this node */
    uint32_t nassistants;
    struct coll_use use;
    uint64_t size_changes, armed_ahead;
    struct durations *durations; /* calibration: measured here */
    uint32_t busy; /* communicators that this node's assistants are making or destroying */
    uint32_t gates[ORDER_GATES]; /* by local assistant (more than that many are never on one node): gates given out */
} as;

/* --- communicators --- */

static struct assistant *local_assistant(const struct daemon *d, uint32_t global)
{
    uint32_t a = global % (uint32_t)d->conf->assistants;
    return assist_node(d->conf, a) == d->conf->node ? as.assistants[a / d->conf->nodes] : NULL;
}

static struct comm *comm_at(struct daemon *d, uint32_t global)
{
    if (as.comms[global])
        return as.comms[global];
    struct comm *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->shrink = shrink_create(d->graph, global, as.sandbox);
    c->by = local_assistant(d, global);
    c->gate = ORDER_NO_GATE;
    if (c->by) {
        uint32_t *given = &as.gates[global % (uint32_t)d->conf->assistants / d->conf->nodes % ORDER_GATES];
        c->gate = *given < ORDER_GATES ? (*given)++ : ORDER_NO_GATE;
    }
    c->stands_for_full = assist_stands_for_full(d, c->shrink);
    c->ahead_of_arrival = d->phase == PHASE_EMULATE && c->by && c->gate < GATES_CLOSED && c->shrink->n == 1 &&
                          shrink_assistants(c->shrink) && d->ranks[c->shrink->worlds[0]];
    c->collectives_only = assist_has_collectives_only(d->graph, c->shrink);
    c->live = arming_create((uint32_t)c->shrink->n);
    c->ahead = arming_create((uint32_t)c->shrink->n);
    c->cursor = calloc((size_t)c->shrink->n + 1, sizeof *c->cursor);
    if (!c->cursor)
        abort();
    return as.comms[global] = c;
}

static void comm_free(struct comm *c)
{
    if (!c)
        return;
    for (struct joiner *j = c->joiners, *next; j; j = next) {
        next = j->next;
        free(j);
    }
    shrink_destroy(c->shrink);
    arming_destroy(c->live);
    arming_destroy(c->ahead);
    free(c->cursor);
    free(c);
}

/* Alone it is no communication: the preload library does that itself, or paced. */
static bool is_real(const struct daemon *d, int32_t global)
{
    return as.active && global >= 0 && d->graph->comms[global].size > 1;
}

/* --- making them --- */

enum join_kind { JOIN_MADE, JOIN_FREED };

static void tell_assist_node(struct daemon *d, uint32_t global, enum join_kind kind, const char *library)
{
    struct bytes b = {0};
    bytes_put_u32(&b, kind);
    bytes_put_u32(&b, global);
    bytes_put_string(&b, library);
    link_send(d, assist_node(d->conf, global % (uint32_t)d->conf->assistants), LINK_ASSIST, &b);
    bytes_free(&b);
}

bool assist_join(struct daemon *d, struct rank *r, uint32_t comm, uint64_t nccl, const struct msg_comm_ready *ready)
{
    int32_t global = r->comms[comm].global;
    if (!is_real(d, global))
        return false;
    struct comm *c = comm_at(d, (uint32_t)global);
    struct joiner *j = calloc(1, sizeof *j);
    if (!j)
        abort();
    *j = (struct joiner){r, *ready, c->joiners};
    c->joiners = j;
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    getsockopt(r->socket, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    /* Programs bring their own NCCL, and both ends must have the same: the one that the rank calls, where several are loaded (a newer
     * one in front of PyTorch's, by LD_PRELOAD). */
    char *library = assistant_find_library(peer.pid ? peer.pid : r->pid, nccl);
    tell_assist_node(d, (uint32_t)global, JOIN_MADE, library);
    free(library);
    return true;
}

void assist_freed(struct daemon *d, struct rank *r, uint32_t comm)
{
    if (comm < r->ncomms && is_real(d, r->comms[comm].global))
        tell_assist_node(d, (uint32_t)r->comms[comm].global, JOIN_FREED, "");
}

static void order_create(struct comm *c, const char *library)
{
    size_t len = strlen(library) + 1;
    struct bytes b = {0};
    int assistants = shrink_assistants(c->shrink);
    struct order_create o = {.h = {ORDER_CREATE, c->shrink->global, sizeof o + len},
                             .size = c->shrink->n + assistants,
                             .rank = assistants ? c->shrink->n : -1,
                             .gate = c->gate};
    bytes_put(&b, &o, sizeof o);
    bytes_put(&b, library, len);
    assistant_order(c->by, b.data, b.len);
    bytes_free(&b);
}

static void foresee(struct daemon *d, struct comm *c);

/* No closed gate stands on a device where a communicator is being made or destroyed: those that do open now, before their
 * time, and their kernels wait for the sandbox instead, as a peer's would. */
static void open_gates(struct daemon *d, const struct assistant *a)
{
    as.busy++;
    for (uint32_t g = 0; g < d->graph->ncomms; g++)
        if (as.comms[g] && as.comms[g]->by == a && as.comms[g]->gate != ORDER_NO_GATE)
            watch_write_at(d->watch, assistant_gate(as.comms[g]->by, as.comms[g]->gate), (uint32_t)as.comms[g]->ran, 0);
}

static void on_assistant_done(struct daemon *d)
{
    (void)d;
    as.busy -= as.busy > 0;
}

/* A communicator of this node's assistants; only one that was made is freed. */
static bool is_ours(struct daemon *d, uint32_t global, uint32_t kind)
{
    if (global >= d->graph->ncomms || !is_real(d, (int32_t)global))
        return false;
    const struct comm *c = comm_at(d, global);
    return c->by && c->shrink->n && (kind == JOIN_MADE || (kind == JOIN_FREED && c->joined >= c->shrink->n));
}

static void on_assist(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    uint32_t kind = bytes_get_u32(b), global = bytes_get_u32(b);
    char *library = bytes_get_string(b);
    if (as.active && !d->stopping && (!library || !is_ours(d, global, kind))) {
        daemon_fail(d, PRISM_EXIT_DAEMON, "node %u: malformed message (for the assistant of communicator %u)", from, global);
    } else if (as.active && !d->stopping) {
        struct comm *c = comm_at(d, global);
        if (kind == JOIN_MADE && ++c->joined == c->shrink->n) {
            open_gates(d, c->by);
            order_create(c, library);
            if (shrink_assistants(c->shrink))
                foresee(d, c);
        } else if (kind == JOIN_FREED && ++c->freed == c->shrink->n) {
            open_gates(d, c->by);
            assistant_order(c->by, &(struct order_header){ORDER_DESTROY, global, sizeof(struct order_header)},
                            sizeof(struct order_header));
        }
    }
    free(library);
}

static void on_made(struct daemon *d, uint32_t communicator, const uint8_t id[ORDER_ID_LEN])
{
    struct bytes b = {0};
    bytes_put_u32(&b, communicator);
    bytes_put(&b, id, ORDER_ID_LEN);
    link_announce(d, LINK_UNIQUE_ID, &b);
    bytes_free(&b);
}

static void answer(const struct daemon *d, const struct comm *c, struct joiner *j, const uint8_t *id)
{
    const struct shrink *s = c->shrink;
    j->ready.assistants = (uint32_t)shrink_assistants(s);
    j->ready.nsandbox = (uint32_t)s->n;
    j->ready.real_size = s->n + shrink_assistants(s);
    j->ready.real_rank = shrink_member(s, j->rank->number);
    memcpy(j->ready.unique_id, id, MSG_UID_LEN);
    ballast_ask(d, j->rank, &j->ready);
    rank_send_ready(j->rank, &j->ready, s->ranks);
}

static void on_unique_id(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    uint32_t global = bytes_get_u32(b);
    const uint8_t *id = bytes_get(b, ORDER_ID_LEN);
    if (!as.active || d->stopping)
        return;
    if (!id || global >= d->graph->ncomms || assist_node(d->conf, global % (uint32_t)d->conf->assistants) != from) {
        daemon_fail(d, PRISM_EXIT_DAEMON, "node %u: malformed message (the id of communicator %u)", from, global);
        return;
    }
    struct comm *c = comm_at(d, global);
    for (struct joiner *j; (j = c->joiners);) {
        c->joiners = j->next;
        answer(d, c, j, id);
        free(j);
    }
}

/* --- orders --- */

static struct live *recorded_of(struct daemon *d, uint32_t world)
{
    if (!as.recorded[world])
        as.recorded[world] = live_create(d->graph, world, false);
    return as.recorded[world];
}

/* Calibration wants real communication's time and load only: what ranks read is the recorded result, which is put over
 * what came (preload/gate/gate_nccl.c). The sums that a trace has are of one sandbox set, and a slice is another one. */
static struct shrink_payloads payloads(const struct daemon *d)
{
    return (struct shrink_payloads){d->trace_payload, d->phase == PHASE_CALIBRATE ? TRACE_PAYLOAD_NONE : d->conf->payload};
}

/* The order for groups that are armed together, into out. */
static int make_order(struct daemon *d, struct comm *c, struct arming_group *const *groups, struct bytes *out)
{
    const struct shrink *s = c->shrink;
    struct prism_error err = {0};
    struct shrink_group *g = calloc((size_t)s->n, sizeof *g);
    if (!g)
        abort();
    for (int m = 0; m < s->n; m++) {
        if (!groups[m])
            continue;
        int64_t node =
            live_node_of(recorded_of(d, s->worlds[m]), s->comms[m], groups[m]->ordinal, &g[m].ordinal);
        g[m].live = groups[m];
        g[m].recorded = node < 0 ? NULL : &d->graph->ranks[s->worlds[m]].nodes[node];
    }
    int rc = shrink_order(c->shrink, g, payloads(d), out, &c->changed, &err);
    if (rc)
        daemon_fail(d, err.code, "rank %u: %s", s->worlds[0], err.text);
    free(g);
    return rc;
}

static void free_groups(const struct comm *c, struct arming_group **groups)
{
    for (int m = 0; m < c->shrink->n; m++)
        arming_group_free(groups[m]);
}

/* Put the recorded groups that come next before the arming rule; false when a member has none any more. */
static bool push_recorded(struct daemon *d, struct comm *c)
{
    const struct shrink *s = c->shrink;
    bool any = false;
    for (int m = 0; m < s->n; m++) {
        uint32_t recorded, ordinal = c->cursor[m];
        if (!arming_wants(c->ahead, (uint32_t)m))
            continue;
        int64_t node = live_node_of(recorded_of(d, s->worlds[m]), s->comms[m], ordinal, &recorded);
        if (node < 0)
            continue;
        const struct graph_rank *r = &d->graph->ranks[s->worlds[m]];
        c->cursor[m]++;
        arming_push(c->ahead, (uint32_t)m, ordinal, &r->parts[r->nodes[node].first_part],
                    r->nodes[node].nparts);
        any = true;
    }
    return any;
}

static uint64_t outstanding_bytes(const struct comm *c)
{
    uint64_t sum = 0;
    for (uint64_t i = c->ran; i < c->foreseen; i++)
        sum += c->ahead_bytes[i % ORDER_AHEAD];
    return sum;
}

static void foresee_one(struct daemon *d, struct comm *c, struct arming_group **groups)
{
    struct bytes b = {0};
    while (!arming_pop(c->ahead, groups))
        if (!push_recorded(d, c)) {
            c->exhausted = true;
            return;
        }
    if (!make_order(d, c, groups, &b)) {
        struct order_run *o = (struct order_run *)(void *)b.data;
        o->h.type = ORDER_FORESEE;
        o->h.size -= o->ncalls * sizeof(struct order_call);
        o->ncalls = 0;
        c->ahead_bytes[c->foreseen++ % ORDER_AHEAD] = o->payload_bytes;
        assistant_order(c->by, o, o->h.size);
    } else {
        c->exhausted = true;
    }
    free_groups(c, groups);
    bytes_free(&b);
}

static void foresee(struct daemon *d, struct comm *c)
{
    struct arming_group **groups = calloc((size_t)c->shrink->n, sizeof *groups);
    if (!groups)
        abort();
    while (!c->exhausted && !d->stopping && c->foreseen < c->ran + ORDER_AHEAD &&
           (c->foreseen <= c->ran || outstanding_bytes(c) < ORDER_AHEAD_MAX))
        foresee_one(d, c, groups);
    free(groups);
}

/* NCCL connects when it first uses an algorithm or a peer: nothing is held at a gate then, and nothing measured. */
#define COLD_RUNS 4

/* Calibration: let the assistant time the run if its duration is the full operation's. Rooted operations last differently at
 * each member. */
static void measure(const struct comm *c, struct arming_group *const *groups, struct order_run *o)
{
    const struct arming_group *g = groups[0];
    bool whole = c->stands_for_full;
    for (int m = 0; m < c->shrink->n; m++)
        whole = whole && groups[m];
    if (!as.durations || !whole || c->gate == ORDER_NO_GATE || arming_group_is_rooted(g))
        return;
    uint32_t before = durations_entries(as.durations);
    uint32_t entry = durations_entry(as.durations, c->shrink->global, g->parts, g->nparts);
    if (c->ran < COLD_RUNS && entry == before)
        return;
    o->tag = entry;
    o->generation = (uint32_t)c->ran + 1;
}

static void on_timed(struct daemon *d, uint32_t tag, int64_t ns)
{
    (void)d;
    if (as.durations)
        durations_add(as.durations, tag, ns);
}

/* Rank and assistant alone: operations are armed ahead of their arrival, as far as ARMED_AHEAD. */
static bool may_arm(const struct comm *c)
{
    bool ahead = c->ran >= COLD_RUNS && !as.busy;
    return !c->ahead_of_arrival || c->ran < c->arrived + (ahead ? ARMED_AHEAD : 0);
}

/* The rank's side is gone, or at work with real NCCL's set-up: no gate. */
static void hold(const struct comm *c, struct order_run *o)
{
    if (c->ahead_of_arrival && c->ran >= COLD_RUNS && !as.busy)
        o->generation = (uint32_t)c->ran + 1;
}

static void arm(struct daemon *d, struct comm *c)
{
    struct arming_group **groups = calloc((size_t)c->shrink->n, sizeof *groups);
    struct bytes b = {0};
    if (!groups)
        abort();
    while (!d->stopping && may_arm(c) && arming_pop(c->live, groups)) {
        if (c->joined < c->shrink->n || c->freed >= c->shrink->n)
            daemon_fail(d, PRISM_EXIT_DAEMON, "communicator %u is used before all have made it, or after all have freed it", c->shrink->global);
        bytes_clear(&b);
        if (!d->stopping && !make_order(d, c, groups, &b)) {
            measure(c, groups, (struct order_run *)(void *)b.data);
            hold(c, (struct order_run *)(void *)b.data);
            assistant_order(c->by, b.data, b.len);
            as.size_changes += c->changed;
            as.armed_ahead += c->ahead_of_arrival && c->ran >= c->arrived;
        }
        free_groups(c, groups);
        if (++c->ran > c->foreseen)
            c->foreseen = c->ran;
        foresee(d, c);
    }
    bytes_free(&b);
    free(groups);
}

static void count_use(struct comm *c, int member, const struct graph_part *parts, uint32_t nparts)
{
    for (uint32_t i = 0; i < nparts; i++) {
        struct shrink_volume v = shrink_part_volume(c->shrink, member, &parts[i]);
        struct coll_use_op *op = &as.use.ops[parts[i].op];
        op->count++;
        op->bytes += v.bytes;
        op->full += v.full;
    }
}

void assist_arrived(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal,
                    const struct graph_part *parts, uint32_t nparts)
{
    const struct graph_rank *r = &d->graph->ranks[rank];
    if (!as.active || d->stopping || comm >= r->ncomms || !is_real(d, r->comms[comm].global))
        return;
    struct comm *c = comm_at(d, (uint32_t)r->comms[comm].global);
    int member = shrink_member(c->shrink, rank);
    if (member < 0)
        return;
    if (d->ranks[rank])
        count_use(c, member, parts, nparts);
    if (!c->by || !shrink_assistants(c->shrink))
        return;
    if (c->ahead_of_arrival)
        c->arrived++;
    else
        arming_push(c->live, (uint32_t)member, ordinal, parts, nparts);
    arm(d, c);
}

/* The communicator of a rank, if its operations are armed ahead. */
static struct comm *armed_ahead(const struct daemon *d, uint32_t rank, uint32_t comm)
{
    const struct graph_rank *r = &d->graph->ranks[rank];
    if (!as.active || d->stopping || comm >= r->ncomms || !is_real(d, r->comms[comm].global))
        return NULL;
    struct comm *c = as.comms[r->comms[comm].global];
    return c && c->ahead_of_arrival ? c : NULL;
}

/* Opened so much before its time that the run has begun by then; what ends early for it stands at the tail gate. */
static void open_gate(struct daemon *d, const struct comm *c, uint32_t generation, int64_t start_ns)
{
    const struct live *l = d->ranks[c->shrink->worlds[0]]->phase_data;
    int64_t lead = l ? OPEN_EARLY_NS + 2 * pace_lag_low_ns(&l->lag_out) : OPEN_EARLY_NS;
    watch_write_at(d->watch, assistant_gate(c->by, c->gate), generation, start_ns - lead);
}

void assist_announced(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal, const struct graph_part *parts,
                      uint32_t nparts)
{
    struct comm *c = armed_ahead(d, rank, comm);
    if (!c)
        return;
    arming_push(c->live, 0, ordinal, parts, nparts);
    arm(d, c);
}

void assist_released(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns)
{
    struct comm *c = armed_ahead(d, rank, comm);
    if (c)
        open_gate(d, c, ordinal + 1, started_ns);
}

void assist_virtual_started(struct daemon *d, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns)
{
    const struct graph_node *node = &d->graph->ranks[rank].nodes[n];
    struct comm *c = armed_ahead(d, rank, node->comm);
    if (!c || !c->stands_for_full || !c->collectives_only)
        return;
    const struct live_comm *l = &recorded_of(d, rank)->comms[node->comm];
    uint32_t ordinal = node->ordinal + loop * (l->loop_end - l->loop_begin);
    open_gate(d, c, ordinal + 1, start_ns);
}

uint64_t assist_size_changes(void)
{
    return as.size_changes;
}

/* --- life --- */

bool assist_reaped(struct daemon *d, pid_t pid, int status)
{
    (void)d;
    for (uint32_t i = 0; i < as.nassistants; i++)
        if (as.assistants[i] && assistant_pid(as.assistants[i]) == pid) {
            assistant_reaped(as.assistants[i], status);
            return true;
        }
    return false;
}

int assist_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    memset(&as, 0, sizeof as);
    if (d->transport != TRANSPORT_NCCL)
        return 0;
    if (assist_check_devices(d->conf, nlive, err))
        return -1;
    static const struct assistant_events events = {on_made, on_timed, on_assistant_done};
    uint32_t here = assist_count_here(d->conf), device = assist_count_live_here(d->conf, nlive);
    as.sandbox = calloc(d->conf->world, 1);
    as.comms = calloc(d->graph->ncomms + 1u, sizeof(struct comm *));
    as.recorded = calloc(d->conf->world, sizeof(struct live *));
    as.assistants = calloc(here + 1u, sizeof(struct assistant *));
    if (!as.sandbox || !as.comms || !as.recorded || !as.assistants)
        abort();
    for (uint32_t i = 0; i < nlive; i++)
        as.sandbox[live[i]] = 1;
    link_on(LINK_ASSIST, on_assist);
    link_on(LINK_UNIQUE_ID, on_unique_id);
    for (; as.nassistants < here; as.nassistants++) {
        uint32_t number = as.nassistants * d->conf->nodes + d->conf->node;
        as.assistants[as.nassistants] = assistant_start(d, number, device++, &events, err);
        if (!as.assistants[as.nassistants])
            return -1;
    }
    if (d->phase == PHASE_CALIBRATE)
        as.durations = durations_create();
    as.active = true;
    return 0;
}

void assist_end(struct daemon *d)
{
    watch_drop_writes(d->watch);
    for (uint32_t i = 0; i < as.nassistants; i++)
        assistant_end(as.assistants[i]);
    for (uint32_t g = 0; as.comms && g < d->graph->ncomms; g++)
        comm_free(as.comms[g]);
    for (uint32_t r = 0; as.recorded && r < d->conf->world; r++)
        live_destroy(as.recorded[r]);
    durations_destroy(as.durations);
    free(as.assistants);
    free(as.comms);
    free(as.recorded);
    free(as.sandbox);
    memset(&as, 0, sizeof as);
}

const struct durations *assist_durations(void)
{
    return as.durations;
}

struct assist_result assist_result(const struct daemon *d)
{
    (void)d;
    struct assist_result r = {.use = as.use, .armed_ahead = as.armed_ahead};
    for (uint32_t i = 0; i < as.nassistants; i++)
        assistant_count(as.assistants[i], &r.counts);
    return r;
}
