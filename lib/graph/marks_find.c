/* marks_find.c - which of the ranges that a program names is its iteration (marks.h). */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "graph/feeds.h"
#include "graph/marks_private.h"
#include "graph/structure.h"

#define NAMES_MAX 256u /* of a rank, that are looked at; the library tells fewer */

struct name {
    uint64_t name;
    uint32_t pushes;
    bool everywhere; /* on every rank that communicates */
};

struct names {
    struct name of[NAMES_MAX];
    uint32_t n;
};

/* A rank's COMM nodes, and marks by the number of them in front. */
struct sight {
    uint32_t *node, n;
    uint32_t *front; /* by mark */
};

/* Ranges of one name as iterations. */
struct attempt {
    const struct graph *g;
    const struct graph_marks *m;
    const struct names *names;
    const struct name *name;
    uint32_t n;         /* iterations */
    bool ended;         /* the program was, from outside: each iteration is followed by a range */
    uint32_t *bounds;   /* by rank n + 1 numbers of COMM nodes in front */
    uint32_t *repeated; /* by rank: where the last ends if it is as long as the one before and like it; 0 = it is not */
    uint64_t *between;  /* by iteration: COMM nodes behind its ranges, of all ranks */
};

/* ---- A rank ---- */

static uint32_t *zeros(size_t n)
{
    return array_zeros(n, sizeof(uint32_t));
}

static struct sight look(const struct graph_rank *r, const struct rank_marks *m)
{
    uint32_t nodes = r->nnodes;
    struct sight s = {.node = zeros(nodes), .front = zeros(m->n)};
    uint32_t mark = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        while (mark < m->n && m->marks[mark].position <= i)
            s.front[mark++] = s.n;
        if (r->nodes[i].kind == GRAPH_COMM)
            s.node[s.n++] = i;
    }
    while (mark < m->n)
        s.front[mark++] = s.n;
    return s;
}

static void look_away(struct sight *s)
{
    free(s->node);
    free(s->front);
}

static bool communicates(const struct graph_rank *r)
{
    for (uint32_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].kind == GRAPH_COMM)
            return true;
    return false;
}

/* ---- Names ---- */

static struct name *find_name(struct names *names, uint64_t name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (names->of[i].name == name)
            return &names->of[i];
    return NULL;
}

/* In the order in which they begin. */
static void read_names(const struct rank_marks *m, struct names *names)
{
    names->n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->marks[i].kind != GRAPH_MARK_PUSH)
            continue;
        struct name *n = find_name(names, m->marks[i].name);
        if (!n && names->n < NAMES_MAX) {
            n = &names->of[names->n++];
            *n = (struct name){.name = m->marks[i].name, .everywhere = true};
        }
        if (n)
            n->pushes++;
    }
}

/* Another rank that communicates; of a program that was ended, ranks have not come equally far. */
static void compare_names(struct names *names, const struct rank_marks *m, bool ended)
{
    static const struct name none;
    struct names *other = array_zeros(1, sizeof *other);
    read_names(m, other);
    for (uint32_t i = 0; i < names->n; i++) {
        struct name *n = &names->of[i];
        const struct name *o = find_name(other, n->name);
        o = o ? o : &none;
        if (ended && o->pushes < n->pushes)
            n->pushes = o->pushes;
        n->everywhere &= o->pushes && (ended || o->pushes == n->pushes);
    }
    free(other);
}

/* As many ranges: those of the name and these belong together. */
static bool is_of_family(const struct attempt *a, uint64_t name)
{
    for (uint32_t i = 0; i < a->names->n; i++) {
        const struct name *n = &a->names->of[i];
        if (n->name == name)
            return n->everywhere && n->pushes + a->ended >= a->name->pushes && n->pushes <= a->name->pushes + a->ended;
    }
    return false;
}

/* ---- One name ---- */

static bool ends_alike(const struct attempt *a, const struct graph_rank *r, const struct sight *s, const uint32_t *bounds)
{
    uint32_t last = bounds[a->n - 1], before = bounds[a->n - 2], length = last - before;
    if (length > s->n - last)
        return false;
    for (uint32_t i = 0; i < length; i++)
        if (structure_of_group(a->g, r, &r->nodes[s->node[before + i]], STRUCTURE_ROOTS) !=
            structure_of_group(a->g, r, &r->nodes[s->node[last + i]], STRUCTURE_ROOTS))
            return false;
    return true;
}

/* The bounds of a rank's iterations, and what lies in the ranges and between them. False: there is one without communication. */
static bool read_rank(struct attempt *a, uint32_t rank, const struct rank_marks *m, const struct sight *s)
{
    uint32_t *bounds = a->bounds + (size_t)rank * (a->n + 1), k = 0, open = 0, closed = 0, end = s->n;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mark *mark = &m->marks[i];
        uint32_t at = s->front[i];
        if (mark->kind == GRAPH_MARK_PUSH && mark->name == a->name->name) {
            if (k && !open)
                a->between[k - 1] += at - closed;
            bounds[k++] = at;
            if (k > a->n) { /* ended: what follows is half an iteration */
                end = at;
                break;
            }
        }
        if (!is_of_family(a, mark->name))
            continue;
        if (mark->kind == GRAPH_MARK_PUSH)
            open++;
        else if (open && !--open)
            closed = at;
    }
    if (k < a->n)
        return false;
    if (!a->ended)
        bounds[a->n] = open || closed < bounds[a->n - 1] ? end : closed;
    for (uint32_t i = 0; i < a->n; i++)
        if (bounds[i + 1] <= bounds[i])
            return false;
    return true;
}

static bool read_all(struct attempt *a)
{
    bool sound = true;
    for (uint32_t i = 0; i < a->g->world && sound; i++) {
        const struct graph_rank *r = &a->g->ranks[i];
        struct sight s = look(r, &a->m->ranks[i]);
        const uint32_t *bounds = a->bounds + (size_t)i * (a->n + 1);
        if (s.n)
            sound = read_rank(a, i, &a->m->ranks[i], &s);
        if (s.n && sound && !a->ended && ends_alike(a, r, &s, bounds))
            a->repeated[i] = 2 * bounds[a->n - 1] - bounds[a->n - 2];
        look_away(&s);
    }
    return sound;
}

static void choose_ends(struct attempt *a)
{
    bool between = false, repeated = true;
    for (uint32_t i = 0; i + 1 < a->n; i++)
        between |= a->between[i] > 0;
    for (uint32_t i = 0; i < a->g->world; i++)
        repeated &= a->repeated[i] || !a->bounds[(size_t)(i + 1) * (a->n + 1) - 1];
    for (uint32_t i = 0; i < a->g->world && between && repeated && !a->ended; i++)
        a->bounds[(size_t)(i + 1) * (a->n + 1) - 1] = a->repeated[i];
}

/* A number for each communicator of the rank that stands for how many collectives it had done at each bound. */
static void number_uses(const struct attempt *a, uint32_t rank, const struct sight *s, uint64_t *numbers)
{
    const struct graph_rank *r = &a->g->ranks[rank];
    const uint32_t *bounds = a->bounds + (size_t)rank * (a->n + 1);
    uint32_t *counts = zeros(r->ncomms);
    for (uint32_t k = 0, i = 0; k <= a->n; k++) {
        for (; i < bounds[k]; i++) {
            const struct graph_node *node = &r->nodes[s->node[i]];
            for (uint32_t p = 0; p < node->nparts; p++)
                counts[node->comm] += graph_feeds(r->parts[node->first_part + p].op) < GRAPH_FEEDS_SEND;
        }
        for (uint32_t c = 0; c < r->ncomms; c++)
            numbers[c] = (numbers[c] ^ counts[c]) * 0x9e3779b97f4a7c15u + (numbers[c] >> 29) + 1;
    }
    free(counts);
}

/* Members of a communicator have done as many collectives on it at every bound. */
static bool agree(const struct attempt *a)
{
    uint64_t *of = array_zeros(a->g->ncomms, sizeof *of); /* 0: no member yet */
    bool same = true;
    for (uint32_t i = 0; i < a->g->world && same; i++) {
        const struct graph_rank *r = &a->g->ranks[i];
        struct sight s = look(r, &a->m->ranks[i]);
        uint64_t *numbers = array_zeros(r->ncomms, sizeof *numbers);
        if (s.n)
            number_uses(a, i, &s, numbers);
        for (uint32_t c = 0; s.n && c < r->ncomms && same; c++) {
            uint64_t *known = r->comms[c].global < 0 ? NULL : &of[r->comms[c].global];
            same = !known || !*known || *known == numbers[c];
            if (known)
                *known = numbers[c];
        }
        free(numbers);
        look_away(&s);
    }
    free(of);
    return same;
}

static void take_bounds(struct graph *g, const struct attempt *a)
{
    for (uint32_t i = 0; i < g->world; i++) {
        struct graph_rank *r = &g->ranks[i];
        struct sight s = look(r, &a->m->ranks[i]);
        free(r->iterations);
        r->iterations = zeros((size_t)a->n + 1);
        r->niterations = a->n;
        for (uint32_t k = 0; k <= a->n; k++) {
            uint32_t bound = a->bounds[(size_t)i * (a->n + 1) + k];
            r->iterations[k] = s.n ? (bound ? s.node[bound - 1] + 1 : 0) : k ? r->nnodes : 0;
        }
        look_away(&s);
    }
}

static bool try_name(struct graph *g, const struct graph_marks *m, const struct names *names, const struct name *name, bool ended)
{
    struct attempt a = {.g = g, .m = m, .names = names, .name = name, .n = name->pushes - ended, .ended = ended};
    a.bounds = zeros((size_t)g->world * (a.n + 1));
    a.repeated = zeros(g->world);
    a.between = array_zeros(a.n, sizeof *a.between);
    bool found = read_all(&a);
    if (found) {
        choose_ends(&a);
        found = agree(&a);
    }
    if (found)
        take_bounds(g, &a);
    free(a.bounds);
    free(a.repeated);
    free(a.between);
    return found;
}

/* ---- The name ---- */

/* Names that every rank that communicates has. False: some rank's marks are not known. */
static bool common_names(const struct graph *g, const struct graph_marks *m, bool ended, struct names *names)
{
    bool first = true;
    for (uint32_t i = 0; i < g->world; i++) {
        if (!communicates(&g->ranks[i]))
            continue;
        if (m->ranks[i].lost || !m->ranks[i].n)
            return false;
        if (first)
            read_names(&m->ranks[i], names);
        else
            compare_names(names, &m->ranks[i], ended);
        first = false;
    }
    return !first;
}

bool graph_find_marked_iterations(struct graph *g, const struct graph_marks *m, uint64_t only, uint32_t ended_after)
{
    bool ended = ended_after;
    uint32_t least = (ended_after > 2 ? ended_after : 2) + ended;
    if (!m || !only || m->world != g->world)
        return false;
    struct names *names = array_zeros(1, sizeof *names);
    const struct name *name = common_names(g, m, ended, names) ? find_name(names, only) : NULL;
    bool found = name && name->everywhere && name->pushes >= least && try_name(g, m, names, name, ended);
    free(names);
    return found;
}

/* ---- While the program runs ---- */

int64_t graph_count_marked_iterations(const struct graph_marks *m, uint32_t rank, uint64_t only, uint32_t nodes)
{
    int64_t n = 0;
    if (!m || !only || rank >= m->world)
        return -1;
    const struct rank_marks *marks = &m->ranks[rank];
    for (uint32_t i = 0; i < marks->n && marks->marks[i].position <= nodes; i++)
        n += marks->marks[i].name == only && marks->marks[i].kind == GRAPH_MARK_PUSH;
    return n - 1;
}
