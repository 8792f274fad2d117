/* graph.bin: round trips, other versions, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "build.h"
#include "random_graph.h"

static void assert_same(const struct graph *a, const struct graph *b)
{
    assert_int_equal(a->world, b->world);
    assert_int_equal(a->gpus_per_node, b->gpus_per_node);
    assert_int_equal(a->ncomms, b->ncomms);
    assert_int_equal(a->nclasses, b->nclasses);
    for (uint32_t i = 0; i < a->ncomms; i++) {
        assert_int_equal(a->comms[i].size, b->comms[i].size);
        if (a->comms[i].size)
            assert_memory_equal(a->comms[i].ranks, b->comms[i].ranks,
                                a->comms[i].size * sizeof *a->comms[i].ranks);
    }
    for (uint32_t i = 0; i < a->world; i++) {
        const struct graph_rank *x = &a->ranks[i], *y = &b->ranks[i];
        assert_int_equal(x->nnodes, y->nnodes);
        assert_int_equal(x->nparts, y->nparts);
        assert_int_equal(x->ncomms, y->ncomms);
        assert_int_equal(x->nstreams, y->nstreams);
        assert_int_equal(x->nhosts, y->nhosts);
        assert_int_equal(x->klass, y->klass);
        assert_int_equal(x->niterations, y->niterations);
        if (x->nnodes)
            assert_memory_equal(x->nodes, y->nodes, x->nnodes * sizeof *x->nodes);
        if (x->nparts)
            assert_memory_equal(x->parts, y->parts, x->nparts * sizeof *x->parts);
        if (x->ncomms)
            assert_memory_equal(x->comms, y->comms, x->ncomms * sizeof *x->comms);
        if (x->niterations)
            assert_memory_equal(x->iterations, y->iterations, (x->niterations + 1) * sizeof *x->iterations);
        assert_int_equal(!x->device_work, !y->device_work);
        if (x->device_work && x->nnodes) {
            assert_memory_equal(x->device_work, y->device_work, x->nnodes * sizeof *x->device_work);
            assert_memory_equal(x->host_work, y->host_work, x->nnodes * sizeof *x->host_work);
        }
    }
}

static void test_round_trip(void **state)
{
    uint64_t seed = 17;
    struct bytes out = {0};
    for (int i = 0; i < 300; i++) {
        struct random_shape shape = random_shape(&seed);
        struct graph *g = random_graph(&seed, &shape);
        graph_find_classes(g);
        graph_write(g, &out);
        struct prism_error err = {0};
        struct graph *back = graph_read(out.data, out.len, &err);
        if (!back)
            fail_msg("%s", err.text);
        assert_same(g, back);
        struct graph_node record = {.kind = GRAPH_RECORD};
        if (!back->ranks[0].device_work) /* what was read can be added to */
            assert_int_equal(graph_add_node(back, 0, &record, NULL, 0), 0);
        graph_destroy(g);
        graph_destroy(back);
    }
    bytes_free(&out);
}

/* Equal ranks cost next to nothing. */
static void test_small(void **state)
{
    struct graph *g = graph_create(256, 8);
    struct bytes out = {0};
    build_world(g, 0);
    for (uint32_t r = 0; r < 256; r++)
        for (uint32_t i = 0; i < 100; i++)
            build_op(g, r, 0, (uint8_t)(i % 3 ? GRAPH_OP_ALLREDUCE : GRAPH_OP_ALLGATHER), -1, 1000 + i * i);
    graph_write(g, &out);
    assert_in_range(out.len, 1, 256 * 100 / 2);
    graph_destroy(g);
    bytes_free(&out);
}

static void expect(const struct bytes *b, size_t len, const char *text)
{
    struct prism_error err = {0};
    assert_null(graph_read(b->data, len, &err));
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void sample(struct bytes *out)
{
    uint64_t seed = 23;
    struct random_shape shape = {.world = 4,
                                 .streams = 2,
                                 .hosts = 1,
                                 .comms = 2,
                                 .setup = 2,
                                 .steps = 4,
                                 .iterations = 2,
                                 .works = true};
    struct graph *g = random_graph(&seed, &shape);
    graph_write(g, out);
    graph_destroy(g);
}

static void seal(struct bytes *b)
{
    struct bytes sum = {0};
    bytes_put_u64(&sum, XXH64(b->data, b->len - 8, 0));
    memcpy(b->data + b->len - 8, sum.data, 8);
    bytes_free(&sum);
}

static void test_refused(void **state)
{
    struct bytes b = {0};
    sample(&b);
    expect(&b, 0, "too short");
    expect(&b, 20, "too short");
    expect(&b, b.len - 1, "checksum");
    b.data[8] = 9;
    expect(&b, b.len, "version 9, this Prism reads version 1");
    b.data[8] = 1;
    b.data[0] ^= 1;
    expect(&b, b.len, "not a graph");
    b.data[0] ^= 1;
    b.data[16] ^= 1;
    expect(&b, b.len, "checksum");
    b.data[12] ^= 7; /* another world, with a right checksum */
    seal(&b);
    expect(&b, b.len, "damaged");
    bytes_free(&b);
}

/* Any flipped bit or cut is found; with the checksum made right again, nothing crashes. */
static void test_fuzz(void **state)
{
    struct bytes b = {0};
    uint64_t seed = 29;
    sample(&b);
    for (int i = 0; i < 3000; i++) {
        struct bytes copy = {0};
        size_t len = random_below(&seed, 4) ? b.len : random_below(&seed, (uint32_t)b.len);
        bytes_put(&copy, b.data, len);
        if (len)
            copy.data[random_below(&seed, (uint32_t)len)] ^= (uint8_t)(1u << random_below(&seed, 8));
        assert_null(graph_read(copy.data, copy.len, NULL));
        if (copy.len > 8) {
            seal(&copy);
            graph_destroy(graph_read(copy.data, copy.len, NULL));
        }
        bytes_free(&copy);
    }
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_fuzz),
    };
    return cmocka_run_group_tests_name("graph: file", tests, NULL, NULL);
}
