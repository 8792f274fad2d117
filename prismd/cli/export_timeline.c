/* export_timeline.c - the predicted timeline as CSV and as trace events. */
#include <inttypes.h>
#include <stdlib.h>

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

int export_csv(const struct export_request *q, FILE *out, struct prism_error *err)
{
    struct csv csv = { .q = q, .chosen = calloc(q->g->world + 1u, 1), .out = out };
    if (!csv.chosen)
        abort();
    for (uint32_t i = 0; i < q->nranks; i++)
        csv.chosen[q->ranks[i]] = 1;
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
    FILE *out;
    uint64_t written;
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

static void put_rank(struct events *e, const struct export_request *q, uint32_t slot)
{
    uint32_t rank = e->t->ranks[slot], begin, end;
    struct spans spans = { 0 };
    name_rank(e, rank);
    export_range(q, rank, &begin, &end);
    spans_of_rank(e->t, slot, INT64_MIN, INT64_MAX, &spans);
    for (size_t i = 0; i < spans.n; i++)
        if (spans.list[i].node >= begin && spans.list[i].node < end)
            put_event(e, rank, &spans.list[i]);
    spans_clear(&spans);
}

int export_perfetto(const struct export_request *q, FILE *out, struct prism_error *err)
{
    struct timeline t;
    struct events e = { .t = &t, .out = out };
    int result = timeline_create(&t, q->g, q->network, q->measured, q->ranks, q->nranks, err);
    if (result == 0) {
        fprintf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        for (uint32_t i = 0; i < q->nranks; i++)
            put_rank(&e, q, i);
        fprintf(out, "\n]}\n");
    }
    timeline_clear(&t);
    return result;
}
