/* switching.c - device memory of a rank that is moved off the device and back, on the software GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "preload/test/fake_mover.h"

#define MIB      ((uint64_t)1 << 20)
#define WAIT_MS  15000
#define RUN(f, n, ...) fake_run(f, n, (const char *const[]){__VA_ARGS__, NULL})

static char flags[64];
static struct fake_mover movers[FAKE_RANKS]; /* as they were at the end */

static struct fake *fresh(void (*switching)(struct fake *, struct fake_rank *))
{
    static struct fake f;
    memset(&f, 0, sizeof f);
    memset(movers, 0, sizeof movers);
    f.phase = PHASE_CAPTURE;
    f.program = "test/preload_switched";
    f.switching = switching;
    f.more_env[0][0] = "SWITCHED_FLAGS";
    f.more_env[0][1] = flags;
    strcpy(flags, "/tmp/prism-switching-XXXXXX");
    assert_non_null(mkdtemp(flags));
    return &f;
}

static void remove_flags(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", flags);
    assert_int_equal(system(command), 0);
}

static const char *flag_path(const struct fake *f, const struct fake_rank *r, const char *name)
{
    static _Thread_local char path[256];
    snprintf(path, sizeof path, "%s/%s-%d", flags, name, (int)(r - f->ranks));
    return path;
}

static void raise_flag(const struct fake *f, const struct fake_rank *r, const char *name)
{
    FILE *file = fopen(flag_path(f, r, name), "w");
    if (file)
        fclose(file);
}

static void await_flag(const struct fake *f, struct fake_mover *m, const char *name)
{
    for (int i = 0; i < WAIT_MS && !m->gone && access(flag_path(f, m->rank, name), F_OK); i++)
        mover_serve(m, 1);
}

static struct fake_mover *begin(struct fake *f, struct fake_rank *r, uint64_t capacity)
{
    struct fake_mover *m = &movers[r - f->ranks];
    mover_begin(m, r, capacity);
    return m;
}

static void assert_done(const struct fake_rank *r, const char *part)
{
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status))
        fail_msg("wait status %#x; output: %s; fatal: %s", r->status, r->output, r->fatal);
    if (!strstr(r->output, part))
        fail_msg("no \"%s\" in: %s", part, r->output);
}

/* --- allocation --- */

static void grant_only(struct fake *f, struct fake_rank *r)
{
    mover_end(begin(f, r, 1024 * MIB));
}

static void kinds_of_memory(void **state)
{
    struct fake *f = fresh(grant_only);
    RUN(f, 1, "kinds");
    assert_done(&f->ranks[0], "large takes 4\npitch 1024\n");
    assert_done(&f->ranks[0], "of NCCL takes 6\n");
    assert_done(&f->ranks[0], "ipc 801\nzero 0 (nil)\nwrong free 1\n");
    assert_int_equal(f->ranks[0].live_bytes, 0);
    assert_true(f->ranks[0].peak_bytes > 599 * 600 / 2 * 97);
    assert_int_equal(movers[0].most_granted, 256 * MIB); /* one step was enough */
    remove_flags();
}

static void nvml_says_the_same(void **state)
{
    struct fake *f = fresh(grant_only);
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/doubles/libnvidia-ml.so.1");
    f->more_env[1][0] = "PRISM_DEVICE";
    f->more_env[1][1] = "0";
    f->more_env[2][0] = "PRISM_LOGICAL_DEVICES";
    f->more_env[2][1] = "8";
    RUN(f, 1, "nvml", path);
    assert_done(&f->ranks[0], "nvml done\n");
    remove_flags();
}

static void memory_is_full(void **state)
{
    struct fake *f = fresh(grant_only);
    f->more_env[1][0] = "SOFTGPU_MEMORY";
    f->more_env[1][1] = "512M";
    RUN(f, 1, "full");
    assert_done(&f->ranks[0], "all 2\nmore 2\nhuge 2\npieces 31\nagain 0\n"); /* 512 - 512 / 32 MiB */
    remove_flags();
}

static void grant_much(struct fake *f, struct fake_rank *r)
{
    mover_end(begin(f, r, 4096 * MIB));
}

static void much_memory_in_few_ranges(void **state)
{
    struct fake *f = fresh(grant_much);
    RUN(f, 1, "much");
    assert_done(&f->ranks[0], "neighbours 9, lost 0\n"); /* 3 blocks of 4 */
    remove_flags();
}

static void grant_little(struct fake *f, struct fake_rank *r)
{
    mover_end(begin(f, r, 100 * MIB));
}

/* The device has more, prismd has not: asked for with slack, then without, then out of memory. */
static void prismd_refuses(void **state)
{
    struct fake *f = fresh(grant_little);
    f->more_env[1][0] = "SOFTGPU_MEMORY";
    f->more_env[1][1] = "512M";
    RUN(f, 1, "little");
    assert_done(&f->ranks[0], "pieces 6, then 2\n");
    assert_int_equal(movers[0].most_granted / MIB, 96);
    remove_flags();
}

static void frees_in_stream_order(void **state)
{
    struct fake *f = fresh(grant_only);
    RUN(f, 1, "async");
    assert_done(&f->ranks[0], "same stream 1\nreturned 4\n");
    remove_flags();
}

/* --- eviction --- */

static int back; /* ranks that have been out; under fake_lock */

/* No gate opens before all are back. */
static void evict_once(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    mover_serve(m, 50); /* the host gets into its call */
    if (mover_evict(m, WAIT_MS)) {
        mover_serve(m, 100);
        mover_restore(m);
    }
    fake_lock();
    f->hold = ++back < (int)f->nranks;
    fake_unlock();
    mover_end(m);
}

/* With a variable more, if there is one. */
static void wait_with(const char *what, const char *variable, const char *value)
{
    char line[64];
    snprintf(line, sizeof line, "%s done", what);
    struct fake *f = fresh(evict_once);
    f->more_env[1][0] = variable;
    f->more_env[1][1] = value;
    f->hold = true;
    back = 0;
    RUN(f, 2, "wait", what);
    for (int i = 0; i < 2; i++) {
        assert_done(&f->ranks[i], line);
        assert_int_equal(movers[i].evictions, 1);
        assert_int_equal(movers[i].out_bytes, 6 * MIB);
    }
    remove_flags();
}

static void wait_in(const char *what)
{
    wait_with(what, NULL, NULL);
}

static void host_waits_for_a_stream(void **state) { wait_in("stream"); }
static void host_waits_for_the_device(void **state) { wait_in("device"); }
static void host_waits_for_an_event(void **state) { wait_in("event"); }
static void host_sits_in_an_asynchronous_copy(void **state) { wait_in("copy-async"); }
static void host_sits_in_a_free(void **state) { wait_in("free"); }
static void default_stream_behind_a_gate(void **state) { wait_in("legacy"); }
static void stream_waits_for_a_gated_one(void **state) { wait_in("wait"); }

/* As CUDA's queues, which make the host wait in the driver when they are full. */
static void queue_in(const char *what, const char *entries)
{
    wait_with(what, "SOFTGPU_QUEUE_ENTRIES", entries);
}

static void more_is_queued_than_the_driver_takes(void **state) { queue_in("queue", "1024"); }
static void more_is_queued_on_the_default_stream(void **state) { queue_in("legacy-queue", "1024"); }
static void host_sits_in_a_full_queue(void **state) { queue_in("full", "200"); }
static void the_queue_is_full_before_the_gate_is_reached(void **state) { queue_in("full-ahead", "200"); }

/* As CUDA, which loads a kernel when it is launched first and waits for the device to do so. */
static void host_launches_a_kernel_for_the_first_time(void **state)
{
    wait_with("first", "SOFTGPU_LAZY_LOADING", "1");
}

static int queued; /* ranks that queued what they wanted to */

static void open_when_queued(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "queued");
    fake_lock();
    queued += !access(flag_path(f, r, "queued"), F_OK);
    f->hold = ++back < (int)f->nranks;
    fake_unlock();
    mover_end(m);
}

static void a_gate_that_opens_when_enough_is_queued(void **state)
{
    struct fake *f = fresh(open_when_queued);
    f->hold = true;
    back = queued = 0;
    RUN(f, 2, "wait", "ahead");
    for (int i = 0; i < 2; i++)
        assert_done(&f->ranks[i], "ahead done");
    assert_int_equal(queued, 2);
    remove_flags();
}

static void evict_own(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    if (mover_evict(m, WAIT_MS)) {
        raise_flag(f, r, "evicted");
        await_flag(f, m, "dropped");
        mover_restore(m);
        raise_flag(f, r, "restored");
    }
    mover_end(m);
}

static void memory_that_the_program_maps(void **state)
{
    struct fake *f = fresh(evict_own);
    RUN(f, 1, "own");
    assert_done(&f->ranks[0], "twice 1\nown done");
    assert_int_equal(movers[0].evictions, 1);
    assert_int_equal(movers[0].out_bytes, 22 * MIB);
    assert_int_equal(movers[0].dropped, 1); /* unmapped while it was away */
    assert_int_equal(f->ranks[0].live_bytes, 0);
    remove_flags();
}

static void evict_busy(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    mover_evict(m, 50);
    if (mover_evict(m, WAIT_MS)) {
        raise_flag(f, r, "evicted");
        mover_restore(m);
        raise_flag(f, r, "restored");
    }
    mover_end(m);
}

static void a_kernel_is_waited_for(void **state)
{
    struct fake *f = fresh(evict_busy);
    RUN(f, 1, "busy");
    assert_done(&f->ranks[0], "busy done");
    assert_int_equal(movers[0].cancelled, 1);
    assert_int_equal(movers[0].evictions, 1);
    remove_flags();
}

static void evict_late(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    if (mover_evict(m, WAIT_MS)) {
        raise_flag(f, r, "evicted");
        await_flag(f, m, "launched");
        mover_restore(m);
    }
    mover_end(m);
}

static void work_issued_while_away(void **state)
{
    struct fake *f = fresh(evict_late);
    RUN(f, 1, "late");
    assert_done(&f->ranks[0], "late done");
    assert_int_equal(movers[0].evictions, 1);
    assert_int_equal(movers[0].waiting, 1); /* for the allocation */
    remove_flags();
}

/* It comes back because it says that its host waits. */
static void evict_until_it_waits(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    if (mover_evict(m, WAIT_MS)) {
        raise_flag(f, r, "evicted");
        for (int i = 0; i < WAIT_MS && !m->gone && !m->waiting; i++)
            mover_serve(m, 1);
        mover_restore(m);
    }
    mover_end(m);
}

static void more_kernels_while_away_than_the_driver_takes(void **state)
{
    struct fake *f = fresh(evict_until_it_waits);
    f->more_env[1][0] = "SOFTGPU_QUEUE_ENTRIES";
    f->more_env[1][1] = "1024";
    RUN(f, 1, "many");
    assert_done(&f->ranks[0], "many done");
    assert_int_equal(movers[0].evictions, 1);
    assert_int_equal(movers[0].waiting, 1);
    remove_flags();
}

static void evict_tied(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    await_flag(f, m, "ready");
    mover_evict(m, WAIT_MS);
    raise_flag(f, r, "evicted");
    mover_end(m);
}

static void a_rank_that_cannot_be_moved(void **state)
{
    struct fake *f = fresh(evict_tied);
    RUN(f, 1, "tied");
    assert_done(&f->ranks[0], "keeps its place on the device from now on, because it uses per-thread default streams");
    assert_done(&f->ranks[0], "tied done");
    assert_int_equal(movers[0].cancelled, 1);
    assert_int_equal(movers[0].evictions, 0);
    remove_flags();
}

/* --- any program, moved at any time --- */

static unsigned long in_all, given_in_all;

/* Gates open while both ranks are in, so each stays for as long as it was away: where moving is slow they would hardly meet. */
static void evict_always(struct fake *f, struct fake_rank *r)
{
    struct fake_mover *m = begin(f, r, 1024 * MIB);
    unsigned seed = (unsigned)(r - f->ranks);
    while (!m->gone) {
        seed = seed * 1103515245u + 12345u;
        mover_serve(m, (int)(m->away_ns / 1000000) + (int)(seed >> 16) % 60);
        if (!mover_evict(m, 100))
            continue;
        mover_serve(m, (int)(seed >> 20) % 5);
        mover_restore(m);
    }
    mover_end(m);
}

static void any_program_moved_at_any_time(void **state)
{
    static const char *const seeds[] = {"1", "22", "333", "4444"};
    for (int i = 0; i < 4; i++) {
        struct fake *f = fresh(evict_always);
        RUN(f, 2, "any", seeds[i], "200");
        for (int k = 0; k < 2; k++) {
            assert_done(&f->ranks[k], "any done");
            in_all += movers[k].evictions; /* a program that is through early was moved once, or not */
            given_in_all += movers[k].given;
        }
        remove_flags();
    }
    print_message("%lu evictions, %lu ranges back into other memory\n", in_all, given_in_all);
    assert_true(in_all > 8 && given_in_all > 8);
}

/* The structure of the graph does not depend on what was moved. */
static void the_graph_is_the_same(void **state)
{
    static struct msg_node nodes[FAKE_NODES];
    struct fake *f = fresh(evict_always);
    RUN(f, 2, "any", "7", "60");
    assert_done(&f->ranks[0], "any done");
    uint32_t n = f->ranks[0].nnodes;
    memcpy(nodes, f->ranks[0].nodes, sizeof nodes);
    remove_flags();
    f = fresh(NULL);
    RUN(f, 2, "any", "7", "60");
    assert_done(&f->ranks[0], "any done");
    assert_int_equal(f->ranks[0].nnodes, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct msg_node *a = &nodes[i], *b = &f->ranks[0].nodes[i];
        assert_true(a->kind == b->kind && a->stream == b->stream && a->dep == b->dep && a->comm == b->comm);
    }
    remove_flags();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_memory),
        cmocka_unit_test(nvml_says_the_same),
        cmocka_unit_test(memory_is_full),
        cmocka_unit_test(much_memory_in_few_ranges),
        cmocka_unit_test(prismd_refuses),
        cmocka_unit_test(frees_in_stream_order),
        cmocka_unit_test(host_waits_for_a_stream),
        cmocka_unit_test(host_waits_for_the_device),
        cmocka_unit_test(host_waits_for_an_event),
        cmocka_unit_test(host_sits_in_an_asynchronous_copy),
        cmocka_unit_test(host_sits_in_a_free),
        cmocka_unit_test(default_stream_behind_a_gate),
        cmocka_unit_test(stream_waits_for_a_gated_one),
        cmocka_unit_test(more_is_queued_than_the_driver_takes),
        cmocka_unit_test(more_is_queued_on_the_default_stream),
        cmocka_unit_test(host_sits_in_a_full_queue),
        cmocka_unit_test(the_queue_is_full_before_the_gate_is_reached),
        cmocka_unit_test(host_launches_a_kernel_for_the_first_time),
        cmocka_unit_test(a_gate_that_opens_when_enough_is_queued),
        cmocka_unit_test(memory_that_the_program_maps),
        cmocka_unit_test(a_kernel_is_waited_for),
        cmocka_unit_test(work_issued_while_away),
        cmocka_unit_test(more_kernels_while_away_than_the_driver_takes),
        cmocka_unit_test(a_rank_that_cannot_be_moved),
        cmocka_unit_test(any_program_moved_at_any_time),
        cmocka_unit_test(the_graph_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
