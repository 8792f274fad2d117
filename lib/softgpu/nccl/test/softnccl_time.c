/* Model time: durations are those of the formulas in model.h, whatever the machine that runs the test is
 * doing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

/* The profile of these tests; no jitter, no launch overhead. Times in ms below. */
#define INTRA_LATENCY   0.1
#define INTRA_BANDWIDTH 50e3 /* bytes a ms */
#define INTER_LATENCY   0.3
#define INTER_BANDWIDTH 20e3

static char profile[300] = "SOFTGPU_PROFILE=/tmp/softnccl-profile-XXXXXX";

static void write_profile(const char *more)
{
    char *path = strchr(profile, '=') + 1;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "net_launch_us = 0.0; net_intra_latency_us = 100.0; net_intra_bandwidth = 50e6; "
            "net_inter_latency_us = 300.0;\n"
            "net_inter_bandwidth = 20e6; net_eager_bytes = 4096; net_jitter = 0.0; device: { jitter = 0.0; "
            "};\n%s\n",
            more);
    fclose(file);
}

struct clock {
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t before, after;
    float *in, *out;
};

static struct clock start_clock(struct rank *rank)
{
    struct clock c = {.comm = make_comm(rank)};
    CUDA(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&c.before));
    CUDA(cudaEventCreate(&c.after));
    c.in = device_buffer(NULL, 8 << 20);
    c.out = device_buffer(NULL, 8 << 20);
    return c;
}

static void stop_clock(struct clock *c)
{
    NCCL(ncclCommDestroy(c->comm));
    CUDA(cudaEventDestroy(c->before));
    CUDA(cudaEventDestroy(c->after));
    CUDA(cudaStreamDestroy(c->stream));
}

/* All ranks come to the same model time: the end of an all-reduce, long enough for every host to enqueue what
 * follows before it is over. */
static void align(struct clock *c)
{
    NCCL(ncclAllReduce(c->in, c->out, 250000, ncclFloat32, ncclSum, c->comm, c->stream));
    CUDA(cudaEventRecord(c->before, c->stream));
}

static double elapsed(struct clock *c)
{
    float ms;
    CUDA(cudaEventRecord(c->after, c->stream));
    CUDA(cudaStreamSynchronize(c->stream));
    CUDA(cudaEventElapsedTime(&ms, c->before, c->after));
    return ms;
}

static void expect(double is, double should, const char *what)
{
    if (fabs(is - should) > 0.002 * should + 0.01) {
        fprintf(stderr, "%s took %.3f ms, the formula says %.3f\n", what, is, should);
        rank_fail(what, 0, "duration");
    }
}

static double ring_all_reduce(int n, double bytes, double latency, double bandwidth)
{
    double ring = 2 * (n - 1) * latency + 2.0 * (n - 1) / n * bytes / bandwidth;
    double tree = 2 * ceil(log2(n)) * latency + 2 * bytes / bandwidth;
    return fmin(ring, tree);
}

static void durations(struct rank *rank, double latency, double bandwidth)
{
    struct clock c = start_clock(rank);
    int n = rank->ranks;
    double last = 0;
    for (size_t count = 1; count <= 100000; count *= 10) {
        align(&c);
        NCCL(ncclAllReduce(c.in, c.out, count, ncclFloat32, ncclSum, c.comm, c.stream));
        double ms = elapsed(&c);
        expect(ms, ring_all_reduce(n, (double)count * 4, latency, bandwidth), "all-reduce");
        CHECK(ms > last); /* more bytes take longer */
        last = ms;
    }
    align(&c);
    NCCL(ncclAllGather(c.in, c.out, 20000, ncclFloat32, c.comm, c.stream));
    expect(elapsed(&c), (n - 1) * (latency + 80000 / bandwidth), "all-gather");
    align(&c);
    NCCL(ncclReduceScatter(c.in, c.out, 20000, ncclFloat32, ncclSum, c.comm, c.stream));
    expect(elapsed(&c), (n - 1) * (latency + 80000 / bandwidth), "reduce-scatter");
    stop_clock(&c);
}

static void one_node(struct rank *rank)
{
    durations(rank, INTRA_LATENCY, INTRA_BANDWIDTH);
}

static void two_nodes(struct rank *rank)
{
    durations(rank, INTER_LATENCY, INTER_BANDWIDTH);
}

/* Under the thread sanitizer hosts are too slow to compare modelled times with the clock. */
static void skip_if_slow(void)
{
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

static void test_collectives(void **state)
{
    skip_if_slow();
    write_profile("");
    run_ranks(4, one_node, NULL, (struct options){.time_scale = "1", .environment = profile});
    run_ranks(4, two_nodes, NULL,
              (struct options){.time_scale = "1", .environment = profile, .ranks_per_node = 2});
}

static void messages(struct rank *rank)
{
    struct clock c = start_clock(rank);
    int n = rank->ranks, me = rank->rank;
    align(&c); /* small: the sender does not wait, the receiver waits for the bytes */
    if (me == 0)
        NCCL(ncclSend(c.in, 1000, ncclFloat32, 1, c.comm, c.stream));
    if (me == 1)
        NCCL(ncclRecv(c.out, 1000, ncclFloat32, 0, c.comm, c.stream));
    double ms = elapsed(&c);
    if (me < 2)
        expect(ms, INTRA_LATENCY + 4000 / INTRA_BANDWIDTH, "small message");
    align(&c);
    if (me == 1)
        NCCL(ncclSend(c.in, 100000, ncclFloat32, 2, c.comm, c.stream));
    if (me == 2)
        NCCL(ncclRecv(c.out, 100000, ncclFloat32, 1, c.comm, c.stream));
    ms = elapsed(&c);
    if (me == 1 || me == 2) /* the ranks are on different nodes */
        expect(ms, INTER_LATENCY + 400000 / INTER_BANDWIDTH, "large message");
    align(&c); /* a late receiver delays a large send by as much */
    if (me == 0) {
        NCCL(ncclSend(c.in, 100000, ncclFloat32, 1, c.comm, c.stream));
        expect(elapsed(&c), 200000 / 200e3 + INTRA_LATENCY + 400000 / INTRA_BANDWIDTH, "delayed send");
    } else if (me == 1) {
        NCCL(ncclGroupStart()); /* to itself: keeps it busy for a while */
        NCCL(ncclSend(c.in, 50000, ncclFloat32, 1, c.comm, c.stream));
        NCCL(ncclRecv(c.out, 50000, ncclFloat32, 1, c.comm, c.stream));
        NCCL(ncclGroupEnd());
        NCCL(ncclRecv(c.out, 100000, ncclFloat32, 0, c.comm, c.stream));
        CUDA(cudaStreamSynchronize(c.stream));
    }
    align(&c);
    NCCL(ncclGroupStart());
    for (int peer = 0; peer < n; peer++)
        if (peer != me) {
            NCCL(ncclSend(c.in + peer * 10000, 10000, ncclFloat32, peer, c.comm, c.stream));
            NCCL(ncclRecv(c.out + peer * 10000, 10000, ncclFloat32, peer, c.comm, c.stream));
        }
    NCCL(ncclGroupEnd());
    expect(elapsed(&c), INTER_LATENCY + 2 * 40000 / INTER_BANDWIDTH,
           "grouped all-to-all"); /* two peers away */
    align(&c);
    NCCL(ncclAlltoAll(c.in, c.out, 10000, ncclFloat32, c.comm, c.stream));
    expect(elapsed(&c), INTER_LATENCY + 2 * 40000 / INTER_BANDWIDTH, "all-to-all");
    stop_clock(&c);
}

static void test_messages(void **state)
{
    skip_if_slow();
    write_profile("");
    run_ranks(4, messages, NULL,
              (struct options){.time_scale = "1", .environment = profile, .ranks_per_node = 2});
}

/* The root of a broadcast ends by itself; the others need only the root. */
static void broadcasts(struct rank *rank)
{
    struct clock c = start_clock(rank);
    double bytes = 400000;
    align(&c);
    if (rank->rank == 3) { /* late by a model time of its own: a message to itself */
        NCCL(ncclGroupStart());
        NCCL(ncclSend(c.in, 1000000, ncclFloat32, 3, c.comm, c.stream));
        NCCL(ncclRecv(c.out, 1000000, ncclFloat32, 3, c.comm, c.stream));
        NCCL(ncclGroupEnd());
    }
    NCCL(ncclBroadcast(c.in, c.out, 100000, ncclFloat32, 0, c.comm, c.stream));
    double ms = elapsed(&c), late = 4e6 / 200e3, depth = rank->rank ? rank->rank : 1;
    expect(ms, (rank->rank == 3 ? late : 0) + depth * INTRA_LATENCY + bytes / INTRA_BANDWIDTH, "broadcast");
    stop_clock(&c);
}

static void test_broadcasts(void **state)
{
    skip_if_slow();
    write_profile("");
    run_ranks(4, broadcasts, NULL, (struct options){.time_scale = "1", .environment = profile});
}

/* Two communicators over the same links: the operation that starts second finds half the bandwidth. Slow, so
 * that it surely starts while the first is running. */
#define SLOW 4

static void contention(struct rank *rank)
{
    struct clock c = start_clock(rank);
    ncclComm_t other;
    cudaStream_t stream;
    cudaEvent_t before, after;
    float ms, *buffer = device_buffer(NULL, 1 << 20);
    double alone = ring_all_reduce(2, 400000, INTRA_LATENCY, INTRA_BANDWIDTH);
    double first = ring_all_reduce(2, 2000000, INTRA_LATENCY, INTRA_BANDWIDTH);
    NCCL(ncclCommSplit(c.comm, 0, 0, &other, NULL));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&before));
    CUDA(cudaEventCreate(&after));
    align(&c);                                                                        /* 80 ms */
    NCCL(ncclAllReduce(c.in, c.out, 500000, ncclFloat32, ncclSum, c.comm, c.stream)); /* 160 ms */
    usleep(140000);
    meet();
    NCCL(ncclAllReduce(buffer, buffer, 1000, ncclFloat32, ncclSum, other, stream));
    CUDA(cudaEventRecord(before, stream));
    NCCL(ncclAllReduce(buffer, buffer, 100000, ncclFloat32, ncclSum, other, stream));
    CUDA(cudaEventRecord(after, stream));
    expect(elapsed(&c), SLOW * first, "first");
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaEventElapsedTime(&ms, before, after));
    expect(ms, SLOW * (2 * INTRA_LATENCY + 2 * (alone - 2 * INTRA_LATENCY)), "second");
    NCCL(ncclCommDestroy(other));
    CUDA(cudaEventDestroy(before));
    CUDA(cudaEventDestroy(after));
    stop_clock(&c);
}

static void test_contention(void **state)
{
    skip_if_slow();
    write_profile("");
    run_ranks(2, contention, NULL, (struct options){.time_scale = "4", .environment = profile});
}

/* With jitter: different from operation to operation, the same in every run and on every rank. */
static void jitter(struct rank *rank)
{
    struct clock c = start_clock(rank);
    double first = 0, nominal = ring_all_reduce(2, 40000, INTRA_LATENCY, INTRA_BANDWIDTH);
    int different = 0;
    for (int i = 0; i < 8; i++) {
        align(&c);
        NCCL(ncclAllReduce(c.in, c.out, 10000, ncclFloat32, ncclSum, c.comm, c.stream));
        double ms = elapsed(&c);
        CHECK(fabs(ms / nominal - 1) < 0.2);
        different += i > 0 && fabs(ms - first) > 1e-3;
        first = i ? first : ms;
        int64_t us = (int64_t)llround(ms * 1000), *seen = (int64_t *)(uintptr_t)rank->argument + i;
        if (rank->rank == 0 && *seen == 0)
            *seen = us;
        meet();
        CHECK(llabs(*seen - us) <= 1);
    }
    CHECK(different > 3);
    stop_clock(&c);
}

static void test_jitter(void **state)
{
    skip_if_slow();
    int64_t *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *path = strchr(profile, '=') + 1;
    write_profile("");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("net_launch_us = 0.0; net_intra_latency_us = 100.0; net_intra_bandwidth = 50e6; net_jitter = 2.0;\n"
          "device: { jitter = 0.02; };\n",
          file);
    fclose(file);
    for (int run = 0; run < 2; run++)
        run_ranks(2, jitter, seen, (struct options){.time_scale = "1", .environment = profile});
    munmap(seen, 4096);
}

static int make_profile(void **state)
{
    return close(mkstemp(strchr(profile, '=') + 1));
}

static int remove_profile(void **state)
{
    return unlink(strchr(profile, '=') + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_broadcasts),  cmocka_unit_test(test_contention),
        cmocka_unit_test(test_jitter),
    };
    return cmocka_run_group_tests(tests, make_profile, remove_profile);
}
