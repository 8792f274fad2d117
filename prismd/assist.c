#include "prismd/assist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "coll/types.h"
#include "common/log.h"
#include "prismd/arming.h"
#include "prismd/assist_process.h"
#include "prismd/durations.h"
#include "prismd/link.h"
#include "prismd/live.h"
#include "prismd/place.h"
#include "prismd/rank.h"
#include "prismd/shrink.h"
#include "trace/trace.h"

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
};

static struct {
    bool active;
    uint8_t *sandbox;              /* by world rank */
    struct comm **comms;           /* by global index; NULL = not used yet */
    struct live **recorded;        /* by world rank; how live groups map to recorded ones */
    struct assistant **assistants; /* of this node */
    uint32_t nassistants;
    struct coll_use use;
    uint64_t size_changes;
    struct durations *durations; /* calibration: measured here */
    uint32_t gates[ORDER_GATES]; /* by local assistant (more than that many are never on one node): gates given out */
} as;

/* --- placement --- */

static uint32_t assistant_node(const struct conf *c, uint32_t a)
{
    return a % c->nodes;
}

static uint32_t count_here(const struct conf *c)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < (uint32_t)c->assistants; a++)
        n += assistant_node(c, a) == c->node;
    return n;
}

static uint32_t count_live_here(const struct conf *c, uint32_t nlive)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < nlive; i++)
        n += place_live_node(c, i, nlive) == c->node;
    return n;
}

/* Of the node that has most. */
static uint32_t count_here_max(const struct conf *c)
{
    return ((uint32_t)c->assistants + c->nodes - 1) / c->nodes;
}

static uint32_t count_live_here_max(const struct conf *c, uint32_t nlive)
{
    return (nlive + c->nodes - 1) / c->nodes;
}

static int check_devices(const struct conf *c, uint32_t nlive, struct prism_error *err)
{
    uint32_t ranks = count_live_here(c, nlive), assistants = count_here(c);
    if (ranks + assistants <= c->ndevices)
        return 0;
    return prism_error_set(
        err, PRISM_EXIT_USAGE,
        "node %u has %u device%s, but %u sandbox rank%s and %u assistant%s need one each; ask for more GPUs, "
        "or for fewer sandbox ranks (%u now) or assistants (%d; --prism-assistants=0 needs none)",
        c->node, c->ndevices, c->ndevices == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", assistants,
        assistants == 1 ? "" : "s", nlive, c->assistants);
}

static void list_ranks(const uint32_t *ranks, uint32_t n, char *text, size_t len)
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < n && at + 16 < len; i++)
        at += (size_t)snprintf(text + at, len - at, "%s%u", i ? "," : "", ranks[i]);
    if (at + 16 >= len)
        snprintf(text + at, len - at, ",...");
}

static int check_sandbox(const struct conf *c, const struct trace_manifest *m, struct prism_error *err)
{
    char then[256], now[256];
    if (m->nsandbox == c->nsandbox && !memcmp(m->sandbox, c->sandbox, c->nsandbox * sizeof *c->sandbox))
        return 0;
    list_ranks(m->sandbox, m->nsandbox, then, sizeof then);
    list_ranks(c->sandbox, c->nsandbox, now, sizeof now);
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "the sums in the trace %s are exact for sandbox ranks %s, not for %s; capture "
                           "again with this set, or "
                           "use --prism-assistants=0",
                           c->trace, then, now);
}

int assist_check(const struct conf *c, const struct trace_manifest *m, struct prism_error *err)
{
    if (c->assistants <= 0 || c->phase == CONF_CAPTURE || c->phase == CONF_CALIBRATE)
        return 0;
    if (check_devices(c, c->nsandbox, err))
        return -1;
    return m ? check_sandbox(c, m, err) : 0;
}

/* --- communicators --- */

static struct assistant *local_assistant(const struct daemon *d, uint32_t global)
{
    uint32_t a = global % (uint32_t)d->conf->assistants;
    return assistant_node(d->conf, a) == d->conf->node ? as.assistants[a / d->conf->nodes] : NULL;
}

/* Is what the assistant takes part in the full operation? All members are there, or stand in their own place, on devices
 * joined as the full job's would be: one node for both. */
static bool stands_for_full(const struct daemon *d, const struct shrink *s)
{
    const struct graph_comm *c = &d->graph->comms[s->global];
    uint32_t node = (uint32_t)c->ranks[0] / d->graph->gpus_per_node;
    for (uint32_t i = 0; i < c->size; i++)
        if ((uint32_t)c->ranks[i] / d->graph->gpus_per_node != node)
            return false;
    return d->conf->nodes == 1 && s->n + shrink_assistants(s) == s->size;
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
    c->stands_for_full = stands_for_full(d, c->shrink);
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

static void tell_assistant_node(struct daemon *d, uint32_t global, enum join_kind kind, const char *library)
{
    struct bytes b = {0};
    bytes_put_u32(&b, kind);
    bytes_put_u32(&b, global);
    bytes_put_string(&b, library);
    link_send(d, assistant_node(d->conf, global % (uint32_t)d->conf->assistants), LINK_ASSIST, &b);
    bytes_free(&b);
}

bool assist_join(struct daemon *d, struct rank *r, uint32_t comm, const struct msg_comm_ready *ready)
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
    /* Programs bring their own NCCL, and both ends must have the same. */
    char *library = assistant_find_library(peer.pid ? peer.pid : r->pid, "libnccl.so");
    tell_assistant_node(d, (uint32_t)global, JOIN_MADE, library);
    free(library);
    return true;
}

void assist_freed(struct daemon *d, struct rank *r, uint32_t comm)
{
    if (comm < r->ncomms && is_real(d, r->comms[comm].global))
        tell_assistant_node(d, (uint32_t)r->comms[comm].global, JOIN_FREED, "");
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

static void on_assist(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t kind = bytes_get_u32(b), global = bytes_get_u32(b);
    char *library = bytes_get_string(b);
    if (library && as.active && !d->stopping && global < d->graph->ncomms) {
        struct comm *c = comm_at(d, global);
        if (kind == JOIN_MADE && ++c->joined == c->shrink->n) {
            order_create(c, library);
            if (shrink_assistants(c->shrink))
                foresee(d, c);
        } else if (kind == JOIN_FREED && ++c->freed == c->shrink->n) {
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

static void answer(const struct comm *c, struct joiner *j, const uint8_t *id)
{
    const struct shrink *s = c->shrink;
    j->ready.assistants = (uint32_t)shrink_assistants(s);
    j->ready.nsandbox = (uint32_t)s->n;
    j->ready.real_size = s->n + shrink_assistants(s);
    j->ready.real_rank = shrink_member(s, j->rank->number);
    memcpy(j->ready.unique_id, id, MSG_UID_LEN);
    rank_send_ready(j->rank, &j->ready, s->ranks);
}

static void on_unique_id(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t global = bytes_get_u32(b);
    const uint8_t *id = bytes_get(b, ORDER_ID_LEN);
    if (!id || !as.active || d->stopping || global >= d->graph->ncomms)
        return;
    struct comm *c = comm_at(d, global);
    for (struct joiner *j; (j = c->joiners);) {
        c->joiners = j->next;
        answer(c, j, id);
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
 * what came (preload/gate_nccl.c). The sums that a trace has are of one sandbox set, and a slice is another one. */
static bool brings_payloads(const struct daemon *d)
{
    return d->conf->payload != CONF_NONE && d->phase != PHASE_CALIBRATE;
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
    int rc = shrink_order(c->shrink, g, brings_payloads(d), out, &c->changed, &err);
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

static bool is_rooted(const struct arming_group *g)
{
    for (uint32_t i = 0; i < g->nparts; i++)
        if (coll_op_is_rooted(g->parts[i].op))
            return true;
    return false;
}

/* Calibration: let the assistant time the run if its duration is the full operation's. Rooted operations last differently at
 * each member. */
static void measure(const struct comm *c, struct arming_group *const *groups, struct order_run *o)
{
    const struct arming_group *g = groups[0];
    bool whole = c->stands_for_full;
    for (int m = 0; m < c->shrink->n; m++)
        whole = whole && groups[m];
    if (!as.durations || !whole || c->gate == ORDER_NO_GATE || is_rooted(g))
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
    durations_add(as.durations, tag, ns);
}

static void arm(struct daemon *d, struct comm *c)
{
    struct arming_group **groups = calloc((size_t)c->shrink->n, sizeof *groups);
    struct bytes b = {0};
    if (!groups)
        abort();
    while (!d->stopping && arming_pop(c->live, groups)) {
        bytes_clear(&b);
        if (!make_order(d, c, groups, &b)) {
            measure(c, groups, (struct order_run *)(void *)b.data);
            assistant_order(c->by, b.data, b.len);
            as.size_changes += c->changed;
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
    arming_push(c->live, (uint32_t)member, ordinal, parts, nparts);
    arm(d, c);
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
    if (check_devices(d->conf, nlive, err))
        return -1;
    uint32_t here = count_here(d->conf), device = count_live_here(d->conf, nlive);
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
        as.assistants[as.nassistants] = assistant_start(d, number, device++, on_made, on_timed, err);
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

uint32_t assist_slice(const struct conf *c)
{
    uint32_t n = c->ndevices * c->nodes;
    while (n && c->assistants > 0 && count_live_here_max(c, n) + count_here_max(c) > c->ndevices)
        n--;
    return c->assistants > 0 ? n : 0;
}

struct assist_result assist_result(const struct daemon *d)
{
    (void)d;
    struct assist_result r = {.use = as.use};
    for (uint32_t i = 0; i < as.nassistants; i++)
        assistant_count(as.assistants[i], &r.counts);
    return r;
}
