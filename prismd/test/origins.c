/* origins.c - on which operation's end arrivals hang (origins.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coll/types.h"
#include "prismd/replay/origins.h"

#define US     1000
#define COMMS  2u
#define NODES  60u
#define ROUNDS 2000

/* A rank of two streams and a host thread, and its durations, one a COMM node in order. */
struct made {
    struct graph *graph;
    double ns[NODES];
};

static void begin(struct made *m)
{
    const int32_t alone[] = {0};
    m->graph = graph_create(1, 1);
    for (uint32_t c = 0; c < COMMS; c++) {
        int global = graph_add_comm(m->graph, alone, 1);
        assert_int_equal(graph_set_member(m->graph, 0, c, global, 0), 0);
    }
}

/* Communicator c is on stream c; a part's count is its node, for duration(). */
static void add(struct made *m, enum graph_kind kind, uint32_t stream, uint32_t dep)
{
    struct graph_rank *r = &m->graph->ranks[0];
    uint32_t ordinal = 0;
    struct graph_part part = {.op = PRISM_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = r->nnodes};
    for (uint32_t i = 0; i < r->nnodes; i++)
        ordinal += r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == stream;
    struct graph_node n = {.kind = (uint8_t)kind, .stream = stream, .dep = dep, .comm = stream, .ordinal = ordinal};
    assert_int_equal(graph_add_node(m->graph, 0, &n, kind == GRAPH_COMM ? &part : NULL, kind == GRAPH_COMM), 0);
}

static void work(struct made *m, uint32_t node, int64_t host, int64_t device)
{
    graph_alloc_works(m->graph, 0);
    m->graph->ranks[0].host_work[node] = (float)host;
    m->graph->ranks[0].device_work[node] = (float)device;
}

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    (void)g, (void)comm, (void)p, (void)n;
    return ((const struct made *)ctx)->ns[parts[0].count];
}

static bool eager(void *ctx, uint64_t bytes)
{
    (void)ctx, (void)bytes;
    return true;
}

static struct origins *find(struct made *m)
{
    const struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = eager, .ctx = m};
    const uint32_t rank = 0;
    struct origins *found, *played;
    origins_find(m->graph, &ops, NULL, &rank, 1, &found);
    origins_find(m->graph, &ops, &rank, &rank, 1, &played); /* as itself */
    assert_non_null(found);
    assert_non_null(played);
    assert_memory_equal(found, played, m->graph->ranks[0].nnodes * sizeof *found);
    free(played);
    return found;
}

/* So many COMM nodes back and so much slack; NULL-ended by back 0. */
static void expect(const struct origins *o, uint32_t back, int32_t slack_ns, uint32_t next_back, int32_t next_slack_ns)
{
    assert_int_equal(o->of[0].back, back);
    assert_int_equal(o->of[0].slack_ns, slack_ns);
    assert_int_equal(o->of[1].back, next_back);
    assert_int_equal(o->of[1].slack_ns, next_slack_ns);
}

/* Operation, work, operation: the second hangs on the first, the first on nothing. */
static void one_stream(void **state)
{
    struct made m = {.ns = {50 * US, 50 * US}};
    (void)state;
    begin(&m);
    add(&m, GRAPH_COMM, 0, 0);
    add(&m, GRAPH_COMM, 0, 0);
    work(&m, 1, 0, 100 * US);
    struct origins *found = find(&m);
    expect(&found[0], 0, 0, 0, 0);
    expect(&found[1], 1, 0, 0, 0);
    free(found);
    graph_destroy(m.graph);
}

/* The second is issued 350 us after it could begin: the first may be as much later. */
static void the_host_is_late(void **state)
{
    struct made m = {.ns = {50 * US, 50 * US}};
    (void)state;
    begin(&m);
    add(&m, GRAPH_COMM, 0, 0);
    add(&m, GRAPH_COMM, 0, 0);
    work(&m, 1, 500 * US, 100 * US);
    struct origins *found = find(&m);
    expect(&found[1], 1, 350 * US, 0, 0);
    free(found);
    graph_destroy(m.graph);
}

/* The host waited for the first operation and then took its time. */
static void through_the_host(void **state)
{
    struct made m = {.ns = {50 * US, 0, 0, 50 * US}};
    (void)state;
    begin(&m);
    add(&m, GRAPH_COMM, 0, 0);
    add(&m, GRAPH_RECORD, 0, 0);
    add(&m, GRAPH_SYNC, 0, 1);
    add(&m, GRAPH_COMM, 1, 0);
    work(&m, 3, 500 * US, 0);
    struct origins *found = find(&m);
    expect(&found[3], 1, 0, 0, 0);
    free(found);
    graph_destroy(m.graph);
}

/* One stream waits for another's operation, which ends before or after its own. */
static void through_an_event(void **state)
{
    struct made m = {.ns = {90 * US, 10 * US, 0, 0, 10 * US}};
    (void)state;
    begin(&m);
    add(&m, GRAPH_COMM, 0, 0);
    add(&m, GRAPH_COMM, 1, 0);
    add(&m, GRAPH_RECORD, 0, 0);
    add(&m, GRAPH_WAIT, 1, 1);
    add(&m, GRAPH_COMM, 1, 0);
    work(&m, 1, 1 * US, 0);
    struct origins *found = find(&m);
    expect(&found[4], 2, 0, 1, 79 * US);
    m.ns[1] = 200 * US;
    free(found);
    found = find(&m);
    expect(&found[4], 1, 0, 2, 111 * US);
    free(found);
    graph_destroy(m.graph);
}

struct starts {
    int64_t ns[NODES];
};

static void keep_start(void *ctx, uint32_t rank, uint64_t v, int64_t start_ns, int64_t end_ns)
{
    struct starts *s = *(struct starts **)ctx;
    (void)rank, (void)end_ns;
    s->ns[v] = start_ns;
}

struct kept {
    struct starts *starts;
    const struct made *made;
};

static double kept_duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    return duration((void *)(uintptr_t)((const struct kept *)ctx)->made, g, comm, p, parts, n);
}

static void evaluate(const struct made *m, struct starts *starts)
{
    struct kept kept = {starts, m};
    const struct graph_run_ops ops = {.duration_ns = kept_duration, .send_is_eager = eager, .on_node = keep_start, .ctx = &kept};
    struct graph_run *run = graph_run_create(m->graph, &ops, NULL);
    assert_non_null(run);
    graph_run_begin(run, 0);
    assert_int_equal(graph_run_blocked(run, NULL, 0), 0);
    graph_run_destroy(run);
}

static void make_by_chance(struct made *m)
{
    begin(m);
    uint32_t n = 8 + (uint32_t)rand() % (NODES - 8), record = 0;
    for (uint32_t i = 0; i < n; i++) {
        static const enum graph_kind kinds[] = {GRAPH_COMM, GRAPH_COMM, GRAPH_RECORD, GRAPH_WAIT, GRAPH_SYNC};
        enum graph_kind kind = i < 2 ? GRAPH_RECORD : kinds[rand() % 5];
        bool waits = kind == GRAPH_WAIT || kind == GRAPH_SYNC;
        add(m, kind, (uint32_t)rand() % COMMS, waits ? i - record : 0);
        if (kind == GRAPH_RECORD)
            record = i;
        m->ns[i] = (double)(1 + rand() % 1000003);
    }
    for (uint32_t i = 0; i < n; i++)
        work(m, i, 1 + rand() % 400009, 1 + rand() % 1000003);
}

/* By how much the arrival at the k'th COMM node moves if the late'th ends so much later, as the origins say. */
static int64_t said(const struct origins *found, const uint32_t *nodes, uint32_t k, uint32_t late, int64_t ns, bool *all)
{
    const struct origins *o = &found[nodes[k]];
    int64_t most = 0;
    *all &= !o->of[ORIGINS_MAX - 1].back;
    for (uint32_t i = 0; i < ORIGINS_MAX && o->of[i].back; i++) {
        uint32_t at = k - o->of[i].back;
        int64_t moved = (at == late ? ns : 0) + said(found, nodes, at, late, ns, all) - o->of[i].slack_ns;
        most = moved > most ? moved : most;
    }
    return most;
}

/* An operation that takes longer moves the arrivals behind it by as much as the origins say, over any number of them. Where one has more
 * origins than are kept, it may move by more. */
static void later_ends_move_what_hangs_on_them(void **state)
{
    uint32_t moved = 0;
    (void)state;
    srand(5);
    for (int round = 0; round < ROUNDS; round++) {
        struct made m = {0};
        struct starts before, after;
        uint32_t nodes[NODES], ncomm = 0;
        make_by_chance(&m);
        const struct graph_rank *r = &m.graph->ranks[0];
        struct origins *found = find(&m);
        for (uint32_t i = 0; i < r->nnodes; i++)
            if (r->nodes[i].kind == GRAPH_COMM)
                nodes[ncomm++] = i;
        uint32_t late = ncomm ? (uint32_t)rand() % ncomm : 0;
        int64_t ns = 1 + rand() % 2000003;
        evaluate(&m, &before);
        m.ns[nodes[late]] += (double)ns;
        evaluate(&m, &after);
        for (uint32_t k = 0; k < ncomm && k < late + 8; k++) {
            bool all = true;
            int64_t is = after.ns[nodes[k]] - before.ns[nodes[k]], says = said(found, nodes, k, late, ns, &all);
            moved += is > 0;
            if (says > is || (all && says != is))
                fail_msg("round %d: operation %u ends %lld ns later, %u moves by %lld and not by %lld", round, late, (long long)ns, k,
                         (long long)is, (long long)says);
        }
        free(found);
        graph_destroy(m.graph);
    }
    assert_true(moved > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream),
        cmocka_unit_test(the_host_is_late),
        cmocka_unit_test(through_the_host),
        cmocka_unit_test(through_an_event),
        cmocka_unit_test(later_ends_move_what_hangs_on_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
