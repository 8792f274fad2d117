/* condensed.c - arrivals are put into the equations. An equation goes through its terms as they become known: it waits for one at a
 * time, on the list of that place. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "graph/condense_private.h"

#define RING_LEAST 64u

/* ---- Equations by position ---- */

/* loops: how many loops before the position the equation is; its terms are as many loops on. */
static const struct equation *equation_at(const struct source *s, uint64_t position, uint64_t *loops)
{
    static const struct equation none;
    *loops = 0;
    if (position >= s->known) {
        if (!s->per_loop)
            return &none;
        *loops = (position - s->known) / s->per_loop + 1;
        position -= *loops * s->per_loop;
    }
    return position < s->nequations ? &s->equations[position] : &none;
}

/* Furthest a term of a looped equation is back, in loops, and of any ahead. */
static void set_keep(struct graph_condensed *c)
{
    int64_t back = 0, ahead = 0;
    for (uint32_t i = 1; i < c->nsources; i++) {
        const struct source *s = &c->sources[i];
        for (uint64_t p = s->before; s->per_loop && p < s->known && p < s->nequations; p++)
            for (uint64_t t = s->equations[p].first; t < s->equations[p].first + s->equations[p].n; t++) {
                int64_t by = source_loop(s, p) - source_loop(&c->sources[c->terms[t].source], c->terms[t].position);
                back = p + s->per_loop >= s->known && by > back ? by : back;
                ahead = -by > ahead ? -by : ahead;
            }
    }
    c->ahead = ahead;
    c->keep = back + ahead;
}

/* ---- Places ---- */

/* Positions of the source before it are not asked for any more. */
static uint64_t floor_of(const struct graph_condensed *c, const struct source *of)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 1; i < c->nsources; i++) {
        const struct source *s = &c->sources[i];
        if (!s->per_loop)
            continue;
        int64_t loop = source_loop(s, s->first_unknown);
        least = loop < least ? loop : least;
    }
    if (c->keep < 0 || least == INT64_MAX || least <= (int64_t)c->loops + c->keep + 1)
        return 0;
    return of->before + (uint64_t)(least - c->keep - 1) * of->per_loop;
}

static void ring_grow(struct source *s, uint64_t floor)
{
    uint64_t size = 2 * (s->mask + 1);
    struct place *ring = array_zeros(size, sizeof *ring);
    for (uint64_t i = 0; i <= s->mask; i++)
        if (s->ring[i].position > floor)
            ring[(s->ring[i].position - 1) & (size - 1)] = s->ring[i];
    free(s->ring);
    s->ring = ring;
    s->mask = size - 1;
}

static struct place *place_of(struct graph_condensed *c, uint32_t source, uint64_t position)
{
    struct source *s = &c->sources[source];
    struct place *p = &s->ring[position & s->mask];
    while (p->position && p->position != position + 1) {
        uint64_t floor = floor_of(c, s);
        if (p->position <= floor)
            break;
        ring_grow(s, floor);
        p = &s->ring[position & s->mask];
    }
    if (p->position != position + 1)
        *p = (struct place){.position = position + 1, .so_far_ns = INT64_MIN, .waiting_source = NONE};
    return p;
}

/* ---- Going on ---- */

static void go_on(struct graph_condensed *c, uint32_t source, uint64_t position);

/* A place is known now: those that wait for it go on. */
static void known(struct graph_condensed *c, uint32_t source, uint64_t position, int64_t ns)
{
    struct source *s = &c->sources[source];
    struct place *p = place_of(c, source, position);
    uint32_t waiting = p->waiting_source;
    uint64_t at = p->waiting_position;
    p->ns = ns;
    p->known = true;
    p->waiting_source = NONE;
    while (waiting != NONE) {
        const struct place *w = place_of(c, waiting, at);
        uint32_t next = w->next_source;
        uint64_t next_at = w->next_position;
        go_on(c, waiting, at);
        waiting = next;
        at = next_at;
    }
    /* Only now: what goes on above is kept by it (floor_of). */
    while (s->ring[s->first_unknown & s->mask].position == s->first_unknown + 1 && s->ring[s->first_unknown & s->mask].known)
        s->first_unknown++;
}

static void ended(struct graph_condensed *c, uint32_t source, uint64_t position, int64_t ns)
{
    const struct source *s = &c->sources[source];
    if (source > c->nlive) {
        known(c, source, position, ns);
        return;
    }
    const struct place *p = place_of(c, source, position);
    if (c->ops.on_release)
        c->ops.on_release(c->ops.ctx, s->of, p->comm, p->ordinal, ns, ns + p->duration_ns);
}

static void go_on(struct graph_condensed *c, uint32_t source, uint64_t position)
{
    uint64_t loops;
    const struct equation *e = equation_at(&c->sources[source], position, &loops);
    struct place *p = place_of(c, source, position);
    while (p->term < e->n) {
        const struct equation_term *t = &c->terms[e->first + p->term];
        uint64_t at = t->position + loops * c->sources[t->source].per_loop;
        struct place *from = place_of(c, t->source, at);
        p = place_of(c, source, position); /* making a place may have moved the others */
        if (!from->known) {
            p->next_source = from->waiting_source;
            p->next_position = from->waiting_position;
            from->waiting_source = source;
            from->waiting_position = position;
            return;
        }
        int64_t ns = from->ns + t->weight_ns;
        p->so_far_ns = ns > p->so_far_ns ? ns : p->so_far_ns;
        p->term++;
    }
    if (e->n)
        ended(c, source, position, p->so_far_ns);
}

/* Meetings go through their terms from then on when an external rank gets to a loop from which they may be asked for. Positions that
 * are no meetings are known at once. */
static void begin_meetings(struct graph_condensed *c, int64_t loop)
{
    for (uint32_t i = 1 + c->nlive; i < c->nsources; i++) {
        struct source *s = &c->sources[i];
        uint64_t to = s->known == UINT64_MAX ? s->nequations : s->per_loop ? s->before + (uint64_t)(loop + c->ahead + 2) * s->per_loop : s->known, loops;
        for (; s->begun < to; s->begun++)
            if (equation_at(s, s->begun, &loops)->n)
                go_on(c, i, s->begun);
            else
                known(c, i, s->begun, INT64_MIN);
    }
}

static bool is_looped(const struct source *s)
{
    for (uint64_t p = s->known - s->per_loop; p < s->known && p < s->nequations; p++)
        if (s->equations[p].n)
            return true;
    return false;
}

void condensed_prepare(struct graph_condensed *c)
{
    bool loops = c->nlive && c->sources[1].known != UINT64_MAX;
    for (uint32_t i = 1 + c->nlive; loops && i < c->nsources; i++)
        if (!is_looped(&c->sources[i]))
            c->sources[i].per_loop = 0; /* nobody meets there any more */
    c->keep = -1;
    if (loops)
        set_keep(c);
    for (uint32_t i = 0; i < c->nsources; i++) {
        c->sources[i].ring = array_zeros(RING_LEAST, sizeof *c->sources[i].ring);
        c->sources[i].mask = RING_LEAST - 1;
    }
    begin_meetings(c, -1);
}

void graph_condensed_begin(struct graph_condensed *c, int64_t t0_ns)
{
    known(c, BEGINNING, 0, t0_ns);
}

/* ---- Arrivals ---- */

/* Live counts decide otherwise on a send than the recorded ones. */
static bool other_sends_are_eager(const struct graph_condensed *c, const struct run_rank *r, const struct graph_node *node,
                                  const struct graph_part *live)
{
    if (run_is_exchange(c->run, r->recorded->comms[node->comm].global))
        return false;
    for (uint32_t i = 0; i < node->nparts; i++) {
        const struct graph_part *p = &r->recorded->parts[node->first_part + i];
        uint64_t bytes = graph_datatype_size(p->datatype);
        if (graph_feeds(p->op) == GRAPH_FEEDS_SEND && p->count != live[i].count &&
            c->ops.send_is_eager(c->ops.ctx, p->count * bytes) != c->ops.send_is_eager(c->ops.ctx, live[i].count * bytes))
            return true;
    }
    return false;
}

int graph_condensed_arrive(struct graph_condensed *c, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t start_ns,
                           const struct graph_part *live_parts, uint32_t nlive, struct prism_error *err)
{
    uint32_t n, k;
    if (run_find_group(c->run, rank, comm, ordinal, &n, &k, err))
        return -1;
    if (k && c->only_recorded)
        return GRAPH_CONDENSED_LEFT;
    struct run_rank *r = &c->run->ranks[rank];
    const struct graph_part *live = nlive ? live_parts : NULL;
    if (live && run_same_structure(r, &r->nodes[n], live, nlive) && other_sends_are_eager(c, r, &r->nodes[n], live))
        return GRAPH_CONDENSED_LEFT;
    uint32_t source = c->source_of[rank];
    const struct source *s = &c->sources[source];
    uint64_t position = s->groups[n] + (uint64_t)k * s->per_loop;
    struct place *p = place_of(c, source, position);
    p->comm = comm;
    p->ordinal = ordinal;
    p->duration_ns = run_group_end(c->run, r, &(struct run_group){0}, n, live, nlive);
    go_on(c, source, position);
    known(c, source, position, start_ns);
    begin_meetings(c, source_loop(s, position));
    return 0;
}

bool graph_condensed_is_recorded(const struct graph_condensed *c, uint32_t rank, uint32_t comm, uint32_t ordinal, const struct graph_part *parts,
                                 uint32_t n)
{
    uint32_t node, k;
    if (run_find_group(c->run, rank, comm, ordinal, &node, &k, NULL))
        return false;
    const struct graph_rank *r = c->run->ranks[rank].recorded;
    bool same = !n || n == r->nodes[node].nparts;
    for (uint32_t i = 0; same && i < n; i++) {
        const struct graph_part *p = &r->parts[r->nodes[node].first_part + i];
        same = p->op == parts[i].op && p->datatype == parts[i].datatype && p->redop == parts[i].redop && p->peer == parts[i].peer && p->count == parts[i].count;
    }
    return same;
}

/* ---- ---- */

struct graph_condensed_size graph_condensed_size(const struct graph_condensed *c)
{
    struct graph_condensed_size size = {.loops = c->loops, .terms = c->nterms, .only_recorded = c->only_recorded};
    for (uint32_t i = 1; i < c->nsources; i++) {
        const struct source *s = &c->sources[i];
        for (uint64_t p = s->known - s->per_loop; s->known != UINT64_MAX && p < s->known && p < s->nequations; p++)
            size.per_loop += s->equations[p].n;
    }
    return size;
}

void graph_condensed_destroy(struct graph_condensed *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->nsources; i++) {
        free(c->sources[i].equations);
        free(c->sources[i].groups);
        free(c->sources[i].ring);
    }
    free(c->sources);
    free(c->source_of);
    free(c->terms);
    graph_run_destroy(c->run);
    free(c);
}
