/* export_timeline.c - the predicted timeline as CSV and as trace events. */
#include <inttypes.h>
#include <stdlib.h>

#include <xxhash.h>

#include "coll/types.h"
#include "export_private.h"

/* --- CSV --- */

struct csv {
    const struct export_request *q;
    uint8_t *chosen; /* world flags */
    FILE *out;
};

static void csv_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    static const char *const kinds[] = { "?", "comm", "record", "wait", "sync", "join" };
    const struct csv *csv = ctx;
    uint32_t begin, end;
    if (!csv->chosen[rank])
        return;
    export_range(csv->q, rank, &begin, &end);
    if (v < begin || v >= end)
        return;
    const struct graph_rank *r = &csv->q->g->ranks[rank];
    const struct graph_node *node = &r->nodes[v];
    char name[64];
    uint64_t bytes = export_describe(r, node, name, sizeof(name));
    fprintf(csv->out, "%u,%" PRIu64 ",%s,%s,%u,%u,%u,%u,%" PRIu64 ",%" PRId64 ",%" PRId64 "\n", rank, v,
            kinds[node->kind <= GRAPH_JOIN ? node->kind : 0], name, node->host, node->stream, node->comm, node->ordinal,
            bytes, start_ns, end_ns);
}

/* World flags of the ranks that were asked for; the caller's to free. */
static uint8_t *chosen_ranks(const struct export_request *q)
{
    uint8_t *chosen = calloc(q->g->world + 1u, 1);
    if (!chosen)
        abort();
    for (uint32_t i = 0; i < q->nranks; i++)
        chosen[q->ranks[i]] = 1;
    return chosen;
}

int export_csv(const struct export_request *q, FILE *out, struct prism_error *err)
{
    struct csv csv = { .q = q, .chosen = chosen_ranks(q), .out = out };
    fprintf(out, "rank,node,kind,name,host,stream,communicator,group,bytes,start_ns,end_ns\n");
    struct graph_run *run = predict_run(q->g, q->network, q->measured, csv_node, &csv, err);
    free(csv.chosen);
    if (!run)
        return -1;
    graph_run_destroy(run);
    return 0;
}

/* --- Trace events --- */

/* Threads of a process: streams from 1 on, and host threads behind them. A tid of 0 is one that is not set: Perfetto takes the
 * process' number for it, and so stream 0 of rank 4 for stream 4. */
#define STREAM_TID 1u
#define HOST_TID   1000000u

struct events {
    const struct timeline *t;
    const uint8_t *chosen; /* world flags */
    FILE *out;
    uint64_t written;
    uint32_t *sequence; /* of the rank's parts: the how many-th send to, or receive from, that peer on that communicator */
};

static const char *separator(struct events *e)
{
    return e->written++ ? ",\n" : "";
}

static void name_thread(struct events *e, uint32_t rank, uint32_t tid, const char *what, uint32_t number)
{
    fprintf(e->out, "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}}",
            separator(e), rank, tid, what, number);
    fprintf(e->out, "%s{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"sort_index\":%u}}",
            separator(e), rank, tid, tid);
}

static void name_rank(struct events *e, uint32_t rank)
{
    const struct graph_rank *r = &e->t->g->ranks[rank];
    fprintf(e->out, "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}}", separator(e), rank, rank);
    fprintf(e->out, "%s{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"sort_index\":%u}}", separator(e), rank, rank);
    for (uint32_t s = 0; s < r->nstreams; s++)
        name_thread(e, rank, STREAM_TID + s, "stream", s);
    for (uint32_t h = 0; h < r->nhosts; h++)
        name_thread(e, rank, HOST_TID + h, "host thread", h);
}

static void put_event(struct events *e, uint32_t rank, const struct span *s)
{
    static const struct {
        const char *category, *name; /* name NULL: the node's */
        bool host;
    } kinds[SPAN_KINDS] = {
        [SPAN_COMPUTE] = { "compute", "work", false },
        [SPAN_COLLECTIVE] = { "communication", NULL, false },
        [SPAN_P2P] = { "communication", NULL, false },
        [SPAN_WAIT_COLLECTIVE] = { "wait", "wait for other ranks", false },
        [SPAN_WAIT_P2P] = { "wait", "wait for other ranks", false },
        [SPAN_HOST_WORK] = { "host", "host work", true },
        [SPAN_HOST_WAIT] = { "host", "host waits", true },
    };
    const struct graph_rank *r = &e->t->g->ranks[rank];
    const struct graph_node *node = &r->nodes[s->node];
    char name[64];
    uint64_t bytes = export_describe(r, node, name, sizeof(name));
    fprintf(e->out, "%s{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"node\":%u",
            separator(e), kinds[s->kind].name ? kinds[s->kind].name : name, kinds[s->kind].category, rank,
            s->line + (kinds[s->kind].host ? HOST_TID : STREAM_TID), (double)s->start * 1e-3, (double)(s->end - s->start) * 1e-3, s->node);
    if (node->kind == GRAPH_COMM && s->kind != SPAN_COMPUTE && !kinds[s->kind].host)
        fprintf(e->out, ",\"operation\":\"%s\",\"communicator\":%d,\"ranks\":%u,\"group\":%u,\"bytes\":%" PRIu64, name,
                r->comms[node->comm].global, e->t->g->comms[r->comms[node->comm].global].size, node->ordinal, bytes);
    fprintf(e->out, "}}");
}

/* --- Flows: from a send to its receive, where both ranks are there --- */

static void count_messages(struct events *e, const struct graph_rank *r)
{
    uint32_t *base = calloc(r->ncomms + 1u, sizeof(*base)), counters = 0;
    for (uint32_t c = 0; base && c < r->ncomms; c++) {
        base[c] = counters;
        counters += r->comms[c].global < 0 ? 0 : 2 * e->t->g->comms[r->comms[c].global].size;
    }
    uint32_t *count = calloc(counters + 1u, sizeof(*count));
    e->sequence = calloc(r->nparts + 1u, sizeof(*e->sequence));
    if (!base || !count || !e->sequence)
        abort();
    for (uint32_t v = 0; v < r->nnodes; v++)
        for (uint32_t p = r->nodes[v].first_part; p < r->nodes[v].first_part + r->nodes[v].nparts; p++)
            if (coll_op_is_p2p(r->parts[p].op))
                e->sequence[p] = count[base[r->nodes[v].comm] + 2 * (uint32_t)r->parts[p].peer + (r->parts[p].op == PRISM_OP_RECV)]++;
    free(base);
    free(count);
}

/* The same at both ends: Perfetto wants a number. */
static uint64_t flow_number(int32_t comm, int32_t source, int32_t destination, uint32_t sequence)
{
    const uint32_t key[] = { (uint32_t)comm, (uint32_t)source, (uint32_t)destination, sequence };
    return XXH3_64bits(key, sizeof(key));
}

/* A flow begins where the send's bar does and ends within the last nanosecond of the receive's, which is never before. */
static void put_flows(struct events *e, uint32_t rank, const struct span *s)
{
    const struct graph_rank *r = &e->t->g->ranks[rank];
    const struct graph_node *node = &r->nodes[s->node];
    const struct graph_member *member = &r->comms[node->comm];
    for (uint32_t p = node->first_part; p < node->first_part + node->nparts; p++) {
        const struct graph_part *part = &r->parts[p];
        bool send = part->op == PRISM_OP_SEND;
        if (!coll_op_is_p2p(part->op) || part->peer == member->rank || !e->chosen[e->t->g->comms[member->global].ranks[part->peer]])
            continue;
        uint64_t id = flow_number(member->global, send ? member->rank : part->peer, send ? part->peer : member->rank, e->sequence[p]);
        fprintf(e->out, "%s{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"%s\",\"id\":\"0x%" PRIx64 "\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f}",
                separator(e), send ? "s" : "f\",\"bp\":\"e", id, rank, s->line + STREAM_TID, (double)(send ? s->start : s->end - 1) * 1e-3);
    }
}

static void put_rank(struct events *e, const struct export_request *q, uint32_t slot)
{
    uint32_t rank = e->t->ranks[slot], begin, end;
    struct spans spans = { 0 };
    name_rank(e, rank);
    export_range(q, rank, &begin, &end);
    spans_of_rank(e->t, slot, INT64_MIN, INT64_MAX, &spans);
    count_messages(e, &e->t->g->ranks[rank]);
    for (size_t i = 0; i < spans.n; i++) {
        const struct span *s = &spans.list[i];
        if (s->node < begin || s->node >= end)
            continue;
        put_event(e, rank, s);
        if (s->kind == SPAN_P2P || s->kind == SPAN_COLLECTIVE)
            put_flows(e, rank, s);
    }
    spans_clear(&spans);
    free(e->sequence);
}

int export_perfetto(const struct export_request *q, FILE *out, struct prism_error *err)
{
    struct timeline t;
    uint8_t *chosen = chosen_ranks(q);
    struct events e = { .t = &t, .chosen = chosen, .out = out };
    int result = timeline_create(&t, q->g, q->network, q->measured, q->ranks, q->nranks, err);
    if (result == 0) {
        fprintf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        for (uint32_t i = 0; i < q->nranks; i++)
            put_rank(&e, q, i);
        fprintf(out, "\n]}\n");
    }
    timeline_clear(&t);
    free(chosen);
    return result;
}
