/* Small cases whose times were worked out on paper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/feeds.h"
#include "graph/run.h"

/* Duration of every group: what the test puts into `duration`; of sends and receives: `p2p`. */
struct world {
    struct graph *g;
    double duration, p2p;
    uint64_t eager_limit;
    struct {
        uint32_t rank, comm, ordinal;
        int64_t started, end;
    } released[64];
    int nreleased;
    int64_t end[8][64]; /* by rank and position */
};

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p,
                       const struct graph_part *parts, uint32_t nparts)
{
    struct world *w = ctx;
    return parts[0].op >= GRAPH_OP_SEND ? w->p2p : w->duration;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= ((struct world *)ctx)->eager_limit;
}

static void on_release(void *ctx, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started,
                       int64_t end)
{
    struct world *w = ctx;
    if (w->nreleased == 64)
        return;
    w->released[w->nreleased].rank = rank;
    w->released[w->nreleased].comm = comm;
    w->released[w->nreleased].ordinal = ordinal;
    w->released[w->nreleased].started = started;
    w->released[w->nreleased++].end = end;
}

static void on_node(void *ctx, uint32_t rank, uint64_t v, int64_t start, int64_t end)
{
    struct world *w = ctx;
    if (v < 64)
        w->end[rank][v] = end;
}

static struct graph_run *start(struct world *w, const struct graph_run_options *options)
{
    struct graph_run_ops ops = {duration, eager, on_release, on_node, w, NULL};
    struct graph_run *run = graph_run_create(w->g, &ops, options);
    assert_non_null(run);
    graph_run_begin(run, 0);
    return run;
}

static void world_comm(struct graph *g)
{
    int32_t ranks[8];
    for (uint32_t i = 0; i < g->world; i++)
        ranks[i] = (int32_t)i;
    int c = graph_add_comm(g, ranks, g->world);
    for (uint32_t i = 0; i < g->world; i++)
        assert_int_equal(graph_set_member(g, i, 0, c, (int32_t)i), 0);
}

/* Append a group of one operation of count floats and return its node. */
static uint32_t op(struct graph *g, uint32_t rank, uint32_t stream, uint8_t code, int32_t peer,
                   uint64_t count)
{
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < g->ranks[rank].nnodes; i++)
        ordinal += g->ranks[rank].nodes[i].kind == GRAPH_COMM;
    struct graph_node n = {.kind = GRAPH_COMM, .stream = stream, .ordinal = ordinal};
    struct graph_part p = {.op = code, .datatype = 7, .peer = peer, .count = count};
    assert_int_equal(graph_add_node(g, rank, &n, &p, 1), 0);
    return g->ranks[rank].nnodes - 1;
}

static uint32_t node(struct graph *g, uint32_t rank, uint8_t kind, uint32_t stream, uint32_t dep_node)
{
    uint32_t at = g->ranks[rank].nnodes;
    struct graph_node n = {.kind = kind, .stream = stream};
    n.dep = kind == GRAPH_WAIT || kind == GRAPH_SYNC ? at - dep_node : 0;
    assert_int_equal(graph_add_node(g, rank, &n, NULL, 0), 0);
    return at;
}

/* Four ranks reduce gradients; rank 2 computes longer. Everyone ends with it. */
static void test_slow_rank(void **state)
{
    struct world w = {.g = graph_create(4, 8), .duration = 100};
    world_comm(w.g);
    for (uint32_t r = 0; r < 4; r++) {
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 10);
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 10);
        graph_alloc_works(w.g, r);
        w.g->ranks[r].device_work[0] = r == 2 ? 5000 : 1000;
        w.g->ranks[r].device_work[1] = 1000;
    }
    struct graph_run *run = start(&w, NULL);
    char why[256];
    assert_int_equal(graph_run_blocked(run, why, sizeof why), 0);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(w.end[r][0], 5100);
        assert_int_equal(w.end[r][1], 6200);
        assert_int_equal(graph_run_iteration_end(run, r, 0), 6200);
        assert_int_equal(graph_run_iteration_end(run, r, 1), INT64_MIN);
    }
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* Append a group of a send to and a receive from the same peer. */
static void op_pair(struct graph *g, uint32_t rank, int32_t peer)
{
    struct graph_node n = {.kind = GRAPH_COMM};
    struct graph_part parts[2] = {{.op = GRAPH_OP_SEND, .datatype = 7, .peer = peer, .count = 4},
                                  {.op = GRAPH_OP_RECV, .datatype = 7, .peer = peer, .count = 4}};
    assert_int_equal(graph_add_node(g, rank, &n, parts, 2), 0);
}

/* Two stages, two micro-batches, 1F1B with grouped send and receive; sends wait for their receives. Forward
 * 10, stage 1 computes 30 a micro-batch, backward 20, transfer 1. stage 0: F0 10, send 10 -> 11; F1, pair
 * starts 21, fed at 41 -> 42; B0, receive starts 62, fed at 72 -> 73; B1 93 stage 1: receive starts 0, fed at
 * 10 -> 11; pair starts 41 -> 42; send starts 72 -> 73 */
static void test_pipeline_1f1b(void **state)
{
    struct world w = {.g = graph_create(2, 8), .p2p = 1};
    world_comm(w.g);
    struct graph *g = w.g;
    op(g, 0, 0, GRAPH_OP_SEND, 1, 4);
    op_pair(g, 0, 1);
    op(g, 0, 0, GRAPH_OP_RECV, 1, 4);
    node(g, 0, GRAPH_RECORD, 0, 0);
    op(g, 1, 0, GRAPH_OP_RECV, 0, 4);
    op_pair(g, 1, 0);
    op(g, 1, 0, GRAPH_OP_SEND, 0, 4);
    graph_alloc_works(g, 0);
    graph_alloc_works(g, 1);
    float *a = g->ranks[0].device_work, *b = g->ranks[1].device_work;
    a[0] = a[1] = 10;
    a[2] = a[3] = 20;
    b[1] = b[2] = 30;
    struct graph_run *run = start(&w, NULL);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    const int64_t stage0[] = {11, 42, 73, 93}, stage1[] = {11, 42, 73};
    for (int i = 0; i < 4; i++)
        assert_int_equal(w.end[0][i], stage0[i]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(w.end[1][i], stage1[i]);
    graph_run_destroy(run);
    graph_destroy(g);
}

/* Separate sends and receives, eager: stage 0 goes on without stage 1.
 *   send 0: start 10 end 11; send 1: start 21 end 22; stage 1: recv 0 start 0 -> 10 + 1 = 11; send B0 start
 * 41 end 42; recv 1 start 42 end 43; send B1 start 73 end 74. stage 0: recv B0 starts 22, fed at 41 -> 42;
 * recv B1 starts 62, fed at 73 -> 74; record 94. */
static void test_pipeline_eager(void **state)
{
    struct world w = {.g = graph_create(2, 8), .p2p = 1, .eager_limit = 1 << 20};
    world_comm(w.g);
    struct graph *g = w.g;
    op(g, 0, 0, GRAPH_OP_SEND, 1, 4);
    op(g, 0, 0, GRAPH_OP_SEND, 1, 4);
    op(g, 0, 0, GRAPH_OP_RECV, 1, 4);
    op(g, 0, 0, GRAPH_OP_RECV, 1, 4);
    node(g, 0, GRAPH_RECORD, 0, 0);
    for (int i = 0; i < 2; i++) {
        op(g, 1, 0, GRAPH_OP_RECV, 0, 4);
        op(g, 1, 0, GRAPH_OP_SEND, 0, 4);
    }
    graph_alloc_works(g, 0);
    graph_alloc_works(g, 1);
    float *a = g->ranks[0].device_work, *b = g->ranks[1].device_work;
    a[0] = a[1] = 10;
    a[3] = a[4] = 20;
    b[1] = b[3] = 30;
    struct graph_run *run = start(&w, NULL);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    const int64_t stage0[] = {11, 22, 42, 74, 94}, stage1[] = {11, 42, 43, 74};
    for (int i = 0; i < 5; i++)
        assert_int_equal(w.end[0][i], stage0[i]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(w.end[1][i], stage1[i]);
    graph_run_destroy(run);
    graph_destroy(g);
}

/* A receive posted early on a second stream, waited for by the first with an event and by the host:
 *   rank 1: stream 1 recv (open from 0); stream 0 computes 100, then waits for the record behind the receive.
 *   rank 0 sends at 300, transfer 7: receive ends 307; wait ends 307; the host, that synchronises, issues the
 *   next at 307 + 5. */
static void test_preposted(void **state)
{
    struct world w = {.g = graph_create(2, 8), .p2p = 7};
    world_comm(w.g);
    struct graph *g = w.g;
    op(g, 0, 0, GRAPH_OP_SEND, 1, 4);
    uint32_t receive = op(g, 1, 1, GRAPH_OP_RECV, 0, 4);
    uint32_t record = node(g, 1, GRAPH_RECORD, 1, 0);
    uint32_t wait = node(g, 1, GRAPH_WAIT, 0, record);
    uint32_t sync = node(g, 1, GRAPH_SYNC, 0, record);
    uint32_t join = node(g, 1, GRAPH_JOIN, 0, 0);
    graph_alloc_works(g, 0);
    graph_alloc_works(g, 1);
    g->ranks[0].device_work[0] = 300;
    g->ranks[1].device_work[wait] = 100;
    g->ranks[1].host_work[join] = 5;
    struct graph_run *run = start(&w, NULL);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    assert_int_equal(w.end[1][receive], 307);
    assert_int_equal(w.end[1][wait], 307);
    assert_int_equal(w.end[1][sync], 307);
    assert_int_equal(w.end[1][join], 312);
    graph_run_destroy(run);
    graph_destroy(g);
}

/* Broadcast 0 -> all, then 1 -> all, then reduce to 2. The root of a broadcast goes on alone. */
static void test_rooted(void **state)
{
    struct world w = {.g = graph_create(3, 8), .duration = 10};
    world_comm(w.g);
    for (uint32_t r = 0; r < 3; r++) {
        op(w.g, r, 0, GRAPH_OP_BROADCAST, 0, 10);
        op(w.g, r, 0, GRAPH_OP_BROADCAST, 1, 10);
        op(w.g, r, 0, GRAPH_OP_REDUCE, 2, 10);
        graph_alloc_works(w.g, r);
        w.g->ranks[r].device_work[0] = r == 0 ? 1000 : r == 1 ? 2000 : 0;
    }
    struct graph_run *run = start(&w, NULL);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    /* rank 0: 1010, waits for 1's start at 2010 -> 2020, 2030. rank 1: max(2000, 1000) + 10 = 2010, 2020,
     * 2030. rank 2: 1010, 2020, then everyone: starts 2020 -> 2030. */
    const int64_t want[3][3] = {{1010, 2020, 2030}, {2010, 2020, 2030}, {1010, 2020, 2030}};
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(w.end[r][i], want[r][i]);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* Both send first: a deadlock, unless sends are eager. */
static void test_deadlock(void **state)
{
    struct world w = {.g = graph_create(2, 8), .p2p = 1};
    world_comm(w.g);
    for (uint32_t r = 0; r < 2; r++) {
        op(w.g, r, 0, GRAPH_OP_SEND, 1 - (int32_t)r, 4);
        op(w.g, r, 0, GRAPH_OP_RECV, 1 - (int32_t)r, 4);
    }
    struct graph_run *run = start(&w, NULL);
    char why[256];
    assert_int_equal(graph_run_blocked(run, why, sizeof why), 2);
    assert_string_equal(why,
                        "rank 0, node 0 (stream 0), group 0 of communicator 0: send to rank 1 waits for its "
                        "receive");
    graph_run_destroy(run);
    w.eager_limit = 16;
    run = start(&w, NULL);
    assert_int_equal(graph_run_blocked(run, why, sizeof why), 0);
    assert_string_equal(why, "");
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* One recorded iteration, rank 1 external: released with the later of both, loops beyond the recorded one,
 * and virtual ranks stay within the lookahead. */
static void test_external(void **state)
{
    struct world w = {.g = graph_create(2, 8), .duration = 10};
    world_comm(w.g);
    for (uint32_t r = 0; r < 2; r++)
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 10);
    graph_alloc_works(w.g, 0);
    w.g->ranks[0].device_work[0] = 100;
    const uint8_t external[] = {0, 1};
    struct graph_run_options options = {.external = external, .iterations = 3, .lookahead = 0};
    struct graph_run *run = start(&w, &options);
    assert_int_equal(graph_run_arrive(run, 1, 0, 0, 50, NULL, 0, NULL), 0);
    assert_int_equal(graph_run_arrive(run, 1, 0, 1, 400, NULL, 0, NULL), 0);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 1);
    assert_int_equal(graph_run_arrive(run, 1, 0, 2, 410, NULL, 0, NULL), 0);
    assert_int_equal(w.nreleased, 3);
    assert_int_equal(w.released[0].started, 100);
    assert_int_equal(w.released[0].end, 110);
    assert_int_equal(w.released[1].end, 410);
    assert_int_equal(w.released[2].ordinal, 2);
    assert_int_equal(w.released[2].started, 510);
    assert_int_equal(w.released[2].end, 520);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(graph_run_iteration_end(run, 1, i), w.released[i].end);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    struct prism_error err = {0};
    assert_int_equal(graph_run_arrive(run, 1, 0, 3, 600, NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "rank 1: group 3 on communicator 0"));
    err.code = 0;
    assert_int_equal(graph_run_arrive(run, 1, 9, 0, 600, NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "communicator 9 is not in the trace"));
    assert_int_equal(graph_run_arrive(run, 0, 0, 0, 600, NULL, 0, NULL), -1);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* A virtual rank that only sends, eagerly, would run on for ever. */
static void test_lookahead(void **state)
{
    struct world w = {.g = graph_create(2, 8), .p2p = 1, .eager_limit = 100};
    world_comm(w.g);
    op(w.g, 0, 0, GRAPH_OP_SEND, 1, 4);
    op(w.g, 1, 0, GRAPH_OP_RECV, 0, 4);
    const uint8_t external[] = {0, 1};
    struct graph_run_options options = {.external = external, .iterations = UINT32_MAX, .lookahead = 2};
    struct graph_run *run = start(&w, &options);
    assert_true(graph_run_iteration_end(run, 0, 2) != INT64_MIN);
    assert_int_equal(graph_run_iteration_end(run, 0, 3), INT64_MIN);
    char why[256];
    assert_int_equal(graph_run_blocked(run, why, sizeof why), 1);
    assert_non_null(strstr(why, "waits for the sandbox ranks"));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(graph_run_arrive(run, 1, 0, i, 10 * i, NULL, 0, NULL), 0);
    assert_true(graph_run_iteration_end(run, 0, 102) != INT64_MIN);
    assert_int_equal(graph_run_iteration_end(run, 0, 103), INT64_MIN);
    assert_int_equal(w.nreleased, 64);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* Events behind the last iteration on a stream that has nothing before: its host does not issue the loops until there. */
static void test_lookahead_has_no_teardown(void **state)
{
    struct world w = {.g = graph_create(2, 8), .duration = 10};
    world_comm(w.g);
    for (uint32_t r = 0; r < 2; r++) {
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 10);
        node(w.g, r, GRAPH_SYNC, 0, node(w.g, r, GRAPH_RECORD, 1, 0));
        w.g->ranks[r].iterations = malloc(2 * sizeof(uint32_t));
        memcpy(w.g->ranks[r].iterations, (const uint32_t[]){0, 1}, 2 * sizeof(uint32_t));
        w.g->ranks[r].niterations = 1;
    }
    const uint8_t external[] = {0, 1};
    struct graph_run_options options = {.external = external, .iterations = UINT32_MAX, .lookahead = 2};
    struct graph_run *run = start(&w, &options);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(graph_run_arrive(run, 1, 0, i, 100 * (i + 1), NULL, 0, NULL), 0);
    assert_int_equal(w.nreleased, 5);
    assert_int_equal(w.released[4].end, 510);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* A program whose last iteration has no communication (a last check, say): nothing would ever stop its loop. */
static void test_lookahead_without_communication(void **state)
{
    struct world w = {.g = graph_create(2, 8), .duration = 10};
    world_comm(w.g);
    for (uint32_t r = 0; r < 2; r++)
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 10);
    node(w.g, 0, GRAPH_SYNC, 0, node(w.g, 0, GRAPH_RECORD, 0, 0));
    const uint32_t bounds[2][3] = {{0, 1, 3}, {0, 1, 1}};
    for (uint32_t r = 0; r < 2; r++) {
        w.g->ranks[r].iterations = malloc(sizeof bounds[r]);
        memcpy(w.g->ranks[r].iterations, bounds[r], sizeof bounds[r]);
        w.g->ranks[r].niterations = 2;
    }
    const uint8_t external[] = {0, 1};
    struct graph_run_options options = {.external = external, .iterations = UINT32_MAX, .lookahead = 2};
    struct graph_run *run = start(&w, &options);
    assert_int_equal(graph_run_arrive(run, 1, 0, 0, 50, NULL, 0, NULL), 0);
    assert_int_equal(w.nreleased, 1);
    assert_int_equal(w.released[0].end, 60);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* Live counts reach the duration and decide on eager sends. */
static double by_count(void *ctx, const struct graph *g, uint32_t comm, int32_t p,
                       const struct graph_part *parts, uint32_t nparts)
{
    return (double)parts[0].count;
}

static void test_live_parts(void **state)
{
    struct world w = {.g = graph_create(2, 8), .eager_limit = 100};
    world_comm(w.g);
    op(w.g, 0, 0, GRAPH_OP_SEND, 1, 400);
    op(w.g, 1, 0, GRAPH_OP_RECV, 0, 400);
    const uint8_t external[] = {1, 1};
    struct graph_run_ops ops = {by_count, eager, on_release, NULL, &w, NULL};
    struct graph_run_options options = {.external = external, .iterations = 0, .lookahead = 0};
    struct graph_run *run = graph_run_create(w.g, &ops, &options);
    graph_run_begin(run, 0);
    struct graph_part live = {.op = GRAPH_OP_SEND, .datatype = 7, .peer = 1, .count = 5};
    assert_int_equal(graph_run_arrive(run, 0, 0, 0, 100, &live, 1, NULL), 0);
    assert_int_equal(w.nreleased, 1); /* recorded, it would have waited */
    assert_int_equal(w.released[0].end, 105);
    live.op = GRAPH_OP_RECV;
    live.peer = 0;
    assert_int_equal(graph_run_arrive(run, 1, 0, 0, 50, &live, 1, NULL), 0);
    assert_int_equal(w.released[1].end, 105);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* When a virtual rank gets to a group is told before the group's end can be known, in repetitions too. */
static struct {
    uint32_t rank, n, loop;
    int64_t start;
} begun[8];
static int nbegun;

static void on_comm_start(void *ctx, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns)
{
    (void)ctx;
    assert_true(nbegun < 8);
    begun[nbegun].rank = rank;
    begun[nbegun].n = n;
    begun[nbegun].loop = loop;
    begun[nbegun++].start = start_ns;
}

static void test_starts_of_virtual_ranks(void **state)
{
    struct world w = {.g = graph_create(2, 8), .duration = 10};
    world_comm(w.g);
    for (uint32_t r = 0; r < 2; r++) {
        op(w.g, r, 0, GRAPH_OP_ALLREDUCE, -1, 4);
        graph_alloc_works(w.g, r);
        w.g->ranks[r].device_work[0] = 100;
    }
    const uint8_t external[] = {1, 0};
    struct graph_run_ops ops = {duration, eager, on_release, NULL, &w, on_comm_start};
    struct graph_run_options options = {.external = external, .iterations = 0, .lookahead = 0};
    struct graph_run *run = graph_run_create(w.g, &ops, &options);
    nbegun = 0;
    graph_run_begin(run, 1000);
    assert_int_equal(nbegun, 1);
    assert_int_equal(begun[0].rank, 1);
    assert_int_equal(begun[0].n, 0);
    assert_int_equal(begun[0].loop, 0);
    assert_int_equal(begun[0].start, 1100);
    assert_int_equal(w.nreleased, 0);
    assert_int_equal(graph_run_arrive(run, 0, 0, 0, 1050, NULL, 0, NULL), 0);
    assert_int_equal(nbegun, 1); /* the external rank's own is not told */
    assert_int_equal(w.released[0].end, 1110);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

/* Ranks of one class that write the parts of a group in another order: who is matched with whom must not be
 * taken over from one to the other. */
static void test_class_shares_no_order(void **state)
{
    struct world w = {.g = graph_create(4, 8), .p2p = 1};
    world_comm(w.g);
    for (uint32_t r = 0; r < 4; r++) {
        int32_t next = (int32_t)(r + 1) % 4, far = (int32_t)(r + 2) % 4, before = (int32_t)(r + 3) % 4;
        struct graph_node n = {.kind = GRAPH_COMM};
        struct graph_part ring[2] = {{.op = GRAPH_OP_SEND, .datatype = 7, .peer = next, .count = 4},
                                     {.op = GRAPH_OP_RECV, .datatype = 7, .peer = before, .count = 4}};
        struct graph_part both[4] = {
            {.op = GRAPH_OP_SEND, .datatype = 7, .peer = r % 2 ? next : far, .count = 4},
            {.op = GRAPH_OP_SEND, .datatype = 7, .peer = r % 2 ? far : next, .count = 4},
            {.op = GRAPH_OP_RECV, .datatype = 7, .peer = before, .count = 4},
            {.op = GRAPH_OP_RECV, .datatype = 7, .peer = far, .count = 4}};
        assert_int_equal(graph_add_node(w.g, r, &n, ring, 2), 0);
        assert_int_equal(graph_add_node(w.g, r, &n, both, 4), 0);
    }
    graph_find_classes(w.g);
    assert_int_equal(w.g->nclasses, 1);
    struct graph_run *run = start(&w, NULL);
    char why[256];
    if (graph_run_blocked(run, why, sizeof why))
        fail_msg("%s", why);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(w.end[r][1], 2);
    graph_run_destroy(run);
    graph_destroy(w.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_rank),      cmocka_unit_test(test_pipeline_1f1b),
        cmocka_unit_test(test_pipeline_eager), cmocka_unit_test(test_preposted),
        cmocka_unit_test(test_rooted),         cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_external),       cmocka_unit_test(test_lookahead),
        cmocka_unit_test(test_lookahead_without_communication), cmocka_unit_test(test_lookahead_has_no_teardown),
        cmocka_unit_test(test_live_parts), cmocka_unit_test(test_starts_of_virtual_ranks),     cmocka_unit_test(test_class_shares_no_order),
    };
    return cmocka_run_group_tests_name("graph_run: by hand", tests, NULL, NULL);
}
