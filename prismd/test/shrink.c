/* shrink.c - what transport nccl decides without a GPU: the arm rule, the orders of assistants, the lags of
 * gates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/plan.h"
#include "coll/types.h"
#include "prismd/assistants/arming.h"
#include "prismd/assistant/order.h"
#include "prismd/gates/pace.h"
#include "prismd/assistants/shrink.h"

#define F32 COLL_FLOAT32

static const struct graph_part all_reduce = {PRISM_OP_ALLREDUCE, F32, COLL_REDOP_SUM, 0, -1, 8};
static const struct graph_part all_gather = {PRISM_OP_ALLGATHER, F32, 0, 0, -1, 4};
static const struct graph_part send_to_0 = {PRISM_OP_SEND, F32, 0, 0, 0, 4};

/* --- the arm rule --- */

static void collectives_wait_for_every_member(void **state)
{
    (void)state;
    struct arming *a = arming_create(2);
    struct arming_group *groups[2];
    arming_push(a, 0, 0, &all_reduce, 1);
    assert_false(arming_pop(a, groups));
    assert_false(arming_wants(a, 0));
    assert_true(arming_wants(a, 1));
    arming_push(a, 1, 0, &all_reduce, 1);
    assert_true(arming_pop(a, groups));
    assert_true(groups[0] && groups[1]);
    arming_group_free(groups[0]);
    arming_group_free(groups[1]);
    assert_false(arming_pop(a, groups));
    arming_destroy(a);
}

static void messages_need_their_own_rank_only(void **state)
{
    (void)state;
    struct arming *a = arming_create(2);
    struct arming_group *groups[2];
    arming_push(a, 0, 0, &all_reduce, 1);
    arming_push(a, 1, 0, &send_to_0, 1);
    assert_true(arming_pop(a, groups));
    assert_null(groups[0]);
    assert_non_null(groups[1]);
    arming_group_free(groups[1]);
    assert_false(arming_pop(a, groups));
    arming_destroy(a);
}

/* Streams get there in any order; NCCL runs a communicator's operations in the order of the calls. */
static void groups_are_armed_in_the_order_of_issue(void **state)
{
    (void)state;
    struct arming *a = arming_create(1);
    struct arming_group *groups[1];
    arming_push(a, 0, 2, &send_to_0, 1);
    arming_push(a, 0, 1, &all_reduce, 1);
    assert_false(arming_pop(a, groups));
    arming_push(a, 0, 0, &send_to_0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(arming_pop(a, groups));
        assert_int_equal(groups[0]->ordinal, i);
        arming_group_free(groups[0]);
    }
    arming_push(a, 0, 3, &all_reduce, 1); /* freed by destroy */
    arming_destroy(a);
}

/* --- orders --- */

/* World 4, one communicator of all, ranks 1 and 2 in the sandbox; every rank has recorded these parts as one
 * group. */
struct fixture {
    struct graph *g;
    struct shrink *s;
    struct bytes out;
    bool changed;
    struct prism_error err;
};

static void set_up(struct fixture *f, const struct graph_part *parts, uint32_t n)
{
    static const uint8_t sandbox[4] = {0, 1, 1, 0};
    const int32_t ranks[4] = {0, 1, 2, 3};
    memset(f, 0, sizeof *f);
    f->g = graph_create(4, 4);
    int global = graph_add_comm(f->g, ranks, 4);
    for (int32_t r = 0; r < 4; r++) {
        struct graph_node node = {.kind = GRAPH_COMM};
        assert_int_equal(graph_set_member(f->g, (uint32_t)r, 0, global, r), 0);
        assert_int_equal(graph_add_node(f->g, (uint32_t)r, &node, parts, n), 0);
    }
    f->s = shrink_create(f->g, 0, sandbox);
    assert_int_equal(f->s->n, 2);
    assert_int_equal(shrink_assistants(f->s), 1);
    assert_int_equal(shrink_member(f->s, 2), 1);
    assert_int_equal(shrink_member(f->s, 3), -1);
}

static void tear_down(struct fixture *f)
{
    bytes_free(&f->out);
    shrink_destroy(f->s);
    graph_destroy(f->g);
}

static const struct shrink_payloads full = {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_FULL}, zero = {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_NONE},
                                    control = {TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL},
                                    less = {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_CONTROL};

/* Both members have issued these parts now; NULL: only member 1 has. */
static const struct order_run *order(struct fixture *f, const struct graph_part *first,
                                     const struct graph_part *second, uint32_t n, struct shrink_payloads payloads)
{
    struct arming_group live[2] = {{.parts = (struct graph_part *)(uintptr_t)first, .nparts = n},
                                   {.parts = (struct graph_part *)(uintptr_t)second, .nparts = n}};
    struct shrink_group groups[2] = {{first ? &live[0] : NULL, &f->g->ranks[1].nodes[0], 7},
                                     {second ? &live[1] : NULL, &f->g->ranks[2].nodes[0], 9}};
    bytes_clear(&f->out);
    memset(&f->err, 0, sizeof f->err);
    if (shrink_order(f->s, groups, payloads, &f->out, &f->changed, &f->err))
        return NULL;
    const struct order_run *o = (const struct order_run *)(void *)f->out.data;
    assert_int_equal(o->h.size, f->out.len);
    assert_int_equal(o->h.type, ORDER_RUN);
    assert_null(order_fault(&o->h, &(struct order_create){.size = 3, .rank = 2}));
    return o;
}

static void sums_are_the_first_members_contribution(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &all_reduce, 1);
    const struct order_run *o = order(&f, &all_reduce, &all_reduce, 1, full);
    assert_non_null(o);
    assert_false(f.changed);
    assert_int_equal(o->nsegments, 1);
    const struct order_segment *s = order_segments(o);
    assert_int_equal(s->key.rank, 1);
    assert_int_equal(s->key.ordinal, 7);
    assert_int_equal(s->key.role, PAYLOAD_CONTRIBUTION);
    assert_true(s->from == 0 && s->to == 0 && s->bytes == 32);
    assert_int_equal(o->ncalls, 1);
    assert_int_equal(order_calls(o)->kind, COLL_CALL_ALLREDUCE);
    assert_int_equal(order_calls(o)->count, 8);
    assert_true(o->scratch_bytes >= 32);
    tear_down(&f);
}

/* Several reductions in one group: each has a contribution of its own, and room of its own. */
static void each_reduction_of_a_group_has_its_own(void **state)
{
    (void)state;
    struct fixture f;
    const struct graph_part two[2] = {all_reduce, {PRISM_OP_ALLREDUCE, F32, COLL_REDOP_AVG, 0, -1, 2}};
    set_up(&f, two, 2);
    const struct order_run *o = order(&f, two, two, 2, full);
    assert_non_null(o);
    assert_int_equal(o->nsegments, 2);
    assert_int_equal(order_segments(o)[0].key.role, PAYLOAD_CONTRIBUTION);
    assert_int_equal(order_segments(o)[1].key.role, PAYLOAD_CONTRIBUTION + 1);
    assert_true(order_segments(o)[1].to >= 32);
    assert_int_equal(order_calls(o)[1].from, order_segments(o)[1].to);
    /* An average: everybody multiplies by 1/4. */
    const float quarter = 0.25f;
    assert_int_equal(order_calls(o)[1].redop, COLL_REDOP_PREMUL);
    assert_memory_equal(&order_calls(o)[1].scalar, &quarter, sizeof quarter);
    tear_down(&f);
}

/* Virtual shards 0 and 3 lie in what rank 1 received. */
static void gathered_shards_are_cut_from_outputs(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &all_gather, 1);
    const struct order_run *o = order(&f, &all_gather, &all_gather, 1, full);
    assert_non_null(o);
    assert_int_equal(o->nsegments, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(order_segments(o)[i].key.role, PAYLOAD_OUTPUT);
        assert_int_equal(order_segments(o)[i].key.rank, 1);
        assert_int_equal(order_segments(o)[i].bytes, 16);
        assert_int_equal(order_segments(o)[i].from, i * 48);
    }
    assert_int_equal(o->payload_bytes % 256, 0);
    tear_down(&f);
}

static void other_sizes_are_cut_or_left_zero(void **state)
{
    (void)state;
    struct fixture f;
    struct graph_part more = all_gather, fewer = all_gather;
    more.count = 6;
    fewer.count = 2;
    set_up(&f, &all_gather, 1);
    const struct order_run *o = order(&f, &more, &more, 1, full);
    assert_true(f.changed);
    assert_int_equal(o->nsegments, 2);
    assert_true(order_segments(o)[1].from == 48 && order_segments(o)[1].bytes == 16 && order_segments(o)[1].to == 24);
    o = order(&f, &fewer, &fewer, 1, full);
    assert_true(f.changed);
    /* Half of each shard; no two of them are neighbours in the recorded bytes. */
    assert_int_equal(o->nsegments, 2);
    assert_true(order_segments(o)[1].from == 48 && order_segments(o)[1].bytes == 8 && order_segments(o)[1].to == 8);
    tear_down(&f);
}

/* Rank 2 receives from 0, sends to 3, receives from 1 (a sandbox rank: no business of the assistant). */
static void messages_follow_peers_not_positions(void **state)
{
    (void)state;
    struct fixture f;
    const struct graph_part recorded[3] = {
        {PRISM_OP_RECV, F32, 0, 0, 1, 5}, {PRISM_OP_SEND, F32, 0, 0, 3, 2}, {PRISM_OP_RECV, F32, 0, 0, 0, 3}};
    const struct graph_part now[3] = {
        {PRISM_OP_RECV, F32, 0, 0, 0, 3}, {PRISM_OP_SEND, F32, 0, 0, 3, 2}, {PRISM_OP_RECV, F32, 0, 0, 1, 5}};
    set_up(&f, recorded, 3);
    const struct order_run *o = order(&f, NULL, now, 3, full);
    assert_non_null(o);
    assert_false(f.changed);
    assert_int_equal(o->nsegments, 1);
    assert_int_equal(order_segments(o)->key.rank, 2);
    assert_int_equal(order_segments(o)->key.ordinal, 9);
    assert_true(order_segments(o)->from == 20 && order_segments(o)->bytes == 12);
    assert_int_equal(o->ncalls, 2);
    bool sent = false, received = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(order_calls(o)[i].peer, 1); /* rank 2 is participant 1 */
        sent |= order_calls(o)[i].kind == COLL_CALL_SEND && order_calls(o)[i].count == 3;
        received |= order_calls(o)[i].kind == COLL_CALL_RECV && order_calls(o)[i].count == 2;
    }
    assert_true(sent && received);
    tear_down(&f);
}

static void without_payloads_everything_is_zero(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &all_gather, 1);
    const struct order_run *o = order(&f, &all_gather, &all_gather, 1, zero);
    assert_int_equal(o->nsegments, 0);
    assert_true(o->payload_bytes >= 32);
    tear_down(&f);
}

static void assert_synthetic(const struct order_segment *s, int datatype, uint64_t to, uint64_t bytes)
{
    assert_int_equal(s->key.role, ORDER_SYNTHETIC);
    assert_int_equal(s->key.comm, datatype);
    assert_true(!s->key.rank && !s->key.ordinal && !s->from && s->to == to && s->bytes == bytes);
}

/* Large floating-point data is read from no trace, whichever it is; what is kept stands behind less in a trace of control mode. */
static void control_mode_reads_what_it_keeps(void **state)
{
    (void)state;
    struct fixture f;
    const struct graph_part large_sum = {PRISM_OP_ALLREDUCE, F32, COLL_REDOP_SUM, 0, -1, 5000},
                            both[2] = {{PRISM_OP_ALLGATHER, F32, 0, 0, -1, 2000}, {PRISM_OP_ALLGATHER, COLL_INT64, 0, 0, -1, 4}},
                            messages[2] = {{PRISM_OP_RECV, F32, 0, 0, 0, 2000}, {PRISM_OP_RECV, COLL_INT32, 0, 0, 3, 2000}};
    for (int i = 0; i < 2; i++) {
        const struct shrink_payloads payloads = i ? less : control;
        set_up(&f, &large_sum, 1);
        const struct order_run *o = order(&f, &large_sum, &large_sum, 1, payloads);
        assert_int_equal(o->nsegments, 1);
        assert_synthetic(order_segments(o), F32, 0, 20000);
        struct order_segment *s = (struct order_segment *)(uintptr_t)order_segments(o);
        s->key.comm = COLL_DATATYPES;
        assert_non_null(order_fault(&o->h, &(struct order_create){.size = 3, .rank = 2}));
        tear_down(&f);

        set_up(&f, both, 2);
        o = order(&f, both, both, 2, payloads);
        assert_false(f.changed);
        assert_int_equal(o->nsegments, 4);
        assert_synthetic(&order_segments(o)[0], F32, 0, 8000);
        assert_synthetic(&order_segments(o)[1], F32, 8000, 8000);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(order_segments(o)[2 + k].key.role, PAYLOAD_OUTPUT);
            assert_int_equal(order_segments(o)[2 + k].bytes, 32);
            assert_int_equal(order_segments(o)[2 + k].from, (i ? 32000 : 0) + k * 96);
        }
        tear_down(&f);

        set_up(&f, messages, 2);
        o = order(&f, NULL, messages, 2, payloads);
        assert_int_equal(o->nsegments, 2);
        assert_synthetic(order_segments(o), F32, 0, 8000);
        assert_true(order_segments(o)[1].from == (i ? 8000 : 0) && order_segments(o)[1].bytes == 8000);
        tear_down(&f);
    }
}

static void what_has_no_plan_is_named(void **state)
{
    (void)state;
    struct fixture f;
    const struct graph_part average = {PRISM_OP_ALLREDUCE, COLL_INT32, COLL_REDOP_AVG, 0, -1, 8};
    set_up(&f, &average, 1);
    assert_null(order(&f, &average, &average, 1, full));
    assert_int_equal(f.err.code, PRISM_EXIT_UNSUPPORTED);
    assert_non_null(strstr(f.err.text, "AllReduce"));
    assert_null(order(&f, &all_reduce, &all_gather, 1, full));
    assert_non_null(strstr(f.err.text, "ranks 1 and 2"));
    tear_down(&f);
}

static void volumes_are_of_the_members_links(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &all_reduce, 1);
    struct shrink_volume v = shrink_part_volume(f.s, 0, &all_reduce);
    /* Rings of 3 and of 4, 32 bytes, both directions. */
    assert_int_equal(v.bytes, 2 * (2 * 2 * 32 / 3));
    assert_int_equal(v.full, 2 * (2 * 3 * 32 / 4));
    const struct graph_part to_self = {PRISM_OP_SEND, F32, 0, 0, 1, 4},
                            to_3 = {PRISM_OP_SEND, F32, 0, 0, 3, 4};
    assert_int_equal(shrink_part_volume(f.s, 0, &to_self).bytes, 0);
    assert_int_equal(shrink_part_volume(f.s, 0, &to_3).bytes, 16);
    tear_down(&f);
}

/* --- lags --- */

static void late_operations_do_not_count_as_lag(void **state)
{
    (void)state;
    struct pace_lag lag = {0};
    assert_int_equal(pace_lag_low_ns(&lag), 0);
    for (int i = 0; i < 200; i++)
        pace_lag_add(&lag, i % 3 ? 500000 + i : 4000);
    assert_int_equal(pace_lag_low_ns(&lag), 4000);
    assert_true(pace_lag_ns(&lag) > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_wait_for_every_member),
        cmocka_unit_test(messages_need_their_own_rank_only),
        cmocka_unit_test(groups_are_armed_in_the_order_of_issue),
        cmocka_unit_test(sums_are_the_first_members_contribution),
        cmocka_unit_test(each_reduction_of_a_group_has_its_own),
        cmocka_unit_test(gathered_shards_are_cut_from_outputs),
        cmocka_unit_test(other_sizes_are_cut_or_left_zero),
        cmocka_unit_test(messages_follow_peers_not_positions),
        cmocka_unit_test(without_payloads_everything_is_zero),
        cmocka_unit_test(control_mode_reads_what_it_keeps),
        cmocka_unit_test(what_has_no_plan_is_named),
        cmocka_unit_test(volumes_are_of_the_members_links),
        cmocka_unit_test(late_operations_do_not_count_as_lag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
