/* rank.c - libprism.so in real processes on the software GPU, with a double of prismd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "coll/types.h"
#include "common/error.h"
#include "graph/graph.h"
#include "preload/test/fake_prismd.h"
#include "proto/region.h"

#define RUN(f, n, ...) fake_run(f, n, (const char *const[]){__VA_ARGS__, NULL})

static struct fake *fresh(uint32_t phase)
{
    static struct fake f;
    memset(&f, 0, sizeof f);
    f.phase = phase;
    return &f;
}

static void assert_exit(const struct fake_rank *r, int code)
{
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) != code)
        fail_msg("wait status %#x instead of exit code %d; output: %s; fatal: %s", r->status, code, r->output, r->fatal);
}

static void assert_output(const struct fake_rank *r, const char *part)
{
    if (!strstr(r->output, part))
        fail_msg("no \"%s\" in: %s", part, r->output);
}

/* dep points back to a RECORD; comm ordinals count; the host's times go forward. */
static void assert_sound(const struct fake_rank *r)
{
    uint32_t ordinals[64] = {0};
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct msg_node *n = &r->nodes[i];
        assert_true(n->enter_ns > 0 && n->leave_ns > 0);
        if (n->kind == GRAPH_COMM)
            assert_int_equal(n->ordinal, ordinals[n->comm]++);
        if (n->kind == GRAPH_WAIT || n->kind == GRAPH_SYNC) {
            assert_true(n->dep && n->dep - 1 < i);
            assert_int_equal(r->nodes[n->dep - 1].kind, GRAPH_RECORD);
        }
        assert_true(n->leave_ns <= n->enter_ns);
    }
}

static void capture_allreduce(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "allreduce");
    for (int i = 0; i < 2; i++) {
        const struct fake_rank *r = &f->ranks[i];
        assert_exit(r, 0);
        assert_output(r, "sum 12 8004"); /* ((1 + 2) + 2 i) * 2 * 2 */
        assert_int_equal(fake_count(r, GRAPH_COMM), 3);
        assert_int_equal(r->peak_bytes, 4000);
        assert_int_equal(r->live_bytes, 0);
        assert_int_equal(r->ntimes, 0);
        assert_int_equal(r->frees, 1);
        assert_true(r->bye && r->sync_enters >= 2 && r->set_ups == 2);
        assert_sound(r);
    }
}

static void capture_group_of_two_streams(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 3, "group");
    for (int i = 0; i < 3; i++) {
        char line[32];
        const struct fake_rank *r = &f->ranks[i];
        assert_exit(r, 0);
        snprintf(line, sizeof line, "received %d\n", (i + 2) % 3 * 100);
        assert_output(r, line);
        assert_int_equal(fake_count(r, GRAPH_COMM), 1);
        assert_int_equal(fake_count(r, GRAPH_WAIT), 3); /* tied before and after, and the program's own */
        assert_sound(r);
    }
}

static void capture_split(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 4, "split");
    for (int i = 0; i < 4; i++) {
        assert_exit(&f->ranks[i], 0);
        assert_output(&f->ranks[i], i % 2 ? "sum 6 none 1" : "sum 4 none 1");
        assert_output(&f->ranks[i], i < 2 ? "half 0 of 2" : "half 1 of 2");
    }
}

static void paced_delivery(void **state)
{
    struct fake *f = fresh(PHASE_EMULATE);
    f->world = 4;
    RUN(f, 1, "allreduce");
    const struct fake_rank *r = &f->ranks[0];
    assert_exit(r, 0);
    assert_output(r, "sum 7 7");
    assert_sound(r);
    uint32_t timed = 0;
    for (uint32_t i = 0; i < r->ntimes; i++) {
        const struct msg_node *n = &r->nodes[r->times[i].index];
        assert_int_not_equal(n->kind, GRAPH_SYNC);
        assert_true(r->times[i].pre_ns <= r->times[i].post_ns);
        if (n->kind == GRAPH_COMM)
            timed += r->times[i].post_ns - r->times[i].pre_ns >= 1900000; /* the double's pace is 2 ms */
    }
    assert_int_equal(timed, 3);
    assert_int_equal(r->ntimes, r->nnodes - fake_count(r, GRAPH_SYNC));
}

static void paced_group(void **state)
{
    struct fake *f = fresh(PHASE_CALIBRATE);
    f->world = 4;
    RUN(f, 1, "group");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "received 7");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_WAIT), 3);
    assert_sound(&f->ranks[0]);
}

/* Two sandbox ranks of a world of four and an assistant for the others, over the software NCCL. */
static struct fake *run_shrunk(const char *act)
{
    struct fake *f = fresh(PHASE_EMULATE);
    f->transport = TRANSPORT_NCCL;
    f->world = 4;
    RUN(f, 2, act);
    for (int i = 0; i < 2; i++) {
        const struct fake_rank *r = &f->ranks[i];
        assert_exit(r, 0);
        assert_sound(r);
        assert_int_equal(r->ntimes, r->nnodes - fake_count(r, GRAPH_SYNC));
        assert_int_equal(r->frees, 1);
    }
    return f;
}

static void shrunk_allreduce(void **state)
{
    struct fake *f = run_shrunk("allreduce");
    for (int i = 0; i < 2; i++) {
        assert_output(&f->ranks[i], "sum 82 8074"); /* x := sum of the two + 10, three times */
        assert_int_equal(f->ranks[i].peak_bytes, 4000);
    }
}

static void shrunk_group(void **state)
{
    struct fake *f = run_shrunk("group");
    assert_output(&f->ranks[0], "received 10"); /* of the assistant */
    assert_output(&f->ranks[1], "received 0");
}

/* The average of four with the virtual ranks' sum of 10: a PreMulSum in every participant. */
static void shrunk_average(void **state)
{
    struct fake *f = run_shrunk("average");
    assert_output(&f->ranks[0], "average 3.25 502.75"); /* (1 + 2 + 10) / 4, (1000 + 1001 + 10) / 4 */
}

/* Calibration has every node of capture; emulation those of operations, in their order. */
static void same_structure_in_all_phases(void **state)
{
    static struct msg_node captured[FAKE_NODES];
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "group");
    uint32_t n = f->ranks[0].nnodes;
    memcpy(captured, f->ranks[0].nodes, sizeof captured);
    for (uint32_t phase = PHASE_CALIBRATE; phase <= PHASE_EMULATE; phase++) {
        f = fresh(phase);
        f->world = 2;
        RUN(f, 1, "group");
        uint32_t got = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (phase == PHASE_EMULATE && captured[i].kind != GRAPH_COMM)
                continue;
            const struct msg_node *a = &captured[i], *b = &f->ranks[0].nodes[got++];
            assert_true(a->kind == b->kind && a->comm == b->comm && a->ordinal == b->ordinal && a->nparts == b->nparts);
            assert_true(phase == PHASE_EMULATE || (a->stream == b->stream && a->dep == b->dep));
        }
        assert_int_equal(f->ranks[0].nnodes, got);
    }
}

static void waiting_streams(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "waiting", "31");
    assert_exit(&f->ranks[0], 0);
    f = fresh(PHASE_CAPTURE);
    f->hold = true;
    f->world = 2;
    RUN(f, 1, "waiting", "40");
    assert_exit(&f->ranks[0], PRISM_EXIT_UNSUPPORTED);
    assert_int_equal(f->ranks[0].fatal_code, PRISM_EXIT_UNSUPPORTED);
    assert_non_null(strstr(f->ranks[0].fatal, "32 streams waiting in communication at once; capture can serve 31"));
}

static void forked_child_is_inert(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "fork");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "child 7");
    assert_int_equal(f->ranks[0].hellos, 1);
    assert_true(f->ranks[0].bye);
}

static void connections_are_widened_unseen(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->more_env[0][0] = "CUDA_DEVICE_MAX_CONNECTIONS";
    f->more_env[0][1] = "1";
    RUN(f, 2, "connections");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "before 1 after 1");
    assert_output(&f->ranks[0], "all done");
    f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "connections");
    assert_output(&f->ranks[1], "before unset after unset");
}

static void run_beside(struct fake *f, const char *act, const char *streams, const char *connections, const char *says)
{
    f->hold = true;
    f->world = 2;
    if (connections) {
        f->more_env[0][0] = "CUDA_DEVICE_MAX_CONNECTIONS";
        f->more_env[0][1] = connections;
    }
    f->max_waiting = 99; /* nothing is refused here */
    RUN(f, 1, act, streams);
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], says);
}

/* Capture gets 32 queues; later phases leave the program's own number alone. */
static void connections_are_the_programs_own_outside_capture(void **state)
{
    run_beside(fresh(PHASE_CAPTURE), "queues", "8", NULL, "the other stream runs");
    run_beside(fresh(PHASE_EMULATE), "queues", "8", NULL, "the other stream stands");
    run_beside(fresh(PHASE_EMULATE), "queues", "7", NULL, "the other stream runs");
    run_beside(fresh(PHASE_CALIBRATE), "queues", "1", "1", "the other stream stands");
}

static void closed_gates_leave_other_streams_alone(void **state)
{
    run_beside(fresh(PHASE_EMULATE), "beside", "1", "1", "the other stream runs");
    run_beside(fresh(PHASE_CALIBRATE), "beside", "20", NULL, "the other stream runs");
    run_beside(fresh(PHASE_CAPTURE), "beside", "31", "1", "the other stream runs");
    run_beside(fresh(PHASE_CAPTURE), "beside", "32", "1", "the other stream stands"); /* waits hold queues */
}

/* Gates that are kernels do what the others do. */
static void gates_as_kernels(void **state)
{
    static const char *const acts[] = {"allreduce", "group"}, *const says[] = {"sum 7 7", "received 7"};
    for (int i = 0; i < 2; i++) {
        struct fake *f = fresh(PHASE_EMULATE);
        f->world = 4;
        f->more_env[0][0] = "CUDA_DEVICE_MAX_CONNECTIONS";
        f->more_env[0][1] = "1";
        RUN(f, 1, acts[i]);
        assert_exit(&f->ranks[0], 0);
        assert_output(&f->ranks[0], says[i]);
        assert_sound(&f->ranks[0]);
    }
}

static void captured_operations_are_refused(void **state)
{
    static const char *const modes[] = {"0", "1", "2"}; /* global, thread local, relaxed */
    for (int i = 0; i < 3; i++) {
        struct fake *f = fresh(i ? PHASE_EMULATE : PHASE_CAPTURE);
        f->world = 2;
        RUN(f, 1, "captured", modes[i]);
        assert_exit(&f->ranks[0], PRISM_EXIT_UNSUPPORTED);
        assert_non_null(strstr(f->ranks[0].fatal, "AllReduce is being captured into a CUDA graph"));
    }
}

static void captures_beside_operations_go_on(void **state)
{
    for (int phase = PHASE_CAPTURE; phase <= PHASE_EMULATE; phase++) {
        struct fake *f = fresh((uint32_t)phase);
        f->region_size = 256 << 20;
        f->world = phase == PHASE_CAPTURE ? 0 : 2;
        RUN(f, phase == PHASE_CAPTURE ? 2 : 1, "beside_capture");
        assert_exit(&f->ranks[0], 0);
        assert_output(&f->ranks[0], "capture goes on");
    }
}

/* Nodes that prismd can wait for come with the next gate: far fewer datagrams than nodes. */
static void nodes_travel_together(void **state)
{
    struct fake *f = fresh(PHASE_CALIBRATE);
    f->world = 4;
    RUN(f, 1, "group");
    const struct fake_rank *r = &f->ranks[0];
    assert_exit(r, 0);
    assert_sound(r);
    assert_true(f->datagrams < r->nnodes);
}

/* In emulation the nodes of a host that goes on without operations are left out, and that it goes on is said. */
static void a_computing_host_is_heard_of(void **state)
{
    struct fake *f = fresh(PHASE_EMULATE);
    f->world = 2;
    RUN(f, 1, "computes");
    assert_exit(&f->ranks[0], 0);
    assert_int_equal(f->ranks[0].nnodes, 0);
    assert_true(f->ranks[0].moves >= 1);
}

static void functions_by_name_are_ours(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "names");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "absent 1 next 1");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_RECORD), 3);
    assert_int_not_equal(f->ranks[0].nodes[1].stream, f->ranks[0].nodes[2].stream);
}

static void newer_functions(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "newer");
    assert_exit(&f->ranks[0], PRISM_EXIT_UNSUPPORTED);
    assert_output(&f->ranks[0], "window 1");
    assert_string_equal(f->ranks[0].fatal, "rank 0: ncclSignal: Prism cannot serve one-sided communication");
}

static void one_rank_communicator(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "local");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "local 6");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_COMM), 0);
}

static void sums_with_a_factor(void **state)
{
    static const float factors[] = {0.5f, 2, 3};
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "own_sums");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "other type 4");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_COMM), 3);
    for (uint32_t i = 0, k = 0; i < f->ranks[0].nnodes; i++) {
        const struct msg_part *p = &f->ranks[0].first_parts[i];
        uint32_t bits;
        if (f->ranks[0].nodes[i].kind != GRAPH_COMM)
            continue;
        memcpy(&bits, &factors[k++], sizeof bits);
        assert_int_equal(p->redop, COLL_REDOP_PREMUL);
        assert_int_equal(p->scalar, bits);
    }
}

static void unregistering_waits_for_the_device(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 2, "unpin");
    assert_output(&f->ranks[0], "unpinned");
    assert_true(fake_count(&f->ranks[0], GRAPH_SYNC) > 0);
}

/* Offsets of the region that operations have had, at most. */
static uint64_t used_end(const struct fake_rank *r)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct msg_part *p = &r->first_parts[i];
        if (r->nodes[i].kind == GRAPH_COMM && p->out_offset + p->out_bytes > end)
            end = p->out_offset + p->out_bytes;
    }
    return end;
}

static void operations_wait_for_room(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->staging = 8 << 20;
    RUN(f, 2, "many");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "many done");
#ifndef __SANITIZE_THREAD__ /* which is so slow that they have waited long enough to go beyond */
    assert_true(used_end(&f->ranks[0]) <= REGION_HEAP_OFFSET + f->staging);
#endif
}

/* Only the end of the address space is an end. */
static void operations_of_any_size(void **state)
{
    for (uint32_t phase = PHASE_CAPTURE; phase <= PHASE_EMULATE; phase += PHASE_EMULATE - PHASE_CAPTURE) {
        struct fake *f = fresh(phase);
        f->region_size = 1ull << 36;
        f->staging = 1 << 20;
        f->world = phase == PHASE_CAPTURE ? 0 : 2;
        RUN(f, phase == PHASE_CAPTURE ? 2 : 1, "large");
        assert_exit(&f->ranks[0], 0);
        assert_output(&f->ranks[0], phase == PHASE_CAPTURE ? "large 3 3" : "large 7 7");
    }
    struct fake *f = fresh(PHASE_CAPTURE);
    f->region_size = 8 << 20;
    f->world = 2;
    RUN(f, 1, "large");
    assert_exit(&f->ranks[0], PRISM_EXIT_UNSUPPORTED);
    assert_non_null(strstr(f->ranks[0].fatal, "AllReduce of 9437184 x fp32"));
    assert_non_null(strstr(f->ranks[0].fatal, "PRISM_STAGING"));
}

/* A rank whose peers never come: its host does not wait for ever, as others may wait for what it does next. */
static void the_host_goes_on_behind_closed_gates(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->staging = 3 << 20;
    f->world = 2;
    f->hold = true;
    RUN(f, 1, "closed");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "all are issued");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_COMM), 3);
    assert_true(used_end(&f->ranks[0]) > REGION_HEAP_OFFSET + f->staging);
}

/* A region larger than the address space that limits leave: its beginning serves. */
static void regions_beyond_the_address_space(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->region_size = 1ull << 38;
    f->staging = 1 << 20;
    RUN(f, 2, "narrow");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "sum 12 8004");
}

static void wide_copies(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->region_size = 256 << 20;
    RUN(f, 2, "wide");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "wrong 0");
}

static void host_goes_on_while_the_heap_grows(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->region_size = 256 << 20;
    RUN(f, 2, "grow");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "waited 0");
}

static void reset_frees_all(void **state)
{
    struct fake *f = fresh(PHASE_EMULATE);
    f->world = 2;
    RUN(f, 1, "reset");
    assert_exit(&f->ranks[0], 0);
    assert_int_equal(f->ranks[0].live_bytes, 0);
    assert_int_equal(f->ranks[0].peak_bytes, 4000);
    assert_true(f->ranks[0].bye);
}

static void store_port_is_told(void **state)
{
    char line[32];
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "store");
    assert_exit(&f->ranks[0], 0);
    snprintf(line, sizeof line, "port %u\n", f->ranks[0].store_port);
    assert_output(&f->ranks[0], line);
    assert_true(f->ranks[0].bye);
}

static void bad_arguments(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    RUN(f, 1, "bad");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "bad 4 4 4 5\nagain 4");
    assert_int_equal(fake_count(&f->ranks[0], GRAPH_COMM), 0);
}

static void run_plain(struct fake_rank *result, bool bare, bool inert, bool refuse)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->bare = bare;
    f->inert = inert;
    f->refuse = refuse;
    RUN(f, 1, "plain");
    *result = f->ranks[0];
    assert_exit(result, 0);
}

static void passes_through_when_no_rank(void **state)
{
    static struct fake_rank bare, preloaded, refused, rank;
    run_plain(&bare, true, true, false);
    run_plain(&preloaded, false, true, false);
    run_plain(&refused, false, false, true);
    run_plain(&rank, false, false, false);
    assert_output(&bare, "value 3");
    assert_string_equal(preloaded.output, bare.output);
    assert_string_equal(refused.output, bare.output);
    assert_string_equal(rank.output, bare.output);
    assert_int_equal(preloaded.hellos, 0);
    assert_int_equal(refused.nnodes, 0);
    assert_int_equal(rank.peak_bytes, (1 << 20) + 4000);
}

static void lost_daemon_ends_the_rank(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->hang_up = true;
    RUN(f, 1, "on_and_on");
    assert_exit(&f->ranks[0], PRISM_EXIT_DAEMON);
    assert_output(&f->ranks[0], "lost prismd");
}

static void launch_failure(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->inert = true;
    f->more_env[0][0] = "PRISM_LAUNCH";
    f->more_env[0][1] = "1";
    f->more_env[1][0] = "PRISM_PRISMD";
    f->more_env[1][1] = "/nonexistent/prismd";
    RUN(f, 1, "allreduce");
    assert_exit(&f->ranks[0], PRISM_EXIT_DAEMON);
    assert_output(&f->ranks[0], "prism: cannot start prismd: running /nonexistent/prismd: No such file");
}

/* Stands in for prismd: prints what it was given. */
static void launch_replaces_the_program(void **state)
{
    struct fake *f = fresh(PHASE_CAPTURE);
    f->inert = true;
    f->more_env[0][0] = "PRISM_LAUNCH";
    f->more_env[0][1] = "1";
    f->more_env[1][0] = "PRISM_PRISMD";
    f->more_env[1][1] = "/bin/echo";
    RUN(f, 1, "one", "", "two words");
    assert_exit(&f->ranks[0], 0);
    assert_output(&f->ranks[0], "preload_program one  two words\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture_allreduce), cmocka_unit_test(capture_group_of_two_streams),
        cmocka_unit_test(capture_split),
        cmocka_unit_test(paced_delivery), cmocka_unit_test(paced_group),
        cmocka_unit_test(shrunk_allreduce), cmocka_unit_test(shrunk_group),
        cmocka_unit_test(shrunk_average),
        cmocka_unit_test(same_structure_in_all_phases),
        cmocka_unit_test(waiting_streams),
        cmocka_unit_test(forked_child_is_inert),
        cmocka_unit_test(connections_are_widened_unseen),
        cmocka_unit_test(connections_are_the_programs_own_outside_capture),
        cmocka_unit_test(closed_gates_leave_other_streams_alone),
        cmocka_unit_test(gates_as_kernels),
        cmocka_unit_test(captured_operations_are_refused),
        cmocka_unit_test(captures_beside_operations_go_on),
        cmocka_unit_test(nodes_travel_together),
        cmocka_unit_test(a_computing_host_is_heard_of),
        cmocka_unit_test(functions_by_name_are_ours), cmocka_unit_test(newer_functions),
        cmocka_unit_test(one_rank_communicator), cmocka_unit_test(sums_with_a_factor), cmocka_unit_test(unregistering_waits_for_the_device),
        cmocka_unit_test(operations_wait_for_room), cmocka_unit_test(operations_of_any_size),
        cmocka_unit_test(the_host_goes_on_behind_closed_gates), cmocka_unit_test(regions_beyond_the_address_space),
        cmocka_unit_test(wide_copies),
        cmocka_unit_test(host_goes_on_while_the_heap_grows),
        cmocka_unit_test(reset_frees_all), cmocka_unit_test(store_port_is_told),
        cmocka_unit_test(bad_arguments), cmocka_unit_test(passes_through_when_no_rank),
        cmocka_unit_test(lost_daemon_ends_the_rank),
        cmocka_unit_test(launch_failure),
        cmocka_unit_test(launch_replaces_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
