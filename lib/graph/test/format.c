/* graph.bin: round trips, older versions, damage, salvage, merging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include <cmocka.h>

#include "build.h"
#include "graph/format.h"
#include "common/file.h"
#include "graph/file_private.h"
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

static struct graph *sample_graph(void)
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
    graph_find_classes(g);
    return g;
}

static void sample(struct bytes *out)
{
    struct graph *g = sample_graph();
    graph_write(g, out);
    graph_destroy(g);
}

/* Files written by the releases, byte for byte: what they hold is the sample graph. */
static void test_golden(void **state)
{
    static const char *const files[] = {"lib/graph/test/golden/graph-v1.bin", "lib/graph/test/golden/graph-v2.bin"};
    struct graph *g = sample_graph();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct bytes b = {0};
        struct prism_error err = {0};
        if (file_read(files[i], 1 << 20, &b, &err))
            fail_msg("%s (run from the source folder)", err.text);
        struct graph *old = graph_read(b.data, b.len, &err);
        if (!old)
            fail_msg("%s: %s", files[i], err.text);
        assert_same(g, old);
        graph_destroy(old);
        bytes_free(&b);
    }
    graph_destroy(g);
}

static void seal_header(struct bytes *b)
{
    struct bytes sum = {0};
    bytes_put_u64(&sum, XXH64(b->data, FILE_HEADER - 8, 0));
    memcpy(b->data + FILE_HEADER - 8, sum.data, 8);
    bytes_free(&sum);
}

static void test_refused(void **state)
{
    struct bytes b = {0};
    sample(&b);
    expect(&b, 0, "too short");
    expect(&b, 20, "too short");
    expect(&b, b.len - 1, "its end is missing");
    b.data[8] = 9;
    expect(&b, b.len, "version 9, this Prism reads versions 1 and 2");
    b.data[8] = 2;
    b.data[0] ^= 1;
    expect(&b, b.len, "not a graph");
    b.data[0] ^= 1;
    b.data[16] ^= 1;
    expect(&b, b.len, "checksum of the header");
    b.data[16] ^= 1;
    b.data[12] ^= 8; /* another world, with a right checksum */
    seal_header(&b);
    expect(&b, b.len, "ranks are missing");
    memset(b.data + 12, 0xff, 3);
    b.data[15] = 0x7f; /* 2^31 - 1 ranks */
    seal_header(&b);
    expect(&b, b.len, "sizes");
    bytes_free(&b);
}

/* A file cut anywhere is refused; what salvage makes of it is the very same for every rank that it calls whole. */
static void test_cut(void **state)
{
    struct bytes b = {0};
    struct graph *g = sample_graph();
    uint32_t most = 0;
    graph_write(g, &b);
    for (size_t len = 0; len < b.len; len++) {
        struct graph_file_saved saved;
        struct bytes copy = {0}; /* so that sanitizers see reads behind the end */
        bytes_put(&copy, b.data, len);
        assert_null(graph_read(copy.data, copy.len, NULL));
        struct graph_file *f = graph_file_salvage(copy.data, copy.len, NULL);
        assert_int_equal(f != NULL, len >= FILE_HEADER);
        struct graph *back = f ? graph_file_read(f, &saved, NULL) : NULL;
        assert_int_equal(back != NULL, f != NULL);
        uint32_t whole = 0;
        for (uint32_t r = 0; back && r < g->world; r++) {
            const struct graph_rank *x = &g->ranks[r], *y = &back->ranks[r];
            if (!y->nodes)
                continue;
            whole++;
            assert_int_equal(x->nnodes, y->nnodes);
            assert_memory_equal(x->nodes, y->nodes, x->nnodes * sizeof *x->nodes);
            assert_memory_equal(x->parts, y->parts, x->nparts * sizeof *x->parts);
            if (y->device_work)
                assert_memory_equal(x->device_work, y->device_work, x->nnodes * sizeof *x->device_work);
        }
        if (back)
            assert_int_equal(whole, saved.ranks);
        assert_true(whole >= most); /* a longer piece never holds less */
        most = whole;
        graph_destroy(back);
        graph_file_close(f);
        bytes_free(&copy);
    }
    assert_int_equal(most, g->world);
    graph_destroy(g);
    bytes_free(&b);
}

/* Any flipped bit is found. */
static void test_flipped(void **state)
{
    struct bytes b = {0};
    sample(&b);
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct graph *g = graph_read(b.data, b.len, NULL);
        if (g)
            fail_msg("bit %zu of byte %zu is not looked at", bit % 8, bit / 8);
        struct graph_file_saved saved;
        struct graph_file *f = graph_file_salvage(b.data, b.len, NULL);
        if (f)
            graph_destroy(graph_file_read(f, &saved, NULL));
        graph_file_close(f);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes_free(&b);
}

static void replace(struct bytes *raw, const struct chunk_key *old, const struct chunk_key *new)
{
    for (size_t i = 0; i + sizeof *old <= raw->len; i++)
        if (!memcmp(raw->data + i, old, sizeof *old))
            memcpy(raw->data + i, new, sizeof *new);
}

/* The file with something changed inside a chunk, and every checksum, key and reference made right again. */
static void tamper(const struct bytes *b, uint64_t *seed, struct bytes *out)
{
    struct graph_file *f = graph_file_open(b->data, b->len, NULL);
    struct chunk_key old[64], new[64];
    struct chunks chunks = {0};
    struct bytes raw = {0};
    char frame[4096];
    uint32_t victim = random_below(seed, f->chunks.n);
    bytes_clear(out);
    chunk_put_file_header(out, &f->facts);
    for (uint32_t i = 0; i < f->chunks.n; i++) {
        struct chunk c = f->chunks.list[i];
        assert_int_equal(chunk_contents(f->zstd, f->data, &c, &raw), 0);
        for (uint32_t k = 0; k < i; k++)
            replace(&raw, &old[k], &new[k]);
        for (int n = i == victim ? 1 + (int)random_below(seed, 3) : 0; n > 0 && raw.len; n--)
            raw.data[random_below(seed, (uint32_t)raw.len)] = (uint8_t)random_below(seed, 256);
        if (i == victim && !random_below(seed, 8))
            raw.len -= raw.len ? 1 + random_below(seed, (uint32_t)raw.len) : 0;
        old[i] = c.key;
        new[i] = c.key = chunk_key_of(raw.data, raw.len);
        c.raw = (uint32_t)raw.len;
        c.stored = (uint32_t)ZSTD_compress(frame, sizeof frame, raw.data, raw.len, 1);
        chunk_put(out, &c, frame);
        chunks_add(&chunks, &c);
    }
    struct file_facts facts = f->facts;
    if (!random_below(seed, 8))
        facts.ncomms = random_below(seed, UINT32_MAX);
    chunk_put_end(out, &chunks, &facts);
    free(chunks.list);
    bytes_free(&raw);
    graph_file_close(f);
}

/* Contents that no writer makes are refused or are a graph; nothing crashes. */
static void test_tampered(void **state)
{
    struct bytes b = {0}, out = {0};
    uint64_t seed = 31;
    uint32_t read = 0;
    sample(&b);
    for (int i = 0; i < 6000; i++) {
        tamper(&b, &seed, &out);
        struct graph *g = graph_read(out.data, out.len, NULL);
        if (g) {
            read++;
            graph_check(g, NULL);
        }
        graph_destroy(g);
    }
    assert_in_range(read, 1, 5000);
    bytes_free(&b);
    bytes_free(&out);
}

static void assert_same_rank(const struct graph_rank *x, const struct graph_rank *y)
{
    assert_int_equal(x->nnodes, y->nnodes);
    assert_int_equal(x->nparts, y->nparts);
    assert_int_equal(x->klass, y->klass);
    if (x->nnodes)
        assert_memory_equal(x->nodes, y->nodes, x->nnodes * sizeof *x->nodes);
    if (x->nparts)
        assert_memory_equal(x->parts, y->parts, x->nparts * sizeof *x->parts);
    if (x->ncomms)
        assert_memory_equal(x->comms, y->comms, x->ncomms * sizeof *x->comms);
    assert_int_equal(!x->host_work, !y->host_work);
    if (x->host_work && x->nnodes)
        assert_memory_equal(x->host_work, y->host_work, x->nnodes * sizeof *x->host_work);
}

/* One rank, one communicator, without the others. */
static void test_random_access(void **state)
{
    struct bytes b = {0};
    struct graph *g = sample_graph();
    graph_write(g, &b);
    for (uint32_t r = 0; r < g->world; r++) {
        struct graph_file *f = graph_file_open(b.data, b.len, NULL);
        struct graph_rank one;
        const struct graph_comm *c;
        assert_int_equal(graph_file_rank(f, r, &one, NULL), 0);
        assert_same_rank(&g->ranks[r], &one);
        assert_int_equal(graph_file_comm(f, r % g->ncomms, &c, NULL), 0);
        assert_int_equal(c->size, g->comms[r % g->ncomms].size);
        assert_memory_equal(c->ranks, g->comms[r % g->ncomms].ranks, c->size * sizeof *c->ranks);
        graph_rank_clear(&one);
        assert_int_equal(graph_file_rank(f, g->world, &one, NULL), -1);
        assert_int_equal(graph_file_comm(f, g->ncomms, &c, NULL), -1);
        graph_file_close(f);
    }
    graph_destroy(g);
    bytes_free(&b);
}

/* One rank needs few chunks: it comes out the same with any other one overwritten. */
static void test_rest_is_not_read(void **state)
{
    struct bytes b = {0}, torn = {0};
    struct graph *g = sample_graph();
    struct graph_rank one;
    graph_write(g, &b);
    for (uint32_t r = 0; r < g->world; r++) {
        uint32_t needed = 0, chunks = 0;
        struct chunk c;
        for (uint64_t at = FILE_HEADER; chunk_at(b.data, b.len, at, &c) && c.type != CHUNK_INDEX; at += CHUNK_HEAD + c.stored) {
            bytes_clear(&torn);
            bytes_put(&torn, b.data, b.len);
            memset(torn.data + at, 0xaa, CHUNK_HEAD + c.stored);
            struct graph_file *f = graph_file_open(torn.data, torn.len, NULL);
            bool read = !graph_file_rank(f, r, &one, NULL);
            chunks++;
            needed += !read;
            if (read) {
                assert_same_rank(&g->ranks[r], &one);
                graph_rank_clear(&one);
            }
            graph_file_close(f);
        }
        assert_in_range(needed, 1, chunks - 2);
    }
    graph_destroy(g);
    bytes_free(&b);
    bytes_free(&torn);
}

/* A file whose chunks of ranks overlap: refused; salvage takes each rank once and keeps nothing (found by fuzzing). */
static void test_ranks_twice(void **state)
{
    struct bytes b = {0}, out = {0};
    struct chunks chunks = {0};
    struct graph_file_saved saved;
    sample(&b);
    struct graph_file *f = graph_file_open(b.data, b.len, NULL);
    chunk_put_file_header(&out, &f->facts);
    for (uint32_t i = 0; i < f->chunks.n; i++)
        for (int k = f->chunks.list[i].type == CHUNK_RANKS ? 2 : 1; k > 0; k--) {
            struct chunk c = f->chunks.list[i];
            chunk_put(&out, &c, f->data + f->chunks.list[i].offset + CHUNK_HEAD);
            chunks_add(&chunks, &c);
        }
    chunk_put_end(&out, &chunks, &f->facts);
    graph_file_close(f);
    assert_null(graph_read(out.data, out.len, NULL));
    f = graph_file_salvage(out.data, out.len, NULL);
    struct graph *g = graph_file_read(f, &saved, NULL);
    assert_non_null(g);
    assert_int_equal(saved.ranks, 4);
    graph_destroy(g);
    graph_file_close(f);
    free(chunks.list);
    bytes_free(&b);
    bytes_free(&out);
}

/* Ranks that do the same share their arrays; counts of their own take nothing but the counts; what is shared is copied
 * before it changes. */
static void test_sharing(void **state)
{
    struct graph *g = graph_create(64, 8);
    struct bytes out = {0};
    build_world(g, 0);
    for (uint32_t r = 0; r < 64; r++)
        for (uint32_t i = 0; i < 96; i++) {
            build_op(g, r, 0, GRAPH_OP_ALLREDUCE, -1, 1000);
            build_op(g, r, 0, GRAPH_OP_RECV, (int32_t)((r + 63) % 64), r < 32 ? 7 : r + i);
            build_op(g, r, 0, GRAPH_OP_SEND, (int32_t)((r + 1) % 64), r < 32 ? 7 : r + i);
        }
    graph_write(g, &out);
    struct graph_file *f = graph_file_open(out.data, out.len, NULL);
    struct graph_file_info info;
    graph_file_info(f, &info);
    assert_int_equal(info.programs, 1);
    assert_in_range(info.blocks, 1, 4);
    graph_file_close(f);
    struct graph *back = graph_read(out.data, out.len, NULL);
    assert_same(g, back);
    assert_ptr_equal(back->ranks[3].nodes, back->ranks[63].nodes);
    graph_share(g);
    assert_same(g, back);
    assert_ptr_equal(g->ranks[0].nodes, g->ranks[63].nodes);
    struct graph_node record = {.kind = GRAPH_RECORD};
    assert_int_equal(graph_add_node(back, 3, &record, NULL, 0), 0);
    assert_ptr_not_equal(back->ranks[3].nodes, back->ranks[63].nodes);
    assert_int_equal(back->ranks[3].nnodes, back->ranks[63].nnodes + 1);
    graph_destroy(g);
    graph_destroy(back);
    bytes_free(&out);
}

/* Ranks of an all-to-all of sends and receives in the order of members have one program, wherever they are in it; with another order they
 * have their own. Either way they come back as they were. */
static void test_exchange(void **state)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct graph *g = graph_create(8, 8);
        struct bytes out = {0};
        build_world(g, 0);
        for (uint32_t r = 0; r < 8; r++)
            for (uint32_t i = 0; i < 20; i++) {
                struct graph_part parts[16];
                for (uint32_t p = 0; p < 8; p++) {
                    int32_t peer = (int32_t)((p + turn * (r % 3)) % 8);
                    parts[2 * p] = (struct graph_part){.op = GRAPH_OP_SEND, .datatype = 7, .peer = peer, .count = r + p};
                    parts[2 * p + 1] = (struct graph_part){.op = GRAPH_OP_RECV, .datatype = 7, .peer = peer, .count = r + p};
                }
                build_group(g, r, 0, parts, 16);
            }
        graph_write(g, &out);
        struct graph_file *f = graph_file_open(out.data, out.len, NULL);
        struct graph_file_info info;
        graph_file_info(f, &info);
        if (!turn)
            assert_int_equal(info.programs, 1);
        else
            assert_in_range(info.programs, 2, 8);
        graph_file_close(f);
        struct graph *back = graph_read(out.data, out.len, NULL);
        assert_non_null(back);
        assert_same(g, back);
        graph_destroy(g);
        graph_destroy(back);
        bytes_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_small),         cmocka_unit_test(test_golden),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_cut),           cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_tampered),   cmocka_unit_test(test_random_access), cmocka_unit_test(test_rest_is_not_read),
        cmocka_unit_test(test_sharing),    cmocka_unit_test(test_ranks_twice),
        cmocka_unit_test(test_exchange),
    };
    return cmocka_run_group_tests_name("graph: file", tests, NULL, NULL);
}
