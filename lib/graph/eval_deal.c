/* eval_deal.c - channels, and which rank goes to which thread. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "graph/eval_private.h"

/* ---- Channels ---- */

struct place { /* of a pair in a communicator; channel + 1, 0 = empty */
    uint32_t comm, source, destination, channel;
};

struct edge { /* what a channel joins */
    uint32_t channel, comm, members;
    int32_t source, destination; /* world ranks; -1: all of the communicator */
    uint32_t n;                  /* operations */
};

struct dealing {
    struct graph_eval *e;
    struct place *places;
    uint32_t mask, used;
    uint32_t *collective; /* by communicator: channel + 1 */
    struct edge *edges;
    uint32_t cap;
    /* By rank: union-find, weight of a root's set, list of its members. */
    uint32_t *parent, *next, *last;
    uint64_t *weight;
};

static uint32_t hash_of(uint32_t comm, uint32_t source, uint32_t destination)
{
    uint64_t h = ((uint64_t)comm << 32 | source) * 0x9e3779b97f4a7c15u;
    h = (h ^ destination) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32);
}

static struct place *find_place(struct dealing *d, uint32_t comm, uint32_t source, uint32_t destination)
{
    for (uint32_t i = hash_of(comm, source, destination) & d->mask;; i = (i + 1) & d->mask) {
        struct place *p = &d->places[i];
        if (!p->channel || (p->comm == comm && p->source == source && p->destination == destination))
            return p;
    }
}

static void grow_places(struct dealing *d)
{
    struct place *old = d->places;
    uint32_t size = old ? d->mask + 1 : 0;
    d->mask = size ? 2 * size - 1 : 1023;
    d->places = array_zeros((size_t)d->mask + 1, sizeof *d->places);
    for (uint32_t i = 0; i < size; i++)
        if (old[i].channel)
            *find_place(d, old[i].comm, old[i].source, old[i].destination) = old[i];
    free(old);
}

static uint32_t add_channel(struct dealing *d, uint32_t members, uint32_t comm, int32_t source, int32_t destination)
{
    struct graph_eval *e = d->e;
    if (e->nchannels == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 1024;
        d->edges = realloc(d->edges, d->cap * sizeof *d->edges);
        if (!d->edges)
            abort();
    }
    d->edges[e->nchannels] = (struct edge){e->nchannels, comm, members, source, destination, 0};
    return e->nchannels++;
}

static uint32_t message_channel(struct dealing *d, uint32_t comm, uint32_t source, uint32_t destination)
{
    if (!d->places || d->used > d->mask / 2)
        grow_places(d);
    struct place *p = find_place(d, comm, source, destination);
    if (!p->channel) {
        const int32_t *ranks = d->e->graph->comms[comm].ranks;
        *p = (struct place){comm, source, destination, 1 + add_channel(d, 2, comm, ranks[source], ranks[destination])};
        d->used++;
    }
    return p->channel - 1;
}

static void make_channels(struct dealing *d)
{
    struct graph_eval *e = d->e;
    e->channels = eval_allocate(e->nchannels, sizeof *e->channels);
    e->channel_ops = array_zeros(e->nchannels, sizeof *e->channel_ops);
    for (uint32_t i = 0; i < e->nchannels; i++) {
        e->channels[i].ring = e->channels[i].own;
        e->channels[i].mask = 1;
        e->channels[i].members = d->edges[i].members & INT32_MAX;
        e->channel_ops[i] = d->edges[i].n;
    }
}

static void find_channels(struct dealing *d)
{
    const struct graph *g = d->e->graph;
    d->collective = array_zeros(g->ncomms, sizeof *d->collective);
    for (uint32_t i = 0; i < g->world; i++) {
        struct eval_rank *r = &d->e->ranks[i];
        for (uint32_t c = 0; c < r->shape->ncounters; c++) {
            const struct eval_counter *counter = &r->shape->counters[c];
            struct graph_member m = r->recorded->comms[counter->comm];
            uint32_t comm = (uint32_t)m.global, size = g->comms[comm].size, self = (uint32_t)m.rank, channel;
            uint32_t peer = (uint32_t)(((uint64_t)self + (uint32_t)counter->distance) % size);
            if (counter->feeds < GRAPH_FEEDS_SEND) {
                if (!d->collective[comm])
                    d->collective[comm] = 1 + add_channel(d, size, comm, -1, -1);
                channel = d->collective[comm] - 1;
            } else {
                bool send = counter->feeds == GRAPH_FEEDS_SEND;
                channel = message_channel(d, comm, send ? self : peer, send ? peer : self);
            }
            r->channels[c] = channel;
            if (counter->n > d->edges[channel].n)
                d->edges[channel].n = counter->n;
        }
    }
    free(d->places);
    free(d->collective);
}

/* ---- Ranks that talk most together ---- */

static uint32_t root_of(struct dealing *d, uint32_t i)
{
    while (d->parent[i] != i)
        i = d->parent[i] = d->parent[d->parent[i]];
    return i;
}

static void join(struct dealing *d, uint32_t a, uint32_t b)
{
    a = root_of(d, a);
    b = root_of(d, b);
    if (a == b)
        return;
    d->parent[b] = a;
    d->weight[a] += d->weight[b];
    d->next[d->last[a]] = b;
    d->last[a] = d->last[b];
}

/* Weight of all sets that the members lie in. mark: by rank, the edge that counted its root last. */
static uint64_t joined_weight(struct dealing *d, const struct edge *e, uint32_t *mark)
{
    const struct graph_comm *c = &d->e->graph->comms[e->comm];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < (e->source < 0 ? c->size : 2); i++) {
        uint32_t root = root_of(d, (uint32_t)(e->source < 0 ? c->ranks[i] : i ? e->destination : e->source));
        if (mark[root] != e->channel + 1)
            sum += d->weight[root];
        mark[root] = e->channel + 1;
    }
    return sum;
}

static int by_use(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return x->channel < y->channel ? -1 : 1;
}

static void join_all(struct dealing *d, uint64_t most)
{
    const struct graph *g = d->e->graph;
    uint32_t *mark = array_zeros(g->world, sizeof *mark);
    struct edge *sorted = array_zeros(d->e->nchannels, sizeof *sorted);
    if (d->e->nchannels)
        memcpy(sorted, d->edges, d->e->nchannels * sizeof *sorted);
    qsort(sorted, d->e->nchannels, sizeof *sorted, by_use);
    for (uint32_t i = 0; i < d->e->nchannels; i++) {
        const struct edge *e = &sorted[i];
        const struct graph_comm *c = &g->comms[e->comm];
        if (joined_weight(d, e, mark) > most)
            continue;
        if (e->source >= 0)
            join(d, (uint32_t)e->source, (uint32_t)e->destination);
        for (uint32_t m = 1; e->source < 0 && m < c->size; m++)
            join(d, (uint32_t)c->ranks[0], (uint32_t)c->ranks[m]);
    }
    free(sorted);
    free(mark);
}

/* ---- Sets to threads ---- */

struct set {
    uint64_t weight;
    uint32_t root;
};

static int by_weight(const void *a, const void *b)
{
    const struct set *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->root < y->root ? -1 : 1;
}

/* The heaviest set to the thread with the least, and so on. */
static void deal(struct dealing *d)
{
    struct graph_eval *e = d->e;
    struct set *sets = array_zeros(e->graph->world, sizeof *sets);
    uint64_t load[THREADS_MAX] = {0};
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < e->graph->world; i++)
        if (root_of(d, i) == i)
            sets[n++] = (struct set){d->weight[i], i};
    qsort(sets, n, sizeof *sets, by_weight);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t thread = 0;
        for (uint32_t t = 1; t < e->nthreads; t++)
            if (load[t] < load[thread])
                thread = t;
        load[thread] += sets[i].weight;
        for (uint32_t r = sets[i].root;; r = d->next[r]) {
            e->ranks[r].thread = thread;
            e->order[at++] = r;
            if (r == d->last[sets[i].root])
                break;
        }
    }
    free(sets);
}

static void mark_crossing(struct dealing *d)
{
    struct graph_eval *e = d->e;
    for (uint32_t i = 0; i < e->nchannels; i++) {
        const struct edge *edge = &d->edges[i];
        const struct graph_comm *c = &e->graph->comms[edge->comm];
        if (edge->source >= 0)
            e->channels[i].crosses = e->ranks[edge->source].thread != e->ranks[edge->destination].thread;
        for (uint32_t m = 1; edge->source < 0 && m < c->size && !e->channels[i].crosses; m++)
            e->channels[i].crosses = e->ranks[c->ranks[0]].thread != e->ranks[c->ranks[m]].thread;
    }
}

void eval_deal(struct graph_eval *e)
{
    uint32_t world = e->graph->world;
    struct dealing d = {.e = e};
    uint64_t total = 0;
    d.parent = array_zeros(world, sizeof *d.parent);
    d.next = array_zeros(world, sizeof *d.next);
    d.last = array_zeros(world, sizeof *d.last);
    d.weight = array_zeros(world, sizeof *d.weight);
    e->order = array_zeros(world, sizeof *e->order);
    for (uint32_t i = 0; i < world; i++) {
        d.parent[i] = d.last[i] = i;
        d.weight[i] = 1 + e->graph->ranks[i].nnodes;
        total += d.weight[i];
    }
    find_channels(&d);
    make_channels(&d);
    join_all(&d, e->nthreads > 1 ? total / e->nthreads + 1 : total);
    deal(&d);
    mark_crossing(&d);
    free(d.edges);
    free(d.parent);
    free(d.next);
    free(d.last);
    free(d.weight);
}
