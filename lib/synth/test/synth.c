/* synth.c - jobs become graphs that fit together and say what the formulas of synth.h say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs those above */
#include <cmocka.h>

#include "coll/types.h"
#include "graph/run.h"
#include "synth/private.h"

#define FORWARD_NS  3e6
#define BACKWARD_NS 7e6

static double no_time(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t n)
{
    (void)ctx, (void)g, (void)comm, (void)p, (void)parts, (void)n;
    return 0;
}

static bool never_eager(void *ctx, uint64_t bytes)
{
    (void)ctx, (void)bytes;
    return false;
}

/* Nanoseconds of the first iteration when communication takes no time. */
static int64_t iteration(const struct graph *g)
{
    struct graph_run_ops ops = {.duration_ns = no_time, .send_is_eager = never_eager};
    struct graph_run *run = graph_run_create(g, &ops, NULL);
    char why[256];
    assert_non_null(run);
    graph_run_begin(run, 0);
    if (graph_run_blocked(run, why, sizeof why))
        fail_msg("%s", why);
    int64_t last = 0;
    for (uint32_t r = 0; r < g->world; r++)
        if (graph_run_iteration_end(run, r, 0) > last)
            last = graph_run_iteration_end(run, r, 0);
    graph_run_destroy(run);
    return last;
}

static struct synth_job pipeline(uint32_t pp, uint32_t v, uint32_t m)
{
    struct synth_job j = {.tp = 1, .cp = 1, .pp = pp, .dp = 1, .ep = 1, .virtual_stages = v, .micro_batches = m, .layers = pp * v,
                          .iterations = 1, .gpus_per_node = 8, .stage_bytes = 1 << 20};
    synth_steps_add(&j.forward, (struct synth_step){.compute_ns = FORWARD_NS / v});
    synth_steps_add(&j.backward, (struct synth_step){.compute_ns = BACKWARD_NS / v});
    return j;
}

/* iteration = (M + (PP - 1) / V) (t_forward + t_backward) */
static void test_bubble(void **state)
{
    static const uint32_t cases[][3] = {{1, 1, 4}, {2, 1, 2}, {4, 1, 8}, {8, 1, 3}, {16, 1, 32}, {2, 2, 4}, {4, 2, 8}, {4, 4, 4}, {8, 3, 16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t pp = cases[i][0], v = cases[i][1], m = cases[i][2];
        struct synth_job j = pipeline(pp, v, m);
        struct prism_error err = {0};
        struct graph *g = synth_build(&j, &err);
        assert_non_null(g);
        assert_int_equal(graph_check(g, &err), 0);
        double expected = (m + (pp - 1.0) / v) * (FORWARD_NS + BACKWARD_NS), got = (double)iteration(g);
        if (got < expected - 100 || got > expected + 100) /* thirds of nanoseconds */
            fail_msg("PP %u, V %u, M %u: %.0f ns, not %.0f", pp, v, m, got, expected);
        graph_destroy(g);
        synth_clear(&j);
    }
}

static void test_layers(void **state)
{
    struct synth_job j = {.pp = 16, .virtual_stages = 2, .layers = 126};
    uint32_t sum = 0;
    (void)state;
    for (uint32_t v = 0; v < 32; v++)
        sum += synth_layers(&j, v);
    assert_int_equal(sum, 126);
    assert_int_equal(synth_layers(&j, 0), 3);
    assert_int_equal(synth_layers(&j, 31), 3);
    assert_int_equal(synth_layers(&j, 1), 4);
    for (j.layers = 32; j.layers < 70; j.layers++) {
        for (uint32_t v = sum = 0; v < 32; v++)
            sum += synth_layers(&j, v);
        assert_int_equal(sum, j.layers);
    }
}

static const char moe[] =
    "name = \"small\"; layers = 4; iterations = 2;\n"
    "layout = { tp = 2; cp = 2; pp = 2; dp = 4; ep = 2; micro_batches = 4; virtual_stages = 2; };\n"
    "cluster = { gpus_per_node = 4; flops = 1e14; eager_bytes = 0; };\n"
    "model = { hidden = 256; heads = 8; kv_heads = 2; ffn = 64; vocab = 1000; sequence = 512; experts = 8; top_k = 2;\n"
    "  overlap_grads = true; imbalance = 0.2; };\n";

static int read_text(const char *text, struct synth_job *job, struct prism_error *err)
{
    char path[] = "/tmp/prism-synth-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = synth_read(path, job, err);
    unlink(path);
    return rc;
}

/* Every member of every communicator is where Megatron's order puts it, and a MoE job with everything on runs to its end. */
static void test_moe(void **state)
{
    struct synth_job j;
    struct prism_error err = {0};
    (void)state;
    if (read_text(moe, &j, &err))
        fail_msg("%s", err.text);
    struct graph *g = synth_build(&j, &err);
    assert_non_null(g);
    assert_int_equal(g->world, 32);
    assert_int_equal(graph_check(g, &err), 0);
    assert_true(iteration(g) > 0);
    /* TP 16, CP 16, DP 4 (of 8), EP 16, EDP 8 (of 4), world 1, PP 16 twice. */
    assert_int_equal(g->ncomms, 16 + 16 + 4 + 16 + 8 + 1 + 16 + 16);
    const struct graph_rank *r = &g->ranks[21]; /* tp 1, cp 0, dp 1, pp 1 */
    static const uint32_t sizes[] = {2, 2, 8, 2, 4, 32, 2, 2};
    static const int32_t firsts[] = {20, 21, 17, 17, 21, 0, 5, 5};
    assert_int_equal(r->ncomms, 8);
    for (uint32_t i = 0; i < r->ncomms; i++) {
        assert_int_equal(g->comms[r->comms[i].global].size, sizes[i]);
        assert_int_equal(g->comms[r->comms[i].global].ranks[0], firsts[i]);
    }
    /* The iterations that were made are those that would be found. */
    for (uint32_t i = 0; i < g->world; i++)
        assert_int_equal(g->ranks[i].iterations[1] * 2, g->ranks[i].nnodes);
    graph_destroy(g);
    synth_clear(&j);
}

/* Works of equal ranks are kept once, those of unequal ones are their own. */
static void test_works_are_shared(void **state)
{
    struct synth_job j = pipeline(2, 1, 4);
    struct prism_error err = {0};
    (void)state;
    j.dp = 3;
    synth_steps_add(&j.end, (struct synth_step){1e6, PRISM_OP_ALLREDUCE, SYNTH_DP, 64});
    struct graph *g = synth_build(&j, &err);
    uint32_t measured = 0;
    for (uint32_t r = 0; r < g->world; r++)
        measured += g->ranks[r].device_work != NULL;
    assert_int_equal(measured, 2);
    assert_true(graph_device_work(g, 5, g->ranks[5].nnodes - 1) == graph_device_work(g, 3, g->ranks[3].nnodes - 1));
    assert_true(graph_device_work(g, 5, g->ranks[5].nnodes - 1) == 1e6f);
    graph_destroy(g);
    synth_clear(&j);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"layers = 2; steps = { forward = ( { compute_us = 1.0; op = \"AllRedice\"; group = \"tp\"; } ); };", "AllRedice"},
        {"layers = 2; steps = { forward = ( { compute_us = 1.0; op = \"AllReduce\"; group = \"tq\"; } ); };", "tq"},
        {"layers = 2; steps = { forwards = ( ); };", "forwards"},
        {"layers = 2; layuot = { };\n steps = { };", "layuot"},
        {"layers = 2; layout = { tp = 0; }; steps = { };", "tp"},
        {"layers = 2;", "model, steps"},
        {"layers = 2; steps = { };", "no step"},
        {"layers = 2; layout = ( { tp = 2; } ); steps = { };", "layout: is no group"},
        {"layers = 2; steps = 3;", "steps: is no group"},
        {"layers = 2; model = ( { op = 1; } );", "model: is no group"},
        {"layers = 2; name = 7; steps = { };", "name: is no text"},
        {"steps = { };", "layers"},
        {"layers = 2; model = { hidden = 8; };", "heads"},
        {"layers = ", "syntax error"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct synth_job j;
        struct prism_error err = {0};
        assert_int_equal(read_text(cases[i].text, &j, &err), -1);
        assert_int_equal(err.code, PRISM_EXIT_USAGE);
        if (!strstr(err.text, cases[i].says) || !strstr(err.text, "line"))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
    static const uint32_t shapes[][4] = {{2, 2, 3, 4}, {1, 2, 2, 4}, {4, 1, 4, 3}}; /* pp, v, m, layers */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct synth_job j = pipeline(shapes[i][0], shapes[i][1], shapes[i][2]);
        struct prism_error err = {0};
        j.layers = shapes[i][3];
        assert_null(synth_build(&j, &err));
        assert_int_equal(err.code, PRISM_EXIT_USAGE);
        synth_clear(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bubble),           cmocka_unit_test(test_layers),  cmocka_unit_test(test_moe),
        cmocka_unit_test(test_works_are_shared), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
