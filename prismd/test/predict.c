/* predict.c - where the time goes: hand-worked graphs, and sums that hold for every job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs those above */
#include <cmocka.h>

#include "coll/types.h"
#include "prismd/predict/breakdown.h"
#include "prismd/predict/critical.h"
#include "prismd/predict/stages.h"
#include "synth/synth.h"

#define MS 1e6

static struct coll_network network(double bandwidth)
{
    struct coll_network n = {0};
    for (int l = 0; l < COLL_LINKS; l++)
        n.link[l] = (struct coll_link_profile){.bandwidth_Bps = bandwidth};
    return n;
}

static void one_iteration(struct graph *g)
{
    for (uint32_t r = 0; r < g->world; r++) {
        g->ranks[r].iterations = calloc(2, sizeof(uint32_t));
        g->ranks[r].iterations[1] = g->ranks[r].nnodes;
        g->ranks[r].niterations = 1;
    }
}

static void all_reduce(struct graph *g, uint32_t rank, uint32_t stream, uint32_t ordinal, uint64_t bytes)
{
    struct graph_part part = {.op = PRISM_OP_ALLREDUCE, .datatype = COLL_INT8, .peer = -1, .count = bytes};
    struct graph_node node = {.kind = GRAPH_COMM, .stream = stream, .ordinal = ordinal};
    assert_int_equal(graph_add_node(g, rank, &node, &part, 1), 0);
}

static struct graph *two_ranks(void)
{
    int32_t both[] = {0, 1};
    struct graph *g = graph_create(2, 8);
    int comm = graph_add_comm(g, both, 2);
    for (uint32_t r = 0; r < 2; r++)
        graph_set_member(g, r, 0, comm, (int32_t)r);
    return g;
}

/* Rank 0 computes 4 ms, rank 1 gets its work from its host after 6 ms and computes 1 ms; the all-reduce moves 2 ms. */
static void test_host_and_peers(void **state)
{
    struct graph *g = two_ranks();
    struct coll_network net = network(1e9);
    struct prism_error err = {0};
    (void)state;
    for (uint32_t r = 0; r < 2; r++) {
        struct graph_node record = {.kind = GRAPH_RECORD};
        graph_add_node(g, r, &record, NULL, 0);
        all_reduce(g, r, 0, 0, 2000000);
        graph_alloc_works(g, r);
    }
    g->ranks[0].device_work[1] = (float)(4 * MS);
    g->ranks[1].host_work[0] = (float)(6 * MS);
    g->ranks[1].device_work[1] = (float)(1 * MS);
    one_iteration(g);
    struct predicted *p = predicted_create(g, &net, NULL, &err);
    assert_non_null(p);
    assert_int_equal(p->end_ns - p->begin_ns, 9000000);
    struct breakdown a = breakdown_of(p, 0), b = breakdown_of(p, 1);
    assert_true(a.compute == 4 * MS && a.bubble == 3 * MS && a.exposed == 2 * MS && a.host == 0 && a.hidden == 0);
    assert_true(b.compute == 1 * MS && b.bubble == 0 && b.exposed == 2 * MS && b.host == 6 * MS && b.hidden == 0);
    struct critical_path path;
    critical_path_find(p, &path);
    assert_true(path.host_ns == 6 * MS && path.compute_ns == 1 * MS && path.communication_ns == 2 * MS);
    assert_int_equal(path.spans[0].rank, 1);
    critical_path_clear(&path);
    int64_t *slack = predict_slack(g, &net, NULL, &err); /* they meet at 7 ms; rank 0 is there at 4 */
    assert_true(slack && slack[0] == 3000000 && slack[1] == 0);
    free(slack);
    predicted_destroy(p);
    graph_destroy(g);
}

/* Communication on a second stream beside 5 ms of computation: 2 ms hidden, nothing exposed. */
static void test_hidden(void **state)
{
    struct graph *g = two_ranks();
    struct coll_network net = network(1e9);
    struct prism_error err = {0};
    (void)state;
    for (uint32_t r = 0; r < 2; r++) {
        struct graph_node record = {.kind = GRAPH_RECORD};
        all_reduce(g, r, 1, 0, 2000000);
        graph_add_node(g, r, &record, NULL, 0);
        graph_alloc_works(g, r);
        g->ranks[r].device_work[1] = (float)(5 * MS);
    }
    one_iteration(g);
    struct predicted *p = predicted_create(g, &net, NULL, &err);
    struct breakdown b = breakdown_of(p, 1);
    assert_true(b.compute == 5 * MS && b.hidden == 2 * MS && b.exposed == 0 && b.bubble == 0);
    predicted_destroy(p);
    graph_destroy(g);
}

static struct synth_job job(uint32_t pp, uint32_t v, uint32_t dp, uint32_t tp)
{
    struct synth_job j = {.tp = tp, .cp = 1, .pp = pp, .dp = dp, .ep = 1, .virtual_stages = v, .micro_batches = 2 * pp, .layers = 2 * pp * v,
                          .iterations = 2, .gpus_per_node = 4, .stage_bytes = 1 << 20, .layer_grad_bytes = 1 << 22};
    static struct synth_step forward[] = {{1 * MS, PRISM_OP_ALLREDUCE, SYNTH_TP, 1 << 20}},
                             backward[] = {{2 * MS, PRISM_OP_ALLREDUCE, SYNTH_TP, 1 << 20}},
                             end[] = {{1 * MS, PRISM_OP_ALLGATHER, SYNTH_DP, 1 << 22}, {0, PRISM_OP_ALLREDUCE, SYNTH_WORLD, 8}};
    j.forward = (struct synth_steps){forward, 1};
    j.backward = (struct synth_steps){backward, 1};
    j.end = (struct synth_steps){end, 2};
    return j;
}

/* Shares of every rank, and the critical path, make the whole iteration; stages are those of the job. */
static void test_sums(void **state)
{
    static const uint32_t shapes[][4] = {{1, 1, 4, 2}, {4, 1, 2, 2}, {4, 2, 2, 1}, {8, 3, 1, 1}, {2, 2, 3, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct synth_job j = job(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
        struct coll_network net = network(1e9);
        struct prism_error err = {0};
        struct graph *g = synth_build(&j, &err);
        assert_int_equal(predict_slow(g, g->world - 1, 1.3, &err), 0);
        struct predicted *p = predicted_create(g, &net, NULL, &err);
        assert_non_null(p);
        double all = (double)(p->end_ns - p->begin_ns);
        assert_int_equal(p->iteration, 1);
        assert_int_equal(p->nstages, j.pp);
        for (uint32_t r = 0; r < g->world; r++) {
            struct breakdown b = breakdown_of(p, r);
            assert_int_equal(p->stages[r], r / (j.tp * j.dp));
            assert_true(b.compute + b.exposed + b.host + b.bubble == all);
            assert_true(b.hidden <= b.compute && b.host == 0);
        }
        struct critical_path path;
        critical_path_find(p, &path);
        assert_true(path.compute_ns + path.communication_ns + path.host_ns == all);
        assert_int_equal(path.spans[0].from_ns, p->begin_ns);
        assert_int_equal(path.spans[path.n - 1].to_ns, p->end_ns);
        for (uint32_t s = 1; s < path.n; s++)
            assert_int_equal(path.spans[s].from_ns, path.spans[s - 1].to_ns);
        critical_path_clear(&path);
        predicted_destroy(p);
        graph_destroy(g);
    }
}

/* Slowing the rank whose works stand for its class slows no other. */
static void test_slow(void **state)
{
    struct synth_job j = job(2, 1, 3, 1);
    struct prism_error err = {0};
    struct graph *g = synth_build(&j, &err);
    (void)state;
    float before = graph_device_work(g, 1, 1);
    assert_non_null(g->ranks[0].device_work);
    assert_null(g->ranks[1].device_work);
    assert_int_equal(predict_slow(g, 0, 2, &err), 0);
    assert_int_equal(predict_slow(g, 5, 3, &err), 0);
    assert_true(graph_device_work(g, 0, 1) == 2 * before);
    assert_true(graph_device_work(g, 1, 1) == before && graph_device_work(g, 2, 1) == before);
    assert_true(graph_device_work(g, 5, 1) == 3 * graph_device_work(g, 4, 1));
    assert_int_equal(predict_slow(g, 6, 2, &err), -1);
    graph_destroy(g);
}

/* Ranks that pass messages around have no first stage: the lowest rank is. */
static void test_ring(void **state)
{
    int32_t all[] = {0, 1, 2, 3};
    struct graph *g = graph_create(4, 8);
    int comm = graph_add_comm(g, all, 4);
    uint32_t stages[4];
    (void)state;
    for (uint32_t r = 0; r < 4; r++) {
        struct graph_part in = {.op = PRISM_OP_RECV, .datatype = COLL_INT8, .peer = (int32_t)(r + 3) % 4, .count = 1};
        struct graph_node node = {.kind = GRAPH_COMM};
        graph_set_member(g, r, 0, comm, (int32_t)r);
        graph_add_node(g, r, &node, &in, 1);
    }
    assert_int_equal(stages_find(g, stages), 4);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(stages[r], r);
    graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_and_peers), cmocka_unit_test(test_hidden), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_slow),           cmocka_unit_test(test_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
