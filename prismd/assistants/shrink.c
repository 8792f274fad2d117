#include "prismd/assistants/shrink.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "coll/plan.h"
#include "coll/reduce.h"
#include "coll/synthetic.h"
#include "prismd/assistant/order.h"

#define ALIGN     256u  /* of each operation's payload within an order */
#define PLANS_MAX 1024u /* of a communicator: more only where counts come from data */

struct shrink_plan {
    struct {
        int op, root, datatype, redop;
        uint64_t count;
    } key;
    struct coll_plan *plan; /* owned */
    UT_hash_handle hh;
};

/* --- members --- */

static void add_member(struct shrink *s, int rank, uint32_t world)
{
    const struct graph_rank *r = &s->graph->ranks[world];
    for (uint32_t c = 0; c < r->ncomms; c++)
        if (r->comms[c].global == (int32_t)s->global)
            s->comms[s->n] = c;
    s->ranks[s->n] = rank;
    s->worlds[s->n++] = world;
}

struct shrink *shrink_create(const struct graph *g, uint32_t global, const uint8_t *sandbox)
{
    const struct graph_comm *c = &g->comms[global];
    struct shrink *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->graph = g;
    s->global = global;
    s->size = (int)c->size;
    s->ranks = calloc(c->size, sizeof *s->ranks);
    s->worlds = calloc(c->size, sizeof *s->worlds);
    s->comms = calloc(c->size, sizeof *s->comms);
    if (!s->ranks || !s->worlds || !s->comms)
        abort();
    for (uint32_t i = 0; i < c->size; i++)
        if (sandbox[c->ranks[i]])
            add_member(s, (int)i, (uint32_t)c->ranks[i]);
    return s;
}

static void forget_plans(struct shrink *s)
{
    struct shrink_plan *p, *next;
    HASH_ITER(hh, s->plans, p, next)
    {
        HASH_DEL(s->plans, p);
        coll_plan_destroy(p->plan);
        free(p);
    }
}

void shrink_destroy(struct shrink *s)
{
    if (!s)
        return;
    forget_plans(s);
    free(s->ranks);
    free(s->worlds);
    free(s->comms);
    free(s);
}

int shrink_assistants(const struct shrink *s)
{
    return s->n < s->size;
}

int shrink_member(const struct shrink *s, uint32_t world_rank)
{
    for (int i = 0; i < s->n; i++)
        if (s->worlds[i] == world_rank)
            return i;
    return -1;
}

/* The member with that rank in the full communicator. */
static int member_of(const struct shrink *s, int rank)
{
    for (int i = 0; i < s->n; i++)
        if (s->ranks[i] == rank)
            return i;
    return -1;
}

/* --- plans --- */

static const struct coll_plan *plan_of(struct shrink *s, const struct graph_part *part,
                                       struct prism_error *err)
{
    struct shrink_plan *p, wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.key.op = part->op;
    wanted.key.root = part->peer;
    wanted.key.datatype = part->datatype;
    wanted.key.redop = part->redop;
    wanted.key.count = part->count;
    HASH_FIND(hh, s->plans, &wanted.key, sizeof wanted.key, p);
    if (p)
        return p->plan;
    struct coll_request request = {.op = part->op,
                                   .size = s->size,
                                   .root = part->peer,
                                   .datatype = part->datatype,
                                   .redop = part->redop,
                                   .count = part->count,
                                   .sandbox = s->ranks,
                                   .nsandbox = s->n,
                                   .assistants = 1};
    struct coll_plan *plan = coll_plan_create(&request, err);
    if (!plan)
        return NULL;
    if (HASH_COUNT(s->plans) >= PLANS_MAX)
        forget_plans(s);
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->key = wanted.key;
    p->plan = plan;
    HASH_ADD(hh, s->plans, key, sizeof p->key, p);
    return plan;
}

struct shrink_volume shrink_part_volume(struct shrink *s, int member, const struct graph_part *part)
{
    int me = s->ranks[member];
    if (coll_op_is_p2p(part->op) && part->peer == me)
        return (struct shrink_volume){0, 0};
    struct coll_volume full =
        coll_full_volume(part->op, part->count, part->datatype, s->size, part->peer, me);
    struct coll_volume real = full;
    if (!coll_op_is_p2p(part->op)) {
        const struct coll_plan *plan = plan_of(s, part, NULL);
        real = plan ? coll_plan_volume(plan, member) : (struct coll_volume){0, 0};
    }
    return (struct shrink_volume){real.sent + real.received, full.sent + full.received};
}

/* --- orders --- */

struct build {
    struct shrink *s;
    const struct shrink_group *groups;
    struct shrink_payloads payloads;
    bool changed;
    struct bytes segments, calls;
    uint64_t payload_bytes, scratch_bytes;
};

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct graph_part *recorded_parts(const struct build *b, int member)
{
    const struct graph_node *n = b->groups[member].recorded;
    return n ? &b->s->graph->ranks[b->s->worlds[member]].parts[n->first_part] : NULL;
}

static uint64_t output_bytes(const struct build *b, int member, const struct graph_part *p)
{
    return coll_output_count(p->op, p->count, b->s->ranks[member], p->peer, b->s->size) *
           coll_datatype_size(p->datatype);
}

/* Where a part's output begins in the payload of what the member is recorded to have received in the group. */
static uint64_t output_offset(const struct build *b, int member, uint32_t part)
{
    const struct graph_part *parts = recorded_parts(b, member);
    uint64_t at = 0;
    for (uint32_t i = 0; i < part; i++) {
        uint64_t bytes = output_bytes(b, member, &parts[i]);
        at += b->payloads.hold == TRACE_PAYLOAD_CONTROL ? coll_synthetic_kept(parts[i].datatype, bytes) : bytes;
    }
    return at;
}

/* The recorded counterpart of a live part: the same operation, the same peer, the same place among those. -1
 * none. */
static int64_t recorded_part(const struct build *b, int member, const struct graph_part *live, uint32_t part)
{
    const struct graph_node *n = b->groups[member].recorded;
    const struct graph_part *parts = recorded_parts(b, member), *p = &live[part];
    uint32_t before = 0;
    for (uint32_t i = 0; i < part; i++)
        before += live[i].op == p->op && live[i].peer == p->peer && live[i].datatype == p->datatype;
    for (uint32_t i = 0; n && i < n->nparts; i++)
        if (parts[i].op == p->op && parts[i].peer == p->peer && parts[i].datatype == p->datatype && !before--)
            return i;
    return -1;
}

static void segment(struct build *b, struct payload_key key, uint64_t from, uint64_t to, uint64_t bytes)
{
    struct order_segment s = {key, from, to, bytes}, *last = NULL;
    if (b->payloads.bring == TRACE_PAYLOAD_NONE || !bytes)
        return;
    if (b->segments.len)
        last = (struct order_segment *)(void *)(b->segments.data + b->segments.len - sizeof s);
    if (last && !memcmp(&last->key, &key, sizeof key) && last->from + last->bytes == from &&
        last->to + last->bytes == to)
        last->bytes += bytes;
    else
        bytes_put(&b->segments, &s, sizeof s);
}

/* In control mode large floating-point data is what the assistant makes of nothing; whole: bytes that are recorded of what the stretch
 * is cut out of. */
static bool is_synthetic(const struct build *b, int datatype, uint64_t whole)
{
    return b->payloads.bring == TRACE_PAYLOAD_CONTROL && !coll_synthetic_keeps(datatype, whole);
}

static void synthetic(struct build *b, int datatype, uint64_t recorded, uint64_t to, uint64_t live)
{
    b->changed |= recorded != live;
    segment(b, (struct payload_key){.comm = (uint32_t)datatype, .role = ORDER_SYNTHETIC}, 0, to, live);
}

/* A stretch of `units` per unit of count: recorded with one count, needed with another. */
static void stretch(struct build *b, struct payload_key key, uint64_t base, uint64_t offset_units,
                    uint64_t recorded, uint64_t to, uint64_t live)
{
    b->changed |= recorded != live;
    segment(b, key, base + offset_units * recorded, to, recorded < live ? recorded : live);
}

/* A piece of a collective's payload; part: its place in the leader's live group. */
static void collective_piece(struct build *b, const struct coll_piece *p, const struct graph_part *live,
                             uint32_t part, uint64_t to)
{
    uint64_t size = coll_datatype_size(p->datatype), count = live[part].count;
    int member = p->kind == COLL_PIECE_SUM ? 0 : member_of(b->s, p->receiver);
    int64_t at = member < 0 || !count ? -1 : recorded_part(b, member, live, part);
    if (at < 0) {
        b->changed |= count > 0;
        return;
    }
    const struct graph_part *recorded = &recorded_parts(b, member)[at];
    struct payload_key key = {b->s->worlds[member], b->s->comms[member], b->groups[member].ordinal,
                              PAYLOAD_OUTPUT};
    uint64_t base = 0, units = p->input_offset / count, whole = output_bytes(b, member, recorded);
    if (p->kind == COLL_PIECE_SUM) {
        key.role = PAYLOAD_CONTRIBUTION + (uint32_t)at;
        whole = coll_input_count(recorded->op, recorded->count, 0, recorded->peer, b->s->size) * size;
    } else {
        base = output_offset(b, member, (uint32_t)at);
        units = p->output_offset / count;
    }
    if (is_synthetic(b, p->datatype, whole))
        synthetic(b, p->datatype, recorded->count * size, to, p->count * size);
    else
        stretch(b, key, base, units, recorded->count * size, to, p->count * size);
}

static void message_piece(struct build *b, const struct coll_piece *p, uint64_t to)
{
    int member = member_of(b->s, p->receiver);
    const struct arming_group *live = b->groups[member].live;
    /* p->part counts the sends and receives only. */
    uint32_t part = 0, before = p->part;
    while (!coll_op_is_p2p(live->parts[part].op) || before-- > 0)
        part++;
    uint64_t bytes = p->count * coll_datatype_size(p->datatype);
    int64_t at = recorded_part(b, member, live->parts, part);
    if (at < 0) {
        b->changed |= bytes > 0;
        return;
    }
    struct payload_key key = {b->s->worlds[member], b->s->comms[member], b->groups[member].ordinal,
                              PAYLOAD_OUTPUT};
    uint64_t recorded = output_bytes(b, member, &recorded_parts(b, member)[at]);
    if (is_synthetic(b, p->datatype, recorded))
        synthetic(b, p->datatype, recorded, to, bytes);
    else
        stretch(b, key, output_offset(b, member, (uint32_t)at), 0, recorded, to, bytes);
}

static uint64_t scalar_of(const struct coll_plan *plan, int datatype)
{
    return coll_premul_from_double(plan->average_of ? 1.0 / plan->average_of : 1.0, datatype).bits;
}

static uint64_t place_bytes(const struct build *b, const struct coll_plan *plan, const struct coll_place *p,
                            uint64_t size)
{
    uint64_t offset = plan->target_bytes ? p->offset : p->offset * size;
    return p->buffer == COLL_BUFFER_PAYLOAD ? b->payload_bytes + offset : offset;
}

static void add_calls(struct build *b, const struct coll_plan *plan)
{
    const struct coll_side *side = &plan->sides[plan->nsandbox];
    for (size_t i = 0; i < side->ncalls; i++) {
        const struct coll_call *c = &side->calls[i];
        uint64_t size = coll_datatype_size(c->datatype);
        struct order_call call = {.kind = (uint8_t)c->kind,
                                  .from_buffer = (uint8_t)c->from.buffer,
                                  .to_buffer = (uint8_t)c->to.buffer,
                                  .redop = (uint8_t)plan->redop,
                                  .datatype = c->datatype,
                                  .peer = c->peer,
                                  .from = place_bytes(b, plan, &c->from, size),
                                  .to = place_bytes(b, plan, &c->to, size),
                                  .count = c->count};
        if (plan->redop == COLL_REDOP_PREMUL && plan->op)
            call.scalar = scalar_of(plan, c->datatype);
        bytes_put(&b->calls, &call, sizeof call);
    }
}

static void add_collective(struct build *b, const struct coll_plan *plan, const struct graph_part *live,
                           uint32_t part)
{
    const struct coll_side *side = &plan->sides[plan->nsandbox];
    uint64_t size = coll_datatype_size(live[part].datatype);
    for (size_t i = 0; i < side->npieces; i++)
        collective_piece(b, &side->pieces[i], live, part, b->payload_bytes + side->pieces[i].target * size);
    add_calls(b, plan);
    b->payload_bytes = aligned(b->payload_bytes + side->payload_count * size);
    if (side->scratch_count * size > b->scratch_bytes)
        b->scratch_bytes = side->scratch_count * size;
}

static bool same_collective(const struct graph_part *a, const struct graph_part *b)
{
    return a->op == b->op && a->datatype == b->datatype && a->redop == b->redop && a->peer == b->peer &&
           a->count == b->count;
}

/* The members' collectives of one group, which must be the same ones: the leader's is the model. */
static int check_members(const struct build *b, const struct arming_group *leader, struct prism_error *err)
{
    for (int m = 1; m < b->s->n; m++) {
        const struct arming_group *g = b->groups[m].live;
        uint32_t k = 0;
        for (uint32_t i = 0; g && i < g->nparts; i++) {
            if (coll_op_is_p2p(g->parts[i].op))
                continue;
            while (k < leader->nparts && coll_op_is_p2p(leader->parts[k].op))
                k++;
            if (k == leader->nparts || !same_collective(&leader->parts[k++], &g->parts[i]))
                return prism_error_set(
                    err, PRISM_EXIT_UNSUPPORTED,
                    "ranks %u and %u put different collectives into one group (%s and others); use paced "
                    "emulation (--prism-assistants=0)",
                    b->s->worlds[0], b->s->worlds[m], prism_op_name(g->parts[i].op));
        }
    }
    return 0;
}

static int add_collectives(struct build *b, struct prism_error *err)
{
    const struct arming_group *leader = b->groups[0].live;
    if (leader && check_members(b, leader, err))
        return -1;
    for (uint32_t i = 0; leader && i < leader->nparts; i++) {
        if (coll_op_is_p2p(leader->parts[i].op))
            continue;
        const struct coll_plan *plan = plan_of(b->s, &leader->parts[i], err);
        if (!plan)
            return -1;
        add_collective(b, plan, leader->parts, i);
    }
    return 0;
}

static size_t messages_of(const struct arming_group *g, struct coll_message **out)
{
    size_t n = 0;
    *out = malloc((g ? g->nparts : 0) * sizeof **out + 1);
    if (!*out)
        abort();
    for (uint32_t i = 0; g && i < g->nparts; i++)
        if (coll_op_is_p2p(g->parts[i].op))
            (*out)[n++] = (struct coll_message){.op = g->parts[i].op,
                                                .peer = g->parts[i].peer,
                                                .count = g->parts[i].count,
                                                .datatype = g->parts[i].datatype};
    return n;
}

static int add_messages(struct build *b, struct prism_error *err)
{
    int n = b->s->n;
    struct coll_message **messages = calloc((size_t)n, sizeof *messages);
    size_t *counts = calloc((size_t)n, sizeof *counts), total = 0;
    if (!messages || !counts)
        abort();
    for (int m = 0; m < n; m++)
        total += counts[m] = messages_of(b->groups[m].live, &messages[m]);
    struct coll_plan *plan = NULL;
    if (total)
        plan = coll_plan_messages(b->s->size, b->s->ranks, n, 1, (const struct coll_message *const *)messages,
                                  counts, err);
    if (plan) {
        const struct coll_side *side = &plan->sides[n];
        for (size_t i = 0; i < side->npieces; i++)
            message_piece(b, &side->pieces[i], b->payload_bytes + side->pieces[i].target);
        add_calls(b, plan);
        b->payload_bytes += side->payload_count;
        if (side->scratch_count > b->scratch_bytes)
            b->scratch_bytes = side->scratch_count;
        coll_plan_destroy(plan);
    }
    for (int m = 0; m < n; m++)
        free(messages[m]);
    free(messages);
    free(counts);
    return total && !plan ? -1 : 0;
}

/* Each part is possible (coll_part_is_possible), so that the sum does not wrap before it is too much. */
static int check_bytes(const struct build *b, struct prism_error *err)
{
    const struct shrink *s = b->s;
    uint64_t sum = 0;
    for (int m = 0; m < s->n; m++) {
        const struct arming_group *g = b->groups[m].live;
        for (uint32_t i = 0; g && i < g->nparts; i++) {
            const struct graph_part *p = &g->parts[i];
            uint64_t in = coll_input_count(p->op, p->count, s->ranks[m], p->peer, s->size);
            uint64_t out = coll_output_count(p->op, p->count, s->ranks[m], p->peer, s->size);
            sum += aligned((in > out ? in : out) * coll_datatype_size(p->datatype));
            if (sum > ORDER_BYTES_MAX)
                return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "rank %u: a group of operations of more than %llu GiB", s->worlds[m],
                                       (unsigned long long)(ORDER_BYTES_MAX >> 30));
        }
    }
    return 0;
}

int shrink_order(struct shrink *s, const struct shrink_group *groups, struct shrink_payloads payloads, struct bytes *out,
                 bool *changed, struct prism_error *err)
{
    struct build b = {.s = s, .groups = groups, .payloads = payloads};
    int rc = check_bytes(&b, err) || add_collectives(&b, err) || add_messages(&b, err) ? -1 : 0;
    struct order_run run = {
        .h = {ORDER_RUN, s->global, sizeof run + b.segments.len + b.calls.len},
        .payload_bytes = b.payload_bytes,
        .scratch_bytes = b.scratch_bytes,
        .nsegments = (uint32_t)(b.segments.len / sizeof(struct order_segment)),
        .ncalls = (uint32_t)(b.calls.len / sizeof(struct order_call)),
        .tag = ORDER_NO_TAG,
    };
    if (!rc) {
        bytes_put(out, &run, sizeof run);
        bytes_put(out, b.segments.data, b.segments.len);
        bytes_put(out, b.calls.data, b.calls.len);
    }
    *changed = b.changed;
    bytes_free(&b.segments);
    bytes_free(&b.calls);
    return rc;
}
