/* bench_run - nodes a second of graph_run on a training-shaped graph.
 *
 *   bench_run [ranks] [iterations] [microbatches]      defaults 1024 10 8
 *
 * Ranks are tp 8 x pp 4 x dp: tensor all-reduces on stream 0, pipeline receives on stream 1 and sends on 3
 * with events, a gradient all-reduce on stream 2 and one host synchronisation an iteration. Prints one line
 * of JSON a case: the graph recorded once and looped, and recorded in full. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "graph/run.h"
#include "training.h"


static double duration(void *ctx, const struct graph *g, uint32_t c, int32_t p,
                       const struct graph_part *parts, uint32_t nparts)
{
    return 5e3 + (double)parts[0].count * 2e-2;
}

static bool eager(void *ctx, uint64_t bytes)
{
    return bytes <= 1 << 19;
}

static void measure(const char *name, const struct training *s, uint32_t recorded, uint32_t played)
{
    struct graph *g = training_graph(s, recorded);
    struct graph_run_ops ops = {.duration_ns = duration, .send_is_eager = eager};
    struct graph_run_options options = {.iterations = played};
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < s->world; i++)
        nodes += (uint64_t)g->ranks[i].nnodes / recorded * played;
    int64_t begin = clock_now_ns();
    struct graph_run *run = graph_run_create(g, &ops, &options);
    int64_t created = clock_now_ns();
    graph_run_begin(run, 0);
    int64_t end = clock_now_ns();
    char why[512];
    uint64_t blocked = graph_run_blocked(run, why, sizeof why);
    if (blocked) {
        fprintf(stderr, "blocked: %s\n", why);
        exit(1);
    }
    printf("{\"case\":\"%s\",\"ranks\":%u,\"nodes\":%" PRIu64 ",\"create_seconds\":%.4f,\"run_seconds\":%.4f,"
           "\"nodes_per_second\":%.0f,\"iteration_seconds\":%.6f}\n",
           name, s->world, nodes, (double)(created - begin) / 1e9, (double)(end - created) / 1e9,
           (double)nodes * 1e9 / (double)(end - created), (double)graph_run_iteration_end(run, 0, 0) / 1e9);
    graph_run_destroy(run);
    graph_destroy(g);
}

int main(int argc, char **argv)
{
    struct training s = {.world = argc > 1 ? (uint32_t)atoi(argv[1]) : 1024};
    uint32_t iterations = argc > 2 ? (uint32_t)atoi(argv[2]) : 10;
    s.microbatches = argc > 3 ? (uint32_t)atoi(argv[3]) : 8;
    if (!s.world || s.world % TRAINING_REPLICA || !iterations || !s.microbatches) {
        fprintf(stderr, "usage: bench_run [ranks: a multiple of %u] [iterations] [microbatches]\n", TRAINING_REPLICA);
        return 64;
    }
    s.dp = s.world / TRAINING_REPLICA;
    measure("looped", &s, 1, iterations);
    measure("recorded", &s, iterations, iterations);
    return 0;
}
