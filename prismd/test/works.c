/* works.c - measured times to works (measured.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "graph/eval.h"
#include "prismd/replay/measured.h"

#define US 1000
#define MS 1000000

/* A rank with nodes RECORD, one a line, on these streams. */
struct timed {
    uint32_t stream;
    int64_t leave, enter, pre, post;
    bool alone;
};

/* Iterations of equal length, but the first has `more` nodes in front. */
static struct graph *measure_from(const struct timed *nodes, uint32_t n, uint32_t niterations, uint32_t more)
{
    struct graph *g = graph_create(1, 1);
    for (uint32_t i = 0; i < n; i++) {
        struct graph_node node = {.kind = GRAPH_RECORD, .stream = nodes[i].stream};
        assert_int_equal(graph_add_node(g, 0, &node, NULL, 0), 0);
    }
    g->ranks[0].niterations = niterations;
    g->ranks[0].iterations = calloc(niterations + 1u, sizeof(uint32_t));
    for (uint32_t k = 0; k <= niterations; k++)
        g->ranks[0].iterations[k] = k ? more + k * ((n - more) / niterations) : 0;
    struct measured *x = measured_create(&g->ranks[0]);
    for (uint32_t i = 0; i < n; i++) {
        struct msg_node m = {.index = i, .kind = GRAPH_RECORD, .stream = nodes[i].stream, .enter_ns = nodes[i].enter, .leave_ns = nodes[i].leave};
        struct msg_time t = {.index = i, .alone = nodes[i].alone, .pre_ns = nodes[i].pre, .post_ns = nodes[i].post};
        measured_node(x, &m, 0);
        measured_times(x, &t, 1);
    }
    assert_int_equal(measured_to_works(x, g, 0), n);
    measured_destroy(x);
    return g;
}

static struct graph *measure(const struct timed *nodes, uint32_t n, uint32_t niterations)
{
    return measure_from(nodes, n, niterations, 0);
}

static void expect(const struct timed *nodes, uint32_t n, const int64_t *works)
{
    struct graph *g = measure(nodes, n, 0);
    for (uint32_t i = 0; i < n; i++)
        if ((int64_t)g->ranks[0].device_work[i] != works[i])
            fail_msg("node %u: %lld ns, not %lld", i, (long long)g->ranks[0].device_work[i], (long long)works[i]);
    graph_destroy(g);
}

/* The host is ahead of the stream: all the time between two nodes is work. */
static void test_host_ahead(void **state)
{
    const struct timed nodes[] = {{0, 1 * MS, 2 * MS, 10 * MS, 10 * MS, false}, {0, 2 * MS, 3 * MS, 14 * MS, 14 * MS, false}};
    (void)state;
    expect(nodes, 2, (int64_t[]){0, 4 * MS});
}

/* The stream lay idle until the host issued the node: no work. */
static void test_idle(void **state)
{
    const struct timed nodes[] = {{0, 1 * MS, 2 * MS, 2 * MS, 2 * MS, false}, {0, 2 * MS, 20 * MS, 20 * MS + 50 * US, 21 * MS, false}};
    (void)state;
    expect(nodes, 2, (int64_t[]){0, 0});
}

/* Four iterations of 20 ms, two nodes each; late[k]: how long after its issue the stream gets to the second one; alone: nothing was put in
 * front of it. */
static void iterations_of(const int64_t *late, bool alone, const int64_t *works)
{
    struct timed nodes[8];
    for (int k = 0; k < 4; k++) {
        int64_t t = (int64_t)k * 20 * MS + MS;
        nodes[2 * k] = (struct timed){1, t, t + 10 * US, t + 20 * US, t + 20 * US, alone};
        nodes[2 * k + 1] = (struct timed){1, t + 10 * MS, t + 18 * MS, t + 18 * MS + late[k], t + 18 * MS + late[k], alone};
    }
    struct graph *g = measure(nodes, 8, 4);
    for (int k = 0; k < 4; k++)
        if ((int64_t)g->ranks[0].device_work[2 * k + 1] != works[k])
            fail_msg("iteration %d: %lld ns, not %lld", k, (long long)g->ranks[0].device_work[2 * k + 1], (long long)works[k]);
    graph_destroy(g);
}

static void iterations(const int64_t *late, const int64_t *works)
{
    iterations_of(late, false, works);
}

/* A communication stream, idle for 18 ms, gets to its next node late because the machine is busy: no work, as other iterations show. */
static void test_late_now_and_then(void **state)
{
    (void)state;
    iterations((int64_t[]){50 * US, 600 * US, 50 * US, 5 * MS}, (int64_t[]){0, 0, 0, 0});
}

/* Kernels that an idle stream is given are late in every iteration. */
static void test_kernels_after_idleness(void **state)
{
    const int64_t work = 18 * MS - 20 * US + MS;
    (void)state;
    iterations((int64_t[]){1 * MS, 1 * MS, 1 * MS, 1 * MS}, (int64_t[]){work, work, work, work});
    iterations((int64_t[]){1 * MS, 1 * MS, 1 * MS, 50 * US}, (int64_t[]){work, work, work, 0});
}

/* The first iteration has three nodes of another stream and one of this one in front, which the program makes once. */
static void test_late_in_the_first_iteration(void **state)
{
    struct timed nodes[10] = {{2, MS, MS, MS, MS, false}, {2, MS, MS, MS, MS, false}, {2, MS, MS, MS, MS, false}, {1, MS, MS, MS, MS, false}};
    (void)state;
    for (int k = 0; k < 3; k++) {
        int64_t t = (int64_t)k * 20 * MS + 2 * MS, late = k ? 50 * US : 5 * MS;
        nodes[4 + 2 * k] = (struct timed){1, t, t + 10 * US, t + 20 * US, t + 20 * US, false};
        nodes[5 + 2 * k] = (struct timed){1, t + 10 * MS, t + 18 * MS, t + 18 * MS + late, t + 18 * MS + late, false};
    }
    struct graph *g = measure_from(nodes, 10, 3, 4);
    for (int k = 0; k < 3; k++)
        assert_int_equal((int)g->ranks[0].device_work[5 + 2 * k], 0);
    graph_destroy(g);
}

/* The same of a stream that nothing was put on: the machine was busy each time. */
static void test_late_with_nothing_in_front(void **state)
{
    (void)state;
    iterations_of((int64_t[]){1 * MS, 1 * MS, 5 * MS, 50 * US}, true, (int64_t[]){0, 0, 0, 0});
}

/* Nor is it work of the host's, in front of it or less of it behind. A stream that is not idle has what it still does in front. */
static void test_nothing_in_front(void **state)
{
    const struct timed nodes[] = {{0, 1 * MS, 2 * MS, 3 * MS, 9 * MS, true}, {0, 2 * MS, 4 * MS, 9 * MS + 20 * US, 9 * MS + 20 * US, true},
                                  {0, 5 * MS, 20 * MS, 21 * MS, 21 * MS, true}, {0, 20 * MS, 30 * MS, 30 * MS, 30 * MS, true}};
    const int64_t device[] = {0, 20 * US, 0, 0}, host[] = {1 * MS, 2 * MS, 15 * MS, 10 * MS};
    struct graph *g = measure(nodes, 4, 0);
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal((int)g->ranks[0].device_work[i], device[i]);
        assert_int_equal((int)g->ranks[0].host_work[i], host[i]);
    }
    graph_destroy(g);
}

/* A node that was sent, of stream 1, and its work; -1: it is not among the recorded ones. */
struct seen {
    uint8_t kind;
    struct timed at;
    int64_t work;
};

static void expect_of(const struct seen *seen, uint32_t n)
{
    const struct graph_part part = {.op = 1, .datatype = 7, .peer = -1, .count = 1};
    const int32_t ranks[] = {0};
    struct graph *g = graph_create(1, 8);
    graph_set_member(g, 0, 0, graph_add_comm(g, ranks, 1), 0);
    for (uint32_t i = 0; i < n; i++) {
        struct graph_node node = {.kind = seen[i].kind, .stream = 1};
        if (seen[i].work >= 0)
            assert_int_equal(graph_add_node(g, 0, &node, &part, seen[i].kind == GRAPH_COMM), 0);
    }
    struct measured *x = measured_create(&g->ranks[0]);
    for (uint32_t i = 0; i < n; i++) {
        const struct timed *at = &seen[i].at;
        struct msg_node m = {.index = i, .kind = seen[i].kind, .stream = 1, .enter_ns = at->enter, .leave_ns = at->leave};
        struct msg_time t = {.index = i, .alone = at->alone, .pre_ns = at->pre, .post_ns = at->post};
        measured_node(x, &m, 0);
        measured_times(x, &t, 1);
    }
    measured_to_works(x, g, 0);
    measured_destroy(x);
    for (uint32_t i = 0, k = 0; i < n; i++)
        if (seen[i].work >= 0)
            assert_int_equal((int)g->ranks[0].device_work[k++], seen[i].work);
    graph_destroy(g);
}

/* Kernels of 20 ms, or none, lie in front of a record that no other run has; the group is alone behind it. */
static void test_what_lies_in_front_of_a_node_of_this_run_alone(void **state)
{
    (void)state;
    for (int kernels = 0; kernels < 2; kernels++) {
        const struct seen seen[] = {{GRAPH_JOIN, {1, MS, MS, MS, MS, true}, 0},
                                    {GRAPH_RECORD, {1, 2 * MS, 3 * MS, 21 * MS, 21 * MS, !kernels}, -1},
                                    {GRAPH_COMM, {1, 3 * MS, 4 * MS, 21 * MS + US, 21 * MS + US, true}, kernels ? 20 * MS + US : 0}};
        expect_of(seen, 3);
    }
}

/* The stream gets to a JOIN 5 ms late, as the machine was busy; what follows are kernels of 2 ms. */
static void test_kernels_behind_a_late_join(void **state)
{
    const struct seen seen[] = {{GRAPH_RECORD, {1, MS, MS, MS, MS, true}, 0},
                                {GRAPH_JOIN, {1, 9 * MS, 10 * MS, 15 * MS, 15 * MS, true}, 0},
                                {GRAPH_RECORD, {1, 10 * MS, 11 * MS, 17 * MS, 17 * MS, false}, 2 * MS}};
    (void)state;
    expect_of(seen, 3);
}

/* A rank whose one iteration is a group and so many records, all on one stream. */
static struct graph *recorded_once(uint32_t records)
{
    const struct graph_part part = {.op = 1, .datatype = 7, .peer = -1, .count = 1};
    const int32_t ranks[] = {0};
    const struct graph_node comm = {.kind = GRAPH_COMM}, record = {.kind = GRAPH_RECORD};
    struct graph *g = graph_create(1, 8);
    graph_set_member(g, 0, 0, graph_add_comm(g, ranks, 1), 0);
    assert_int_equal(graph_add_node(g, 0, &comm, &part, 1), 0);
    for (uint32_t i = 0; i < records; i++)
        assert_int_equal(graph_add_node(g, 0, &record, NULL, 0), 0);
    g->ranks[0].niterations = 1;
    g->ranks[0].iterations = calloc(2, sizeof(uint32_t));
    g->ranks[0].iterations[1] = 1 + records;
    return g;
}

/* The group of 90 ms, then records behind work of so many ms, each with 50 us of the host's in front; 0: no more. */
struct gone_through {
    int work_ms[3];
    bool untimed; /* the group's times are lost */
};

static void go_through(struct measured *x, const struct gone_through *passes, uint32_t n)
{
    int64_t t = MS;
    uint32_t index = 0;
    for (uint32_t p = 0; p < n; p++) {
        struct msg_node comm = {.index = index, .kind = GRAPH_COMM, .ordinal = p, .enter_ns = t - 200 * US, .leave_ns = t - 300 * US};
        struct msg_time begin = {.index = index++, .pre_ns = t, .post_ns = t + 90 * MS};
        measured_node(x, &comm, p);
        if (!passes[p].untimed)
            measured_times(x, &begin, 1);
        int64_t issued = t, end = t + 90 * MS;
        for (int i = 0; i < 3 && passes[p].work_ms[i]; i++) {
            end += passes[p].work_ms[i] * MS;
            struct msg_node m = {.index = index, .kind = GRAPH_RECORD, .enter_ns = issued, .leave_ns = issued - 50 * US};
            struct msg_time time = {.index = index++, .pre_ns = end, .post_ns = end};
            measured_node(x, &m, 0);
            measured_times(x, &time, 1);
            issued += 50 * US;
        }
        t = end;
    }
}

/* Recorded once, then gone through again. */
static void test_passes(void **state)
{
    /* The fifth is none like most, the last is not whole. */
    const struct gone_through passes[] = {{.work_ms = {9}}, {.work_ms = {4}}, {.work_ms = {6}}, {.work_ms = {5}}, {.work_ms = {40}}, {.work_ms = {5}}, {.work_ms = {5}}};
    struct graph *g = recorded_once(1);
    struct measured *x = measured_create(&g->ranks[0]);
    (void)state;
    go_through(x, passes, 7);
    assert_int_equal(measured_to_works(x, g, 0), 2);
    assert_int_equal((int)g->ranks[0].device_work[1], 5 * MS); /* of passes 1 to 5 without the fourth: 4, 6, 5, 5 */
    assert_int_equal((int)g->ranks[0].host_work[1], 50 * US);
    assert_int_equal((int)g->ranks[0].host_work[0], 100 * US);
    measured_destroy(x);
    graph_destroy(g);
}

/* What a pass lacks is no work of its own there: the iteration stays as long as it took. */
static void test_a_node_of_some_passes(void **state)
{
    const struct gone_through passes[] = {{.work_ms = {2, 3, 4}}, {.work_ms = {2, 3, 4}}, {.work_ms = {2, 7}}, {.work_ms = {2, 7}}, {.work_ms = {2, 3, 4}}, {.work_ms = {2}}};
    struct graph *g = recorded_once(3);
    struct measured *x = measured_create(&g->ranks[0]);
    const struct graph_rank *r = &g->ranks[0];
    (void)state;
    go_through(x, passes, 6);
    measured_to_works(x, g, 0);
    assert_int_equal((int)r->device_work[1], 2 * MS);
    assert_int_equal((int)r->device_work[2], 5 * MS);
    assert_int_equal((int)r->device_work[3], 2 * MS);
    assert_int_equal((int)r->host_work[2] + (int)r->host_work[3], 75 * US);
    measured_destroy(x);
    graph_destroy(g);
}

/* One that only the recorded iteration has took nothing in the others. */
static void test_a_node_of_no_pass(void **state)
{
    const struct gone_through passes[] = {{.work_ms = {50, 60}}, {.work_ms = {9}}, {.work_ms = {9}}, {.work_ms = {9}}};
    struct graph *g = recorded_once(2);
    struct measured *x = measured_create(&g->ranks[0]);
    (void)state;
    go_through(x, passes, 4);
    measured_to_works(x, g, 0);
    assert_int_equal((int)g->ranks[0].device_work[1], 9 * MS);
    assert_int_equal((int)g->ranks[0].device_work[2], 0);
    measured_destroy(x);
    graph_destroy(g);
}

/* The phase ends before the last passes' times are here: they do not count, and what they lack is not taken for nothing. */
static void test_passes_without_times(void **state)
{
    const struct gone_through passes[] = {{.work_ms = {9}}, {.work_ms = {4}}, {.work_ms = {6}}, {.work_ms = {5}, .untimed = true}, {.work_ms = {5}, .untimed = true}};
    struct graph *g = recorded_once(1);
    struct measured *x = measured_create(&g->ranks[0]);
    (void)state;
    go_through(x, passes, 5);
    measured_to_works(x, g, 0);
    assert_int_equal((int)g->ranks[0].device_work[1], 4 * MS); /* the second's end is not known either */
    measured_destroy(x);
    graph_destroy(g);
}

/* Until the mean is known, but six at least, and not for ever. */
static void test_enough_passes(void **state)
{
    double seconds[MEASURED_MOST];
    (void)state;
    for (uint32_t i = 0; i < MEASURED_MOST; i++)
        seconds[i] = 0.03;
    assert_false(measured_suffices(seconds, MEASURED_PASSES));
    assert_true(measured_suffices(seconds, MEASURED_PASSES + 1));
    for (uint32_t i = 0; i < MEASURED_MOST; i++)
        seconds[i] = i % 2 ? 0.0301 : 0.0299; /* 0.33 % each, of n passes 0.33 / sqrt(n) */
    assert_false(measured_suffices(seconds, 10));
    assert_true(measured_suffices(seconds, 13));
    for (uint32_t i = 0; i < MEASURED_MOST; i++)
        seconds[i] = i % 2 ? 0.033 : 0.027;
    assert_false(measured_suffices(seconds, MEASURED_MOST - 1));
    assert_true(measured_suffices(seconds, MEASURED_MOST));
    for (uint32_t i = 0; i < MEASURED_MOST; i++)
        seconds[i] = i % 2 ? 1.5 : 1.2;
    assert_true(measured_suffices(seconds, 8));
    assert_false(measured_suffices(seconds, 7));
}

/* --- a program that the host bounds, on a machine whose launches and wake-ups take time --- */

#define LAUNCH (12 * US) /* until an idle stream has what it is given */
#define WAKE   (9 * US)  /* until a thread that waits knows */

struct machine {
    struct graph *graph;
    struct msg_node sent[2000];
    struct msg_time times[2000]; /* by node */
    uint32_t n;
    int64_t now, left, stream; /* the thread's time, when it returned from its last call, the stream's end */
    int64_t mark;              /* what setting a mark for a wait costs the thread */
    int64_t skew;              /* of the device's times, as they are told */
    uint64_t seed;
};

static int64_t any_of(struct machine *m, int64_t n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((m->seed >> 33) % (uint64_t)n);
}

static int64_t device_from(const struct machine *m)
{
    return m->stream > m->now + LAUNCH ? m->stream : m->now + LAUNCH;
}

static void send(struct machine *m, uint8_t kind, uint32_t dep, int64_t leave, int64_t pre)
{
    struct graph_node n = {.kind = kind, .dep = dep ? m->n + 1 - dep : 0};
    assert_int_equal(graph_add_node(m->graph, 0, &n, NULL, 0), 0);
    m->sent[m->n] = (struct msg_node){.index = m->n, .kind = kind, .dep = dep, .enter_ns = m->now, .leave_ns = leave};
    m->times[m->n] = (struct msg_time){.index = m->n, .pre_ns = pre ? pre + m->skew : 0, .post_ns = pre ? pre + m->skew : 0};
    m->n++;
}

static void launch(struct machine *m)
{
    m->now += any_of(m, 100 * US);
    m->stream = device_from(m) + any_of(m, 3) * any_of(m, 200 * US);
    m->now += any_of(m, 2) * any_of(m, 300 * US);
}

static void record(struct machine *m)
{
    m->stream = device_from(m);
    send(m, GRAPH_RECORD, 0, m->left, m->stream);
    m->left = m->now;
}

/* A copy to the host that lasts `copy`; 0: none, for the stream alone. */
static void wait_for_it(struct machine *m, int64_t copy)
{
    int64_t marked = device_from(m), entered = m->now;
    send(m, GRAPH_RECORD, 0, m->left, marked);
    uint32_t mark = m->n, sync = m->n;
    send(m, GRAPH_SYNC, mark, entered, 0);
    int64_t began = m->now += m->mark;
    m->stream = marked;
    m->now = (copy ? device_from(m) : m->stream > m->now ? m->stream : m->now) + copy + WAKE;
    m->sent[sync].enter_ns = entered;
    m->stream = m->now;
    send(m, GRAPH_JOIN, 0, began, m->now + LAUNCH);
    m->left = m->now;
}

static void measure_program(struct machine *m)
{
    struct measured *x = measured_create(&m->graph->ranks[0]);
    for (uint32_t i = 0; i < m->n; i++)
        measured_node(x, &m->sent[i], 0);
    measured_times(x, m->times, m->n);
    measured_to_works(x, m->graph, 0);
    measured_destroy(x);
}

static struct machine *run_program(uint64_t seed, int64_t mark, int64_t skew)
{
    struct machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (struct machine){.graph = graph_create(1, 1), .now = MS, .mark = mark, .skew = skew, .seed = seed};
    record(m);
    m->now += MS; /* the first node's launch is in front of everything */
    for (int step = 0; step < 400; step++)
        switch (any_of(m, 4)) {
        case 0: record(m); break;
        case 1: wait_for_it(m, any_of(m, 2) * any_of(m, 40 * US)); break;
        default: launch(m);
        }
    wait_for_it(m, 0);
    measure_program(m);
    return m;
}

/* The graph's arithmetic of what was measured gives the times that were measured; the last node's end. tolerance: of all, in ns. */
static int64_t play_again(const struct machine *m, int64_t tolerance)
{
    struct graph_eval *e = graph_eval(m->graph, &(struct graph_eval_ops){0}, &(struct graph_eval_options){.keep_times = true}, NULL);
    assert_non_null(e);
    const struct graph_times *t = graph_eval_times(e, 0);
    for (uint32_t i = 1; i < m->n; i++) {
        bool joins = m->sent[i].kind == GRAPH_JOIN && !m->skew; /* else it may be late on the stream, by the launch and the skew, and the thread is not */
        int64_t there = m->sent[i].kind == GRAPH_RECORD ? m->times[i].pre_ns : joins ? m->sent[i].enter_ns : 0;
        int64_t off = t[i].end_ns + MS - there;
        if (there && (off < -tolerance || off > tolerance))
            fail_msg("node %u (kind %u): off by %lld ns", i, m->sent[i].kind, (long long)off);
    }
    int64_t end = t[m->n - 1].end_ns;
    graph_eval_destroy(e);
    return end;
}

static void free_machine(struct machine *m)
{
    graph_destroy(m->graph);
    free(m);
}

static void test_launches_and_wake_ups(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct machine *m = run_program(seed, 0, 0);
        play_again(m, US);
        free_machine(m);
    }
}

/* Device times are some microseconds off the host's: no more than that is what comes of it, however often host and device meet. */
static void test_device_times_that_are_off(void **state)
{
    static const int64_t skews[] = {-LAUNCH + US, -5 * US, 20 * US, 60 * US};
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int64_t skew = skews[seed % 4];
        struct machine *m = run_program(seed, 0, skew);
        play_again(m, (skew < 0 ? -skew : skew) + US);
        free_machine(m);
    }
}

/* What Prism's marks cost is not the program's: over many programs, the ends are those of the same programs without them. */
static void test_marks_cost_nothing(void **state)
{
    int64_t cost = 0, left = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct machine *m = run_program(seed, 0, 0), *marked = run_program(seed, 6 * US, 0);
        cost += marked->now - m->now;
        left += play_again(marked, MS) - play_again(m, US);
        free_machine(m);
        free_machine(marked);
    }
    assert_true(cost > 0);
    if (left > cost / 5 || left < -cost / 5)
        fail_msg("%lld ns of %lld that marks cost are left", (long long)left, (long long)cost);
}

/* A record on an idle stream, then a wait for one that is long over: by when the stream gets there no thread goes on later for it. */
static void test_waits_for_what_is_over(void **state)
{
    struct machine *m = calloc(1, sizeof *m);
    (void)state;
    assert_non_null(m);
    *m = (struct machine){.graph = graph_create(1, 1), .now = MS};
    record(m);
    m->now += MS;
    for (int i = 0; i < 100; i++) {
        record(m);
        m->now += US;
        send(m, GRAPH_SYNC, 1, m->left, 0);
        int64_t began = m->now;
        m->now += 2 * US;
        m->stream = device_from(m);
        send(m, GRAPH_JOIN, 0, began, m->stream);
        m->left = m->now;
        m->now += 40 * US;
    }
    measure_program(m);
    play_again(m, LAUNCH);
    free_machine(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host_ahead), cmocka_unit_test(test_idle),
                                       cmocka_unit_test(test_passes), cmocka_unit_test(test_a_node_of_some_passes),
                                       cmocka_unit_test(test_a_node_of_no_pass), cmocka_unit_test(test_passes_without_times), cmocka_unit_test(test_enough_passes),
                                       cmocka_unit_test(test_late_now_and_then), cmocka_unit_test(test_kernels_after_idleness),
                                       cmocka_unit_test(test_late_in_the_first_iteration), cmocka_unit_test(test_late_with_nothing_in_front), cmocka_unit_test(test_nothing_in_front),
                                       cmocka_unit_test(test_what_lies_in_front_of_a_node_of_this_run_alone), cmocka_unit_test(test_kernels_behind_a_late_join),
                                       cmocka_unit_test(test_launches_and_wake_ups), cmocka_unit_test(test_device_times_that_are_off), cmocka_unit_test(test_marks_cost_nothing),
                                       cmocka_unit_test(test_waits_for_what_is_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
