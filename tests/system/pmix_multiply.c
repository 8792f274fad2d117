/* pmix_multiply.c - a trace of a large world made from one of a small world, without running the large one.
 *
 *   pmix_multiply SMALL LARGE WORLD -- PROGRAM ARGUMENTS...
 *
 * The program is pmix_client, whose values end in the rank as five digits: rank r of the large world put what rank
 * r mod 8 of the small one did, with the digits changed. It communicates by PMIx only, so the graph is empty.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "c10d/log.h"
#include "common/file.h"
#include "graph/graph.h"
#include "prismd/pmix/pmix_log.h"
#include "trace/payload.h"
#include "trace/trace.h"

#define SMALL 8

static const char *from, *to;
static uint32_t world;

static void check(int rc, const struct prism_error *err)
{
    if (!rc)
        return;
    fprintf(stderr, "pmix_multiply: %s\n", err->text);
    exit(1);
}

static const char *path(const char *folder, const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static void keep(const char *name, const struct bytes *b)
{
    struct prism_error err = {0};
    check(file_write_atomic(path(to, name), b->data, b->len, 0644, &err), &err);
}

static void renumber(struct bytes *data, uint32_t rank)
{
    char old[8], new[16];
    snprintf(old, sizeof old, "-%05u", rank % SMALL);
    snprintf(new, sizeof new, "-%05u", rank);
    for (uint8_t *at = data->data; (at = memmem(at, data->len - (size_t)(at - data->data), old, 6)); at += 6)
        memcpy(at, new, 6);
}

static void multiply_log(void)
{
    struct prism_error err = {0};
    struct bytes b = {0};
    check(file_read(path(from, "pmix.log"), 1 << 20, &b, &err), &err);
    struct pmix_log *small = pmix_log_decode(b.data, b.len, &err), *large = pmix_log_create(world);
    check(!small, &err);
    pmix_log_set_version(large, pmix_log_version(small));
    for (uint32_t r = 0; r < world; r++)
        for (uint32_t fence = 1; fence <= 2; fence++) {
            const struct pmix_record *record = pmix_log_find(small, r % SMALL, fence, "");
            if (!record || record->fence != fence)
                continue;
            struct bytes data = {0};
            bytes_put(&data, record->data, record->len);
            renumber(&data, r);
            pmix_log_add(large, r, fence, data.data, data.len);
            bytes_free(&data);
        }
    bytes_clear(&b);
    pmix_log_encode(large, &b);
    keep("pmix.log", &b);
    pmix_log_destroy(small);
    pmix_log_destroy(large);
    bytes_free(&b);
}

static void write_rest(char **argv)
{
    struct prism_error err = {0};
    struct bytes b = {0};
    struct graph *g = graph_create(world, 8);
    check(graph_find_iterations(g, &err), &err);
    graph_find_classes(g);
    graph_write(g, &b);
    keep("graph.bin", &b);
    uint32_t iterations = g->ranks[0].niterations;
    graph_destroy(g);
    bytes_clear(&b);
    struct c10d_log *store = c10d_log_create();
    c10d_log_encode(store, &b);
    keep("store.log", &b);
    c10d_log_destroy(store);
    struct payload_writer *w = payload_writer_create(to, 0, &err);
    check(!w || payload_writer_finish(w, &err), &err);
    check(file_read(path(from, "network.json"), 1 << 20, &b, &err), &err);
    keep("network.json", &b);
    bytes_free(&b);
    struct trace_manifest m = {0};
    check(trace_manifest_read(from, &m, &err), &err);
    m.world = world;
    m.gpus_per_node = 8;
    m.iterations = iterations;
    m.calibrated = true;
    free(m.program_id);
    m.program_id = trace_program_id(argv);
    m.argv = argv;
    check(trace_manifest_write(to, &m, &err), &err);
}

int main(int argc, char **argv)
{
    if (argc < 6 || strcmp(argv[4], "--")) {
        fprintf(stderr, "usage: pmix_multiply SMALL LARGE WORLD -- PROGRAM ARGUMENTS...\n");
        return 64;
    }
    from = argv[1];
    to = argv[2];
    world = (uint32_t)atoi(argv[3]);
    mkdir(to, 0755);
    multiply_log();
    write_rest(argv + 5);
    return 0;
}
