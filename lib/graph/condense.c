/* condense.c - equations are found: the graph is played with times that are terms. */
#include "graph/condense.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "graph/condense_private.h"

#define LOOPS        12u /* played beyond the recorded iterations, at most */
#define BEFORE_LOOPS (-1000000) /* loop of what lies before */
#define BYTES        ((size_t)1 << 30)
#define STEPS        UINT64_C(20000000000)

struct loop { /* what has been found of one */
    uint64_t sum[2];   /* over nodes and meetings */
    uint64_t nodes;    /* counted */
    uint32_t meetings;
    uint32_t first;    /* the earliest moment in a term */
    uint32_t fed_from; /* moments made before it was begun */
};

struct condensing {
    struct graph_run_ops of; /* the caller's */
    struct graph_condensed *c;
    struct terms *terms;
    struct loop loops[LOOPS + 2];
    uint64_t nodes; /* of virtual ranks in a loop */
    uint32_t fed;   /* loop */
    bool overlaps;  /* a meeting of one loop took arrivals of the next */
    struct term *list;
    size_t list_cap;
    uint32_t **ordinals; /* by external rank and communicator: the next group */
    const char *refused;
};

/* ---- Sources ---- */

static uint32_t add_source(struct graph_condensed *c, const struct source *s)
{
    c->sources = realloc(c->sources, (c->nsources + 1u) * sizeof *c->sources);
    if (!c->sources)
        abort();
    c->sources[c->nsources] = *s;
    return c->nsources++;
}

static void add_external(struct graph_condensed *c, uint32_t rank)
{
    const struct run_rank *r = &c->run->ranks[rank];
    struct source s = {.of = rank, .groups = array_zeros(r->recorded->nnodes, sizeof *s.groups)};
    uint32_t groups = 0;
    for (uint32_t i = 0; i < r->recorded->nnodes; i++) {
        s.groups[i] = groups;
        if (r->nodes[i].kind != GRAPH_COMM)
            continue;
        groups++;
        s.before += i < r->loop_begin;
        s.per_loop += r->extra && i >= r->loop_begin && i < r->loop_end;
    }
    c->source_of[rank] = add_source(c, &s);
    c->nlive++;
}

/* Its collectives as an external rank counts them: all ranks are members. */
static uint32_t meeting_source(struct graph_condensed *c, uint32_t comm)
{
    for (uint32_t i = 1 + c->nlive; i < c->nsources; i++)
        if (c->sources[i].of == comm)
            return i;
    const struct run_rank *r = &c->run->ranks[c->sources[1].of];
    struct source s = {.of = comm};
    for (uint32_t i = 0; i < r->recorded->nnodes; i++)
        for (uint32_t p = r->nodes[i].first_part; p < r->nodes[i].first_part + r->nodes[i].nparts; p++) {
            if (r->recorded->comms[r->nodes[i].comm].global != (int32_t)comm || graph_feeds(r->recorded->parts[p].op) >= GRAPH_FEEDS_SEND)
                continue;
            s.before += i < r->loop_begin;
            s.per_loop += r->extra && i >= r->loop_begin && i < r->loop_end;
        }
    return add_source(c, &s);
}

static struct terms_label label_of(const struct graph_condensed *c, uint32_t source, uint64_t position)
{
    const struct source *s = &c->sources[source];
    int64_t loop = source_loop(s, position);
    if (loop < 0)
        return (struct terms_label){source, (uint32_t)position, BEFORE_LOOPS, position};
    return (struct terms_label){source, (uint32_t)(position - (uint64_t)loop * s->per_loop), (int32_t)loop, position};
}

/* ---- Equations ---- */

static void terms_room(struct graph_condensed *c, uint32_t n)
{
    while (c->nterms + n > c->terms_cap) {
        c->terms_cap = c->terms_cap ? 2 * c->terms_cap : 4096;
        c->terms = realloc(c->terms, c->terms_cap * sizeof *c->terms);
        if (!c->terms)
            abort();
    }
}

/* The first n of the list. */
static void keep_terms(struct condensing *x, uint32_t n)
{
    struct graph_condensed *c = x->c;
    terms_room(c, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct terms_label *l = terms_label(x->terms, x->list[i].moment);
        c->terms[c->nterms++] = (struct equation_term){l->source, l->position, x->list[i].weight_ns};
    }
}

static void keep_equation(struct condensing *x, uint32_t source, uint64_t position, int64_t time)
{
    struct graph_condensed *c = x->c;
    struct source *s = &c->sources[source];
    uint32_t n = terms_of(x->terms, time, &x->list, &x->list_cap);
    if (position >= s->cap) {
        uint64_t cap = 2 * position + 64;
        s->equations = realloc(s->equations, cap * sizeof *s->equations);
        if (!s->equations)
            abort();
        memset(s->equations + s->cap, 0, (cap - s->cap) * sizeof *s->equations);
        s->cap = cap;
    }
    if (position >= s->nequations)
        s->nequations = position + 1;
    s->equations[position] = (struct equation){.first = c->nterms, .n = n};
    keep_terms(x, n);
}

static void add_to_loop(struct condensing *x, struct loop *l, const uint64_t *words, size_t size, int64_t time)
{
    XXH128_hash_t h = XXH3_128bits(words, size);
    uint32_t first = terms_first_moment(x->terms, time);
    l->sum[0] += h.low64;
    l->sum[1] += h.high64;
    l->first = first < l->first ? first : l->first;
}

static int64_t on_meeting(void *ctx, uint32_t comm, uint64_t sequence, int64_t start_ns)
{
    struct condensing *x = ctx;
    if (terms_refused(x->terms))
        return start_ns;
    uint32_t source = meeting_source(x->c, comm);
    struct terms_label label = label_of(x->c, source, sequence);
    keep_equation(x, source, sequence, start_ns);
    if (label.loop >= 0 && label.loop <= (int32_t)LOOPS) {
        uint64_t words[] = {UINT64_MAX, source, label.place, terms_print(x->terms, start_ns, label.loop)};
        struct loop *l = &x->loops[label.loop];
        add_to_loop(x, l, words, sizeof words, start_ns);
        l->meetings++;
        x->overlaps |= (uint32_t)label.loop != x->fed;
    }
    return terms_moment_for(x->terms, &label, start_ns);
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns)
{
    struct condensing *x = ctx;
    uint32_t n, k, source = x->c->source_of[rank];
    if (terms_refused(x->terms) || run_find_group(x->c->run, rank, comm, ordinal, &n, &k, NULL))
        return;
    const struct source *s = &x->c->sources[source];
    keep_equation(x, source, s->groups[n] + (uint64_t)k * s->per_loop, started_ns);
}

static void on_node(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    struct condensing *x = ctx;
    const struct run_rank *r = &x->c->run->ranks[rank];
    if (terms_refused(x->terms) || !r->extra || v < r->loop_begin)
        return;
    uint64_t k = (v - r->loop_begin) / r->len, n = v - k * r->len;
    if (k > LOOPS)
        return;
    uint64_t words[] = {rank, n, terms_print(x->terms, start_ns, (int32_t)k), terms_print(x->terms, end_ns, (int32_t)k)};
    struct loop *l = &x->loops[k];
    add_to_loop(x, l, words, sizeof words, start_ns);
    add_to_loop(x, l, words, sizeof words, end_ns);
    l->nodes++;
}

static double duration_ns(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    struct condensing *x = ctx;
    double ns = x->of.duration_ns(x->of.ctx, g, comm, p, parts, nparts);
    if (ns >= 0 && ns < (double)TERMS_ADD_MOST)
        return ns;
    x->refused = "an operation lasts too long";
    return 0;
}

static bool send_is_eager(void *ctx, uint64_t bytes)
{
    struct condensing *x = ctx;
    return x->of.send_is_eager(x->of.ctx, bytes);
}

/* ---- What is refused beforehand ---- */

/* Works that a time may get on top before it meets another one: one of the device, or those of a host until it waits. */
static bool works_are_short(const struct run_rank *r)
{
    double host = 0;
    for (uint32_t i = 0; i < r->recorded->nnodes; i++) {
        float device = r->device_work ? r->device_work[i] : 0, issue = r->host_work ? r->host_work[i] : 0;
        if (!(device >= 0 && device < (float)TERMS_ADD_MOST && issue >= 0))
            return false;
        host += (double)issue + 1;
    }
    return host * LOOPS < (double)TERMS_ADD_MOST;
}

enum { ISSUES = 1, WAITS = 2 };

/* What each host thread does in the loop. The caller's. */
static uint8_t *host_threads(const struct run_rank *r)
{
    uint8_t *does = array_zeros(r->nhosts, sizeof *does);
    for (uint32_t i = r->loop_begin; i < r->loop_end; i++)
        does[r->nodes[i].host] |= r->nodes[i].kind == GRAPH_SYNC ? WAITS : ISSUES;
    return does;
}

/* A loop takes over from the one before what its nodes say, and nothing else: when a host thread that never waits issues would have to be
 * added, unless it takes no time and so is always where it was, before all that goes on. */
static bool loop_is_closed(const struct run_rank *r)
{
    uint8_t *does = host_threads(r);
    bool closed = true;
    for (uint32_t i = r->loop_begin; i < r->loop_end; i++)
        closed &= r->nodes[i].dep <= r->len && (does[r->nodes[i].host] != ISSUES || !r->host_work || run_round(r->host_work[i]) == 0);
    free(does);
    return closed;
}

/* Nodes of a loop that are played: a host thread that issues nothing is asked for nothing. */
static uint32_t nodes_of_loop(const struct run_rank *r)
{
    uint8_t *does = host_threads(r);
    uint32_t n = 0;
    for (uint32_t i = r->loop_begin; i < r->loop_end; i++)
        n += does[r->nodes[i].host] != WAITS;
    free(does);
    return n;
}

static const char *cannot_be(const struct condensing *x, bool loops)
{
    const struct graph_run *run = x->c->run;
    if (!x->c->nlive)
        return "there are no external ranks";
    for (uint32_t i = 1; loops && i <= x->c->nlive; i++)
        if (!x->c->sources[i].per_loop)
            return "an external rank does not communicate in the iteration that is looped";
    for (uint32_t i = 0; i < run->graph->world; i++) {
        const struct run_rank *r = &run->ranks[i];
        if (r->external || !run_is_evaluated(run, i))
            continue;
        if (!works_are_short(r))
            return "works are too long";
        if (r->extra && !loop_is_closed(r))
            return "a host thread never waits in the iteration that is looped";
    }
    return NULL;
}

/* ---- Playing ---- */

static void feed(struct condensing *x, uint32_t source, uint32_t from, uint32_t to, uint32_t k)
{
    struct graph_condensed *c = x->c;
    uint32_t rank = c->sources[source].of;
    const struct run_rank *r = &c->run->ranks[rank];
    for (uint32_t n = from; n < to && n < r->limit; n++) {
        if (r->nodes[n].kind != GRAPH_COMM || terms_refused(x->terms) || x->refused)
            continue;
        const struct source *s = &c->sources[source];
        uint32_t comm = r->nodes[n].comm;
        struct terms_label label = label_of(c, source, s->groups[n] + (uint64_t)k * s->per_loop);
        if (graph_run_arrive(c->run, rank, comm, x->ordinals[source][comm]++, terms_moment(x->terms, &label), NULL, 0, NULL))
            x->refused = "an external rank's groups are not those of the replay";
    }
}

/* Set-up and what was recorded before the last iteration; iteration by iteration, so that few are open at a time. */
static void feed_before(struct condensing *x)
{
    struct graph_condensed *c = x->c;
    bool more = true;
    for (uint32_t i = 0; more; i++) {
        more = false;
        for (uint32_t s = 1; s <= c->nlive; s++) {
            const struct run_rank *r = &c->run->ranks[c->sources[s].of];
            const struct graph_rank *g = r->recorded;
            uint32_t end = g->niterations && i < g->niterations ? g->iterations[i] : r->loop_begin;
            uint32_t from = !i ? 0 : i - 1 < g->niterations ? g->iterations[i - 1] : r->loop_begin;
            feed(x, s, from, end, 0);
            more |= end < r->loop_begin;
        }
    }
}

static void feed_loop(struct condensing *x, uint32_t k)
{
    struct graph_condensed *c = x->c;
    x->fed = k;
    x->loops[k].fed_from = terms_moments(x->terms);
    for (uint32_t s = 1; s <= c->nlive; s++) {
        const struct run_rank *r = &c->run->ranks[c->sources[s].of];
        if (!k || r->extra)
            feed(x, s, r->loop_begin, r->loop_end, k);
    }
}

static void feed_rest(struct condensing *x)
{
    for (uint32_t s = 1; s <= x->c->nlive; s++) {
        const struct run_rank *r = &x->c->run->ranks[x->c->sources[s].of];
        feed(x, s, r->loop_end, r->limit, 0);
    }
}

/* ---- Are loops alike? ---- */

static bool external_ones_ended(const struct graph_condensed *c, uint32_t k)
{
    for (uint32_t i = 1; i <= c->nlive; i++) {
        const struct source *s = &c->sources[i];
        uint64_t known = s->before + (k + 1ull) * s->per_loop;
        if (s->nequations < known)
            return false;
        for (uint64_t p = 0; p < known; p++)
            if (!s->equations[p].n)
                return false;
    }
    return true;
}

static bool is_complete(const struct condensing *x, uint32_t k)
{
    return x->loops[k].nodes == x->nodes && external_ones_ended(x->c, k);
}

/* How many loops back terms of loop k are at most. */
static uint32_t reach(const struct condensing *x, uint32_t k)
{
    uint32_t m = 0;
    while (m <= k && x->loops[k].first < x->loops[k - m].fed_from)
        m++;
    return m;
}

/* Loop k and those before it, m + 2 of them, where no term of k is more than m loops back. */
static bool is_alike(const struct condensing *x, uint32_t k)
{
    uint32_t m = reach(x, k), in_a_row = 1;
    while (in_a_row <= k && !memcmp(x->loops[k - in_a_row].sum, x->loops[k].sum, sizeof x->loops[k].sum) &&
           x->loops[k - in_a_row].meetings == x->loops[k].meetings)
        in_a_row++;
    return m <= k && in_a_row >= m + 2 + x->overlaps;
}

/* The oldest moment in a term of loop k was that of the loop before, too: it never ends, it seems. */
static bool looks_endless(const struct condensing *x, uint32_t k)
{
    return k && x->loops[k].first == x->loops[k - 1].first;
}

/* Plays loops until they are alike; those up to the returned one have equations of their own. -1: they never are, it seems. */
static int64_t play_loops(struct condensing *x)
{
    uint32_t complete = 0; /* loops */
    for (uint32_t k = 0; k <= LOOPS; k++) {
        feed_loop(x, k);
        if (terms_refused(x->terms) || x->refused)
            return -1;
        for (; complete <= k && is_complete(x, complete); complete++) {
            if (is_alike(x, complete))
                return complete;
            if (looks_endless(x, complete))
                return -1;
        }
    }
    return -1;
}

static void count_nodes(struct condensing *x)
{
    const struct graph_run *run = x->c->run;
    for (uint32_t i = 0; i < run->graph->world; i++)
        if (run_is_evaluated(run, i) && !run->ranks[i].external && run->ranks[i].extra)
            x->nodes += nodes_of_loop(&run->ranks[i]);
    for (uint32_t k = 0; k < LOOPS + 2; k++)
        x->loops[k].first = UINT32_MAX;
}

static void play(struct condensing *x, bool loops)
{
    struct graph_condensed *c = x->c;
    struct terms_label beginning = {BEGINNING, 0, BEFORE_LOOPS, 0};
    int64_t t0 = terms_moment(x->terms, &beginning), last = -1;
    count_nodes(x);
    graph_run_begin(c->run, t0);
    feed_before(x);
    if (loops) {
        last = play_loops(x);
    } else {
        feed_loop(x, 0);
        feed_rest(x);
    }
    c->only_recorded = loops && last < 0;
    if (c->only_recorded && !external_ones_ended(c, 0))
        x->refused = terms_refused(x->terms) ? terms_refused(x->terms) : "what was recorded does not come to its end";
    for (uint32_t i = 0; i < c->nsources; i++) {
        struct source *s = &c->sources[i];
        s->known = last < 0 ? UINT64_MAX : s->before + (uint64_t)(last + 1) * s->per_loop;
    }
    c->loops = last < 0 ? 0 : (uint32_t)last;
}

/* ---- ---- */

static void condensing_end(struct condensing *x)
{
    for (uint32_t i = 0; x->ordinals && i <= x->c->nlive; i++)
        free(x->ordinals[i]);
    free(x->ordinals);
    free(x->list);
    terms_destroy(x->terms);
    x->c->run->terms = NULL;
    x->c->run->ops = x->of;
    run_forget_lines(x->c->run);
}

static struct graph_condensed *create(struct condensing *x, const struct graph *g, const struct graph_run_options *options)
{
    struct graph_condensed *c = x->c = array_zeros(1, sizeof *c);
    struct graph_run_ops ops = {
        .duration_ns = duration_ns, .send_is_eager = send_is_eager, .on_release = on_release, .on_node = on_node, .ctx = x};
    struct graph_run_options own = *options;
    own.lookahead = options->iterations ? 2 : 0;
    c->ops = x->of;
    c->run = graph_run_create(g, &ops, &own);
    if (!c->run)
        return c;
    c->run->terms = x->terms;
    c->run->on_meeting = on_meeting;
    c->source_of = array_zeros(g->world, sizeof *c->source_of);
    add_source(c, &(struct source){0});
    for (uint32_t i = 0; i < g->world; i++)
        if (c->run->ranks[i].external)
            add_external(c, i);
    x->ordinals = array_zeros(c->nlive + 1u, sizeof *x->ordinals);
    for (uint32_t i = 1; i <= c->nlive; i++)
        x->ordinals[i] = array_zeros(g->ranks[c->sources[i].of].ncomms, sizeof **x->ordinals);
    return c;
}

struct graph_condensed *graph_condense(const struct graph *g, const struct graph_run_ops *ops, const struct graph_run_options *options,
                                       const struct graph_condense_options *how, struct prism_error *why)
{
    static const struct graph_condense_options none;
    how = how ? how : &none;
    struct condensing x = {.of = *ops, .terms = terms_create(how->bytes ? how->bytes : BYTES, how->steps ? how->steps : STEPS)};
    struct graph_condensed *c = create(&x, g, options);
    if (!c->run)
        x.refused = "the graph is not consistent";
    else if (options->iterations && options->iterations != UINT32_MAX)
        x.refused = "the number of iterations is given";
    else if (!x.refused)
        x.refused = cannot_be(&x, options->iterations);
    if (!x.refused)
        play(&x, options->iterations == UINT32_MAX);
    const char *refused = x.refused || c->only_recorded ? x.refused : terms_refused(x.terms);
    if (refused)
        prism_error_set(why, PRISM_EXIT_UNSUPPORTED, "%s", refused);
    if (c->run)
        condensing_end(&x);
    else
        terms_destroy(x.terms);
    if (refused) {
        graph_condensed_destroy(c);
        return NULL;
    }
    condensed_prepare(c);
    return c;
}
