#include "prismd/replay/measured.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "prismd/replay/align.h"

/* A stream that was idle until the host issued the node shows it arriving this soon after: no work in front of it. */
#define HOST_BOUND_NS     150000
#define UNMATCHED_MOST_NS (INT64_C(1) << 60) /* keeps sums of times that are none within their range */
#define LIKE_MOST         0.1 /* relative difference of a pass's time from the median */

struct live_node {
    int64_t node;         /* the recorded one, -1 = none */
    uint32_t pass;        /* 0 = as recorded, 1 ... = the last iteration again */
    int64_t pre, post;    /* device; 0 = not seen */
    int64_t enter, leave; /* host: call began; previous call had returned, 0 = none had */
    int64_t began;        /* JOIN: the wait before it began in the driver; it was over at enter */
    uint32_t dep;         /* live node + 1 that a SYNC waits for, 0 = none */
    uint32_t stream;
    uint16_t host;
    uint8_t kind;
    bool alone; /* nothing was put on the stream in front of it */
};

struct measured {
    const struct graph_rank *rank;
    struct align *align;
    struct live_node *nodes; /* owned; in order of issue */
    uint32_t n, cap;
    int64_t *unmatched; /* owned; by host thread: host work in front of nodes that are not recorded */
    uint32_t nhosts;
};

/* idle when the node was issued: it came at once, or a while after; the machine was busy if there was nothing in front of it (DELAYED) */
enum idle { NOT_IDLE, HOST_BOUND, DELAYED, LATE };

struct sample { /* of a live node */
    int64_t device, host;
    uint8_t idle;
    bool has_device;
};

/* What is summed up of a recorded node. */
struct sum {
    int64_t device, host;
    bool timed;
    uint32_t at_once, late; /* samples of an idle stream, and of all others */
};

struct measured *measured_create(const struct graph_rank *r)
{
    struct measured *x = array_zeros(1, sizeof *x);
    x->rank = r;
    x->nhosts = r->nhosts;
    x->unmatched = array_zeros(r->nhosts + 1u, sizeof *x->unmatched);
    x->align = align_create(r);
    return x;
}

void measured_destroy(struct measured *x)
{
    if (!x)
        return;
    free(x->nodes);
    free(x->unmatched);
    align_destroy(x->align);
    free(x);
}

void measured_node(struct measured *x, const struct msg_node *m, uint32_t ordinal)
{
    int64_t node = align_next(x->align, m->kind, m->stream, m->comm, ordinal);
    int64_t *unmatched = &x->unmatched[m->host < x->nhosts ? m->host : x->nhosts];
    if (x->n == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 1024;
        x->nodes = realloc(x->nodes, x->cap * sizeof *x->nodes);
        if (!x->nodes)
            abort();
    }
    int64_t leave = m->kind == GRAPH_JOIN ? m->enter_ns : m->leave_ns;
    x->nodes[x->n++] = (struct live_node){.node = node, .pass = align_pass(x->align), .enter = m->enter_ns,
                                          .leave = leave ? leave - *unmatched : 0, .began = m->leave_ns, .dep = m->dep,
                                          .stream = m->stream, .host = m->host < x->nhosts ? m->host : (uint16_t)x->nhosts, .kind = m->kind};
    if (node >= 0)
        *unmatched = 0;
    else if (leave && m->enter_ns > leave)
        *unmatched = *unmatched + m->enter_ns - leave < UNMATCHED_MOST_NS ? *unmatched + m->enter_ns - leave : UNMATCHED_MOST_NS;
}

void measured_times(struct measured *x, const struct msg_time *times, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (times[i].index >= x->n)
            continue;
        x->nodes[times[i].index].pre = times[i].pre_ns;
        x->nodes[times[i].index].post = times[i].post_ns;
        x->nodes[times[i].index].alone = times[i].alone;
    }
}

/* --- samples --- */

/* A host thread, as the graph sees it: it goes on at a node's issue, which is the node's start where the stream is idle. A stream that gets
 * there late makes the graph's thread late, so what follows is shorter by as much. */
struct thread {
    int64_t ahead;        /* the graph's time is so much later than the thread's was */
    bool waits;           /* SYNC nodes were the last */
    int64_t entered;      /* the call that waits */
    int64_t seen, marked; /* the device got to what is waited for; to a mark that this call put on an idle stream: so long after */
};

/* Host work in front of a node that an idle stream gets to so late. */
static int64_t host_work_with(struct thread *t, int64_t work, int64_t late)
{
    int64_t whole = work + late - t->ahead;
    t->ahead = whole > 0 ? late : t->ahead - work;
    return whole > 0 ? whole : 0;
}

static void wait_begins(const struct measured *x, const struct sample *samples, struct thread *t, const struct live_node *l)
{
    const struct live_node *dep = l->dep && l->dep <= x->n ? &x->nodes[l->dep - 1] : NULL;
    if (!t->waits || t->entered != l->enter) /* a call that no JOIN followed is over, too */
        *t = (struct thread){.ahead = t->ahead, .waits = true, .entered = l->enter};
    if (!dep || dep->pre <= t->seen)
        return;
    t->seen = dep->pre;
    t->marked = dep->enter == l->enter && samples[l->dep - 1].idle == HOST_BOUND ? dep->pre - dep->enter : 0;
}

/* What a wait lasts when the device has got to what is waited for: the copy itself, if it is one, and until the thread knows. Less what
 * setting the mark has cost, in the thread or on the device. The graph's thread is late behind it only by what it was late at both; or by as
 * much as device times are, if the device seems to get there after the thread knew. */
static int64_t wait_ends(struct thread *t, const struct live_node *l)
{
    if (!t->waits)
        return 0;
    int64_t from = t->seen > l->began ? t->seen : l->began, ours = l->began > t->entered ? l->began - t->entered : 0;
    int64_t ahead = t->seen > t->entered ? t->entered + t->ahead - t->seen : t->ahead;
    int64_t lasts = l->enter - from - (ours < t->marked ? ours : t->marked);
    bool known = t->seen && l->began;
    *t = (struct thread){.ahead = t->seen && ahead > 0 ? ahead : 0};
    if (known && lasts < 0)
        t->ahead -= lasts;
    return known && lasts > 0 ? lasts : 0;
}

static enum idle idle_before(const struct live_node *l, int64_t before, bool alone)
{
    if (l->enter <= before)
        return NOT_IDLE;
    if (l->pre - l->enter < HOST_BOUND_NS)
        return HOST_BOUND;
    return !before ? NOT_IDLE : alone ? DELAYED : LATE;
}

static bool has_nothing_in_front(const struct sample *s)
{
    return s->idle == HOST_BOUND || s->idle == DELAYED;
}

/* An idle stream's JOIN is there to say that the stream was idle when the host went on; getting there takes time that no program spends. */
static void take_device(struct sample *s, const struct live_node *l, bool alone, int64_t *end_of_stream)
{
    int64_t work = *end_of_stream ? l->pre - *end_of_stream : 0;
    s->idle = (uint8_t)idle_before(l, *end_of_stream, alone);
    s->device = work > 0 && !has_nothing_in_front(s) ? work : 0;
    s->has_device = true;
    *end_of_stream = l->kind == GRAPH_JOIN && s->idle == HOST_BOUND ? l->enter : l->post;
}

static void take_host(struct sample *s, const struct live_node *l, struct thread *t)
{
    int64_t work = l->leave && l->enter > l->leave ? l->enter - l->leave : 0;
    bool late = s->idle == HOST_BOUND && l->pre > l->enter && l->kind != GRAPH_JOIN;
    work += l->kind == GRAPH_JOIN ? wait_ends(t, l) : 0;
    s->host = host_work_with(t, work, late ? l->pre - l->enter : 0);
}

static struct sample *take_samples(const struct measured *x)
{
    const struct graph_rank *r = x->rank;
    struct sample *samples = array_zeros(x->n, sizeof *samples);
    int64_t *end_of_stream = array_zeros(r->nstreams + 1u, sizeof *end_of_stream);
    struct thread *threads = array_zeros(x->nhosts + 1u, sizeof *threads);
    bool *put = array_zeros(r->nstreams + 1u, sizeof *put); /* in front of nodes since, which give no samples */
    for (uint32_t i = 0; i < x->n; i++) {
        const struct live_node *l = &x->nodes[i];
        if (l->kind == GRAPH_SYNC)
            wait_begins(x, samples, &threads[l->host], l);
        if (l->kind != GRAPH_SYNC && (l->node < 0 || !l->pre))
            put[l->stream < r->nstreams ? l->stream : r->nstreams] |= !l->alone;
        if (l->node < 0)
            continue;
        if (l->kind != GRAPH_SYNC && l->pre) {
            uint32_t stream = r->nodes[l->node].stream;
            take_device(&samples[i], l, l->alone && !put[stream], &end_of_stream[stream]);
            put[stream] = false;
        }
        take_host(&samples[i], l, &threads[l->host]);
    }
    free(put);
    free(threads);
    free(end_of_stream);
    return samples;
}

static bool is_like(const struct graph_node *a, const struct graph_node *b)
{
    return a->kind == b->kind && a->stream == b->stream;
}

/* What the node of iteration k is in another one, -1 = nothing: as many of its kind and stream follow there. Counted from the end, as the
 * first iteration has what the program does once in front. */
static int64_t same_in(const struct graph_rank *r, uint32_t node, uint32_t k, uint32_t other)
{
    uint32_t follow = 0;
    for (uint32_t i = node + 1; i < r->iterations[k + 1]; i++)
        follow += is_like(&r->nodes[i], &r->nodes[node]);
    for (uint32_t i = r->iterations[other + 1]; i-- > r->iterations[other];)
        if (is_like(&r->nodes[i], &r->nodes[node]) && !follow--)
            return i;
    return -1;
}

/* An idle stream that is late once has kernels in front of the node, or the machine was busy and the stream lay idle all the time.
 * Kernels are there in every iteration: where the node came at once in half of the others or more, there are none. */
static bool lay_idle(const struct graph_rank *r, const struct sum *sums, uint32_t node)
{
    uint32_t k = 0, at_once = sums[node].at_once, late = sums[node].late - 1;
    while (k < r->niterations && node >= r->iterations[k + 1])
        k++;
    if (k == r->niterations || node < r->iterations[0])
        return false;
    for (uint32_t other = 0; other < r->niterations; other++) {
        int64_t same = other == k ? -1 : same_in(r, node, k, other);
        if (same < 0)
            continue;
        at_once += sums[same].at_once;
        late += sums[same].late;
    }
    return at_once && at_once >= late;
}

/* --- passes --- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Which passes count, by number, *n of them: those that were gone through whole, by host and device, and took as long as most. */
static bool *choose_passes(const struct measured *x, uint32_t *n)
{
    uint32_t passes = 0, whole = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->nodes[i].node >= 0 && x->nodes[i].pass > passes)
            passes = x->nodes[i].pass;
    int64_t *begin = array_zeros(passes + 2u, sizeof *begin), *lasted = array_zeros(passes + 1u, sizeof *lasted);
    int64_t *sorted = array_zeros(passes + 1u, sizeof *sorted);
    bool *untimed = array_zeros(passes + 1u, sizeof *untimed), *chosen = array_zeros(passes + 1u, sizeof *chosen);
    for (uint32_t i = x->n; i-- > 0;) {
        const struct live_node *l = &x->nodes[i];
        if (l->node < 0 || x->rank->nodes[l->node].kind != GRAPH_COMM)
            continue;
        begin[l->pass] = l->pre ? l->enter : 0;
        untimed[l->pass] |= !l->pre;
    }
    for (uint32_t p = 1; p < passes; p++)
        if (begin[p] && begin[p + 1] > begin[p] && !untimed[p])
            sorted[whole++] = lasted[p] = begin[p + 1] - begin[p];
    qsort(sorted, whole, sizeof *sorted, by_value);
    double median = whole ? (double)(sorted[(whole - 1) / 2] + sorted[whole / 2]) / 2 : 0;
    *n = 0;
    for (uint32_t p = 1; p < passes; p++) {
        chosen[p] = lasted[p] && fabs((double)lasted[p] - median) <= median * LIKE_MOST;
        *n += chosen[p];
    }
    free(begin);
    free(lasted);
    free(sorted);
    free(untimed);
    return chosen;
}

bool measured_suffices(const double *seconds, uint32_t n)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += seconds[i];
    if (n <= MEASURED_PASSES)
        return false;
    for (uint32_t i = 0; i < n; i++)
        squares += (seconds[i] - sum / n) * (seconds[i] - sum / n);
    return n >= MEASURED_MOST || sum >= MEASURED_SECONDS || sqrt(squares / (n - 1) / n) <= MEASURED_ERROR * sum / n;
}

/* --- works --- */

/* The last iteration's are sums over the chosen passes, if there are any, by their number: where a pass lacks a node, what it took
 * lies in front of the next one. All others are as they were the one time. */
uint32_t measured_to_works(const struct measured *x, struct graph *g, uint32_t rank)
{
    struct graph_rank *r = &g->ranks[rank];
    struct sample *samples = take_samples(x);
    struct sum *sums = array_zeros(r->nnodes, sizeof *sums);
    uint32_t nchosen, seen = 0;
    bool *chosen = choose_passes(x, &nchosen);
    uint32_t again = nchosen ? r->iterations[r->niterations - 1] : r->nnodes; /* the first node that the chosen ones tell of */
    for (uint32_t i = 0; i < x->n; i++)
        if (samples[i].has_device)
            *(has_nothing_in_front(&samples[i]) ? &sums[x->nodes[i].node].at_once : &sums[x->nodes[i].node].late) += 1;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct live_node *l = &x->nodes[i];
        if (l->node < 0 || (l->node >= again ? !chosen[l->pass] : l->pass > 0))
            continue;
        struct sum *to = &sums[l->node];
        to->host += samples[i].host;
        to->device += samples[i].idle == LATE && lay_idle(r, sums, (uint32_t)l->node) ? 0 : samples[i].device;
        to->timed |= samples[i].has_device;
    }
    graph_alloc_works(g, rank);
    for (uint32_t i = 0; i < r->nnodes; i++) {
        uint32_t n = i >= again ? nchosen : 1;
        r->host_work[i] = (float)(sums[i].host / n);
        r->device_work[i] = (float)(sums[i].device / n);
        seen += sums[i].timed;
    }
    free(chosen);
    free(samples);
    free(sums);
    return seen;
}
