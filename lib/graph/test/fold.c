/* fold.c - coordinates, members from callers, and the graph of all ranks against one that was made whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build.h"
#include "graph/condense.h"
#include "graph/feeds.h"
#include "graph/fold.h"
#include "graph/run.h"
#include "random_graph.h"

#define WORLD_MOST 512u

static struct fold_dimension dimension(const char *name, uint32_t size, bool folded)
{
    struct fold_dimension d = {.size = size, .folded = folded};
    snprintf(d.name, sizeof d.name, "%s", name);
    return d;
}

static struct fold *tp_dp_pp(uint32_t tp, uint32_t dp, uint32_t pp, const uint32_t *sandbox, uint32_t n)
{
    struct fold_dimension d[] = {dimension("tp", tp, false), dimension("dp", dp, true), dimension("pp", pp, false)};
    return fold_create(d, 3, sandbox, n);
}

static void test_coordinates(void **state)
{
    (void)state;
    struct fold *f = tp_dp_pp(8, 64, 16, (uint32_t[]){0}, 1);
    assert_int_equal(f->world, 8192);
    assert_int_equal(f->nlive, 128);
    assert_int_equal(f->live[8], 512);
    assert_int_equal(f->representative[8], 0);
    assert_int_equal(f->representative[8191], 512 * 15 + 7);
    assert_true(fold_is_live(f, 512));
    assert_int_equal(fold_shift(f, 512 + 3, 8), 512 + 11);
    assert_int_equal(fold_shift(f, 511, 8), 7); /* goes round */
    assert_int_equal(fold_displacement(f, 511, 7), 8);
    fold_destroy(f);
}

/* Sandbox ranks run, and so does the replica of rank 0. */
static void test_two_replicas(void **state)
{
    (void)state;
    struct fold *f = tp_dp_pp(2, 4, 2, (uint32_t[]){5}, 1);
    uint32_t live[] = {0, 1, 4, 5, 8, 9, 12, 13};
    assert_int_equal(f->nlive, 8);
    assert_memory_equal(f->live, live, sizeof live);
    assert_int_equal(f->representative[2], 4); /* not of the first replica */
    assert_int_equal(f->representative[15], 13);
    fold_destroy(f);
    /* Two folded dimensions: the corners between rank 0's and the sandbox rank's. */
    struct fold_dimension d[] = {dimension("ep", 2, true), dimension("dp", 4, true)};
    f = fold_create(d, 2, (uint32_t[]){5}, 1);
    uint32_t corners[] = {0, 1, 4, 5};
    assert_int_equal(f->nlive, 4);
    assert_memory_equal(f->live, corners, sizeof corners);
    assert_int_equal(f->representative[7], 5);
    assert_int_equal(f->representative[2], 4);
    fold_destroy(f);
    /* Several replicas but the first: in turn. */
    f = tp_dp_pp(1, 8, 1, (uint32_t[]){2, 5}, 2);
    assert_int_equal(f->nlive, 3);
    assert_int_equal(f->representative[3], 5);
    assert_int_equal(f->representative[4], 2);
    assert_int_equal(f->representative[6], 2);
    assert_int_equal(f->representative[7], 5);
    fold_destroy(f);
}

/* ---- Members from callers ---- */

/* The ranks with the coordinates of `rank` outside the dimensions of the mask, ascending. */
static uint32_t coset(const struct fold *f, uint32_t rank, unsigned mask, int32_t *out)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < f->world; r++) {
        bool in = true;
        for (uint32_t k = 0; k < f->ndimensions && in; k++) {
            const struct fold_dimension *d = &f->dimensions[k];
            in = mask >> k & 1 || r / d->stride % d->size == rank / d->stride % d->size;
        }
        if (in)
            out[n++] = (int32_t)r;
    }
    return n;
}

static struct fold *random_fold(uint64_t *state, uint32_t folded_most)
{
    struct fold_dimension d[4];
    uint32_t n = 2 + random_below(state, 3), world = 1, folded = 0, sandbox[3], nsandbox = 1 + random_below(state, 2);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%u", i);
        d[i] = dimension(name, 1 + random_below(state, 5), false);
        world *= d[i].size;
    }
    for (uint32_t i = 0; i < n; i++)
        if (folded < folded_most && random_below(state, 2)) {
            d[i].folded = true;
            folded++;
        }
    if (!folded)
        d[random_below(state, n)].folded = true;
    for (uint32_t i = 0; i < nsandbox; i++)
        sandbox[i] = random_below(state, world);
    return fold_create(d, n, sandbox, nsandbox);
}

/* Live members call in any order. When all have, and nobody else will, the members are right; they are never wrong before
 * unless the callers alone could not tell. */
static void test_members(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t whole = 0, several = 0;
    for (int round = 0; round < 3000; round++) {
        struct fold *f = random_fold(&seed, 2);
        int32_t members[WORLD_MOST * 2], callers[WORLD_MOST * 2], found[WORLD_MOST * 2];
        uint32_t rank = f->live[random_below(&seed, f->nlive)];
        uint32_t n = coset(f, rank, random_below(&seed, 1u << f->ndimensions), members), left = 0;
        for (uint32_t i = 0; i < n; i++) {
            callers[i] = -1;
            left += fold_is_live(f, (uint32_t)members[i]);
        }
        enum fold_answer answer = FOLD_LATER;
        while (left) {
            uint32_t i = random_below(&seed, n);
            if (callers[i] >= 0 || !fold_is_live(f, (uint32_t)members[i]))
                continue;
            callers[i] = members[i];
            answer = fold_members(f, callers, n, --left == 0, found);
            if (left)
                assert_int_equal(answer, FOLD_LATER);
        }
        assert_true(answer == FOLD_WHOLE || answer == FOLD_SEVERAL);
        if (answer == FOLD_WHOLE)
            assert_memory_equal(found, members, n * sizeof *members);
        whole += answer == FOLD_WHOLE;
        several += answer == FOLD_SEVERAL;
        fold_destroy(f);
    }
    assert_true(whole > 2500);
    assert_true(several > 0);
}

/* Whether others may still call is told by the layout where it can be. */
static void test_members_at_once(void **state)
{
    (void)state;
    struct fold *f = tp_dp_pp(8, 64, 16, (uint32_t[]){0}, 1);
    int32_t callers[8192], found[8192];
    memset(callers, 0xff, sizeof callers);
    callers[0] = 3; /* the replicas of rank 3: no other dimension has 64 */
    assert_int_equal(fold_members(f, callers, 64, false, found), FOLD_WHOLE);
    assert_int_equal(found[63], 3 + 63 * 8);
    fold_destroy(f);
    f = tp_dp_pp(8, 8, 2, (uint32_t[]){0}, 1);
    callers[0] = 0; /* as well the tensor-parallel group, whose others have not called */
    assert_int_equal(fold_members(f, callers, 8, false, found), FOLD_LATER);
    assert_int_equal(fold_members(f, callers, 8, true, found), FOLD_WHOLE);
    assert_int_equal(found[1], 8);
    callers[0] = 1; /* rank 1 is no tensor-parallel group's first */
    assert_int_equal(fold_members(f, callers, 8, false, found), FOLD_WHOLE);
    callers[0] = 0; /* every second replica */
    assert_int_equal(fold_members(f, callers, 4, true, found), FOLD_NONE);
    fold_destroy(f);
    struct fold_dimension d[] = {dimension("ep", 4, true), dimension("dp", 4, true)};
    f = fold_create(d, 2, (uint32_t[]){0}, 1);
    assert_int_equal(fold_members(f, callers, 4, true, found), FOLD_SEVERAL);
    fold_destroy(f);
}

static void test_stand_ins(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 500; round++) {
        struct fold *f = random_fold(&seed, 3);
        int32_t members[WORLD_MOST * 2];
        uint32_t places[WORLD_MOST * 2], rank = f->live[random_below(&seed, f->nlive)];
        struct graph_comm c = {coset(f, rank, random_below(&seed, 1u << f->ndimensions), members), members};
        fold_stand_ins(f, &c, places);
        for (uint32_t i = 0; i < c.size; i++) {
            uint32_t of = (uint32_t)members[i], by = (uint32_t)members[places[i]];
            assert_true(fold_is_live(f, by));
            assert_int_equal(fold_shift(f, by, fold_displacement(f, by, of)), of);
            assert_true(!fold_is_live(f, of) || by == of);
        }
        fold_destroy(f);
    }
}

/* ---- The graph ---- */

enum { ALL_REDUCE, BROADCAST, EXCHANGE, RING, EXCHANGE_OTHERS, UNEVEN, KINDS };

/* Programs of n steps on communicators over random dimensions: collectives with roots, all-to-alls of sends and receives (with
 * oneself, or with the others from the next one on, or more to some than to others), rings. Both graphs get the same; `folded` only
 * what live ranks make and do. */
struct program {
    uint32_t ncomms;
    unsigned masks[6];
    uint32_t nsteps;
    struct {
        uint32_t comm, kind, root;
        uint64_t count;
    } steps[12];
};

static struct program random_program(uint64_t *seed, const struct fold *f)
{
    struct program p = {.ncomms = 1 + random_below(seed, 6), .nsteps = 1 + random_below(seed, 12)};
    for (uint32_t i = 0; i < p.ncomms; i++)
        p.masks[i] = random_below(seed, 1u << f->ndimensions);
    for (uint32_t i = 0; i < p.nsteps; i++) {
        p.steps[i].comm = random_below(seed, p.ncomms);
        p.steps[i].kind = random_below(seed, UNEVEN);
        p.steps[i].root = random_below(seed, 64);
        p.steps[i].count = 1 + random_below(seed, 100);
    }
    return p;
}

static void make_comms(struct graph *g, const struct fold *f, const struct program *p, bool live_only)
{
    int32_t members[WORLD_MOST * 2];
    for (uint32_t k = 0; k < p->ncomms; k++)
        for (uint32_t r = 0; r < f->world; r++) {
            uint32_t n = coset(f, r, p->masks[k], members), live = 0;
            for (uint32_t i = 0; i < n; i++)
                live += fold_is_live(f, (uint32_t)members[i]);
            if ((uint32_t)members[0] != r || (live_only && !live))
                continue;
            int global = graph_add_comm(g, members, n);
            for (uint32_t i = 0; i < n; i++)
                if (!live_only || fold_is_live(f, (uint32_t)members[i]))
                    assert_int_equal(graph_set_member(g, (uint32_t)members[i], k, global, (int32_t)i), 0);
        }
}

/* The neighbour of place `self` along the communicator's innermost dimension that has one. */
static int32_t neighbour(const struct graph *g, const struct fold *f, struct graph_member m, unsigned mask, bool back)
{
    const struct graph_comm *c = &g->comms[m.global];
    uint32_t rank = (uint32_t)c->ranks[m.rank], to = rank;
    for (uint32_t k = 0; k < f->ndimensions && to == rank; k++)
        if (mask >> k & 1) {
            const struct fold_dimension *d = &f->dimensions[k];
            uint32_t at = rank / d->stride % d->size;
            to = rank - at * d->stride + (at + (back ? d->size - 1 : 1)) % d->size * d->stride;
        }
    for (uint32_t i = 0; i < c->size; i++)
        if ((uint32_t)c->ranks[i] == to)
            return (int32_t)i;
    return -1;
}

static void do_step(struct graph *g, const struct fold *f, const struct program *p, uint32_t rank, uint32_t s)
{
    uint32_t comm = p->steps[s].comm, n = 0;
    struct graph_member m = g->ranks[rank].comms[comm];
    uint32_t size = g->comms[m.global].size;
    struct graph_part parts[4 * WORLD_MOST] = {0}; /* worlds have up to 625 ranks */
    uint64_t count = p->steps[s].count;
    switch (size > 1 ? p->steps[s].kind : ALL_REDUCE) {
    case ALL_REDUCE:
        build_op(g, rank, comm, GRAPH_OP_ALLREDUCE, -1, p->steps[s].count);
        return;
    case BROADCAST:
        build_op(g, rank, comm, GRAPH_OP_BROADCAST, (int32_t)(p->steps[s].root % size), p->steps[s].count);
        return;
    case EXCHANGE:
    case UNEVEN:
        for (uint32_t i = 0; i < size; i++) {
            bool more = p->steps[s].kind == UNEVEN && i == p->steps[s].root % size;
            parts[n++] = (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = (int32_t)i, .count = more ? count + 100 : count};
            parts[n++] = (struct graph_part){.op = GRAPH_OP_RECV, .datatype = 7, .peer = (int32_t)i, .count = count};
        }
        build_group(g, rank, comm, parts, n);
        return;
    case EXCHANGE_OTHERS:
        for (uint32_t i = 1; i < size; i++) {
            int32_t peer = (int32_t)(((uint32_t)m.rank + i) % size);
            parts[n++] = (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = peer, .count = count};
            parts[n++] = (struct graph_part){.op = GRAPH_OP_RECV, .datatype = 7, .peer = peer, .count = count};
        }
        build_group(g, rank, comm, parts, n);
        return;
    default: { /* round a ring */
        int32_t next = neighbour(g, f, m, p->masks[comm], false), previous = neighbour(g, f, m, p->masks[comm], true);
        parts[0] = (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = next, .count = p->steps[s].count};
        parts[1] = (struct graph_part){.op = GRAPH_OP_RECV, .datatype = 7, .peer = previous, .count = p->steps[s].count};
        build_group(g, rank, comm, parts, 2);
    }
    }
}

static struct graph *run_program(const struct fold *f, const struct program *p, bool live_only)
{
    struct graph *g = graph_create(f->world, 8);
    make_comms(g, f, p, live_only);
    for (uint32_t s = 0; s < p->nsteps; s++)
        for (uint32_t r = 0; r < f->world; r++)
            if (!live_only || fold_is_live(f, r))
                do_step(g, f, p, r, s);
    return g;
}

/* Sends and receives of a group may be in another order. */
static void assert_same_group(const struct graph_part *a, const struct graph_part *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < n && memcmp(&a[i], &b[k], sizeof *a))
            k++;
        assert_true(k < n);
    }
}

static void assert_same(const struct graph *a, const struct graph *b)
{
    assert_int_equal(a->ncomms, b->ncomms);
    for (uint32_t r = 0; r < a->world; r++) {
        const struct graph_rank *x = &a->ranks[r], *y = &b->ranks[r];
        assert_int_equal(x->nnodes, y->nnodes);
        assert_int_equal(x->nparts, y->nparts);
        assert_int_equal(x->ncomms, y->ncomms);
        assert_int_equal(x->nstreams, y->nstreams);
        assert_memory_equal(x->nodes, y->nodes, x->nnodes * sizeof *x->nodes);
        for (uint32_t i = 0; i < x->nnodes; i++)
            assert_same_group(x->parts + x->nodes[i].first_part, y->parts + x->nodes[i].first_part, x->nodes[i].nparts);
        for (uint32_t k = 0; k < x->ncomms; k++) {
            const struct graph_comm *c = &a->comms[x->comms[k].global], *d = &b->comms[y->comms[k].global];
            assert_int_equal(x->comms[k].rank, y->comms[k].rank);
            assert_int_equal(c->size, d->size);
            assert_memory_equal(c->ranks, d->ranks, c->size * sizeof *c->ranks);
        }
    }
}

static void test_expand(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 400; round++) {
        struct fold *f = random_fold(&seed, 2);
        struct program p = random_program(&seed, f);
        struct graph *whole = run_program(f, &p, false), *folded = run_program(f, &p, true);
        struct prism_error err = {0};
        assert_int_equal(fold_expand(f, folded, &err), 0);
        assert_same(whole, folded);
        assert_int_equal(graph_check(folded, &err), 0);
        graph_find_classes(folded);
        fold_classes(f, folded);
        for (uint32_t r = 0; r < f->world; r++)
            assert_int_equal(folded->ranks[r].klass, folded->ranks[f->representative[r]].klass);
        graph_destroy(whole);
        graph_destroy(folded);
        fold_destroy(f);
    }
}

/* Groups of every second replica, and of two replicas next to each other. */
static void test_split_dimension(void **state)
{
    (void)state;
    struct fold *f = tp_dp_pp(2, 4, 1, (uint32_t[]){0}, 1);
    const int32_t bad[][2] = {{0, 4}, {0, 2}};
    for (int i = 0; i < 2; i++) {
        struct prism_error err = {0};
        struct graph *g = graph_create(8, 8);
        int global = graph_add_comm(g, bad[i], 2);
        graph_set_member(g, 0, 0, global, 0);
        graph_set_member(g, 1, 0, -1, -1);
        build_op(g, 0, 0, GRAPH_OP_ALLREDUCE, -1, 1);
        assert_int_equal(fold_expand(f, g, &err), -1);
        assert_int_equal(err.code, PRISM_EXIT_UNSUPPORTED);
        assert_non_null(strstr(err.text, "splits a folded dimension (dp:4)"));
        graph_destroy(g);
    }
    fold_destroy(f);
}

/* ---- One replica played for many ---- */

/* What a run showed: ends of every rank, and of rank 0's groups, which arrive from outside. */
struct played {
    int64_t released[16];
    uint32_t nreleased;
};

/* Of sends and receives: what is sent and received, within nodes and between them. */
static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    (void)ctx;
    const struct graph_comm *c = &g->comms[comm];
    double ns = 100. + 10. * c->size + n;
    if (graph_feeds(parts[0].op) < GRAPH_FEEDS_SEND)
        return ns + (double)(parts[0].count % 7);
    for (uint32_t i = 0; i < n; i++) {
        bool outside = (uint32_t)c->ranks[parts[i].peer] / g->gpus_per_node != (uint32_t)c->ranks[p] / g->gpus_per_node;
        if (parts[i].peer != p)
            ns += (outside ? 13. : 3.) + (double)parts[i].count * (parts[i].op == GRAPH_OP_SEND ? 2 : 5) * (outside ? 1 : 3);
    }
    return ns;
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    (void)ctx;
    return bytes < 100;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns, int64_t end_ns)
{
    (void)rank;
    (void)comm;
    (void)ordinal;
    (void)started_ns;
    struct played *p = ctx;
    p->released[p->nreleased++] = end_ns;
}

static void set_works(struct graph *g, const struct fold *f, uint64_t *seed)
{
    for (uint32_t i = 0; i < f->nlive; i++) {
        struct graph_rank *r = &g->ranks[f->live[i]];
        r->device_work = calloc(r->nnodes + 1, sizeof *r->device_work);
        r->host_work = calloc(r->nnodes + 1, sizeof *r->host_work);
        for (uint32_t k = 0; k < r->nnodes; k++)
            r->device_work[k] = (float)random_below(seed, 1000);
    }
}

/* Played, or where condensed is not NULL, that. */
static int arrive(struct graph_run *run, struct graph_condensed *condensed, uint32_t comm, uint32_t ordinal, int64_t start)
{
    return condensed ? graph_condensed_arrive(condensed, 0, comm, ordinal, start, NULL, 0, NULL) : graph_run_arrive(run, 0, comm, ordinal, start, NULL, 0, NULL);
}

/* The ends of rank 0's groups, which arrive so long after the end of the group before. */
static void arrive_all(struct graph_run *run, struct graph_condensed *condensed, const struct graph *g, struct played *p)
{
    const struct graph_rank *r = &g->ranks[0];
    uint32_t ordinals[6] = {0};
    for (uint32_t n = 0; n < r->nnodes; n++) {
        int64_t start = (p->nreleased ? p->released[p->nreleased - 1] : 0) + 37 * (n % 11);
        uint32_t before = p->nreleased;
        assert_int_equal(arrive(run, condensed, r->nodes[n].comm, ordinals[r->nodes[n].comm]++, start), 0);
        assert_int_equal(p->nreleased, before + 1);
    }
}

static struct played play(struct graph *g, const uint8_t *external, const uint32_t *as, int64_t *ends)
{
    struct played p = {0};
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = is_eager, .on_release = on_release, .ctx = &p};
    struct graph_run_options options = {.external = external, .as = as};
    struct graph_run *run = graph_run_create(g, &ops, &options);
    assert_non_null(run);
    graph_run_begin(run, 0);
    if (external)
        arrive_all(run, NULL, g, &p);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    for (uint32_t i = 0; i < g->world; i++)
        ends[i] = graph_run_iteration_end(run, i, 0);
    graph_run_destroy(run);
    return p;
}

/* The same condensed (condense.h). */
static struct played play_condensed(struct graph *g, const uint8_t *external, const uint32_t *as)
{
    struct played p = {0};
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = is_eager, .on_release = on_release, .ctx = &p};
    struct graph_run_options options = {.external = external, .as = as};
    struct prism_error err = {0};
    struct graph_condensed *c = graph_condense(g, &ops, &options, NULL, &err);
    assert_non_null(c);
    graph_condensed_begin(c, 0);
    arrive_all(NULL, c, g, &p);
    graph_condensed_destroy(c);
    return p;
}

static bool has_folded_exchange(const struct fold *f, const struct program *p)
{
    bool has = false;
    for (uint32_t i = 0; i < p->nsteps; i++)
        for (uint32_t k = 0; k < f->ndimensions; k++)
            has |= p->steps[i].kind != ALL_REDUCE && p->masks[p->steps[i].comm] >> k & 1 && f->dimensions[k].folded && f->dimensions[k].size > 2;
    return has;
}

static void test_twins(void **state)
{
    (void)state;
    uint64_t seed = 29;
    uint32_t fewer = 0, externals = 0, several = 0, exchanges = 0;
    for (int round = 0; round < 900; round++) {
        struct fold *f = random_fold(&seed, 1 + round % 2);
        struct program p = random_program(&seed, f);
        static const uint32_t all_with_all[] = {ALL_REDUCE, ALL_REDUCE, EXCHANGE, EXCHANGE_OTHERS};
        for (uint32_t i = 0; i < p.nsteps; i++) /* rings are seldom played for others */
            p.steps[i].kind = random_below(&seed, 8) ? all_with_all[random_below(&seed, 4)] : random_below(&seed, KINDS);
        struct graph *g = run_program(f, &p, true);
        struct prism_error err = {0};
        assert_int_equal(fold_expand(f, g, &err), 0);
        g->gpus_per_node = round % 3 ? f->world : 4;
        graph_find_classes(g);
        fold_classes(f, g);
        set_works(g, f, &seed);
        uint8_t external[WORLD_MOST * 2] = {1};
        uint32_t as[WORLD_MOST * 2];
        int64_t all[WORLD_MOST * 2], some[WORLD_MOST * 2];
        bool outside = round & 1;
        uint32_t n = fold_twins(f, g, outside ? external : NULL, as);
        assert_int_equal(as[0], 0);
        struct played a = play(g, outside ? external : NULL, NULL, all), b = play(g, outside ? external : NULL, as, some);
        assert_memory_equal(all, some, f->world * sizeof *all);
        assert_int_equal(a.nreleased, b.nreleased);
        assert_memory_equal(a.released, b.released, a.nreleased * sizeof *a.released);
        if (outside) {
            struct played condensed = play_condensed(g, external, as);
            assert_int_equal(a.nreleased, condensed.nreleased);
            assert_memory_equal(a.released, condensed.released, a.nreleased * sizeof *a.released);
        }
        fewer += n < f->world;
        externals += n < f->world && outside && a.nreleased > 1;
        exchanges += n < f->world && has_folded_exchange(f, &p);
        uint32_t folded = 0;
        for (uint32_t i = 0; i < f->ndimensions; i++)
            folded += f->dimensions[i].folded && f->dimensions[i].size > 2;
        several += n < f->world && folded > 1;
        graph_destroy(g);
        fold_destroy(f);
    }
    assert_true(fewer > 60 && externals > 20 && several > 20 && exchanges > 60);
}

/* What keeps every replica in play. */
static void test_no_twins(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind, root;
        bool twins, measured; /* measured: rank 7 has works of its own, so it is played, and a root */
    } programs[] = {
        {ALL_REDUCE, 0, true, true}, {RING, 0, false, false}, {BROADCAST, 3, false, true}, /* root not played for others */
        {BROADCAST, 1, true, true}, {EXCHANGE, 0, true, true}, {EXCHANGE_OTHERS, 0, true, true}, {UNEVEN, 1, false, false}};
    for (uint32_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct fold *f = tp_dp_pp(2, 4, 1, (uint32_t[]){0}, 1);
        struct program p = {.ncomms = 1, .masks = {2}, .nsteps = 1, .steps = {{0, programs[i].kind, programs[i].root, 8}}};
        struct graph *g = run_program(f, &p, false);
        uint8_t external[8] = {1};
        uint32_t as[8];
        graph_find_classes(g);
        for (uint32_t r = 0; i && r < 8; r++)
            g->ranks[r].klass = g->ranks[r % 2].klass;
        assert_int_equal(fold_twins(f, g, external, as), programs[i].twins ? 4 : 8);
        assert_int_equal(as[7], programs[i].twins ? 3 : 7);
        g->ranks[7].device_work = calloc(g->ranks[7].nnodes, sizeof(float));
        assert_int_equal(fold_twins(f, g, external, as), programs[i].measured ? 6 : 8);
        graph_destroy(g);
        fold_destroy(f);
    }
    /* An exchange whose members lie on nodes in two ways: places 1 to 3 of dp:4 on nodes of 3. */
    struct fold *f = tp_dp_pp(1, 4, 1, (uint32_t[]){0}, 1);
    struct program p = {.ncomms = 1, .masks = {2}, .nsteps = 1, .steps = {{0, EXCHANGE, 0, 8}}};
    struct graph *g = run_program(f, &p, false);
    uint32_t as[4];
    g->gpus_per_node = 3;
    assert_int_equal(fold_twins(f, g, (uint8_t[4]){1}, as), 4);
    graph_destroy(g);
    fold_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinates), cmocka_unit_test(test_two_replicas), cmocka_unit_test(test_members), cmocka_unit_test(test_twins), cmocka_unit_test(test_no_twins),
        cmocka_unit_test(test_members_at_once), cmocka_unit_test(test_stand_ins), cmocka_unit_test(test_expand),
        cmocka_unit_test(test_split_dimension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
