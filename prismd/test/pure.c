/* pure.c - the parts of prismd that are arithmetic: placement, slices, lags, iterations of a live rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/types.h"
#include "prismd/folding/folding.h"
#include "prismd/replay/live.h"
#include "prismd/gates/pace.h"
#include "prismd/place.h"
#include "prismd/replay/slices.h"
#include "prismd/report/report.h"

/* Whole logical nodes go together, in order, and every node gets some. */
static void placement_keeps_logical_nodes_together(void **state)
{
    (void)state;
    for (uint32_t world = 1; world < 200; world += 7)
        for (uint32_t nodes = 1; nodes <= 4; nodes++) {
            struct conf c = {.world = world, .gpus_per_node = 8, .nodes = nodes};
            uint32_t before = 0;
            for (uint32_t r = 0; r < world; r++) {
                uint32_t n = place_capture_node(&c, r);
                assert_true(n < nodes && n >= before && n <= before + 1);
                if (world >= 8 * nodes && r % 8)
                    assert_int_equal(n, before);
                before = n;
            }
            if (world >= nodes)
                assert_int_equal(before, nodes - 1);
        }
}

/* Never fewer than CUDA's default, never so many that the contexts of a device's ranks do not fit. */
static void queues_fit_the_device(void **state)
{
    (void)state;
    struct conf c = {.gpus_per_node = 8, .nodes = 2, .ndevices = 4};
    for (uint32_t world = 1; world < 2000; world++) {
        c.world = world;
        uint32_t n = place_capture_queues(&c), ranks = (world + 7) / 8;
        assert_true(n >= 4 && n <= 32 && (n >= 8 || ranks > 60));
        assert_true(n <= 8 || n * ranks <= 128 || (n == 16 && ranks <= 16) || (n == 12 && ranks <= 32));
        assert_true(n == 4 || n * ranks <= 480); /* of a device's 512 or so */
    }
    c.world = 32;
    assert_int_equal(place_capture_queues(&c), 32);
    c.world = 64;
    assert_int_equal(place_capture_queues(&c), 16);
    c.world = 256;
    assert_int_equal(place_capture_queues(&c), 12); /* 32 ranks a device that take turns on it */
    c.world = 264;
    assert_int_equal(place_capture_queues(&c), 8);
    c.world = 512;
    assert_int_equal(place_capture_queues(&c), 7);
    c.queues = 24;
    assert_int_equal(place_capture_queues(&c), 24);
}

/* Only ranks that run are placed and calibrated; an absent one is where its representative is. */
static void folded_worlds_are_their_live_ranks(void **state)
{
    (void)state;
    struct prism_error err = {0};
    uint32_t sandbox[] = {1}, per_node[4] = {0};
    struct conf c = {.world = 512, .gpus_per_node = 8, .nodes = 4, .ndevices = 2};
    assert_null(folding_make("tp:4,dp:32,pp:2", "dp", 512, sandbox, 1, &err));
    assert_int_equal(err.code, PRISM_EXIT_USAGE);
    c.fold = folding_make("tp:8,dp:8,pp:8", "dp", 512, sandbox, 1, &err);
    assert_non_null(c.fold);
    assert_int_equal(c.fold->nlive, 64);
    c.fold_nodes = folding_place(&c);
    for (uint32_t i = 0; i < c.fold->nlive; i++) {
        uint32_t rank = c.fold->live[i];
        per_node[place_capture_node(&c, rank)]++;
        assert_int_equal(place_capture_node(&c, rank), place_capture_node(&c, rank / 8 * 8));
    }
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(per_node[n], 16);
    for (uint32_t r = 0; r < 512; r++)
        assert_int_equal(place_capture_node(&c, r), place_capture_node(&c, c.fold->representative[r]));
    assert_int_equal(place_capture_queues(&c), 16); /* 64 ranks on eight devices */
    struct graph *g = graph_create(512, 8);
    struct slices s;
    g->nclasses = 1;
    slices_plan(&s, g, c.fold, 8, 0, sandbox, 1);
    assert_int_equal(s.first[s.n], 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(s.ranks[i], c.fold->live[i]);
    slices_clear(&s);
    graph_destroy(g);
    fold_destroy(c.fold);
    free(c.fold_nodes);
}

static void live_ranks_spread_evenly(void **state)
{
    (void)state;
    for (uint32_t nodes = 1; nodes <= 5; nodes++)
        for (uint32_t n = 1; n <= 20; n++) {
            struct conf c = {.nodes = nodes};
            uint32_t count[5] = {0}, least = UINT32_MAX, most = 0;
            for (uint32_t i = 0; i < n; i++)
                count[place_live_node(&c, i, n)]++;
            for (uint32_t k = 0; k < nodes; k++) {
                least = count[k] < least ? count[k] : least;
                most = count[k] > most ? count[k] : most;
            }
            assert_true(most - least <= 1);
        }
}

static struct graph *world_with_classes(uint32_t world, uint32_t classes)
{
    struct graph *g = graph_create(world, 8);
    for (uint32_t r = 0; r < world; r++)
        g->ranks[r].klass = r % classes;
    g->nclasses = classes;
    return g;
}

static void small_worlds_are_calibrated_whole(void **state)
{
    (void)state;
    struct graph *g = world_with_classes(48, 4);
    struct slices s;
    slices_plan(&s, g, NULL, 8, 0, NULL, 0);
    assert_int_equal(s.n, 6);
    assert_int_equal(s.first[s.n], 48);
    slices_clear(&s);
    graph_destroy(g);
}

static void large_worlds_take_one_a_class_and_the_sandbox(void **state)
{
    (void)state;
    struct graph *g = world_with_classes(1024, 6);
    uint32_t sandbox[] = {0, 513};
    struct slices s;
    slices_plan(&s, g, NULL, 4, 0, sandbox, 2);
    uint32_t seen[6] = {0}, found = 0;
    for (uint32_t i = 0; i < s.first[s.n]; i++) {
        seen[g->ranks[s.ranks[i]].klass]++;
        found += s.ranks[i] == 513;
        assert_true(!i || s.ranks[i] > s.ranks[i - 1]);
    }
    for (uint32_t k = 0; k < 6; k++)
        assert_true(seen[k] >= 1);
    assert_int_equal(found, 1);
    assert_true(s.first[s.n] <= 8);
    slices_clear(&s);
    graph_destroy(g);
}

static void slices_take_as_many_a_class_as_asked(void **state)
{
    (void)state;
    struct graph *g = world_with_classes(100, 3);
    struct slices s;
    slices_plan(&s, g, NULL, 8, 5, NULL, 0);
    uint32_t seen[3] = {0};
    for (uint32_t i = 0; i < s.first[s.n]; i++)
        seen[g->ranks[s.ranks[i]].klass]++;
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(seen[k], 5);
    slices_clear(&s);
    graph_destroy(g);
}

static void lag_is_a_mean_without_outliers(void **state)
{
    (void)state;
    struct pace_lag lag = {0};
    assert_int_equal(pace_lag_ns(&lag), 0);
    for (int i = 0; i < 50; i++)
        pace_lag_add(&lag, 90000 + (i % 3 - 1) * 1000);
    pace_lag_add(&lag, 5000000);
    pace_lag_add(&lag, -5000000);
    assert_in_range(pace_lag_ns(&lag), 89000, 91000);
    for (int i = 0; i < PACE_WINDOW; i++)
        pace_lag_add(&lag, 200000);
    assert_int_equal(pace_lag_ns(&lag), 200000);
}

static void recent_lag_is_the_median_of_the_last(void **state)
{
    (void)state;
    struct pace_recent r = {0};
    pace_recent_add(&r, 5000);
    pace_recent_add(&r, 7000);
    assert_int_equal(pace_recent_ns(&r, 31), 31);
    pace_recent_add(&r, 900000);
    assert_int_equal(pace_recent_ns(&r, 31), 7000);
    for (int i = 0; i < PACE_RECENT; i++)
        pace_recent_add(&r, i == 3 ? 5000000 : -12000);
    assert_int_equal(pace_recent_ns(&r, 31), -12000);
}

static void add_group(struct graph *g, uint32_t comm, uint32_t ordinal)
{
    struct graph_node n = {.kind = GRAPH_COMM, .comm = comm, .ordinal = ordinal};
    struct graph_part p = {.op = PRISM_OP_ALLREDUCE, .datatype = COLL_FLOAT32, .peer = -1, .count = 4};
    graph_add_node(g, 0, &n, &p, 1);
}

/* One group of set-up, then three iterations of two groups on comm 0 and one on comm 1. */
static void live_rank_loops_its_last_iteration(void **state)
{
    (void)state;
    struct graph *g = graph_create(1, 8);
    int32_t self = 0;
    for (uint32_t c = 0; c < 2; c++)
        graph_set_member(g, 0, c, graph_add_comm(g, &self, 1), 0);
    add_group(g, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        add_group(g, 0, 2 * i);
        add_group(g, 0, 2 * i + 1);
        add_group(g, 1, i + 1);
    }
    uint32_t begins[] = {1, 4, 7, 10};
    g->ranks[0].iterations = malloc(sizeof begins);
    for (int i = 0; i < 4; i++)
        g->ranks[0].iterations[i] = begins[i];
    g->ranks[0].niterations = 3;
    struct live *l = live_create(g, 0, false);
    assert_int_equal(l->first_position, 1);
    assert_int_equal(l->per_iteration, 3);
    uint32_t ordinal;
    assert_int_equal(live_node_of(l, 0, 5, &ordinal), 8);
    assert_int_equal(ordinal, 5);
    assert_int_equal(live_node_of(l, 0, 6, &ordinal), 7);
    assert_int_equal(ordinal, 4);
    assert_int_equal(live_node_of(l, 0, 9, &ordinal), 8);
    assert_int_equal(live_node_of(l, 1, 4, &ordinal), 9);
    assert_int_equal(ordinal, 3);
    assert_int_equal(live_node_of(l, 7, 0, &ordinal), -1);
    for (uint32_t i = 0; i < 10; i++)
        live_position_ended(l, i, (int64_t)(i + 1) * 1000000000);
    assert_int_equal(l->iterations, 3);
    for (int i = 0; i < 3; i++)
        assert_true(l->seconds[i] > 2.999 && l->seconds[i] < 3.001);
    live_destroy(l);
    graph_destroy(g);
}

/* Set-up, iterations of one, three and two groups, and with a teardown of two: positions beyond all that go round the last. */
static void live_counts_iterations_that_differ(void **state)
{
    (void)state;
    static const uint32_t begins[] = {1, 2, 5, 7};
    for (uint32_t teardown = 0; teardown <= 2; teardown++) {
        struct graph *g = graph_create(1, 8);
        int32_t self = 0;
        graph_set_member(g, 0, 0, graph_add_comm(g, &self, 1), 0);
        for (uint32_t i = 0; i < 7 + teardown; i++)
            add_group(g, 0, i);
        g->ranks[0].iterations = malloc(sizeof begins);
        memcpy(g->ranks[0].iterations, begins, sizeof begins);
        g->ranks[0].niterations = 3;
        struct live *l = live_create(g, 0, false);
        for (uint32_t i = 0; i < 7 + teardown + 4; i++) {
            static const uint32_t of[] = {0, 0, 1, 1, 1, 2, 2};
            live_position_ended(l, i, (int64_t)(i + 1) * 1000000000);
            if (i)
                assert_int_equal(live_iteration_of(l, i), i < 7 ? of[i] : i < 7 + teardown ? 2 : 3 + (i - 7) / 2);
            if (i == 6 + teardown)
                assert_int_equal(l->iterations, 3);
        }
        assert_int_equal(l->iterations, 5);
        for (int k = 0; k < 5; k++) /* one that goes on does not do the teardown: with one group of it the fourth is two all the same */
            assert_true(l->seconds[k] == (k == 0 ? 1 : k == 1 ? 3 : k == 3 && teardown == 2 ? 4 : 2));
        live_destroy(l);
        graph_destroy(g);
    }
}

/* Two arrivals hang on an operation that ended 50 ms late. What the first one's end sets the clock back by, the second is not made up for. */
static void what_stopped_the_clock_is_not_carried(void **state)
{
    (void)state;
    struct graph *g = graph_create(1, 8);
    int32_t self = 0;
    graph_set_member(g, 0, 0, graph_add_comm(g, &self, 1), 0);
    for (uint32_t i = 0; i < 3; i++)
        add_group(g, 0, i);
    struct live *l = live_create(g, 0, false);
    assert_int_equal(live_carried(l, 1, 1), 0);
    if (!(l->origins = calloc(4, sizeof *l->origins)))
        abort();
    l->origins[1].of[0].back = 1;
    l->origins[2].of[0] = (struct origin){2, 3000000};
    live_ended_late(l, 0, 50000000);
    assert_int_equal(live_carried(l, 1, 1), 50000000);
    assert_int_equal(live_carried(l, 2, 2), 47000000);
    assert_int_equal(live_carried(l, 3, 2), 0); /* on the operation before, of which nothing is known */
    assert_int_equal(behind_late(&l->behind, 100000000, 150000000, live_carried(l, 1, 1)), 40000000);
    assert_int_equal(live_carried(l, 2, 2), 7000000);
    live_ended_late(l, 1, 5000000);
    assert_int_equal(live_carried(l, 2, 1), 5000000);
    live_ended_late(l, 1, -5000000);
    assert_int_equal(live_carried(l, 2, 1), 0);
    live_destroy(l);
    graph_destroy(g);
}

/* Three were recorded. Of iterations beyond them the last one is what was predicted; the first is start-up. */
static void looped_iterations_are_predicted_as_the_last(void **state)
{
    double seconds[] = {10, 4, 2};
    const struct prediction three = {seconds, 3}, one = {seconds, 1}, none = {NULL, 0};
    (void)state;
    assert_true(report_predicted_mean(&three, 0) == 3 && report_predicted_mean(&three, 1) == 3);
    assert_true(report_predicted_mean(&three, 2) == 4 && report_predicted_mean(&three, 3) == 3);
    assert_true(report_predicted_mean(&three, 5) == (4 + 2 + 2 + 2) / 4.0);
    assert_true(report_predicted_mean(&one, 4) == 10 && report_predicted_mean(&none, 4) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_keeps_logical_nodes_together),
        cmocka_unit_test(queues_fit_the_device),
        cmocka_unit_test(live_ranks_spread_evenly),
        cmocka_unit_test(folded_worlds_are_their_live_ranks),
        cmocka_unit_test(small_worlds_are_calibrated_whole),
        cmocka_unit_test(large_worlds_take_one_a_class_and_the_sandbox),
        cmocka_unit_test(slices_take_as_many_a_class_as_asked),
        cmocka_unit_test(lag_is_a_mean_without_outliers),
        cmocka_unit_test(recent_lag_is_the_median_of_the_last),
        cmocka_unit_test(live_rank_loops_its_last_iteration), cmocka_unit_test(live_counts_iterations_that_differ),
        cmocka_unit_test(what_stopped_the_clock_is_not_carried),
        cmocka_unit_test(looped_iterations_are_predicted_as_the_last),
    };
    return cmocka_run_group_tests_name("prismd/pure", tests, NULL, NULL);
}
