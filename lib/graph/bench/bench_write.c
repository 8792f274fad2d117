/* bench_write - what recording costs a rank and operation: host time from a node's arrival to its bytes on disk.
 *
 *   bench_write graph.bin FOLDER [repeats]      default 5
 *
 * Every node of the trace's ranks is added to a new graph as capture adds it (graph_record, prismd/capture/record.c), ranks in
 * turns, then classes are found, the file is encoded, compressed and written to FOLDER. Prints FIGURE lines (tests/bench.sh): nanoseconds of
 * one thread's time an operation (a COMM node's part) over all of it, and of the two halves. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/file.h"
#include "graph/graph.h"
#include "graph/recorder.h"

#define REPEATS_MAX 100
#define TURN        16u /* nodes of a rank before the next rank's */

static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct graph *empty_like(const struct graph *from)
{
    struct graph *g = graph_create(from->world, from->gpus_per_node);
    for (uint32_t c = 0; c < from->ncomms; c++)
        graph_add_comm(g, from->comms[c].ranks, from->comms[c].size);
    for (uint32_t r = 0; r < from->world; r++)
        for (uint32_t c = 0; c < from->ranks[r].ncomms; c++)
            graph_set_member(g, r, c, from->ranks[r].comms[c].global, from->ranks[r].comms[c].rank);
    return g;
}

static void add_nodes(struct graph *g, const struct graph *from)
{
    uint32_t most = 0;
    struct graph_recorder *recorder = graph_recorder_create(g);
    for (uint32_t r = 0; r < from->world; r++)
        most = from->ranks[r].nnodes > most ? from->ranks[r].nnodes : most;
    for (uint32_t at = 0; at < most; at += TURN)
        for (uint32_t r = 0; r < from->world; r++) {
            const struct graph_rank *own = &from->ranks[r];
            for (uint32_t i = at; i < own->nnodes && i < at + TURN; i++)
                if (graph_record(recorder, r, &own->nodes[i], &own->parts[own->nodes[i].first_part], own->nodes[i].nparts) < 0)
                    abort();
        }
    graph_recorder_destroy(recorder);
}

static void figure(const char *name, const double *ns, uint32_t n, uint64_t operations)
{
    printf("FIGURE %s ns", name);
    for (uint32_t i = 0; i < n; i++)
        printf(" %.1f", ns[i] / (double)operations);
    printf("\n");
}

int main(int argc, char **argv)
{
    uint32_t repeats = argc > 3 ? (uint32_t)atoi(argv[3]) : 5;
    double record[REPEATS_MAX], write[REPEATS_MAX], all[REPEATS_MAX];
    struct prism_error err = {0};
    struct bytes data = {0}, out = {0};
    uint64_t operations = 0;
    char path[4096];
    if (argc < 3 || !repeats || repeats > REPEATS_MAX) {
        fprintf(stderr, "usage: bench_write graph.bin FOLDER [repeats]\n");
        return 64;
    }
    struct graph *from = file_read(argv[1], (size_t)4 << 30, &data, &err) ? NULL : graph_read(data.data, data.len, &err);
    snprintf(path, sizeof path, "%s/written.bin", argv[2]);
    for (uint32_t r = 0; from && r < from->world; r++)
        for (uint32_t i = 0; i < from->ranks[r].nnodes; i++)
            operations += from->ranks[r].nodes[i].nparts;
    for (uint32_t i = 0; from && !err.code && i < repeats; i++) {
        struct graph *g = empty_like(from);
        double begin = processor_ns();
        add_nodes(g, from);
        record[i] = processor_ns() - begin;
        graph_find_classes(g);
        bytes_clear(&out);
        graph_write(g, &out);
        file_write_atomic(path, out.data, out.len, 0644, &err);
        all[i] = processor_ns() - begin;
        write[i] = all[i] - record[i];
        graph_destroy(g);
    }
    if (err.code || !from || !operations) {
        fprintf(stderr, "bench_write: %s\n", err.code ? err.text : "no operations in it");
        return 65;
    }
    figure("trace_write_nanoseconds_per_op", all, repeats, operations);
    figure("trace_record_nanoseconds_per_op", record, repeats, operations);
    figure("trace_encode_nanoseconds_per_op", write, repeats, operations);
    graph_destroy(from);
    bytes_free(&data);
    bytes_free(&out);
    return 0;
}
