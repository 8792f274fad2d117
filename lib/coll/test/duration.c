/* Durations, the fit that finds their numbers again, and the profile's file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "coll/duration.h"
#include "common/bytes.h"
#include "common/file.h"

static void assert_close(double a, double b, double relative)
{
    if (fabs(a - b) > relative * fabs(b))
        fail_msg("%.9g is not %.9g within %g", a, b, relative);
}

static struct coll_network simple(void)
{
    struct coll_network net = {.tree_allreduce = true};
    net.link[COLL_LINK_INTRA] = (struct coll_link_profile){10e-6, 1e-6, 1e9, 1000, true};
    net.link[COLL_LINK_INTER] = (struct coll_link_profile){20e-6, 5e-6, 1e8, 500, true};
    return net;
}

static void follows_the_formulas(void **state)
{
    struct coll_network net = simple();
    struct coll_shape four = {.size = 4, .nodes = 1}, one = {.size = 1, .nodes = 1};
    /* ring: 10 us + 6 steps + 1.5 S / 1e9; tree: 10 us + 4 steps + 2 S / 1e9 */
    assert_close(coll_duration(&net, PRISM_OP_ALLREDUCE, 1000000, &four, -1, 2), 16e-6 + 1.5e-3, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_ALLREDUCE, 100, &four, -1, 2), 14e-6 + 2e-7, 1e-9);
    net.tree_allreduce = false;
    assert_close(coll_duration(&net, PRISM_OP_ALLREDUCE, 100, &four, -1, 2), 16e-6 + 1.5e-7, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_ALLGATHER, 1000, &four, -1, 0), 13e-6 + 3e-6, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_BROADCAST, 1000, &four, 3, 2), 13e-6 + 1e-6, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_BROADCAST, 1000, &four, 3, 0), 11e-6 + 1e-6, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_ALLTOALL, 1000, &four, -1, 0), 11e-6 + 3e-6, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_SEND, 2000, &four, 1, 0), 11e-6 + 2e-6, 1e-9);
    assert_true(coll_duration(&net, PRISM_OP_ALLREDUCE, 1000, &one, -1, 0) == 0);
    assert_true(coll_duration(&net, 99, 1000, &four, -1, 0) == 0);
}

static void nodes_count(void **state)
{
    struct coll_network net = simple();
    int32_t node_of[] = {0, 1, 0, 1};
    struct coll_shape blocks = {.size = 4, .nodes = 2}, dealt = {4, 2, node_of};
    net.tree_allreduce = false;
    /* 6 steps, half of them between the nodes */
    assert_close(coll_duration(&net, PRISM_OP_ALLREDUCE, 1000, &blocks, -1, 0),
                 20e-6 + 3 * 5e-6 + 3 * 1e-6 + 15e-6, 1e-9);
    net.lockstep = true;
    assert_close(coll_duration(&net, PRISM_OP_ALLREDUCE, 1000, &blocks, -1, 0), 20e-6 + 6 * 5e-6 + 15e-6,
                 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_SEND, 1000, &blocks, 1, 0), 11e-6 + 1e-6, 1e-9);
    assert_close(coll_duration(&net, PRISM_OP_SEND, 1000, &dealt, 1, 0), 25e-6 + 1e-5, 1e-9);
    assert_true(coll_is_eager(&net, &blocks, 0, 1, 1000));
    assert_false(coll_is_eager(&net, &dealt, 0, 1, 1000));
}

static void groups_share_links(void **state)
{
    struct coll_network net = simple();
    struct coll_shape shape = {.size = 4, .nodes = 2};
    struct coll_part parts[] = {{PRISM_OP_SEND, 1, 3000},
                                {PRISM_OP_RECV, 1, 5000},
                                {PRISM_OP_SEND, 0, 1 << 30},
                                {PRISM_OP_RECV, 1, 2000}};
    assert_close(coll_group_duration(&net, &shape, 0, parts, 4), 11e-6 + 7e-6, 1e-9);
    struct coll_part two[] = {{PRISM_OP_ALLGATHER, -1, 1000}, {PRISM_OP_ALLGATHER, -1, 1000}};
    double one = coll_duration(&net, PRISM_OP_ALLGATHER, 1000, &shape, -1, 0);
    assert_close(coll_group_duration(&net, &shape, 0, two, 2), 2 * one - 20e-6, 1e-9);
    assert_true(coll_group_duration(&net, &shape, 0, NULL, 0) == 0);
}

static void durations_grow(void **state)
{
    struct coll_network net;
    coll_network_default(&net);
    for (int op = PRISM_OP_ALLREDUCE; op < PRISM_OP_END; op++)
        for (int n = 2; n <= 8192; n *= 4)
            for (int nodes = 1; nodes <= n; nodes *= 8) {
                struct coll_shape shape = {.size = n, .nodes = nodes};
                double before = 0;
                for (uint64_t bytes = 1; bytes < (1ull << 34); bytes *= 4) {
                    double now = coll_duration(&net, op, bytes, &shape, 0, 1);
                    assert_true(isfinite(now) && now >= before && now > 0);
                    before = now;
                }
            }
}

static void who_feeds_whom(void **state)
{
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) {
            bool same = p == q;
            assert_true(coll_feeds(PRISM_OP_ALLREDUCE, -1, p, q, false));
            assert_int_equal(coll_feeds(PRISM_OP_BROADCAST, 1, p, q, false), same || q == 1);
            assert_int_equal(coll_feeds(PRISM_OP_SCATTER, 1, p, q, false), same || q == 1);
            assert_int_equal(coll_feeds(PRISM_OP_REDUCE, 1, p, q, false), same || p == 1);
            assert_int_equal(coll_feeds(PRISM_OP_GATHER, 1, p, q, false), same || p == 1);
            assert_int_equal(coll_feeds(PRISM_OP_SEND, 2, p, q, true), same);
            assert_int_equal(coll_feeds(PRISM_OP_SEND, 2, p, q, false), same || q == 2);
            assert_int_equal(coll_feeds(PRISM_OP_RECV, 2, p, q, true), same || q == 2);
        }
}

/* --- fit --- */

/* Measurements as a machine of these numbers would give them, off by up to noise. */
static size_t measure(const struct coll_network *machine, struct coll_point *points, double noise)
{
    static const int shapes[][2] = {{2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}, {16, 2}};
    static const int ops[] = {PRISM_OP_ALLREDUCE, PRISM_OP_ALLGATHER, PRISM_OP_REDUCESCATTER,
                              PRISM_OP_BROADCAST, PRISM_OP_ALLTOALL,  PRISM_OP_SEND};
    size_t n = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (double bytes = 1024; bytes < 1e8; bytes *= 4) {
                struct coll_shape shape = {.size = shapes[s][0], .nodes = shapes[s][1]};
                if (ops[o] == PRISM_OP_SEND && shape.size > 2)
                    continue;
                int last = ops[o] == PRISM_OP_SEND ? 1 : shape.size - 1; /* of a broadcast from rank 0 */
                double exact = coll_duration(machine, ops[o], (uint64_t)bytes, &shape, 0, last);
                double off = 1 + noise * (2.0 * rand() / RAND_MAX - 1);
                points[n++] = (struct coll_point){ops[o], shape.size, shape.nodes, bytes, exact * off};
            }
    return n;
}

static void expect_links(const struct coll_network *found, const struct coll_network *machine, double within)
{
    for (int l = 0; l < COLL_LINKS; l++) {
        assert_true(found->link[l].measured);
        assert_close(found->link[l].launch_s, machine->link[l].launch_s, within);
        assert_close(found->link[l].step_s, machine->link[l].step_s, within);
        assert_close(found->link[l].bandwidth_Bps, machine->link[l].bandwidth_Bps, within);
    }
    assert_int_equal(found->tree_allreduce, machine->tree_allreduce);
}

static void fit_finds_the_machine(void **state)
{
    static struct coll_point points[2000];
    srand(5);
    for (unsigned variant = 0; variant < 8; variant++) {
        struct coll_network machine = simple(), found;
        struct prism_error err = {0};
        machine.tree_allreduce = variant & 1;
        machine.tree_rooted = variant & 2;
        machine.lockstep = variant & 4;
        size_t n = measure(&machine, points, 0);
        if (coll_network_fit(&found, points, n, &err))
            fail_msg("%s", err.text);
        expect_links(&found, &machine, 1e-6);
        assert_int_equal(found.lockstep, machine.lockstep);
        assert_true(found.fit_error < 1e-6);
        assert_int_equal(found.ncurves, 0);
        coll_network_clear(&found);
        n = measure(&machine, points, 0.02);
        assert_int_equal(coll_network_fit(&found, points, n, NULL), 0);
        expect_links(&found, &machine, 0.1);
        assert_true(found.fit_error < 0.02);
        coll_network_clear(&found);
    }
}

/* What the model cannot say follows the points, for the groups that were measured. */
static void measured_groups_follow_their_points(void **state)
{
    static struct coll_point points[2000];
    struct coll_network machine = simple(), found;
    size_t n = measure(&machine, points, 0);
    for (size_t i = 0; i < n; i++)
        if (points[i].op == PRISM_OP_ALLTOALL && points[i].size == 8)
            points[i].seconds *= 2;
    assert_int_equal(coll_network_fit(&found, points, n, NULL), 0);
    assert_true(found.ncurves > 0);
    for (size_t i = 0; i < n; i++)
        if (points[i].op == PRISM_OP_ALLTOALL && points[i].size == 8) {
            struct coll_shape shape = {.size = 8, .nodes = 1};
            double now = coll_duration(&found, PRISM_OP_ALLTOALL, (uint64_t)points[i].bytes, &shape, -1, 0);
            assert_close(now, points[i].seconds, 1e-9);
        }
    coll_network_clear(&found);
}

static void fit_refuses_nonsense(void **state)
{
    struct coll_network net;
    struct prism_error err = {0};
    struct coll_point p = {PRISM_OP_ALLREDUCE, 4, 1, 1000, 1e-3}, bad;
    assert_int_equal(coll_network_fit(&net, NULL, 0, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_USAGE);
    assert_int_equal(coll_network_fit(&net, &p, 1, NULL), 0); /* one number can be had: bandwidth */
    assert_false(net.link[COLL_LINK_INTER].measured);
    coll_network_clear(&net);
    bad = p, bad.seconds = 0, assert_int_equal(coll_network_fit(&net, &bad, 1, NULL), -1);
    bad = p, bad.seconds = NAN, assert_int_equal(coll_network_fit(&net, &bad, 1, NULL), -1);
    bad = p, bad.size = 1, assert_int_equal(coll_network_fit(&net, &bad, 1, NULL), -1);
    bad = p, bad.nodes = 5, assert_int_equal(coll_network_fit(&net, &bad, 1, NULL), -1);
    bad = p, bad.op = 0, assert_int_equal(coll_network_fit(&net, &bad, 1, NULL), -1);
}

/* --- the file --- */

static void temporary(char *path, size_t len)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, len, "%s/prism-network-%ld.json", dir ? dir : "/tmp", (long)getpid());
}

static void saves_and_loads(void **state)
{
    static struct coll_point points[2000];
    struct coll_network machine = simple(), a, b;
    struct prism_error err = {0};
    char path[512];
    srand(6);
    temporary(path, sizeof path);
    size_t n = measure(&machine, points, 0.3);
    assert_int_equal(coll_network_fit(&a, points, n, NULL), 0);
    a.link[COLL_LINK_INTER].eager_bytes = 12345;
    assert_int_equal(coll_network_save(&a, path, &err), 0);
    if (coll_network_load(&b, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(b.npoints, n);
    assert_int_equal(b.ncurves, a.ncurves);
    assert_int_equal(b.link[COLL_LINK_INTER].eager_bytes, 12345);
    struct coll_shape shape = {.size = 8, .nodes = 1};
    assert_close(coll_duration(&b, PRISM_OP_ALLTOALL, 5000, &shape, -1, 0),
                 coll_duration(&a, PRISM_OP_ALLTOALL, 5000, &shape, -1, 0), 1e-9);
    coll_network_clear(&a);
    coll_network_clear(&b);
    unlink(path);
    assert_int_equal(coll_network_load(&b, path, &err), -1);
    assert_non_null(strstr(err.text, path));
}

static char *sample_text(size_t *len)
{
    struct coll_network net = simple();
    struct coll_point points[] = {{PRISM_OP_ALLREDUCE, 4, 1, 1000, 1e-3}, {PRISM_OP_SEND, 2, 2, 5e6, 0.1}};
    struct bytes text = {0};
    char path[512];
    temporary(path, sizeof path);
    net.points = points;
    net.npoints = 2;
    assert_int_equal(coll_network_save(&net, path, NULL), 0);
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    unlink(path);
    bytes_put_u8(&text, 0);
    *len = text.len - 1;
    return (char *)text.data;
}

static void expect_bad(const char *text, const char *from, const char *to, const char *complaint)
{
    struct coll_network net;
    struct prism_error err = {0};
    char changed[4096];
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(coll_network_parse(&net, changed, strlen(changed), "net.json", &err), -1);
    assert_non_null(strstr(err.text, complaint));
    assert_non_null(strstr(err.text, "net.json"));
}

static void refusals_name_the_key(void **state)
{
    size_t len;
    char *text = sample_text(&len);
    struct coll_network net;
    assert_int_equal(coll_network_parse(&net, text, len, "net.json", NULL), 0);
    coll_network_clear(&net);
    expect_bad(text, "prism-network", "other", "format");
    expect_bad(text, "\"version\": 1", "\"version\": 2", "version");
    expect_bad(text, "\"lockstep\": false", "\"lockstep\": 0", "lockstep");
    expect_bad(text, "\"lockstep\"", "\"lock\"", "unknown key 'lock'");
    expect_bad(text, "\"step_seconds\": ", "\"step_seconds\": -", "step_seconds");
    expect_bad(text, "\"bandwidth_bytes_per_second\": ", "\"bandwidth_bytes_per_second\": 0.0, \"x\": ",
               "unknown key 'x'");
    expect_bad(text, "\"AllReduce\"", "\"Allreduce\"", "op");
    expect_bad(text, "\"ranks\": 4", "\"ranks\": 1", "ranks");
    expect_bad(text, "\"nodes\": 2", "\"nodes\": 3", "nodes");
    expect_bad(text, "{", "", "not JSON");
    free(text);
}

static void survives_damaged_text(void **state)
{
    size_t len;
    char *text = sample_text(&len);
    srand(7);
    for (int round = 0; round < 4000; round++) {
        char *copy = malloc(len);
        struct coll_network net;
        memcpy(copy, text, len);
        size_t cut = round % 4 ? len : (size_t)rand() % len;
        for (int k = rand() % 4; k >= 0; k--)
            copy[(size_t)rand() % len] = (char)(rand() % 2 ? rand() : "{}[]\",:0-e1"[rand() % 11]);
        if (!coll_network_parse(&net, copy, cut, "damaged", NULL)) {
            struct coll_shape shape = {.size = 4, .nodes = 1};
            assert_true(isfinite(coll_duration(&net, PRISM_OP_ALLREDUCE, 1000, &shape, -1, 0)));
            coll_network_clear(&net);
        }
        free(copy);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_formulas),
        cmocka_unit_test(nodes_count),
        cmocka_unit_test(groups_share_links),
        cmocka_unit_test(durations_grow),
        cmocka_unit_test(who_feeds_whom),
        cmocka_unit_test(fit_finds_the_machine),
        cmocka_unit_test(measured_groups_follow_their_points),
        cmocka_unit_test(fit_refuses_nonsense),
        cmocka_unit_test(saves_and_loads),
        cmocka_unit_test(refusals_name_the_key),
        cmocka_unit_test(survives_damaged_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
