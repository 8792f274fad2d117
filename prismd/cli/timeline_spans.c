/* timeline_spans.c - see timeline_spans.h. */
#include "timeline_spans.h"

#include <stdlib.h>
#include <string.h>

#include "coll/types.h"

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* --- 1. Bars --- */

struct window {
    int64_t begin, end;
};

static void put(struct spans *s, struct window w, enum span_kind kind, uint32_t line, uint32_t node, int64_t start,
                int64_t end)
{
    start = start < w.begin ? w.begin : start;
    end = end > w.end ? w.end : end;
    if (start >= end)
        return;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        s->list = must(realloc(s->list, s->cap * sizeof(*s->list)));
    }
    s->list[s->n++] = (struct span){ .kind = (uint8_t)kind, .line = line, .node = node, .start = start, .end = end };
}

static void put_group(const struct timeline *t, const struct graph_rank *rank, uint32_t v, int64_t start, int64_t end,
                      struct window w, struct spans *out)
{
    const struct graph_node *node = &rank->nodes[v];
    const struct graph_member *member = &rank->comms[node->comm];
    const struct graph_part *parts = rank->parts + node->first_part;
    bool p2p = true;
    for (uint32_t i = 0; i < node->nparts; i++)
        p2p = p2p && coll_op_is_p2p(parts[i].op);
    double took = duration_ns((void *)&t->model, t->g, (uint32_t)member->global, member->rank, parts, node->nparts);
    int64_t transfer = end - (int64_t)(took + 0.5);
    transfer = transfer < start ? start : transfer;
    put(out, w, p2p ? SPAN_WAIT_P2P : SPAN_WAIT_COLLECTIVE, node->stream, v, start, transfer);
    put(out, w, p2p ? SPAN_P2P : SPAN_COLLECTIVE, node->stream, v, transfer, end);
}

void spans_of_rank(const struct timeline *t, uint32_t slot, int64_t begin_ns, int64_t end_ns, struct spans *out)
{
    uint32_t r = t->ranks[slot];
    const struct graph_rank *rank = &t->g->ranks[r];
    const struct window w = { begin_ns, end_ns };
    int64_t *stream_end = must(calloc(rank->nstreams + 1u, sizeof(*stream_end)));
    int64_t *host_end = must(calloc(rank->nhosts + 1u, sizeof(*host_end)));
    for (uint32_t v = 0; v < rank->nnodes; v++) {
        const struct graph_node *node = &rank->nodes[v];
        int64_t start = t->start[slot][v], end = t->end[slot][v];
        int64_t host = host_end[node->host], issue = host + graph_whole_ns(graph_host_work(t->g, r, v));
        put(out, w, SPAN_HOST_WORK, node->host, v, host, issue);
        host_end[node->host] = issue;
        if (node->kind == GRAPH_SYNC) {
            put(out, w, SPAN_HOST_WAIT, node->host, v, issue, end);
            host_end[node->host] = end;
            continue;
        }
        int64_t work = graph_whole_ns(graph_device_work(t->g, r, v)), from = stream_end[node->stream];
        put(out, w, SPAN_COMPUTE, node->stream, v, from, from + work);
        if (node->kind == GRAPH_COMM)
            put_group(t, rank, v, start, end, w, out);
        stream_end[node->stream] = end;
    }
    free(stream_end);
    free(host_end);
}

void spans_clear(struct spans *s)
{
    free(s->list);
    *s = (struct spans){ 0 };
}

/* --- 2. States --- */

struct edge {
    int64_t at;
    int8_t what, step; /* what: 0 computes, 1 collective, 2 p2p; step: +1 begins, -1 ends */
};

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static enum state state_of(const int running[3])
{
    if (running[0])
        return running[1] ? STATE_HIDDEN_COLLECTIVE : running[2] ? STATE_HIDDEN_P2P : STATE_COMPUTE;
    return running[1] ? STATE_EXPOSED_COLLECTIVE : running[2] ? STATE_EXPOSED_P2P : STATE_IDLE;
}

static size_t add_state(struct state_span *list, size_t n, enum state state, int64_t start, int64_t end)
{
    if (start >= end)
        return n;
    if (n > 0 && list[n - 1].state == state) {
        list[n - 1].end = end;
        return n;
    }
    list[n] = (struct state_span){ state, start, end };
    return n + 1;
}

size_t states_of_rank(const struct spans *spans, int64_t begin_ns, int64_t end_ns, struct state_span **out)
{
    static const int8_t what[SPAN_KINDS] = { [SPAN_COMPUTE] = 0, [SPAN_COLLECTIVE] = 1, [SPAN_P2P] = 2,
        [SPAN_WAIT_COLLECTIVE] = -1, [SPAN_WAIT_P2P] = -1, [SPAN_HOST_WORK] = -1, [SPAN_HOST_WAIT] = -1 };
    struct edge *edges = must(malloc((2 * spans->n + 1) * sizeof(*edges)));
    struct state_span *list = must(malloc((2 * spans->n + 2) * sizeof(*list)));
    size_t nedges = 0, n = 0;
    int running[3] = { 0 };
    int64_t at = begin_ns;
    for (size_t i = 0; i < spans->n; i++) {
        const struct span *s = &spans->list[i];
        if (what[s->kind] < 0)
            continue;
        edges[nedges++] = (struct edge){ s->start, what[s->kind], 1 };
        edges[nedges++] = (struct edge){ s->end, what[s->kind], -1 };
    }
    qsort(edges, nedges, sizeof(*edges), compare_edges);
    for (size_t i = 0; i < nedges; i++) {
        n = add_state(list, n, state_of(running), at, edges[i].at);
        at = edges[i].at;
        running[edges[i].what] += edges[i].step;
    }
    n = add_state(list, n, STATE_IDLE, at, end_ns);
    free(edges);
    *out = list;
    return n;
}
