/* plant.c - put an error into a good trace, with valid checksums.
 *
 *   plant work TRACE SANDBOX NETWORK   one device work of another rank, 5 % up: of the largest ones that which matters
 *                                      most to SANDBOX (most works are hidden behind others). The same node in every
 *                                      iteration: it is one value of the program
 *   plant payload TRACE SANDBOX        one bit of a sum that SANDBOX gets in the second iteration: the last one of
 *                                      double precision, which in moetrain carries loss and gradient norm
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/duration.h"
#include "common/file.h"
#include "graph/graph.h"
#include "prismd/predict/predict.h"
#include "trace/payload.h"
#include "trace/trace.h"

static struct prism_error error;

static void give_up(const char *what)
{
    fprintf(stderr, "plant: %s: %s\n", what, error.text);
    exit(1);
}

static struct graph *load(const char *path)
{
    struct bytes data = { 0 };
    if (file_read(path, (size_t)4 << 30, &data, &error) != 0)
        give_up(path);
    struct graph *g = graph_read(data.data, data.len, &error);
    if (!g)
        give_up(path);
    bytes_free(&data);
    return g;
}

/* --- work --- */

#define CANDIDATES 48

struct candidate {
    uint32_t rank, offset; /* node within an iteration */
    float work;
};

static int compare_candidates(const void *a, const void *b)
{
    float x = ((const struct candidate *)a)->work, y = ((const struct candidate *)b)->work;
    return (x < y) - (x > y);
}

/* The largest works of the second iteration of all ranks but sandbox; at most CANDIDATES. */
static size_t find_candidates(const struct graph *g, uint32_t sandbox, struct candidate *best)
{
    size_t n = 0, all = 0;
    struct candidate *list = NULL;
    for (uint32_t r = 0; r < g->world; r++) {
        const struct graph_rank *gr = &g->ranks[r];
        if (r == sandbox || !gr->device_work || gr->niterations < 2)
            continue;
        for (uint32_t i = gr->iterations[1]; i < gr->iterations[2]; i++) {
            if (n == all && !(list = realloc(list, (all = all ? 2 * all : 1024) * sizeof(*list))))
                abort();
            list[n++] = (struct candidate){ r, i - gr->iterations[1], gr->device_work[i] };
        }
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_candidates);
    n = n < CANDIDATES ? n : CANDIDATES;
    if (n)
        memcpy(best, list, n * sizeof(*list));
    free(list);
    return n;
}

static void scale(struct graph *g, const struct candidate *c, float factor)
{
    struct graph_rank *gr = &g->ranks[c->rank];
    for (uint32_t i = 0; i < gr->niterations; i++)
        if (gr->iterations[i] + c->offset < gr->iterations[i + 1])
            gr->device_work[gr->iterations[i] + c->offset] *= factor;
}

/* Predicted seconds of the second iteration. */
static double second_iteration(const struct graph *g, const struct coll_network *network, uint32_t rank)
{
    struct prediction p;
    predict(g, network, NULL, rank, &p);
    double seconds = p.iterations > 1 ? p.seconds[1] : 0;
    prediction_clear(&p);
    return seconds;
}

static void plant_work(const char *trace, uint32_t sandbox, const char *profile)
{
    char path[4096];
    struct candidate candidates[CANDIDATES], *worst = NULL;
    struct coll_network network;
    struct bytes out = { 0 };
    snprintf(path, sizeof(path), "%s/graph.bin", trace);
    struct graph *g = load(path);
    if (coll_network_load(&network, profile, &error) != 0)
        give_up(profile);
    size_t n = find_candidates(g, sandbox, candidates);
    double before = second_iteration(g, &network, sandbox), after = before;
    for (size_t i = 0; i < n; i++) {
        scale(g, &candidates[i], 1.05f);
        double seconds = second_iteration(g, &network, sandbox);
        scale(g, &candidates[i], 1 / 1.05f);
        if (seconds > after) {
            after = seconds;
            worst = &candidates[i];
        }
    }
    if (!worst) {
        fprintf(stderr, "plant: %s: no work of another rank matters to rank %u\n", path, sandbox);
        exit(1);
    }
    scale(g, worst, 1.05f);
    fprintf(stderr, "plant: a work of %.3f ms of rank %u is 5 %% more: predicts %.4f instead of %.4f s an iteration\n",
            (double)worst->work * 1e-6, worst->rank, after, before);
    graph_write(g, &out);
    if (file_write_atomic(path, out.data, out.len, 0644, &error) != 0)
        give_up(path);
    bytes_free(&out);
    coll_network_clear(&network);
    graph_destroy(g);
}

/* --- payload --- */

static int is_double_node(const struct graph_rank *gr, const struct graph_node *node)
{
    return node->kind == GRAPH_COMM && node->nparts > 0 && gr->parts[node->first_part].datatype == COLL_FLOAT64;
}

static struct payload_key find_payload(const struct graph *g, struct payload_reader *reader, uint32_t sandbox)
{
    const struct graph_rank *gr = &g->ranks[sandbox];
    struct payload_key last = { .role = 0 };
    for (uint32_t i = gr->niterations > 1 ? gr->iterations[1] : 0; i < gr->nnodes; i++) {
        const struct graph_node *node = &gr->nodes[i];
        struct payload_key key = { sandbox, node->comm, node->ordinal, PAYLOAD_OUTPUT };
        if (gr->niterations > 1 && i >= gr->iterations[2])
            break;
        if (is_double_node(gr, node) && payload_reader_size(reader, key) > 0)
            last = key;
    }
    return last;
}

static int same_key(struct payload_key a, struct payload_key b)
{
    return a.rank == b.rank && a.comm == b.comm && a.ordinal == b.ordinal && a.role == b.role;
}

static void copy_payload(struct payload_reader *reader, struct payload_writer *writer, struct payload_key key,
                         struct payload_key wrong)
{
    int64_t size = payload_reader_size(reader, key);
    if (size < 0)
        return;
    unsigned char *data = malloc((size_t)size + 1);
    if (!data || payload_reader_get(reader, key, data, (size_t)size, &error) < 0)
        give_up("reading a payload");
    if (same_key(key, wrong)) {
        data[size > 4 ? 4 : 0] ^= 0x10; /* in the middle of the first number's mantissa */
        fprintf(stderr, "plant: one bit of the %lld of communicator %u, group %u at rank %u changed\n",
                (long long)size, key.comm, key.ordinal, key.rank);
    }
    if (payload_writer_put(writer, key, data, (size_t)size, &error) != 0)
        give_up("writing a payload");
    free(data);
}

static void plant_payload(const char *trace, uint32_t sandbox)
{
    char path[4096], aside[4096];
    struct trace_manifest manifest = { 0 };
    if (trace_manifest_read(trace, &manifest, &error) != 0)
        give_up(trace);
    if (manifest.nodes != 1) {
        fprintf(stderr, "plant: only traces captured on one node\n");
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/graph.bin", trace);
    snprintf(aside, sizeof(aside), "%s/planted", trace);
    struct graph *g = load(path);
    struct payload_reader *reader = payload_reader_open(trace, 1, &error);
    if (!reader || file_make_dirs(aside, 0755, &error) != 0)
        give_up(trace);
    struct payload_writer *writer = payload_writer_create(aside, 0, &error);
    if (!writer)
        give_up(aside);
    struct payload_key wrong = find_payload(g, reader, sandbox);
    if (!wrong.role) {
        fprintf(stderr, "plant: rank %u gets no sum of double precision\n", sandbox);
        exit(1);
    }
    for (uint32_t r = 0; r < g->world; r++)
        for (uint32_t i = 0; i < g->ranks[r].nnodes; i++) {
            const struct graph_node *node = &g->ranks[r].nodes[i];
            for (uint32_t role = PAYLOAD_OUTPUT; node->kind == GRAPH_COMM && role <= PAYLOAD_CONTRIBUTION; role++)
                copy_payload(reader, writer, (struct payload_key){ r, node->comm, node->ordinal, role }, wrong);
        }
    payload_reader_close(reader);
    if (payload_writer_finish(writer, &error) != 0)
        give_up(aside);
    static const char *const files[] = { "payload-0.dat", "payload-0.idx" };
    for (size_t i = 0; i < 2; i++) {
        char from[4200], to[4200];
        snprintf(from, sizeof(from), "%s/%s", aside, files[i]);
        snprintf(to, sizeof(to), "%s/%s", trace, files[i]);
        if (rename(from, to) != 0) {
            perror(from);
            exit(1);
        }
    }
    file_remove_tree(aside);
    graph_destroy(g);
    trace_manifest_clear(&manifest);
}

int main(int argc, char **argv)
{
    if (argc != 5 && !(argc == 4 && strcmp(argv[1], "payload") == 0)) {
        fprintf(stderr, "usage: plant work TRACE SANDBOX NETWORK, or plant payload TRACE SANDBOX\n");
        return 64;
    }
    uint32_t sandbox = (uint32_t)strtoul(argv[3], NULL, 10);
    if (strcmp(argv[1], "work") == 0)
        plant_work(argv[2], sandbox, argv[4]);
    else
        plant_payload(argv[2], sandbox);
    return 0;
}
