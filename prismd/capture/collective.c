#include "prismd/capture/collective.h"
#include "prismd/capture/collective_private.h"

#include <stdlib.h>
#include <string.h>

#include "coll/combine.h"
#include "coll/reduce.h"
#include "coll/share.h"
#include "coll/types.h"
#include "prismd/capture/capture.h"
#include "prismd/folding/folding.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/link/link.h"
#include "prismd/place.h"
#include "prismd/switching/movers.h"
#include "trace/payload.h"

/* All-reduces of so many members are summed node by node: one message a node each way, and no node ever has the inputs of other
 * nodes' members. A node's members are summed in pairs (coll/reduce.h), and nodes' sums one after the other. */
#define NODE_SUM_LEAST 65u

/* The output that all members get. */
struct output {
    void *data;   /* NULL: outputs differ, or there is nothing in them */
    bool is_room; /* the payloads' (trace/payload.h), to be given back */
};

static struct collective *open_collectives;
static collective_served on_served;
static uint8_t *has_left; /* by world rank */
static uint32_t nleft;

static struct collective *find_or_add(struct daemon *d, const struct collective_key *key)
{
    struct collective *c;
    HASH_FIND(hh, open_collectives, key, sizeof *key, c);
    if (c)
        return c;
    c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->key = *key;
    c->size = d->graph->comms[key->global].size;
    c->expected = folding_live_members(d, key->global, &c->stand_ins);
    c->entries = calloc(c->size, sizeof *c->entries);
    if (!c->entries)
        abort();
    HASH_ADD(hh, open_collectives, key, sizeof c->key, c);
    return c;
}

static void drop(struct collective *c)
{
    HASH_DEL(open_collectives, c);
    for (uint32_t i = 0; i < c->size; i++)
        free(c->entries[i].data);
    free(c->entries);
    free(c);
}

/* A mismatch is the program's bug; real NCCL would hang. */
static int compare(struct daemon *d, const struct collective *c, uint32_t member)
{
    const struct msg_part *a = &c->entries[c->first].what, *b = &c->entries[member].what;
    if (a->op == b->op && a->datatype == b->datatype && a->redop == b->redop && a->peer == b->peer && a->count == b->count)
        return 0;
    return daemon_fail(d, PRISM_EXIT_RANK,
                       "rank %d: %s of %llu x %s (root %d) meets rank %d: %s of %llu x %s (root %d) on one communicator "
                       "(its collective %u); the program's ranks do not agree",
                       world_rank(d, c, member), prism_op_name(b->op), (unsigned long long)b->count,
                       coll_datatype_name(b->datatype), b->peer, world_rank(d, c, c->first), prism_op_name(a->op),
                       (unsigned long long)a->count, coll_datatype_name(a->datatype), a->peer, c->key.sequence);
}

static int combine_for(struct daemon *d, const struct collective *c, const void *const *inputs,
                       const struct coll_premul *scalars, uint32_t member, void *out)
{
    const struct msg_part *w = &c->entries[member].what;
    struct coll_operation op = {
        .op = w->op, .size = (int)c->size, .root = w->peer, .datatype = w->datatype, .redop = w->redop, .count = w->count,
        .premul = scalars};
    struct prism_error err = {0};
    if (!coll_combine(&op, inputs, (int)member, out, &err))
        return 0;
    return daemon_fail(d, PRISM_EXIT_UNSUPPORTED, "rank %d: %s", world_rank(d, c, member), err.text);
}

/* ---- Sums by node ---- */

static bool sums_by_node(const struct daemon *d, int32_t global, const struct msg_part *p)
{
    const struct graph_comm *c = &d->graph->comms[global];
    return c->size >= NODE_SUM_LEAST && p->op == PRISM_OP_ALLREDUCE && d->conf->nodes > 1 && !d->conf->fold;
}

/* A sandbox rank's input is sent by itself: the sum that is kept is of the others. */
static bool in_sum_of(const struct daemon *d, const struct collective *c, uint32_t member, uint32_t node)
{
    uint32_t rank = (uint32_t)world_rank(d, c, member);
    return place_capture_node(d->conf, rank) == node && !conf_is_sandbox(d->conf, rank);
}

/* An average in floating point is of inputs times 1/n (coll/reduce.h), so that it is in range where a sum is not. What is kept of it is a plain
 * sum. So a node's sum has both, one behind the other. */
static bool has_both_sums(const struct msg_part *w)
{
    return w->redop == COLL_REDOP_AVG && coll_datatype_is_float(w->datatype);
}

bool collective_reduce(struct daemon *d, const struct collective *c, enum collective_sum which, void *out)
{
    const struct msg_part *w = &c->entries[c->first].what;
    struct coll_premul share = coll_premul_from_double(1.0 / c->size, w->datatype);
    bool both = has_both_sums(w), shares = both && which == COLLECTIVE_RESULT;
    int redop = shares ? COLL_REDOP_PREMUL : w->redop == COLL_REDOP_AVG ? COLL_REDOP_SUM : w->redop, n = 0, rc = 0;
    struct prism_error err = {0};
    const void **inputs = malloc(c->size * sizeof *inputs);
    struct coll_premul *scalars = malloc(c->size * sizeof *scalars);
    if (!inputs || !scalars)
        abort();
    for (uint32_t i = 0; i < c->size; i++) {
        const struct entry *e = &c->entries[i];
        if (!e->arrived || e->summed || (which == COLLECTIVE_OF_VIRTUAL && conf_is_sandbox(d->conf, (uint32_t)world_rank(d, c, i))))
            continue;
        inputs[n] = input_of(e);
        scalars[n++] = shares ? share : (struct coll_premul){.bits = e->what.scalar};
    }
    bool any = n > 0;
    if (any)
        rc = coll_reduce(out, inputs, n, w->count, w->datatype, redop, scalars, &err);
    for (uint32_t i = 0; i < c->size && !rc; i++) {
        const struct entry *e = &c->entries[i];
        if (!e->summed || !e->data)
            continue;
        const uint8_t *sum = e->data + (both && !shares ? w->out_bytes : 0);
        if (any)
            rc = coll_accumulate(out, sum, w->count, w->datatype, redop == COLL_REDOP_PREMUL ? COLL_REDOP_SUM : redop, NULL, &err);
        else if (w->out_bytes)
            memcpy(out, sum, w->out_bytes);
        any = true;
    }
    free(inputs);
    free(scalars);
    if (rc)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED, "rank %d: %s", world_rank(d, c, c->first), err.text);
    return any && !rc;
}

static void *copy_of(const void *data, size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        abort();
    return memcpy(p, data, bytes);
}

/* All of this node's members have arrived: their sum goes to the home. They are served by on_node_result. */
static void send_sum(struct daemon *d, const struct collective *c, uint32_t home)
{
    const struct msg_part *w = &c->entries[c->first].what;
    struct bytes b = {0};
    void *sum = payload_writer_room(collective_payloads, w->out_bytes);
    bytes_put_u32(&b, (uint32_t)c->key.global);
    bytes_put_u32(&b, c->key.sequence);
    bytes_put_u8(&b, w->datatype);
    bytes_put_u8(&b, w->redop);
    bytes_put_u64(&b, w->count);
    bytes_put_u64(&b, w->out_bytes);
    bool made = collective_reduce(d, c, COLLECTIVE_RESULT, sum);
    bytes_put(&b, sum, made ? w->out_bytes : 0);
    if (made && has_both_sums(w)) {
        made = collective_reduce(d, c, COLLECTIVE_OF_VIRTUAL, sum);
        bytes_put(&b, sum, made ? w->out_bytes : 0);
    }
    if (made)
        link_send(d, home, LINK_NODE_SUM, &b);
    payload_writer_put_room(collective_payloads, NULL, 0, sum, 0, NULL);
    bytes_free(&b);
}

static void send_node_results(struct daemon *d, const struct collective *c, const void *shared)
{
    for (uint32_t i = 0; i < c->size; i++) {
        const struct entry *e = &c->entries[i];
        struct bytes b = {0};
        if (!e->summed || !e->data)
            continue;
        bytes_put_u32(&b, (uint32_t)c->key.global);
        bytes_put_u32(&b, c->key.sequence);
        bytes_put_u64(&b, e->what.out_bytes);
        bytes_put(&b, shared, e->what.out_bytes);
        link_send(d, place_capture_node(d->conf, (uint32_t)world_rank(d, c, i)), LINK_NODE_RESULT, &b);
        bytes_free(&b);
    }
}

/* ---- Serving ---- */

static void serve_remote(struct daemon *d, const struct collective *c, uint32_t member, const void *out)
{
    const struct entry *e = &c->entries[member];
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)world_rank(d, c, member));
    bytes_put_u32(&b, e->position);
    bytes_put_u32(&b, e->part);
    bytes_put_u64(&b, e->what.out_bytes);
    bytes_put(&b, out, e->what.out_bytes);
    link_send(d, place_capture_node(d->conf, (uint32_t)world_rank(d, c, member)), LINK_RESULT, &b);
    bytes_free(&b);
}

/* shared: every member's output, where the operation gives all the same bytes, and there already; else NULL. */
static int serve(struct daemon *d, const struct collective *c, const void *const *inputs,
                 const struct coll_premul *scalars, uint32_t member, const void *shared)
{
    struct entry *e = &c->entries[member];
    void *own = NULL;
    if (!e->group && !shared && !(own = malloc(e->what.out_bytes ? e->what.out_bytes : 1)))
        abort();
    void *out = e->group ? e->group->rank->region + e->what.out_offset : own;
    int rc = !shared && e->what.out_bytes ? combine_for(d, c, inputs, scalars, member, out) : 0;
    if (!rc && e->group)
        on_served(d, e->group);
    else if (!rc)
        serve_remote(d, c, member, shared ? shared : own);
    free(own);
    return rc;
}

/* Members that did not come in a node's sum. */
static void serve_all(struct daemon *d, const struct collective *c, const void *const *inputs, const struct coll_premul *scalars,
                      struct output all)
{
    struct prism_error err = {0};
    uint32_t nkeys = 0;
    struct payload_key *keys = all.data ? collective_hand_out(d, c, all.data, &nkeys) : NULL;
    for (uint32_t i = 0; i < c->size && !d->failure.code; i++)
        if (c->entries[i].arrived && !c->entries[i].summed && serve(d, c, inputs, scalars, i, all.data))
            break;
    if (all.is_room && payload_writer_put_room(collective_payloads, keys, nkeys, all.data, c->entries[c->first].what.out_bytes, &err))
        daemon_fail(d, err.code, "%s", err.text);
    free(keys);
}

/* Where it is made: in a room, if it is to be kept or nobody here gets it; else where the first member here gets it. */
static struct output place_output(const struct daemon *d, const struct collective *c)
{
    const struct msg_part *w = &c->entries[c->first].what;
    for (uint32_t i = 0; i < c->size && !capture_kept(d, w->datatype, w->out_bytes); i++) {
        const struct entry *e = &c->entries[i];
        if (e->arrived && e->group && e->what.out_bytes == w->out_bytes)
            return (struct output){e->group->rank->region + e->what.out_offset, false};
    }
    return (struct output){payload_writer_room(collective_payloads, w->out_bytes), true};
}

/* An all-reduce of n members is combined once, not n times. Nothing where outputs differ. */
static struct output combine_once(struct daemon *d, const struct collective *c, const void *const *inputs,
                          const struct coll_premul *scalars)
{
    const struct msg_part *w = &c->entries[c->first].what;
    if (!coll_op_same_output(w->op) || !w->out_bytes)
        return (struct output){0};
    struct output out = place_output(d, c);
    struct prism_error err = {0};
    if (inputs)
        combine_for(d, c, inputs, scalars, c->first, out.data);
    else if (collective_reduce(d, c, COLLECTIVE_RESULT, out.data) && w->redop == COLL_REDOP_AVG && !has_both_sums(w) &&
             coll_average(out.data, w->count, w->datatype, (int)c->size, &err))
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED, "rank %d: %s", world_rank(d, c, c->first), err.text);
    return out;
}

static void complete_summed(struct daemon *d, struct collective *c)
{
    int rc = collective_keep_summed_contribution(d, c);
    struct output all = {0};
    if (!rc && !d->failure.code)
        all = combine_once(d, c, NULL, NULL);
    if (!d->failure.code)
        send_node_results(d, c, all.data);
    if (!rc)
        serve_all(d, c, NULL, NULL, all);
    drop(c);
}

static void complete(struct daemon *d, struct collective *c)
{
    const void **inputs = malloc(c->size * sizeof *inputs);
    struct coll_premul *scalars = malloc(c->size * sizeof *scalars);
    if (!inputs || !scalars)
        abort();
    for (uint32_t i = 0; i < c->size; i++) {
        const struct entry *e = &c->entries[c->stand_ins ? c->stand_ins[i] : i];
        inputs[i] = input_of(e);
        scalars[i] = (struct coll_premul){.bits = e->what.scalar};
    }
    folding_spread_note(d, &d->graph->comms[c->key.global], c->stand_ins, &c->entries[c->first].what, inputs);
    int rc = folding_has_root(d, &d->graph->comms[c->key.global], &c->entries[c->first].what) ? collective_keep_contribution(d, c, inputs, scalars) : -1;
    if (!rc)
        serve_all(d, c, inputs, scalars, combine_once(d, c, inputs, scalars));
    free(inputs);
    free(scalars);
    drop(c);
}

static void look_for_left(struct daemon *d, const struct collective *c)
{
    for (uint32_t i = 0; i < c->size; i++)
        if (!c->entries[i].arrived && has_left[world_rank(d, c, i)] && (c->expected == c->size || c->stand_ins || in_sum_of(d, c, i, d->conf->node))) {
            daemon_fail(d, PRISM_EXIT_RANK, "rank %d has ended, but rank %d waits for it in %s (communicator of %u)",
                        world_rank(d, c, i), world_rank(d, c, c->first), prism_op_name(c->entries[c->first].what.op), c->size);
            return;
        }
}

static void joined(struct daemon *d, struct collective *c)
{
    if (c->arrived < c->expected) {
        if (nleft)
            look_for_left(d, c);
        return;
    }
    uint32_t home = place_capture_node(d->conf, (uint32_t)world_rank(d, c, 0));
    if (home != d->conf->node)
        send_sum(d, c, home);
    else if (c->summed)
        complete_summed(d, c);
    else
        complete(d, c);
}

static void join(struct daemon *d, const struct collective_key *key, uint32_t member, const struct entry *entry)
{
    struct collective *c = find_or_add(d, key);
    if (member >= c->size || c->entries[member].arrived) {
        free(entry->data);
        return;
    }
    c->entries[member] = *entry;
    c->entries[member].arrived = true;
    if (!c->arrived++)
        c->first = member;
    if (compare(d, c, member))
        return;
    joined(d, c);
}

static void on_arrived(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    struct collective_key key;
    key.global = (int32_t)bytes_get_u32(b);
    key.sequence = bytes_get_u32(b);
    uint32_t member = bytes_get_u32(b);
    struct entry e = {0};
    e.position = bytes_get_u32(b);
    e.part = bytes_get_u32(b);
    e.comm = bytes_get_u32(b);
    e.ordinal = bytes_get_u32(b);
    e.what.op = bytes_get_u8(b);
    e.what.datatype = bytes_get_u8(b);
    e.what.redop = bytes_get_u8(b);
    e.what.peer = (int32_t)bytes_get_u32(b);
    e.what.count = bytes_get_u64(b);
    e.what.scalar = bytes_get_u64(b);
    e.what.out_bytes = bytes_get_u64(b);
    e.what.in_bytes = bytes_get_u64(b);
    const void *data = bytes_get(b, e.what.in_bytes);
    if (!data || d->phase != PHASE_CAPTURE || d->stopping || key.global < 0 || key.global >= (int32_t)d->graph->ncomms ||
        !coll_sizes_agree(e.what.op, e.what.datatype, e.what.count, (int)member, e.what.peer, (int)d->graph->comms[key.global].size,
                          e.what.in_bytes, e.what.out_bytes))
        return;
    e.data = copy_of(data, e.what.in_bytes);
    join(d, &key, member, &e);
}

static void send_home(struct daemon *d, uint32_t home, const struct collective_key *key, const struct group *g,
                      uint32_t part)
{
    const struct msg_part *p = &g->parts[part];
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)key->global);
    bytes_put_u32(&b, key->sequence);
    bytes_put_u32(&b, (uint32_t)g->rank->comms[g->comm].rank);
    bytes_put_u32(&b, g->position);
    bytes_put_u32(&b, part);
    bytes_put_u32(&b, g->comm);
    bytes_put_u32(&b, g->ordinal);
    bytes_put_u8(&b, p->op);
    bytes_put_u8(&b, p->datatype);
    bytes_put_u8(&b, p->redop);
    bytes_put_u32(&b, (uint32_t)p->peer);
    bytes_put_u64(&b, p->count);
    bytes_put_u64(&b, p->scalar);
    bytes_put_u64(&b, p->out_bytes);
    bytes_put_u64(&b, p->in_bytes);
    bytes_put(&b, g->rank->region + p->in_offset, p->in_bytes);
    link_send(d, home, LINK_ARRIVED, &b);
    bytes_free(&b);
}

static void on_result(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t rank = bytes_get_u32(b), position = bytes_get_u32(b), part = bytes_get_u32(b);
    uint64_t bytes = bytes_get_u64(b);
    const void *data = bytes_get(b, bytes);
    struct rank *r = rank < d->conf->world && d->ranks ? d->ranks[rank] : NULL;
    if (!data || !r || d->stopping)
        return;
    for (struct group *g = r->groups; g; g = g->next_of_rank) {
        if (g->arrived && !g->opened && g->position == position && part < g->nparts && g->parts[part].out_bytes == bytes) {
            coll_copy(r->region + g->parts[part].out_offset, data, bytes);
            on_served(d, g);
            return;
        }
    }
}

/* Not the home: the sum is of this node's members. */
static void expect_local(const struct daemon *d, struct collective *c)
{
    if (c->arrived)
        return;
    c->expected = 0;
    for (uint32_t i = 0; i < c->size; i++)
        c->expected += in_sum_of(d, c, i, d->conf->node);
}

static void on_node_sum(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct collective_key key;
    struct msg_part what = {.op = PRISM_OP_ALLREDUCE, .peer = -1};
    key.global = (int32_t)bytes_get_u32(b);
    key.sequence = bytes_get_u32(b);
    what.datatype = bytes_get_u8(b);
    what.redop = bytes_get_u8(b);
    what.count = bytes_get_u64(b);
    what.in_bytes = what.out_bytes = bytes_get_u64(b);
    const void *data = bytes_get(b, what.out_bytes), *more = data && has_both_sums(&what) ? bytes_get(b, what.out_bytes) : data;
    if (!more || d->phase != PHASE_CAPTURE || d->stopping || key.global < 0 || key.global >= (int32_t)d->graph->ncomms ||
        !coll_sizes_agree(what.op, what.datatype, what.count, 0, -1, (int)d->graph->comms[key.global].size, what.in_bytes, what.out_bytes))
        return;
    struct collective *c = find_or_add(d, &key);
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < c->size; i++) {
        if (c->entries[i].arrived || !in_sum_of(d, c, i, from))
            continue;
        c->entries[i] = (struct entry){.arrived = true, .summed = true};
        first = n++ ? first : i;
    }
    if (!n)
        return;
    c->entries[first].what = what;
    c->entries[first].data = copy_of(data, what.out_bytes * (has_both_sums(&what) ? 2 : 1));
    if (!c->arrived)
        c->first = first;
    c->arrived += n;
    c->summed = true;
    if (!compare(d, c, first))
        joined(d, c);
}

static void on_node_result(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    struct collective_key key;
    key.global = (int32_t)bytes_get_u32(b);
    key.sequence = bytes_get_u32(b);
    uint64_t bytes = bytes_get_u64(b);
    const void *data = bytes_get(b, bytes);
    struct collective *c = NULL;
    HASH_FIND(hh, open_collectives, &key, sizeof key, c);
    if (!data || !c || d->phase != PHASE_CAPTURE || d->stopping)
        return;
    if (c->entries[c->first].what.out_bytes == bytes) {
        struct output all = {bytes ? payload_writer_room(collective_payloads, bytes) : NULL, bytes > 0};
        if (bytes)
            coll_copy(all.data, data, bytes);
        serve_all(d, c, NULL, NULL, all);
    }
    drop(c);
}

void collective_arrive(struct daemon *d, struct group *g, uint32_t part)
{
    const struct membership *m = &g->rank->comms[g->comm];
    struct collective_key key = {m->global, g->sequence[part]};
    const struct graph_comm *comm = &d->graph->comms[m->global];
    uint32_t home = place_capture_node(d->conf, (uint32_t)comm->ranks[0]);
    movers_joined(d, g->rank, (struct resident_operation){.comm = key.global, .sequence = key.sequence}, comm->ranks, comm->size);
    if (home != d->conf->node && (!sums_by_node(d, m->global, &g->parts[part]) || conf_is_sandbox(d->conf, g->rank->number))) {
        send_home(d, home, &key, g, part);
        return;
    }
    if (home != d->conf->node)
        expect_local(d, find_or_add(d, &key));
    struct entry e = {.group = g, .part = part, .comm = g->comm, .ordinal = g->ordinal, .what = g->parts[part]};
    join(d, &key, (uint32_t)m->rank, &e);
}

void collective_rank_left(struct daemon *d, uint32_t rank)
{
    if (!has_left)
        has_left = calloc(d->conf->world, 1);
    if (!has_left)
        abort();
    has_left[rank] = 1;
    nleft++;
    for (struct collective *c = open_collectives; c && !d->stopping; c = c->hh.next)
        look_for_left(d, c);
}

void collective_begin(collective_served served, struct payload_writer *payloads)
{
    on_served = served;
    collective_payloads = payloads;
    link_on(LINK_ARRIVED, on_arrived);
    link_on(LINK_RESULT, on_result);
    link_on(LINK_NODE_SUM, on_node_sum);
    link_on(LINK_NODE_RESULT, on_node_result);
}

void collective_end(void)
{
    struct collective *c, *next;
    HASH_ITER(hh, open_collectives, c, next)
        drop(c);
    free(has_left);
    has_left = NULL;
    nleft = 0;
}
