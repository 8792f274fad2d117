#include "prismd/capture/record.h"

#include <stdlib.h>

#include "graph/recorder.h"
#include "prismd/replay/align.h"

/* A stream that was idle until the host issued the node shows it arriving this soon after: no work in front of it. */
#define HOST_BOUND_NS 150000

static struct graph_recorder *recorder; /* of capture */

struct measured {
    uint32_t nnodes;
    struct align *align;
    int64_t *pre, *post;    /* by recorded node, as all here; device; 0 = not seen */
    int64_t *enter, *leave; /* host: call began; previous call had returned */
    int64_t *unmatched;     /* by host thread: host work in front of nodes that are not recorded */
    uint32_t nhosts;
};

struct graph_part *record_parts(const struct group *g)
{
    struct graph_part *parts = malloc((g->nparts ? g->nparts : 1) * sizeof *parts);
    if (!parts)
        abort();
    for (uint32_t i = 0; i < g->nparts; i++)
        parts[i] = (struct graph_part){.op = g->parts[i].op,
                                       .datatype = g->parts[i].datatype,
                                       .redop = g->parts[i].redop,
                                       .peer = g->parts[i].peer,
                                       .count = g->parts[i].count};
    return parts;
}

void record_begin(struct daemon *d)
{
    recorder = graph_recorder_create(d->graph);
}

void record_end(void)
{
    graph_recorder_destroy(recorder);
    recorder = NULL;
}

int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g)
{
    struct graph_node n = {.kind = m->kind,
                           .host = m->host,
                           .stream = m->stream,
                           .dep = m->dep ? m->index - (m->dep - 1) : 0,
                           .comm = m->comm,
                           .ordinal = g ? g->ordinal : 0};
    if (m->dep > m->index)
        return daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: node %u depends on a later one", r->number, m->index);
    struct graph_part *parts = g ? record_parts(g) : NULL;
    int rc = graph_record(recorder, r->number, &n, parts, g ? g->nparts : 0);
    free(parts);
    return rc < 0 ? daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: node %u is none that can be recorded", r->number, m->index) : 0;
}

struct measured *measured_create(const struct graph_rank *r)
{
    uint32_t nnodes = r->nnodes;
    struct measured *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->nnodes = nnodes;
    x->pre = calloc(nnodes + 1, sizeof *x->pre);
    x->post = calloc(nnodes + 1, sizeof *x->post);
    x->enter = calloc(nnodes + 1, sizeof *x->enter);
    x->leave = calloc(nnodes + 1, sizeof *x->leave);
    x->nhosts = r->nhosts;
    x->unmatched = calloc(r->nhosts + 1u, sizeof *x->unmatched);
    if (!x->pre || !x->post || !x->enter || !x->leave || !x->unmatched)
        abort();
    x->align = align_create(r);
    return x;
}

void measured_destroy(struct measured *x)
{
    if (!x)
        return;
    free(x->pre);
    free(x->post);
    free(x->enter);
    free(x->leave);
    free(x->unmatched);
    align_destroy(x->align);
    free(x);
}

void measured_node(struct measured *x, const struct msg_node *m, uint32_t ordinal)
{
    int64_t node = align_next(x->align, m->kind, m->stream, m->comm, ordinal);
    int64_t *unmatched = &x->unmatched[m->host < x->nhosts ? m->host : x->nhosts];
    if (node < 0) {
        if (m->leave_ns && m->enter_ns > m->leave_ns)
            *unmatched += m->enter_ns - m->leave_ns;
        return;
    }
    x->enter[node] = m->enter_ns;
    x->leave[node] = m->leave_ns ? m->leave_ns - *unmatched : 0;
    *unmatched = 0;
}

void measured_times(struct measured *x, const struct msg_time *times, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t node = align_find(x->align, times[i].index);
        if (node < 0)
            continue;
        x->pre[node] = times[i].pre_ns;
        x->post[node] = times[i].post_ns;
    }
}

/* device work(n) = pre(n) - post(node before n on its stream): the kernels and copies between them. When the stream
 * stood idle until the host issued n, the time in between was the host's, which host work has already.
 * host work(n) = enter(n) - leave(n): from the program's return out of the call before to this call. */
enum idle { NOT_IDLE, HOST_BOUND, LATE }; /* idle when n was issued: n came at once, or a while after */

static enum idle idle_before(const struct measured *x, uint32_t i, int64_t before)
{
    if (!before || x->enter[i] <= before)
        return NOT_IDLE;
    return x->pre[i] - x->enter[i] < HOST_BOUND_NS ? HOST_BOUND : LATE;
}

/* An idle stream that is late once has kernels in front of the node, or the machine was busy and the stream lay idle all the time.
 * Kernels are there in every iteration: where the node came at once in half of the others or more, there are none. */
static void drop_lateness(struct graph_rank *r, const uint8_t *idle)
{
    for (uint32_t k = 0; k < r->niterations; k++)
        for (uint32_t i = r->iterations[k]; i < r->iterations[k + 1]; i++) {
            uint32_t at_once = 0, late = 0, offset = i - r->iterations[k];
            for (uint32_t other = 0; idle[i] == LATE && other < r->niterations; other++) {
                uint32_t same = r->iterations[other] + offset;
                if (other == k || same >= r->iterations[other + 1] || r->nodes[same].kind != r->nodes[i].kind ||
                    r->nodes[same].stream != r->nodes[i].stream)
                    continue;
                at_once += idle[same] == HOST_BOUND;
                late += idle[same] != HOST_BOUND;
            }
            if (at_once && at_once >= late)
                r->device_work[i] = 0;
        }
}

uint32_t measured_to_works(const struct measured *x, struct graph *g, uint32_t rank)
{
    struct graph_rank *r = &g->ranks[rank];
    int64_t *end_of_stream = calloc(r->nstreams + 1u, sizeof *end_of_stream);
    uint8_t *idle = calloc(r->nnodes + 1u, 1);
    uint32_t seen = 0;
    if (!end_of_stream || !idle)
        abort();
    graph_alloc_works(g, rank);
    for (uint32_t i = 0; i < r->nnodes && i < x->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (x->enter[i] > x->leave[i] && x->leave[i])
            r->host_work[i] = (float)(x->enter[i] - x->leave[i]);
        if (n->kind == GRAPH_SYNC || !x->pre[i])
            continue;
        int64_t *before = &end_of_stream[n->stream];
        int64_t work = *before ? x->pre[i] - *before : 0;
        idle[i] = (uint8_t)idle_before(x, i, *before);
        r->device_work[i] = work > 0 && idle[i] != HOST_BOUND ? (float)work : 0;
        *before = x->post[i];
        seen++;
    }
    drop_lateness(r, idle);
    free(end_of_stream);
    free(idle);
    return seen;
}
