/* plant.c - put an error into a good trace, with valid checksums.
 *
 *   plant work TRACE SANDBOX      the largest device work of a rank other than SANDBOX, 5 % up (the same node in every
 *                                 iteration: it is one value of the program)
 *   plant payload TRACE SANDBOX   one byte in the largest floating-point payload that SANDBOX gets in the second
 *                                 iteration
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/file.h"
#include "graph/graph.h"
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

/* The largest device work after the first iteration; false when nothing was measured. */
static int find_work(const struct graph *g, uint32_t sandbox, uint32_t *rank, uint32_t *node)
{
    float largest = 0;
    for (uint32_t r = 0; r < g->world; r++) {
        const struct graph_rank *gr = &g->ranks[r];
        if (r == sandbox || !gr->device_work || gr->niterations < 2)
            continue;
        for (uint32_t i = gr->iterations[1]; i < gr->iterations[2]; i++)
            if (gr->device_work[i] > largest) {
                largest = gr->device_work[i];
                *rank = r;
                *node = i;
            }
    }
    return largest > 0;
}

static void plant_work(const char *trace, uint32_t sandbox)
{
    char path[4096];
    uint32_t rank = 0, node = 0;
    struct bytes out = { 0 };
    snprintf(path, sizeof(path), "%s/graph.bin", trace);
    struct graph *g = load(path);
    if (!find_work(g, sandbox, &rank, &node)) {
        fprintf(stderr, "plant: %s: no rank besides %u has measured works\n", path, sandbox);
        exit(1);
    }
    struct graph_rank *gr = &g->ranks[rank];
    uint32_t offset = node - gr->iterations[1];
    for (uint32_t i = 0; i < gr->niterations; i++) {
        uint32_t at = gr->iterations[i] + offset;
        if (at < gr->iterations[i + 1])
            gr->device_work[at] *= 1.05f;
    }
    fprintf(stderr, "plant: work of node %u of rank %u is now %.3f ms, 5 %% more\n", node, rank,
            (double)gr->device_work[node] * 1e-6);
    graph_write(g, &out);
    if (file_write_atomic(path, out.data, out.len, 0644, &error) != 0)
        give_up(path);
    bytes_free(&out);
    graph_destroy(g);
}

/* --- payload --- */

static int is_float_node(const struct graph_rank *gr, const struct graph_node *node)
{
    for (uint32_t p = 0; p < node->nparts; p++)
        if (coll_datatype_is_float(gr->parts[node->first_part + p].datatype))
            return 1;
    return 0;
}

static struct payload_key find_payload(const struct graph *g, struct payload_reader *reader, uint32_t sandbox)
{
    const struct graph_rank *gr = &g->ranks[sandbox];
    struct payload_key best = { .role = 0 };
    int64_t largest = 0;
    uint32_t begin = gr->niterations > 1 ? gr->iterations[1] : 0;
    uint32_t end = gr->niterations > 1 ? gr->iterations[2] : gr->nnodes;
    for (uint32_t i = begin; i < end; i++) {
        const struct graph_node *node = &gr->nodes[i];
        struct payload_key key = { sandbox, node->comm, node->ordinal, PAYLOAD_OUTPUT };
        if (node->kind != GRAPH_COMM || !is_float_node(gr, node) || payload_reader_size(reader, key) <= largest)
            continue;
        largest = payload_reader_size(reader, key);
        best = key;
    }
    return best;
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
        data[size / 8 * 4 + 2] ^= 0x40; /* an exponent or high mantissa bit of a 4-byte number in the middle */
        fprintf(stderr, "plant: one byte of the %lld of communicator %u, group %u at rank %u changed\n",
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
        fprintf(stderr, "plant: rank %u gets no floating-point payload\n", sandbox);
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
    if (argc != 4) {
        fprintf(stderr, "usage: plant work|payload TRACE SANDBOX\n");
        return 64;
    }
    uint32_t sandbox = (uint32_t)strtoul(argv[3], NULL, 10);
    if (strcmp(argv[1], "work") == 0)
        plant_work(argv[2], sandbox);
    else
        plant_payload(argv[2], sandbox);
    return 0;
}
