/* diagnose.c - programs that hang or do not agree, each with what has to be said about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs those above */
#include <cmocka.h>

#include "coll/types.h"
#include "prismd/diagnose/diagnose.h"
#include "synth/synth.h"

static struct graph *world_of(uint32_t n, uint32_t comms)
{
    struct graph *g = graph_create(n, 8);
    int32_t *ranks = calloc(n, sizeof *ranks);
    for (uint32_t r = 0; r < n; r++)
        ranks[r] = (int32_t)r;
    for (uint32_t c = 0; c < comms; c++) {
        int global = graph_add_comm(g, ranks, n);
        for (uint32_t r = 0; r < n; r++)
            graph_set_member(g, r, c, global, (int32_t)r);
    }
    free(ranks);
    return g;
}

static void call(struct graph *g, uint32_t rank, uint32_t comm, int op, int32_t peer, uint64_t count, int datatype)
{
    struct graph_part part = {.op = (uint8_t)op, .datatype = (uint8_t)datatype, .peer = peer, .count = count};
    struct graph_node node = {.kind = GRAPH_COMM, .comm = comm};
    for (uint32_t i = 0; i < g->ranks[rank].nnodes; i++)
        node.ordinal += g->ranks[rank].nodes[i].comm == comm;
    assert_int_equal(graph_add_node(g, rank, &node, &part, 1), 0);
}

static void all_reduce(struct graph *g, uint32_t rank, uint32_t comm)
{
    call(g, rank, comm, PRISM_OP_ALLREDUCE, -1, 64, COLL_FLOAT32);
}

/* One finding of that kind and rank, whose text has all these. */
static void expect(struct graph *g, const struct diagnose_options *options, enum finding_kind kind, uint32_t rank, const char *const *says)
{
    static const struct diagnose_options whole = {.eager_bytes = 1024};
    struct diagnosis d;
    const struct finding *found = NULL;
    diagnose(g, options ? options : &whole, &d);
    for (uint32_t i = 0; i < d.n; i++)
        if (d.list[i].kind == kind)
            found = &d.list[i];
    if (!found)
        fail_msg("no finding \"%s\" of %u; first: %s", finding_name(kind), d.n, d.n ? d.list[0].text : "-");
    assert_int_equal(found->rank, rank);
    for (; *says; says++)
        if (!strstr(found->text, *says))
            fail_msg("\"%s\" is not in: %s", *says, found->text);
    diagnosis_clear(&d);
    graph_destroy(g);
}

#define SAYS(...) (const char *const[]){__VA_ARGS__, NULL}

static void test_mismatch(void **state)
{
    (void)state;
    static const struct {
        int op, datatype;
        uint64_t count;
        int32_t peer;
        const char *what, *its;
    } cases[] = {
        {PRISM_OP_ALLGATHER, COLL_FLOAT32, 64, -1, "operation", "AllGather of 64"},
        {PRISM_OP_BROADCAST, COLL_FLOAT64, 64, 0, "datatype", "Broadcast of 64 x fp64"},
        {PRISM_OP_BROADCAST, COLL_FLOAT32, 65, 0, "count", "of 65"},
        {PRISM_OP_BROADCAST, COLL_FLOAT32, 64, 2, "root", "root rank 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph *g = world_of(4, 1);
        for (uint32_t r = 0; r < 4; r++) {
            all_reduce(g, r, 0);
            if (r == 1)
                call(g, r, 0, cases[i].op, cases[i].peer, cases[i].count, cases[i].datatype);
            else
                call(g, r, 0, PRISM_OP_BROADCAST, 0, 64, COLL_FLOAT32);
        }
        expect(g, NULL, FINDING_MISMATCH, 1,
               SAYS(cases[i].what, cases[i].its, "collective 1", "ranks 0,2-3 (3) call Broadcast", "rank 1 calls", "communicator 0"));
    }
}

static void test_order(void **state)
{
    struct graph *g = world_of(4, 1);
    (void)state;
    for (uint32_t r = 0; r < 4; r++) {
        call(g, r, 0, r == 2 ? PRISM_OP_ALLGATHER : PRISM_OP_ALLREDUCE, -1, 64, COLL_FLOAT32);
        call(g, r, 0, r == 2 ? PRISM_OP_ALLREDUCE : PRISM_OP_ALLGATHER, -1, 64, COLL_FLOAT32);
    }
    expect(g, NULL, FINDING_ORDER, 2, SAYS("another order", "rank 2 calls AllGather", "ranks 0-1,3 (3) call AllReduce"));
}

/* Two communicators in opposite order on one stream: the classic ring. */
static void test_ring(void **state)
{
    struct graph *g = world_of(2, 2);
    (void)state;
    for (uint32_t r = 0; r < 2; r++) {
        all_reduce(g, r, r);
        all_reduce(g, r, 1 - r);
    }
    expect(g, NULL, FINDING_RING, 0,
           SAYS("2 ranks wait in a ring", "rank 0 waits in AllReduce", "on communicator 0 of ranks 0-1", "for rank 1",
                "rank 1 waits in AllReduce", "on communicator 1", "for rank 0"));
}

/* Rank 2 makes two calls, the others three; rank 3 waits for rank 0, which waits for rank 2. */
static void test_missing(void **state)
{
    const char *hosts[5] = {NULL, NULL, "its host sleeps", NULL, NULL};
    struct diagnose_options options = {.hosts = hosts, .ended_early = true, .eager_bytes = 1024};
    struct graph *g = world_of(5, 1);
    (void)state;
    for (uint32_t r = 0; r < 5; r++)
        for (uint32_t i = 0; i < (r == 2 ? 2u : 3u); i++)
            all_reduce(g, r, 0);
    call(g, 3, 0, PRISM_OP_RECV, 0, 8, COLL_INT8);
    call(g, 0, 0, PRISM_OP_SEND, 3, 8, COLL_INT8);
    expect(g, &options, FINDING_MISSING, 2,
           SAYS("ranks 0-1,3-4 (4) wait for rank 2", "collective 2", "rank 2 does not get there", "its last call is AllReduce", "its host sleeps",
                "4 ranks wait"));
}

static void test_messages(void **state)
{
    struct graph *g = world_of(2, 1);
    (void)state;
    call(g, 0, 0, PRISM_OP_SEND, 1, 10, COLL_INT8);
    call(g, 1, 0, PRISM_OP_RECV, 0, 12, COLL_INT8);
    expect(g, NULL, FINDING_SIZE, 1, SAYS("Send of 10 x int8 to rank 1", "Recv of 12 x int8 from rank 0", "two sizes"));
    g = world_of(2, 1);
    call(g, 0, 0, PRISM_OP_SEND, 1, 10, COLL_INT8);
    expect(g, NULL, FINDING_UNMATCHED, 0, SAYS("Send of 10", "to rank 1", "no call that fits"));
    g = world_of(2, 1);
    call(g, 1, 0, PRISM_OP_RECV, 0, 10, COLL_INT8);
    expect(g, NULL, FINDING_MISSING, 0, SAYS("rank 1 waits for rank 0", "has made no call at all"));
    /* Both send first: small messages pass, large ones hang in NCCL though capture buffers them. */
    for (uint64_t bytes = 1000; bytes <= 2000; bytes += 1000) {
        g = world_of(2, 1);
        for (uint32_t r = 0; r < 2; r++) {
            call(g, r, 0, PRISM_OP_SEND, 1 - (int32_t)r, bytes, COLL_INT8);
            call(g, r, 0, PRISM_OP_RECV, 1 - (int32_t)r, bytes, COLL_INT8);
        }
        if (bytes > 1024) {
            expect(g, NULL, FINDING_BUFFERING, 0, SAYS("rank 0 waits in Send", "rank 1 waits in Send", "wait for their receivers"));
            continue;
        }
        struct diagnosis d;
        struct diagnose_options options = {.eager_bytes = 1024};
        diagnose(g, &options, &d);
        assert_int_equal(d.n, 0);
        graph_destroy(g);
    }
}

/* A pipeline of 64 ranks: good as it is; without the end of one rank everyone waits for that rank, at the iteration and
 * micro-batch at which it stopped. */
static void test_pipeline(void **state)
{
    struct synth_step forward[] = {{1e6, PRISM_OP_ALLREDUCE, SYNTH_TP, 1024}}, end[] = {{0, PRISM_OP_ALLREDUCE, SYNTH_WORLD, 8}};
    struct synth_job j = {.tp = 2, .cp = 1, .pp = 4, .dp = 8, .ep = 1, .virtual_stages = 1, .micro_batches = 6, .layers = 4, .iterations = 3,
                          .gpus_per_node = 8, .stage_bytes = 1 << 20, .forward = {forward, 1}, .backward = {forward, 1}, .end = {end, 1}};
    struct prism_error err = {0};
    struct graph *g = synth_build(&j, &err);
    struct diagnose_options options = {.eager_bytes = 1024};
    struct diagnosis d;
    (void)state;
    assert_non_null(g);
    diagnose(g, &options, &d);
    if (d.n)
        fail_msg("%s", d.list[0].text);
    /* Rank 37 (stage 2) leaves in the second iteration: cut behind its fourth message to the next stage. */
    struct graph_rank *r = &g->ranks[37];
    uint32_t sends = 0, cut = r->iterations[1];
    for (; sends < 4; cut++)
        for (uint32_t k = 0; r->nodes[cut].kind == GRAPH_COMM && k < r->nodes[cut].nparts; k++)
            sends += r->parts[r->nodes[cut].first_part + k].op == PRISM_OP_SEND && r->parts[r->nodes[cut].first_part + k].peer == 3;
    r->nnodes = cut;
    r->iterations[2] = r->iterations[3] = cut;
    options.ended_early = true;
    diagnose(g, &options, &d);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.list[0].kind, FINDING_MISSING);
    assert_int_equal(d.list[0].rank, 37);
    assert_int_equal(d.waiting, 63);
    if (!strstr(d.list[0].text, "iteration 2, micro-batch") || !strstr(d.list[0].text, "63 ranks wait"))
        fail_msg("%s", d.list[0].text);
    diagnosis_clear(&d);
    graph_destroy(g);
}

static void test_damaged(void **state)
{
    struct graph *g = world_of(2, 1);
    (void)state;
    call(g, 0, 0, PRISM_OP_SEND, 1, 10, COLL_INT8);
    g->ranks[0].parts[0].peer = 9;
    expect(g, NULL, FINDING_DAMAGED, 0, SAYS("rank 0", "damaged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch), cmocka_unit_test(test_order),    cmocka_unit_test(test_ring),
        cmocka_unit_test(test_missing),  cmocka_unit_test(test_messages), cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
