/* delivery.c - what a rank finds in its region, by what the trace's payloads hold and what is wanted of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "coll/synthetic.h"
#include "coll/types.h"
#include "prismd/gates/watch.h"
#include "prismd/replay/delivery.h"
#include "trace/payload.h"

#define REGION (64u << 10)
#define LARGE  2000u /* floats, 8,000 bytes: not kept */
#define FEW    10u
#define EMPTY  0x77

static uint32_t ready;
static struct prism_error failure;

void watch_mark_ready(struct group *g)
{
    ready++;
}

int daemon_fail(struct daemon *d, int code, const char *fmt, ...)
{
    failure.code = code;
    snprintf(failure.text, sizeof failure.text, "%s", fmt);
    return -1;
}

/* Rank 0 of two. Group 0 is an all-reduce of LARGE floats, one of FEW and one of LARGE integers; group 1 one of LARGE floats. */
struct fixture {
    char folder[64];
    struct conf conf;
    struct rank rank, *ranks[2];
    struct membership comm;
    struct daemon d;
    struct delivery *v;
    uint8_t region[REGION];
};

static const struct graph_part recorded[3] = {{PRISM_OP_ALLREDUCE, COLL_FLOAT32, 0, 0, -1, LARGE},
                                              {PRISM_OP_ALLREDUCE, COLL_FLOAT32, 0, 0, -1, FEW},
                                              {PRISM_OP_ALLREDUCE, COLL_INT32, 0, 0, -1, LARGE}};

static uint8_t byte_of(int part, uint64_t i)
{
    return (uint8_t)(part * 100 + (int)(i % 97) + 1);
}

/* Parts of a group's payload, as a capture in that mode stores them. */
static void store(struct payload_writer *w, uint32_t ordinal, int nparts, enum trace_payload holds)
{
    uint8_t data[3 * 4 * LARGE];
    size_t len = 0;
    for (int p = 0; p < nparts; p++) {
        uint64_t bytes = 4 * recorded[p].count;
        for (uint64_t i = 0; i < (holds == TRACE_PAYLOAD_CONTROL ? coll_synthetic_kept(recorded[p].datatype, bytes) : bytes); i++)
            data[len++] = byte_of(p, i);
    }
    if (len)
        assert_int_equal(payload_writer_put(w, (struct payload_key){0, 0, ordinal, PAYLOAD_OUTPUT}, data, len, NULL), 0);
}

static struct fixture *open_trace(enum trace_payload holds, enum trace_payload wanted, bool lose)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct prism_error err = {0};
    assert_non_null(f);
    strcpy(f->folder, "/tmp/prism-delivery.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    struct payload_writer *w = payload_writer_create(f->folder, 0, &err);
    if (!lose)
        store(w, 0, 3, holds);
    store(w, 1, 1, holds);
    assert_int_equal(payload_writer_finish(w, &err), 0);
    f->comm = (struct membership){.rank = 0, .size = 2};
    f->conf = (struct conf){.world = 2, .trace = f->folder, .payload = wanted};
    f->ranks[0] = &f->rank;
    f->d = (struct daemon){.conf = &f->conf, .ranks = f->ranks, .graph = graph_create(2, 2), .trace_nodes = 1, .trace_payload = holds,
                           .phase = PHASE_EMULATE, .transport = TRANSPORT_PACED};
    f->rank = (struct rank){.daemon = &f->d, .region = f->region, .region_size = REGION, .comms = &f->comm, .ncomms = 1};
    graph_set_member(f->d.graph, 0, 0, graph_add_comm(f->d.graph, (int32_t[]){0, 1}, 2), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct graph_node node = {.kind = GRAPH_COMM, .ordinal = i};
        assert_int_equal(graph_add_node(f->d.graph, 0, &node, recorded, i ? 1 : 3), 0);
    }
    f->v = delivery_create(&f->d, (const uint32_t[]){0}, 1, &err);
    assert_non_null(f->v);
    return f;
}

static void close_trace(struct fixture *f)
{
    char path[128];
    delivery_destroy(f->v);
    graph_destroy(f->d.graph);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/payload-0.%s", f->folder, i ? "idx" : "dat");
        unlink(path);
    }
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
}

/* The rank issues group `ordinal` with these counts, as the preload library describes it. */
static int deliver(struct fixture *f, uint32_t ordinal, const uint64_t *counts)
{
    struct msg_part parts[3];
    struct group g = {.rank = &f->rank, .ordinal = ordinal, .nparts = ordinal ? 1 : 3, .parts = parts};
    memset(f->region, EMPTY, REGION);
    memset(&failure, 0, sizeof failure);
    ready = 0;
    for (uint32_t i = 0; i < g.nparts; i++) {
        uint64_t bytes = 4 * counts[i];
        bool synthetic = f->conf.payload == TRACE_PAYLOAD_CONTROL && !coll_synthetic_keeps(recorded[i].datatype, bytes);
        parts[i] = (struct msg_part){.op = recorded[i].op, .datatype = recorded[i].datatype, .peer = -1, .count = counts[i],
                                     .synthetic = synthetic, .out_offset = i * (REGION / 3), .out_bytes = synthetic ? 0 : bytes};
    }
    return delivery_group(f->v, &g, ordinal, ordinal);
}

enum content { NOTHING, RECORDED, PATTERN, ZERO };

/* Of that part `bytes` are there, then `zeros`, then nothing. */
static void assert_part(const struct fixture *f, int part, enum content content, uint64_t bytes, uint64_t zeros)
{
    const uint8_t *at = f->region + (size_t)part * (REGION / 3);
    static uint8_t pattern[4 * LARGE];
    coll_synthetic_fill(pattern, sizeof pattern, recorded[part].datatype);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(at[i], content == RECORDED ? byte_of(part, i) : content == PATTERN ? pattern[i] : 0);
    for (uint64_t i = bytes; i < bytes + zeros; i++)
        assert_int_equal(at[i], 0);
    assert_int_equal(at[bytes + zeros], EMPTY);
}

static const uint64_t as_recorded[3] = {LARGE, FEW, LARGE};

static void everything(void **state)
{
    (void)state;
    struct fixture *f = open_trace(TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_FULL, false);
    assert_int_equal(deliver(f, 0, as_recorded), 0);
    for (int p = 0; p < 3; p++)
        assert_part(f, p, RECORDED, 4 * as_recorded[p], 0);
    assert_int_equal(ready, 1);
    assert_int_equal(delivery_counts(f->v).bytes, 4 * (2 * LARGE + FEW));
    close_trace(f);
}

/* The same parts from a trace that holds these alone and from one that holds all; a group of which nothing is kept is not read. */
static void what_control_mode_keeps(void **state)
{
    (void)state;
    for (enum trace_payload holds = TRACE_PAYLOAD_FULL; holds <= TRACE_PAYLOAD_CONTROL; holds++) {
        struct fixture *f = open_trace(holds, TRACE_PAYLOAD_CONTROL, false);
        assert_int_equal(deliver(f, 1, as_recorded), 0);
        assert_part(f, 0, NOTHING, 0, 0);
        assert_int_equal(ready, 0);
        struct delivery_counts n = delivery_counts(f->v);
        assert_true(!n.bytes && !n.ahead.hits && !n.ahead.misses);
        assert_int_equal(deliver(f, 0, as_recorded), 0);
        assert_part(f, 0, NOTHING, 0, 0);
        assert_part(f, 1, RECORDED, 4 * FEW, 0);
        assert_part(f, 2, RECORDED, 4 * LARGE, 0);
        assert_int_equal(ready, 1);
        assert_int_equal(delivery_counts(f->v).size_changes, 0);
        close_trace(f);
    }
}

/* Routing that flips: large parts become small ones and the other way round. */
static void sizes_that_differ(void **state)
{
    (void)state;
    struct fixture *f = open_trace(TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL, false);
    assert_int_equal(deliver(f, 0, (const uint64_t[]){FEW, LARGE, LARGE + 5}), 0);
    assert_part(f, 0, PATTERN, 4 * FEW, 0); /* nothing of it was kept */
    assert_part(f, 1, NOTHING, 0, 0);       /* the rank's own to make */
    assert_part(f, 2, RECORDED, 4 * LARGE, 20);
    assert_int_equal(delivery_counts(f->v).size_changes, 1);
    assert_int_equal(deliver(f, 1, (const uint64_t[]){LARGE + 1}), 0); /* no byte of it is asked for */
    assert_int_equal(delivery_counts(f->v).size_changes, 2);
    close_trace(f);
}

static void nothing(void **state)
{
    (void)state;
    struct fixture *f = open_trace(TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_NONE, false);
    assert_int_equal(deliver(f, 0, as_recorded), 0);
    for (int p = 0; p < 3; p++)
        assert_part(f, p, ZERO, 4 * as_recorded[p], 0);
    assert_int_equal(delivery_counts(f->v).bytes, 0);
    close_trace(f);
}

static void what_is_lost_is_named(void **state)
{
    (void)state;
    struct fixture *f = open_trace(TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL, true);
    assert_int_equal(deliver(f, 1, as_recorded), 0);
    assert_int_equal(deliver(f, 0, as_recorded), -1);
    assert_int_equal(failure.code, PRISM_EXIT_TRACE);
    assert_non_null(strstr(failure.text, "the trace has no payload"));
    close_trace(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),        cmocka_unit_test(what_control_mode_keeps), cmocka_unit_test(sizes_that_differ),
        cmocka_unit_test(nothing),           cmocka_unit_test(what_is_lost_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
