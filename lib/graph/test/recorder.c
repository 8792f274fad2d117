/* recorder.c - what is recorded in any interleaving of ranks is the graph, at every moment, and kept once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs those above */
#include <cmocka.h>

#include "graph/recorder.h"
#include "random_graph.h"

static struct graph *empty_like(const struct graph *from)
{
    struct graph *g = graph_create(from->world, from->gpus_per_node);
    for (uint32_t c = 0; c < from->ncomms; c++)
        graph_add_comm(g, from->comms[c].ranks, from->comms[c].size);
    for (uint32_t r = 0; r < from->world; r++)
        for (uint32_t c = 0; c < from->ranks[r].ncomms; c++)
            graph_set_member(g, r, c, from->ranks[r].comms[c].global, from->ranks[r].comms[c].rank);
    return g;
}

/* g's rank is the beginning of from's. */
static void assert_begins(const struct graph_rank *r, const struct graph_rank *from)
{
    assert_true(r->nnodes <= from->nnodes && r->nparts <= from->nparts);
    if (r->nnodes)
        assert_memory_equal(r->nodes, from->nodes, r->nnodes * sizeof *r->nodes);
    if (r->nparts)
        assert_memory_equal(r->parts, from->parts, r->nparts * sizeof *r->parts);
}

static void record_next(struct graph_recorder *recorder, const struct graph *g, const struct graph *from, uint32_t rank)
{
    const struct graph_rank *r = &from->ranks[rank];
    const struct graph_node *n = &r->nodes[g->ranks[rank].nnodes];
    assert_int_equal(graph_record(recorder, rank, n, n->nparts ? &r->parts[n->first_part] : NULL, n->nparts), 0);
}

/* Ranks take turns of random length. */
static struct graph *record_all(const struct graph *from, uint64_t *seed)
{
    struct graph *g = empty_like(from);
    struct graph_recorder *recorder = graph_recorder_create(g);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t r = 0; r < from->world; r++) {
            for (uint32_t turn = random_below(seed, 9); turn && g->ranks[r].nnodes < from->ranks[r].nnodes; turn--)
                record_next(recorder, g, from, r);
            more |= g->ranks[r].nnodes < from->ranks[r].nnodes;
            uint32_t any = random_below(seed, from->world);
            assert_begins(&g->ranks[any], &from->ranks[any]);
        }
    }
    graph_recorder_destroy(recorder);
    return g;
}

static void test_random(void **state)
{
    uint64_t seed = 41;
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct random_shape shape = random_shape(&seed);
        shape.works = false;
        struct graph *from = random_graph(&seed, &shape), *g = record_all(from, &seed);
        for (uint32_t r = 0; r < g->world; r++) {
            assert_int_equal(g->ranks[r].nnodes, from->ranks[r].nnodes);
            assert_int_equal(g->ranks[r].nparts, from->ranks[r].nparts);
            assert_int_equal(g->ranks[r].nstreams, from->ranks[r].nstreams);
            assert_int_equal(g->ranks[r].nhosts, from->ranks[r].nhosts);
            assert_begins(&g->ranks[r], &from->ranks[r]);
        }
        /* As equal as can be already: sharing finds no more. */
        const struct graph_node *before[64];
        for (uint32_t r = 0; r < g->world && r < 64; r++)
            before[r] = g->ranks[r].nodes;
        graph_share(g);
        for (uint32_t r = 0; r < g->world && r < 64; r++)
            if (g->ranks[r].nnodes)
                assert_ptr_equal(g->ranks[r].nodes, before[r]);
        graph_destroy(g);
        graph_destroy(from);
    }
}

static void add(struct graph_recorder *recorder, uint32_t rank, uint64_t count)
{
    struct graph_node node = {.kind = GRAPH_COMM};
    struct graph_part part = {.op = 1, .datatype = 7, .peer = -1, .count = count};
    assert_int_equal(graph_record(recorder, rank, &node, &part, 1), 0);
}

/* Ranks 0 and 1 do the same, 2 and 3 something else in the second call: two arrays of parts, one of nodes. */
static void test_kept_once(void **state)
{
    struct graph *g = graph_create(4, 4);
    struct graph_recorder *recorder = graph_recorder_create(g);
    (void)state;
    for (uint32_t call = 0; call < 100; call++)
        for (uint32_t r = 0; r < 4; r++)
            add(recorder, r, call == 1 ? 8 + r / 2 : 8);
    for (uint32_t r = 1; r < 4; r++)
        assert_ptr_equal(g->ranks[r].nodes, g->ranks[0].nodes);
    assert_ptr_equal(g->ranks[1].parts, g->ranks[0].parts);
    assert_ptr_equal(g->ranks[3].parts, g->ranks[2].parts);
    assert_ptr_not_equal(g->ranks[2].parts, g->ranks[0].parts);
    assert_int_equal(g->ranks[0].parts[1].count, 8);
    assert_int_equal(g->ranks[2].parts[1].count, 9);
    assert_int_equal(g->ranks[3].nparts, 100);
    /* What graph_add_node refuses is refused, and nothing is recorded. */
    struct graph_node wrong = {.kind = GRAPH_COMM, .dep = 101};
    assert_int_equal(graph_record(recorder, 0, &wrong, NULL, 0), -1);
    assert_int_equal(graph_record(recorder, 4, &wrong, NULL, 0), -1);
    assert_int_equal(g->ranks[0].nnodes, 100);
    graph_recorder_destroy(recorder);
    graph_rank_own(&g->ranks[1]);
    assert_ptr_not_equal(g->ranks[1].nodes, g->ranks[0].nodes);
    graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_kept_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
