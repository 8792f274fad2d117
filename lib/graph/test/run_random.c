/* graph_run and graph_eval against the oracle, on random programs: looped, with and without external ranks, with deadlocks,
 * on one and more threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "graph/eval.h"
#include "oracle.h"
#include "random_graph.h"

struct seen {
    uint32_t times;
    int64_t start, end;
};

struct check {
    struct graph *g;
    uint64_t salt;
    uint64_t eager_limit;
    struct seen *seen[8];      /* virtual: by position */
    struct seen *release[8];   /* external: by position */
    uint32_t *group_at[8][16]; /* external: position of a group */
    uint32_t lost;             /* callbacks for what does not exist */
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p,
                       const struct graph_part *parts, uint32_t nparts)
{
    uint64_t h = ((struct check *)ctx)->salt + comm * 31u + (uint32_t)p * 17u;
    for (uint32_t i = 0; i < nparts; i++)
        h = h * 131 + parts[i].count + parts[i].op;
    return (double)(h % 2000) / 2;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= ((struct check *)ctx)->eager_limit;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started,
                       int64_t end)
{
    struct check *c = ctx;
    struct seen *s = &c->release[rank][c->group_at[rank][comm][ordinal]];
    s->times++;
    s->start = started;
    s->end = end;
}

static void on_node(void *ctx, uint32_t rank, uint64_t v, int64_t start, int64_t end)
{
    struct check *c = ctx;
    struct seen *s = &c->seen[rank][v];
    s->times++;
    s->start = start;
    s->end = end;
}

struct arrival {
    uint32_t rank, comm, ordinal;
    int64_t start;
};

/* Starts of the external ranks' groups, and the groups in random order. */
static uint32_t make_arrivals(struct check *c, uint64_t *state, const struct graph_run_options *options,
                              int64_t **starts, struct arrival *list)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->g->world; r++) {
        uint32_t positions = oracle_positions(&c->g->ranks[r], options->iterations), groups[16] = {0};
        int64_t at = 0;
        starts[r] = calloc(positions + 1, sizeof **starts);
        for (uint32_t i = 0; i < 16; i++)
            c->group_at[r][i] = calloc(positions + 1, sizeof *c->group_at[r][i]);
        for (uint32_t v = 0; v < positions && options->external[r]; v++) {
            const struct graph_node *node =
                &c->g->ranks[r].nodes[oracle_node_at(&c->g->ranks[r], options->iterations, v)];
            if (node->kind != GRAPH_COMM)
                continue;
            at += random_below(state, 900);
            starts[r][v] = at;
            c->group_at[r][node->comm][groups[node->comm]] = v;
            list[n++] = (struct arrival){r, node->comm, groups[node->comm]++, at};
        }
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = random_below(state, i);
        struct arrival t = list[i - 1];
        list[i - 1] = list[j];
        list[j] = t;
    }
    return n;
}

static void compare(struct check *c, const struct oracle *o, const struct graph_run *run,
                    const uint8_t *external)
{
    for (uint32_t r = 0; r < o->world; r++) {
        bool whole = true;
        for (uint32_t v = 0; v < o->ranks[r].n; v++) {
            const struct oracle_node *n = &o->ranks[r].nodes[v];
            whole &= n->ended || (external[r] && n->node->kind != GRAPH_COMM);
        }
        for (uint32_t v = 0; v < o->ranks[r].n; v++) {
            const struct oracle_node *n = &o->ranks[r].nodes[v];
            const struct seen *s = external[r] ? &c->release[r][v] : &c->seen[r][v];
            /* Host threads are only pulled: behind a blocked stream a SYNC may stay unknown. */
            if (n->node->kind == GRAPH_SYNC && !whole && !s->times)
                continue;
            if (s->times != n->ended || (n->ended && s->end != n->end))
                print_error("seed %llu: rank %u, position %u, kind %u, external %u: end %lld (%u times), "
                            "oracle %lld\n",
                            (unsigned long long)c->salt, r, v, n->node->kind, external[r], (long long)s->end,
                            s->times, n->ended ? (long long)n->end : -1);
            assert_int_equal(s->times, n->ended);
            if (!n->ended)
                continue;
            assert_int_equal(s->end, n->end);
            if (n->node->kind != GRAPH_SYNC)
                assert_int_equal(s->start, external[r] ? n->fed : n->start);
        }
        const struct graph_rank *rank = &c->g->ranks[r];
        int64_t end = INT64_MIN;
        for (uint32_t v = rank->iterations[0]; whole && v < rank->iterations[1]; v++)
            if (o->ranks[r].nodes[v].ended && o->ranks[r].nodes[v].end > end)
                end = o->ranks[r].nodes[v].end;
        if (whole)
            assert_int_equal(graph_run_iteration_end(run, r, 0), end);
    }
}

/* Classes, and works of some ranks only: the others take those of their class. */
static void classify(struct graph *g, uint64_t *state)
{
    if (!random_below(state, 3))
        return;
    graph_find_classes(g);
    for (uint32_t r = 0; r < g->world; r++) {
        if (random_below(state, 2))
            continue;
        free(g->ranks[r].device_work);
        free(g->ranks[r].host_work);
        g->ranks[r].device_work = g->ranks[r].host_work = NULL;
    }
}

static void one_case(uint64_t seed, bool with_externals)
{
    uint64_t state = seed;
    struct random_shape shape = random_shape(&state);
    struct check c = {
        .g = random_graph(&state, &shape), .salt = seed, .eager_limit = random_below(&state, 3) * 2000};
    classify(c.g, &state);
    uint8_t external[8] = {0};
    for (uint32_t r = 0; with_externals && r < shape.world; r++)
        external[r] = random_below(&state, 2) != 0;
    struct graph_run_options options = {.external = external, .iterations = 0, .lookahead = 0};
    uint32_t recorded = shape.iterations - shape.rotate;
    if (random_below(&state, 2))
        options.iterations = recorded + random_below(&state, 4);
    if (with_externals && random_below(&state, 2))
        options.lookahead = 1 + random_below(&state, 2);
    struct graph_run_ops ops = {duration, eager, on_release, on_node, &c, NULL};
    uint32_t most = 1;
    for (uint32_t r = 0; r < shape.world; r++) {
        uint32_t n = oracle_positions(&c.g->ranks[r], options.iterations);
        c.seen[r] = calloc(n + 1, sizeof *c.seen[r]);
        c.release[r] = calloc(n + 1, sizeof *c.release[r]);
        most += n;
    }
    int64_t *starts[8];
    struct arrival *list = calloc(most, sizeof *list);
    uint32_t n = make_arrivals(&c, &state, &options, starts, list);

    struct oracle *o = oracle_solve(c.g, &ops, &options, 1000, starts);
    struct graph_run *run = graph_run_create(c.g, &ops, &options);
    assert_non_null(run);
    uint32_t early = random_below(&state, 3) ? 0 : random_below(&state, n + 1);
    for (uint32_t i = 0; i < early; i++)
        assert_int_equal(
            graph_run_arrive(run, list[i].rank, list[i].comm, list[i].ordinal, list[i].start, NULL, 0, NULL),
            0);
    graph_run_begin(run, 1000);
    for (uint32_t i = early; i < n; i++)
        assert_int_equal(
            graph_run_arrive(run, list[i].rank, list[i].comm, list[i].ordinal, list[i].start, NULL, 0, NULL),
            0);
    compare(&c, o, run, external);
    char why[512];
    if (!shape.drop)
        assert_int_equal(graph_run_blocked(run, why, sizeof why), 0);
    graph_run_blocked(run, why, sizeof why);

    graph_run_destroy(run);
    oracle_free(o);
    free(list);
    for (uint32_t r = 0; r < shape.world; r++) {
        free(starts[r]);
        free(c.seen[r]);
        free(c.release[r]);
        for (uint32_t i = 0; i < 16; i++)
            free(c.group_at[r][i]);
    }
    graph_destroy(c.g);
}

/* Every start and end of every node; iteration ends; deadlocks. shared: ranks share arrays where they are equal. */
static void one_eval(uint64_t seed, uint32_t threads, bool shared)
{
    uint64_t state = seed;
    struct random_shape shape = random_shape(&state);
    struct check c = {
        .g = random_graph(&state, &shape), .salt = seed, .eager_limit = random_below(&state, 3) * 2000};
    classify(c.g, &state);
    if (shared) /* before the oracle points at nodes */
        graph_share(c.g);
    struct graph_run_ops run_ops = {.duration_ns = duration, .send_is_eager = eager, .ctx = &c};
    struct graph_run_options as_recorded = {0};
    struct oracle *o = oracle_solve(c.g, &run_ops, &as_recorded, 1000, NULL);
    struct graph_eval_ops ops = {duration, eager, &c};
    uint8_t *kept = malloc(o->world);
    assert_non_null(kept);
    for (uint32_t r = 0; r < o->world; r++)
        kept[r] = seed % 3 || random_below(&state, 2);
    struct graph_eval_options options = {.threads = threads, .t0_ns = 1000, .keep_times = true, .keep_of = seed % 3 == 1 ? NULL : kept};
    struct prism_error err = {0};
    struct graph_eval *e = graph_eval(c.g, &ops, &options, &err);
    if (!e)
        fail_msg("%s", err.text);
    bool all = true;
    for (uint32_t r = 0; r < o->world; r++) {
        const struct graph_times *times = graph_eval_times(e, r);
        assert_int_equal(times != NULL, kept[r]);
        int64_t last = INT64_MIN;
        bool whole = true;
        for (uint32_t v = 0; v < o->ranks[r].n; v++)
            whole &= o->ranks[r].nodes[v].ended;
        for (uint32_t v = 0; v < o->ranks[r].n && times; v++) {
            const struct oracle_node *n = &o->ranks[r].nodes[v];
            bool sync = n->node->kind == GRAPH_SYNC;
            if (sync && !whole && times[v].end_ns == INT64_MIN) /* host threads are only pulled */
                continue;
            if (times[v].end_ns != (n->ended ? n->end : INT64_MIN))
                fail_msg("seed %llu, %u threads: rank %u, node %u ends at %lld, oracle %lld", (unsigned long long)seed, threads,
                         r, v, (long long)times[v].end_ns, n->ended ? (long long)n->end : -1LL);
            if (n->ended && !sync)
                assert_int_equal(times[v].start_ns, n->start);
            const struct graph_rank *rank = &c.g->ranks[r];
            if (n->ended && v >= rank->iterations[0] && v < rank->iterations[1] && n->end > last)
                last = n->end;
        }
        all &= whole;
        if (whole && times)
            assert_int_equal(graph_eval_iteration_end(e, r, 0), last);
    }
    char why[512];
    assert_int_equal(graph_eval_blocked(e, why, sizeof why) == 0, all);
    assert_int_equal(why[0] == 0, all);
    free(kept);
    graph_eval_destroy(e);
    oracle_free(o);
    graph_destroy(c.g);
}

static void test_eval(void **state)
{
    for (uint64_t i = 0; i < 4000; i++)
        one_eval(3000017 * i + 7, 1 + i % 4, i / 4 % 2);
}

static int64_t all_end(struct check *c)
{
    struct graph_eval_ops ops = {duration, eager, c};
    struct graph_eval_options options = {.threads = 1, .keep_times = true};
    struct graph_eval *e = graph_eval(c->g, &ops, &options, NULL);
    int64_t last = INT64_MIN;
    for (uint32_t r = 0; r < c->g->world; r++)
        for (uint32_t v = 0; v < c->g->ranks[r].nnodes; v++)
            if (graph_eval_times(e, r)[v].end_ns > last)
                last = graph_eval_times(e, r)[v].end_ns;
    graph_eval_destroy(e);
    return last;
}

/* The end of everything when the rank comes that much later to the group. */
static int64_t end_with_delay(struct check *c, const struct graph_times *times, uint32_t rank, uint32_t node, int64_t delay)
{
    struct graph_rank *r = &c->g->ranks[rank];
    float work = r->device_work[node];
    int64_t from = 0;
    for (uint32_t v = 0; v < node; v++)
        if (r->nodes[v].kind != GRAPH_SYNC && r->nodes[v].stream == r->nodes[node].stream)
            from = times[v].end_ns;
    r->device_work[node] = (float)(times[node].start_ns + delay - from);
    int64_t end = all_end(c);
    r->device_work[node] = work;
    return end;
}

/* By trying it: a delay of the slack changes nothing at any group, one of a nanosecond more does at some. */
static void one_slack(uint64_t seed)
{
    uint64_t state = seed;
    struct random_shape shape = random_shape(&state);
    shape.works = true;
    shape.drop = 0;
    struct check c = {
        .g = random_graph(&state, &shape), .salt = seed, .eager_limit = random_below(&state, 3) * 2000};
    struct graph_eval_ops ops = {duration, eager, &c};
    struct graph_eval_options options = {.keep_slack = true};
    struct graph_eval *e = graph_eval(c.g, &ops, &options, NULL);
    int64_t slack[8], end = all_end(&c);
    if (!graph_eval_slack(e, slack)) {
        for (uint32_t r = 0; r < c.g->world; r++) {
            const struct graph_times *times = graph_eval_times(e, r);
            bool groups = false, later = false;
            for (uint32_t v = 0; v < c.g->ranks[r].nnodes; v++) {
                if (c.g->ranks[r].nodes[v].kind != GRAPH_COMM)
                    continue;
                groups = true;
                if (end_with_delay(&c, times, r, v, slack[r]) != end)
                    fail_msg("seed %llu: rank %u, node %u: a delay of %lld ns changes the end", (unsigned long long)seed, r,
                             v, (long long)slack[r]);
                later |= end_with_delay(&c, times, r, v, slack[r] + 1) > end;
            }
            if (groups && !later)
                fail_msg("seed %llu: rank %u has more slack than %lld ns", (unsigned long long)seed, r, (long long)slack[r]);
        }
    } else {
        assert_int_not_equal(graph_eval_blocked(e, NULL, 0), 0);
    }
    graph_eval_destroy(e);
    graph_destroy(c.g);
}

static void test_slack(void **state)
{
    for (uint64_t i = 0; i < 300; i++)
        one_slack(9000011 * i + 3);
}

#define CASES 6000

static void test_virtual(void **state)
{
    for (uint64_t i = 0; i < CASES; i++)
        one_case(1000003 * i + 1, false);
}

static void test_external(void **state)
{
    for (uint64_t i = 0; i < CASES; i++)
        one_case(7000003 * i + 5, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_virtual), cmocka_unit_test(test_external),
                                       cmocka_unit_test(test_eval), cmocka_unit_test(test_slack)};
    return cmocka_run_group_tests_name("graph_run: against the oracle", tests, NULL, NULL);
}
