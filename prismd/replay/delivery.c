#include "prismd/replay/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "coll/synthetic.h"
#include "coll/types.h"
#include "prismd/gates/watch.h"

struct delivery {
    struct daemon *daemon; /* borrowed */
    struct payload_reader *payloads;
    struct prefetch *prefetch; /* where recorded results are delivered; else NULL */
    struct bytes scratch;
    uint64_t bytes, size_changes;
};

/* --- what is recorded, and what of it is in the payloads --- */

static size_t part_out_bytes(const struct graph_part *p, int32_t rank, int32_t size)
{
    return coll_output_count(p->op, p->count, rank, p->peer, size) * coll_datatype_size(p->datatype);
}

/* How many bytes of a recorded part, of so many, are in its group's payload. */
static size_t stored_bytes(const struct daemon *d, const struct graph_part *p, size_t bytes)
{
    return d->trace_payload == TRACE_PAYLOAD_CONTROL ? coll_synthetic_kept(p->datatype, bytes) : bytes;
}

/* Of a recorded node: all bytes in its payload, and those of parts that control mode keeps. */
static void count_bytes(const struct daemon *d, uint32_t rank, const struct graph_node *n, uint64_t *stored, uint64_t *kept)
{
    const struct graph_rank *r = &d->graph->ranks[rank];
    int32_t global = r->comms[n->comm].global, me = r->comms[n->comm].rank;
    *stored = *kept = 0;
    for (uint32_t i = 0; i < n->nparts && global >= 0; i++) {
        const struct graph_part *p = &r->parts[n->first_part + i];
        size_t bytes = part_out_bytes(p, me, (int32_t)d->graph->comms[global].size);
        *stored += stored_bytes(d, p, bytes);
        *kept += coll_synthetic_kept(p->datatype, bytes);
    }
}

static bool is_wanted(void *daemon, uint32_t rank, const struct graph_node *n)
{
    const struct daemon *d = daemon;
    uint64_t stored, kept;
    count_bytes(d, rank, n, &stored, &kept);
    return stored && d->conf->payload != TRACE_PAYLOAD_NONE && (kept || d->conf->payload != TRACE_PAYLOAD_CONTROL);
}

/* --- beginning and end --- */

/* Assistants read what absent ranks bring, by themselves. */
static int is_delivered_here(void *daemon, struct payload_key key)
{
    const struct daemon *d = daemon;
    return key.rank < d->conf->world && d->ranks[key.rank] && key.role == PAYLOAD_OUTPUT;
}

static void start_prefetch(struct delivery *v, const uint32_t *live, uint32_t nlive)
{
    struct daemon *d = v->daemon;
    uint32_t *here = malloc((nlive + 1u) * sizeof *here), n = 0;
    if (!here)
        abort();
    for (uint32_t i = 0; i < nlive; i++)
        if (d->ranks[live[i]])
            here[n++] = live[i];
    if (d->transport == TRANSPORT_PACED || d->phase == PHASE_CALIBRATE)
        v->prefetch = prefetch_create(d->graph, v->payloads, here, n, d->conf->prefetch, is_wanted, d);
    free(here);
}

struct delivery *delivery_create(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    struct delivery *v = calloc(1, sizeof *v);
    if (!v)
        abort();
    v->daemon = d;
    v->payloads = payload_reader_open_some(d->conf->trace, d->trace_nodes, is_delivered_here, d, err);
    if (!v->payloads) {
        free(v);
        return NULL;
    }
    start_prefetch(v, live, nlive);
    return v;
}

void delivery_destroy(struct delivery *v)
{
    if (!v)
        return;
    prefetch_destroy(v->prefetch);
    payload_reader_close(v->payloads);
    bytes_free(&v->scratch);
    free(v);
}

struct delivery_counts delivery_counts(const struct delivery *v)
{
    return v ? (struct delivery_counts){prefetch_counts(v->prefetch), v->bytes, v->size_changes} : (struct delivery_counts){0};
}

/* --- one group --- */

static uint64_t outputs_wanted(const struct group *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->nparts; i++)
        bytes += g->parts[i].out_bytes;
    return bytes;
}

/* What the rank receives comes from the trace or stands for it; not from real communication. */
static bool is_delivered(const struct group *g)
{
    bool synthetic = false;
    for (uint32_t i = 0; i < g->nparts; i++)
        synthetic |= g->parts[i].synthetic;
    return synthetic || outputs_wanted(g);
}

static bool is_changed(const struct group *g, const struct graph_node *n, const struct graph_part *recorded)
{
    const struct membership *m = &g->rank->comms[g->comm];
    bool changed = n->nparts != g->nparts;
    for (uint32_t i = 0; i < g->nparts && !changed; i++) {
        const struct msg_part *q = &g->parts[i];
        struct graph_part now = {.op = q->op, .datatype = q->datatype, .peer = q->peer, .count = q->count};
        changed = part_out_bytes(&recorded[i], m->rank, m->size) != part_out_bytes(&now, m->rank, m->size);
    }
    return changed;
}

/* A part of which the trace kept nothing, but which the rank wants, as it is smaller now, is made here. */
static void deliver_parts(const struct daemon *d, const struct group *g, const struct graph_node *n, const uint8_t *data, size_t len)
{
    const struct graph_part *parts = &d->graph->ranks[g->rank->number].parts[n->first_part];
    const struct membership *m = &g->rank->comms[g->comm];
    size_t at = 0;
    for (uint32_t i = 0; i < g->nparts; i++) {
        const struct msg_part *q = &g->parts[i];
        size_t recorded = i < n->nparts ? part_out_bytes(&parts[i], m->rank, m->size) : 0;
        size_t stored = recorded ? stored_bytes(d, &parts[i], recorded) : 0;
        size_t have = stored < len - at ? stored : len - at;
        size_t take = have < q->out_bytes ? have : q->out_bytes;
        uint8_t *to = g->rank->region + q->out_offset;
        if (take) /* data may be NULL */
            memcpy(to, data + at, take);
        memset(to + take, 0, q->out_bytes - take);
        if (recorded && !stored && d->conf->payload == TRACE_PAYLOAD_CONTROL)
            coll_synthetic_fill(to, q->out_bytes, q->datatype);
        at += have;
    }
}

/* Nobody has read it ahead. */
static int read_now(struct delivery *v, const struct group *g, uint32_t ordinal)
{
    struct daemon *d = v->daemon;
    struct payload_key key = {g->rank->number, g->comm, ordinal, PAYLOAD_OUTPUT};
    int64_t size = payload_reader_size(v->payloads, key);
    struct prism_error err = {0};
    if (size < 0)
        return daemon_fail(d, PRISM_EXIT_TRACE, "rank %u: the trace has no payload for group %u of communicator %u; capture again",
                           g->rank->number, ordinal, g->comm);
    bytes_reserve(&v->scratch, (size_t)size);
    if (size && payload_reader_get(v->payloads, key, v->scratch.data, (size_t)size, &err) != size)
        return daemon_fail(d, err.code ? err.code : PRISM_EXIT_TRACE, "%s", err.text);
    v->scratch.len = (size_t)size;
    return 0;
}

int delivery_group(struct delivery *v, struct group *g, uint32_t node, uint32_t ordinal)
{
    struct daemon *d = v->daemon;
    const struct graph_rank *r = &d->graph->ranks[g->rank->number];
    const struct graph_node *n = &r->nodes[node];
    if (is_delivered(g))
        v->size_changes += is_changed(g, n, &r->parts[n->first_part]);
    if (!outputs_wanted(g))
        return 0;
    uint64_t stored, kept;
    size_t len = 0;
    count_bytes(d, g->rank->number, n, &stored, &kept);
    bool reads = stored && d->conf->payload != TRACE_PAYLOAD_NONE;
    void *ready = reads ? prefetch_take(v->prefetch, g->rank->number, node, &len) : NULL;
    bytes_clear(&v->scratch);
    if (reads && !ready && read_now(v, g, ordinal))
        return -1;
    deliver_parts(d, g, n, ready ? ready : v->scratch.data, ready ? len : v->scratch.len);
    v->bytes += ready ? len : v->scratch.len;
    prefetch_give(v->prefetch, ready);
    watch_mark_ready(g);
    return 0;
}
