/* bench_engine - nodes a second of graph_eval on the graph of a trace.
 *
 *   bench_engine graph.bin [repeats]      default 7
 *
 * Prints FIGURE lines (tests/bench.sh): evaluations from the graph in memory to every rank's iteration ends, tables included,
 * on one thread and on two in turns, and per second of processor time, which other programs on the machine disturb less. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/file.h"
#include "graph/eval.h"

static double duration(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                       uint32_t nparts)
{
    return 5e3 + (double)parts[0].count * 2e-2;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= 1 << 19;
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct sample {
    double wall, processor; /* nodes a second */
};

static struct sample evaluate(const struct graph *g, uint32_t threads, uint64_t *nodes)
{
    struct graph_eval_ops ops = {.duration_ns = duration, .send_is_eager = eager};
    struct graph_eval_options options = {.threads = threads};
    struct prism_error err = {0};
    double processor = processor_seconds();
    int64_t begin = clock_now_ns();
    struct graph_eval *e = graph_eval(g, &ops, &options, &err);
    int64_t wall = clock_now_ns() - begin;
    processor = processor_seconds() - processor;
    char why[512];
    if (!e || graph_eval_blocked(e, why, sizeof why)) {
        fprintf(stderr, "bench_engine: %s\n", e ? why : err.text);
        exit(1);
    }
    *nodes = graph_eval_nodes(e);
    graph_eval_destroy(e);
    return (struct sample){(double)*nodes * 1e9 / (double)wall, (double)*nodes / processor};
}

static void figure(const char *name, const struct sample *samples, uint32_t n, bool processor)
{
    printf("FIGURE %s nodes/s", name);
    for (uint32_t i = 0; i < n; i++)
        printf(" %.0f", processor ? samples[i].processor : samples[i].wall);
    printf("\n");
}

int main(int argc, char **argv)
{
    uint32_t repeats = argc > 2 ? (uint32_t)atoi(argv[2]) : 7;
    struct prism_error err = {0};
    struct bytes data = {0};
    uint64_t nodes = 0;
    if (argc < 2 || !repeats || repeats > 1000) {
        fprintf(stderr, "usage: bench_engine graph.bin [repeats]\n");
        return 64;
    }
    struct graph *g = file_read(argv[1], (size_t)4 << 30, &data, &err) ? NULL : graph_read(data.data, data.len, &err);
    if (!g) {
        fprintf(stderr, "bench_engine: %s\n", err.text);
        return 65;
    }
    struct sample *one = calloc(repeats, sizeof *one), *two = calloc(repeats, sizeof *two);
    for (uint32_t i = 0; i < repeats; i++) {
        one[i] = evaluate(g, 1, &nodes);
        two[i] = evaluate(g, 2, &nodes);
    }
    figure("engine_nodes_per_second_one_core", one, repeats, false);
    figure("engine_nodes_per_second_two_cores", two, repeats, false);
    figure("engine_nodes_per_processor_second_one_thread", one, repeats, true);
    figure("engine_nodes_per_processor_second_two_threads", two, repeats, true);
    printf("FIGURE engine_nodes nodes %" PRIu64 "\n", nodes);
    free(one);
    free(two);
    graph_destroy(g);
    bytes_free(&data);
    return 0;
}
