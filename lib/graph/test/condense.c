/* The condensed replay against graph_run, to the nanosecond and at the same arrivals, on random programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/condense.h"
#include "graph/feeds.h"
#include "random_graph.h"

#define LOOPED 9 /* iterations beyond the recorded ones that are compared */

struct release {
    uint32_t rank, comm, ordinal;
    int64_t started, end;
};

struct releases {
    struct release *list;
    uint32_t n;
};

struct world {
    struct graph *g;
    uint64_t salt, eager_limit;
    struct releases *to; /* whose callback it is */
    uint32_t asked;      /* for durations */
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    (void)g;
    ((struct world *)ctx)->asked++;
    uint64_t h = ((struct world *)ctx)->salt + comm * 31u + (uint32_t)p * 17u;
    for (uint32_t i = 0; i < nparts; i++)
        h = h * 131 + parts[i].count + parts[i].op;
    return (double)(h % 2000) / 2;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= ((struct world *)ctx)->eager_limit;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started, int64_t end)
{
    struct releases *r = ((struct world *)ctx)->to;
    r->list[r->n++] = (struct release){rank, comm, ordinal, started, end};
}

static int by_group(const void *a, const void *b)
{
    const struct release *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/* Those since the last time, of both. */
static void compare(const struct world *w, struct releases *expected, struct releases *found)
{
    qsort(expected->list, expected->n, sizeof *expected->list, by_group);
    qsort(found->list, found->n, sizeof *found->list, by_group);
    if (expected->n != found->n)
        print_error("seed %llu: %u releases, %u by graph_run\n", (unsigned long long)w->salt, found->n, expected->n);
    assert_int_equal(found->n, expected->n);
    for (uint32_t i = 0; i < found->n; i++) {
        const struct release *e = &expected->list[i], *f = &found->list[i];
        if (e->end != f->end || e->started != f->started)
            print_error("seed %llu: rank %u, communicator %u, group %u: %lld to %lld, by graph_run %lld to %lld\n", (unsigned long long)w->salt,
                        e->rank, e->comm, e->ordinal, (long long)f->started, (long long)f->end, (long long)e->started, (long long)e->end);
        assert_memory_equal(e, f, sizeof *e);
    }
    expected->n = found->n = 0;
}

struct arrival {
    uint32_t rank, comm, ordinal, node;
    int64_t start;
};

/* Of all external ranks, in issue order and as far as `loops` loops, shuffled within `window` of each other. */
static uint32_t make_arrivals(const struct world *w, uint64_t *state, const uint8_t *external, uint32_t loops, struct arrival **list)
{
    uint32_t n = 0, cap = 0;
    int64_t at[8] = {0};
    uint32_t ordinals[8][16] = {{0}};
    *list = NULL;
    for (uint32_t k = 0; k <= loops; k++)
        for (uint32_t r = 0; r < w->g->world; r++) {
            const struct graph_rank *rank = &w->g->ranks[r];
            uint32_t begin = rank->iterations[rank->niterations - 1], end = rank->iterations[rank->niterations];
            for (uint32_t i = k ? begin : 0; external[r] && i < (k || loops ? end : rank->nnodes); i++) {
                if (rank->nodes[i].kind != GRAPH_COMM)
                    continue;
                if (n == cap) {
                    cap = cap ? 2 * cap : 64;
                    *list = realloc(*list, cap * sizeof **list);
                }
                uint32_t c = rank->nodes[i].comm;
                at[r] += random_below(state, random_below(state, 4) ? 900 : 9000);
                (*list)[n++] = (struct arrival){r, c, ordinals[r][c]++, i, at[r]};
            }
        }
    uint32_t window = random_below(state, 3) ? 1 + random_below(state, 12) : n;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t j = i + random_below(state, window < n - i ? window : n - i);
        struct arrival t = (*list)[i];
        (*list)[i] = (*list)[j];
        (*list)[j] = t;
    }
    return n;
}

/* Counts of its own now and then; such that sends stay what they are. */
static uint32_t live_parts(const struct world *w, uint64_t *state, const struct arrival *a, struct graph_part *parts)
{
    const struct graph_rank *r = &w->g->ranks[a->rank];
    const struct graph_node *n = &r->nodes[a->node];
    if (random_below(state, 3) || n->nparts > 64)
        return 0;
    for (uint32_t i = 0; i < n->nparts; i++) {
        parts[i] = r->parts[n->first_part + i];
        uint64_t count = random_below(state, 2000), size = graph_datatype_size(parts[i].datatype);
        if (graph_feeds(parts[i].op) != GRAPH_FEEDS_SEND || eager((void *)w, count * size) == eager((void *)w, parts[i].count * size))
            parts[i].count = count;
    }
    return n->nparts;
}

/* False: it left. */
static bool arrive_both(struct world *w, uint64_t *state, struct graph_run *run, struct graph_condensed *c, struct releases *of,
                        const struct arrival *a)
{
    struct graph_part parts[64];
    uint32_t n = live_parts(w, state, a, parts);
    w->to = &of[0];
    assert_int_equal(graph_run_arrive(run, a->rank, a->comm, a->ordinal, a->start, n ? parts : NULL, n, NULL), 0);
    w->to = &of[1];
    int rc = graph_condensed_arrive(c, a->rank, a->comm, a->ordinal, a->start, n ? parts : NULL, n, NULL);
    if (rc == GRAPH_CONDENSED_LEFT && graph_condensed_size(c).only_recorded)
        return false;
    assert_int_equal(rc, 0);
    compare(w, &of[0], &of[1]);
    return true;
}

/* 1: condensed and compared; 0: refused, or only what was recorded. */
static int one_case(uint64_t seed, uint32_t meets, bool looped, const struct graph_condense_options *how)
{
    uint64_t state = seed;
    struct random_shape shape = random_shape(&state);
    shape.world = 2 + random_below(&state, 7);
    shape.meets = meets;
    if (looped)
        shape.teardown = shape.drop = 0;
    struct world w = {.g = random_graph(&state, &shape), .salt = seed, .eager_limit = random_below(&state, 3) * 2000};
    uint8_t external[8] = {0};
    for (uint32_t i = 1 + random_below(&state, 3); i > 0; i--)
        external[random_below(&state, shape.world)] = 1;
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = eager, .on_release = on_release, .ctx = &w};
    struct graph_run_options options = {.external = external, .iterations = looped ? UINT32_MAX : 0};
    struct arrival *list;
    uint32_t n = make_arrivals(&w, &state, external, looped ? LOOPED : 0, &list);
    struct releases of[2] = {{calloc(n + 1, sizeof(struct release)), 0}, {calloc(n + 1, sizeof(struct release)), 0}};
    struct prism_error why = {0};
    struct graph_condensed *c = graph_condense(w.g, &ops, &options, how, &why);
    assert_int_equal(!c, why.code != 0);
    if (looped) /* graph_run with a lookahead would hold releases back */
        options.iterations = w.g->ranks[0].niterations + LOOPED + 4;
    struct graph_run *run = c ? graph_run_create(w.g, &ops, &options) : NULL;
    uint32_t early = random_below(&state, 3) ? 0 : random_below(&state, n + 1);
    bool whole = c;
    for (uint32_t i = 0; whole && i < n; i++) {
        if (i == early) {
            w.to = &of[0];
            graph_run_begin(run, 1000);
            w.to = &of[1];
            graph_condensed_begin(c, 1000);
            compare(&w, &of[0], &of[1]);
        }
        whole = arrive_both(&w, &state, run, c, of, &list[i]);
    }
    graph_run_destroy(run);
    graph_condensed_destroy(c);
    free(list);
    free(of[0].list);
    free(of[1].list);
    graph_destroy(w.g);
    return whole;
}

static uint32_t cases(void)
{
    const char *more = getenv("PRISM_TEST_CASES");
    return more ? (uint32_t)atoi(more) : 3000;
}

static void test_as_recorded(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < cases(); i++)
        assert_int_equal(one_case(1000000 + i, random_below(&(uint64_t){i}, 2), false, NULL), 1);
}

static void test_looped(void **unused)
{
    (void)unused;
    uint32_t done = 0;
    for (uint32_t i = 0; i < cases(); i++)
        done += one_case(2000000 + i, true, true, NULL) == 1;
    print_message("%u of %u condensed\n", done, cases());
    assert_true(done > cases() * 3 / 4);
}

/* Without a meeting a graph is refused, or right. */
static void test_without_meetings(void **unused)
{
    (void)unused;
    uint32_t done = 0;
    for (uint32_t i = 0; i < cases(); i++)
        done += one_case(3000000 + i, false, true, NULL) == 1;
    print_message("%u of %u condensed\n", done, cases());
}

/* Wherever a limit is passed the graph is refused, or right. */
static void test_limits(void **unused)
{
    (void)unused;
    uint32_t done = 0;
    for (uint32_t i = 0; i < cases(); i++) {
        uint64_t state = i;
        struct graph_condense_options how = {.steps = 1 + random_below(&state, 20000)};
        if (i % 2)
            how = (struct graph_condense_options){.bytes = 1 + random_below(&state, 40000)};
        done += one_case(4000000 + i, true, i % 4 < 2, &how) == 1;
    }
    print_message("%u of %u condensed\n", done, cases());
    assert_in_range(done, cases() / 20, cases() * 19 / 20);
}

/* Rank 0 is external. Rank 1 has a second stream, which waits for the group before and then works for `busy` ns, in each of three iterations. Every duration is asked for once a member and iteration. */
static struct graph_condensed_size condense_beside_a_stream(float busy, uint32_t *asked)
{
    const int32_t members[2] = {0, 1};
    const struct graph_part sum = {.op = GRAPH_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 4};
    struct world w = {.g = graph_create(2, 8)};
    int comm = graph_add_comm(w.g, members, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(graph_set_member(w.g, r, 0, comm, (int32_t)r), 0);
        w.g->ranks[r].iterations = calloc(4, sizeof(uint32_t));
        w.g->ranks[r].niterations = 3;
        for (uint32_t i = 0; i < 3; i++) {
            const struct graph_node nodes[] = {{.kind = GRAPH_WAIT, .stream = 1, .dep = i > 0},
                                               {.kind = GRAPH_RECORD, .stream = 1},
                                               {.kind = GRAPH_COMM, .ordinal = i},
                                               {.kind = GRAPH_RECORD}};
            for (uint32_t n = 0; n < 4; n++)
                assert_int_equal(graph_add_node(w.g, r, &nodes[n], &sum, nodes[n].kind == GRAPH_COMM), 0);
            w.g->ranks[r].iterations[i + 1] = w.g->ranks[r].nnodes;
        }
        graph_alloc_works(w.g, r);
        for (uint32_t i = 1; i < 12; i += 4)
            w.g->ranks[r].device_work[i] = busy;
    }
    struct releases none = {calloc(64, sizeof(struct release)), 0};
    w.to = &none;
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = eager, .on_release = on_release, .ctx = &w};
    struct graph_run_options options = {.external = (uint8_t[]){1, 0}, .iterations = UINT32_MAX};
    struct graph_condensed *c = graph_condense(w.g, &ops, &options, NULL, NULL);
    assert_non_null(c);
    struct graph_condensed_size size = graph_condensed_size(c);
    *asked = w.asked;
    graph_condensed_destroy(c);
    free(none.list);
    graph_destroy(w.g);
    return size;
}

/* What was at the beginning is in every end of a stream that never rests: seen in the first loop, and given up in the second. */
static void test_a_stream_that_never_rests(void **unused)
{
    (void)unused;
    uint32_t rests, never;
    assert_false(condense_beside_a_stream(0, &rests).only_recorded);
    assert_true(condense_beside_a_stream(1e6f, &never).only_recorded);
    assert_in_range(never, 1, 2 * (3 + 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_recorded),
        cmocka_unit_test(test_looped),
        cmocka_unit_test(test_without_meetings),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_stream_that_never_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
