/* run_setup.c - tables made once a run: links between nodes of a line, sequence numbers of parts, the loop.
 */
#include "graph/run_setup.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* ---- Slots ---- */

static const uint32_t *bounds_of(const struct graph_rank *g, uint32_t whole[2], uint32_t *n)
{
    if (g->niterations) {
        *n = g->niterations;
        return g->iterations;
    }
    whole[0] = 0;
    whole[1] = g->nnodes;
    *n = 1;
    return whole;
}

struct slot_place run_slot_of(const struct run_rank *r, uint32_t n, uint32_t k)
{
    uint32_t whole[2], count;
    const uint32_t *bounds = bounds_of(r->recorded, whole, &count);
    if (n < bounds[0])
        return (struct slot_place){0, bounds[0]};
    if (n >= bounds[count])
        return (struct slot_place){r->total + 1, NONE};
    if (k)
        return (struct slot_place){count + k, bounds[count]};
    uint32_t low = 0, high = count; /* bounds[low] <= n < bounds[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (bounds[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    return (struct slot_place){low + 1, bounds[high]};
}

void run_slot_raise(struct run_rank *r, uint32_t slot, int64_t end_ns)
{
    if (slot >= r->nslots) {
        uint32_t n = r->nslots ? r->nslots : 16;
        while (n <= slot)
            n *= 2;
        r->slots = realloc(r->slots, n * sizeof *r->slots);
        if (!r->slots)
            abort();
        for (uint32_t i = r->nslots; i < n; i++)
            r->slots[i] = INT64_MIN;
        r->nslots = n;
    }
    if (end_ns > r->slots[slot])
        r->slots[slot] = end_ns;
}

/* ---- The loop ---- */

static bool communicates(const struct run_rank *r)
{
    for (uint32_t n = r->loop_begin; n < r->loop_end; n++)
        if (r->recorded->nodes[n].kind == GRAPH_COMM)
            return true;
    return false;
}

static void set_loop(struct run_rank *r, uint32_t iterations)
{
    uint32_t whole[2], count;
    const uint32_t *bounds = bounds_of(r->recorded, whole, &count);
    r->loop_begin = bounds[count - 1];
    r->loop_end = bounds[count];
    r->len = r->loop_end - r->loop_begin;
    r->limit = r->recorded->nnodes;
    r->total = count;
    if (!iterations)
        return;
    r->total = iterations;
    if (iterations < count)
        r->limit = bounds[iterations];
    else if (r->len && iterations != UINT32_MAX)
        r->extra = iterations - count;
    else if (communicates(r)) {
        /* As long as it takes: what lies behind the loop is never reached, and a stream that begins there must not have
         * its host issue four thousand million loops first. A loop without communication would stand still nowhere. */
        r->extra = iterations - count;
        r->limit = r->loop_end;
    }
}

/* ---- Links ---- */

static void set_links(const struct run_rank *r, struct run_link *links, uint32_t *loop_first, uint32_t *next)
{
    const struct graph_rank *g = r->recorded;
    uint32_t nlines = g->nstreams + g->nhosts;
    for (uint32_t i = 0; i < nlines; i++)
        next[i] = loop_first[i] = NONE;
    for (uint32_t i = g->nnodes; i-- > 0;) {
        uint32_t host = g->nstreams + g->nodes[i].host, stream = g->nodes[i].stream;
        bool in_loop = i >= r->loop_begin && i < r->loop_end;
        links[i] = (struct run_link){NONE, next[host]};
        next[host] = i;
        if (in_loop)
            loop_first[host] = i;
        if (g->nodes[i].kind == GRAPH_SYNC)
            continue;
        links[i].stream = next[stream];
        next[stream] = i;
        if (in_loop)
            loop_first[stream] = i;
    }
}

/* ---- Sequence numbers ---- */

/* What a part is counted among: place base + 0 collectives, + 1 + peer sends, + 1 + size + peer receives. */
static uint32_t counter_of(const struct graph *g, const struct graph_rank *r, const uint32_t *base,
                           uint32_t node, uint32_t part)
{
    uint32_t comm = r->nodes[node].comm;
    const struct graph_part *p = &r->parts[r->nodes[node].first_part + part];
    switch (graph_feeds(p->op)) {
    case GRAPH_FEEDS_SEND:
        return base[comm] + 1 + (uint32_t)p->peer;
    case GRAPH_FEEDS_RECV:
        return base[comm] + 1 + g->comms[r->comms[comm].global].size + (uint32_t)p->peer;
    default:
        return base[comm];
    }
}

static void set_sequences(const struct graph *g, const struct run_rank *run, struct run_sequence *sequences)
{
    const struct graph_rank *r = run->recorded;
    uint32_t *base = array_zeros(r->ncomms, sizeof *base), counters = 0;
    for (uint32_t c = 0; c < r->ncomms; c++) {
        base[c] = counters;
        counters += r->comms[c].global < 0 ? 0 : 1 + 2 * g->comms[r->comms[c].global].size;
    }
    uint32_t *count = array_zeros(counters, sizeof *count), *loop = array_zeros(counters, sizeof *loop);
    for (uint32_t i = 0; i < r->nnodes; i++)
        for (uint32_t p = 0; p < r->nodes[i].nparts; p++) {
            uint32_t c = counter_of(g, r, base, i, p);
            sequences[r->nodes[i].first_part + p].first = count[c]++;
            loop[c] += i >= run->loop_begin && i < run->loop_end;
        }
    for (uint32_t i = run->extra ? run->loop_begin : r->nnodes; i < r->nnodes; i++)
        for (uint32_t p = 0; p < r->nodes[i].nparts; p++)
            sequences[r->nodes[i].first_part + p].step = loop[counter_of(g, r, base, i, p)];
    free(base);
    free(count);
    free(loop);
}

/* ---- External ranks ---- */

static void set_groups(struct run_rank *r)
{
    const struct graph_rank *g = r->recorded;
    r->group_comms = array_zeros((size_t)g->ncomms + 2, sizeof *r->group_comms);
    r->group_before = array_zeros(g->ncomms, sizeof *r->group_before);
    r->group_loop = array_zeros(g->ncomms, sizeof *r->group_loop);
    uint32_t *first = r->group_comms + 1; /* counted one up, filled in, and so shifted into place */
    uint32_t groups = 0;
    for (uint32_t i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].kind != GRAPH_COMM)
            continue;
        uint32_t c = g->nodes[i].comm;
        first[c + 1]++;
        groups++;
        r->group_before[c] += i < r->loop_begin;
        r->group_loop[c] += i >= r->loop_begin && i < r->loop_end;
        r->loop_groups += i >= r->loop_begin && i < r->loop_end;
    }
    for (uint32_t c = 0; c < g->ncomms; c++)
        first[c + 1] += first[c];
    r->group_nodes = array_zeros(groups, sizeof *r->group_nodes);
    for (uint32_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i].kind == GRAPH_COMM)
            r->group_nodes[first[g->nodes[i].comm]++] = i;
}

/* ---- All of it ---- */

static const struct graph_rank *works_of(const struct graph *g, const int32_t *representatives, uint32_t rank)
{
    const struct graph_rank *r = &g->ranks[rank];
    if (r->device_work || r->host_work || !g->nclasses || r->klass >= g->nclasses)
        return r;
    int32_t other = representatives[r->klass];
    return other >= 0 && g->ranks[other].nnodes == r->nnodes ? &g->ranks[other] : r;
}

static void set_works(struct graph_run *run)
{
    const struct graph *g = run->graph;
    int32_t *representatives = array_zeros(g->nclasses, sizeof *representatives);
    for (uint32_t c = 0; c < g->nclasses; c++)
        representatives[c] = -1;
    for (uint32_t i = g->world; i-- > 0;)
        if (g->ranks[i].device_work && g->ranks[i].klass < g->nclasses)
            representatives[g->ranks[i].klass] = (int32_t)i;
    for (uint32_t i = 0; i < g->world; i++) {
        const struct graph_rank *from = works_of(g, representatives, i);
        run->ranks[i].device_work = from->device_work;
        run->ranks[i].host_work = from->host_work;
    }
    free(representatives);
}

static void set_ring(struct run_rank *r)
{
    uint64_t size = 32;
    for (uint32_t i = 0; i < r->recorded->nnodes; i++)
        if (r->recorded->nodes[i].dep > r->max_dep)
            r->max_dep = r->recorded->nodes[i].dep;
    while (size < 2 * ((uint64_t)r->max_dep + 8))
        size *= 2;
    r->time = array_zeros(size, sizeof *r->time);
    r->mask = size - 1;
}

static void set_lines(struct graph_run *run, struct run_rank *r, uint32_t rank)
{
    const uint32_t *first = r->line_first;
    for (uint32_t i = 0; i < r->nstreams + r->nhosts; i++) {
        struct run_line *l = &run->lines[r->first_line + i];
        l->rank = rank;
        l->is_host = i >= r->nstreams;
        l->next = l->waiters = NONE;
        l->n = first[i] < r->limit ? first[i] : NONE;
        l->k = l->n != NONE && l->n >= r->loop_end ? r->extra : 0;
        l->state = l->n == NONE ? LINE_ENDED : LINE_IDLE;
        if (l->is_host || l->n == NONE)
            continue;
        struct slot_place place = run_slot_of(r, l->n, l->k);
        l->slot = place.slot;
        l->slot_end = place.end;
        r->open_streams++;
    }
}

/* ---- Sharing between ranks of a class ---- */

static uint32_t distance(const struct graph_part *p, const struct graph *g, const struct graph_rank *r,
                         uint32_t comm)
{
    uint32_t size = g->comms[r->comms[comm].global].size;
    return ((uint32_t)p->peer + size - (uint32_t)r->comms[comm].rank) % size;
}

/* Whether b's tables would be a's: equal nodes, and parts that count alike. (Ranks of a class may write the
 * sends and receives of a group in another order.) */
static bool same_tables(const struct graph *g, const struct graph_rank *a, const struct graph_rank *b)
{
    if (a->nnodes != b->nnodes || a->nparts != b->nparts || a->nstreams != b->nstreams ||
        a->nhosts != b->nhosts || a->niterations != b->niterations)
        return false;
    if (a->niterations && memcmp(a->iterations, b->iterations, (a->niterations + 1) * sizeof *a->iterations))
        return false;
    if (a->nodes != b->nodes && a->nnodes && memcmp(a->nodes, b->nodes, a->nnodes * sizeof *a->nodes))
        return false;
    for (uint32_t i = 0; i < a->nnodes; i++)
        for (uint32_t p = a->nodes[i].first_part; p < a->nodes[i].first_part + a->nodes[i].nparts; p++) {
            const struct graph_part *x = &a->parts[p], *y = &b->parts[p];
            if (x->op != y->op)
                return false;
            if (graph_feeds(x->op) >= GRAPH_FEEDS_SEND &&
                distance(x, g, a, a->nodes[i].comm) != distance(y, g, b, a->nodes[i].comm))
                return false;
        }
    return true;
}

static void own_tables(const struct graph *g, struct run_rank *r)
{
    const struct graph_rank *recorded = r->recorded;
    uint32_t nlines = recorded->nstreams + recorded->nhosts;
    struct run_link *links = array_zeros(recorded->nnodes, sizeof *links);
    struct run_sequence *sequences = array_zeros(recorded->nparts, sizeof *sequences);
    uint32_t *loop_first = array_zeros(nlines, sizeof *loop_first),
             *line_first = array_zeros(nlines, sizeof *line_first);
    set_links(r, links, loop_first, line_first);
    set_sequences(g, r, sequences);
    r->owns_tables = true;
    r->nodes = recorded->nodes;
    r->links = links;
    r->sequences = sequences;
    r->loop_first = loop_first;
    r->line_first = line_first;
}

static void share_tables(struct run_rank *r, const struct run_rank *other)
{
    r->nodes = other->nodes;
    r->links = other->links;
    r->sequences = other->sequences;
    r->loop_first = other->loop_first;
    r->line_first = other->line_first;
}

void run_rank_free(struct run_rank *r)
{
    if (r->owns_tables) {
        free((void *)r->links);
        free((void *)r->sequences);
        free((void *)r->loop_first);
        free((void *)r->line_first);
    }
    free(r->time);
    free(r->slots);
    free(r->group_nodes);
    free(r->group_comms);
    free(r->group_before);
    free(r->group_loop);
}

static void set_tables(struct graph_run *run)
{
    const struct graph *g = run->graph;
    struct run_rank **first = array_zeros(g->nclasses, sizeof *first);
    for (uint32_t i = 0; i < g->world; i++) {
        struct run_rank *r = &run->ranks[i];
        if (!run_is_evaluated(run, i))
            continue;
        uint32_t klass = g->ranks[i].klass;
        struct run_rank *other = klass < g->nclasses ? first[klass] : NULL;
        if (other && same_tables(g, other->recorded, r->recorded)) {
            share_tables(r, other);
            continue;
        }
        own_tables(g, r);
        if (!other && klass < g->nclasses)
            first[klass] = r;
    }
    free(first);
}

static void set_members(struct graph_run *run)
{
    const struct graph *g = run->graph;
    run->members = array_zeros(g->ncomms, sizeof *run->members);
    for (uint32_t c = 0; c < g->ncomms; c++)
        for (uint32_t i = 0; i < g->comms[c].size; i++)
            run->members[c] += run_is_evaluated(run, (uint32_t)g->comms[c].ranks[i]);
}

void run_setup(struct graph_run *run, const struct graph_run_options *options)
{
    const struct graph *g = run->graph;
    run->as = options->as;
    if (run->as)
        set_members(run);
    run->ranks = array_zeros(g->world, sizeof *run->ranks);
    for (uint32_t i = 0; i < g->world; i++) {
        struct run_rank *r = &run->ranks[i];
        r->recorded = &g->ranks[i];
        r->external = options->external && options->external[i];
        r->first_line = run->nlines;
        set_loop(r, options->iterations);
        if (r->external || !run_is_evaluated(run, i))
            continue;
        r->nstreams = r->recorded->nstreams;
        r->nhosts = r->recorded->nhosts;
        run->nlines += r->nstreams + r->nhosts;
    }
    set_tables(run);
    set_works(run);
    run->lines = array_zeros(run->nlines, sizeof *run->lines);
    for (uint32_t i = 0; i < g->world; i++) {
        struct run_rank *r = &run->ranks[i];
        if (r->external) {
            set_groups(r);
            continue;
        }
        if (!run_is_evaluated(run, i))
            continue;
        set_ring(r);
        set_lines(run, r, i);
    }
}
