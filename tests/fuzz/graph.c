/* graph.c - graph.bin of both versions: read whole, by salvage, and rank by rank; evaluated, where it can be, by both
 * evaluations, which must agree; written again. Corpus: plain_graph made files whose contents are not compressed. */
#include <stdlib.h>
#include <string.h>

#include "graph/eval.h"
#include "graph/file.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 1000;

/* A file may claim more memory than there is; what it holds is small here. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=1024";
}

static double some_time(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts,
                        uint32_t nparts)
{
    return (double)(parts[0].count % 1000) + comm;
}

static bool small(void *ctx, uint64_t bytes)
{
    return bytes < 1000;
}

static void evaluate(const struct graph *g)
{
    struct graph_run_ops ops = {.duration_ns = some_time, .send_is_eager = small};
    struct graph_eval_ops eval_ops = {some_time, small, NULL};
    struct graph_eval_options options = {.threads = 2, .keep_times = true};
    struct graph_run *run = graph_run_create(g, &ops, NULL);
    struct graph_eval *e = graph_eval(g, &eval_ops, &options, NULL);
    char why[256];
    if (!run != !e)
        abort();
    if (!run)
        return;
    graph_run_begin(run, 0);
    if (!graph_run_blocked(run, why, sizeof why) != !graph_eval_blocked(e, NULL, 0))
        abort();
    for (uint32_t r = 0; r < g->world; r++)
        if (!graph_run_blocked(run, NULL, 0) && graph_run_iteration_end(run, r, 0) != graph_eval_iteration_end(e, r, 0))
            abort();
    graph_run_destroy(run);
    graph_eval_destroy(e);
}

static void use(struct graph *g)
{
    struct bytes out = {0};
    graph_check(g, NULL);
    evaluate(g);
    graph_write(g, &out);
    struct graph *back = graph_read(out.data, out.len, NULL);
    if (!back) /* what was read can be written */
        abort();
    graph_destroy(back);
    bytes_free(&out);
    graph_find_iterations(g, NULL);
    graph_find_classes(g);
    evaluate(g);
}

static void salvage(const uint8_t *data, size_t len)
{
    struct graph_file *f = graph_file_salvage(data, len, NULL);
    struct graph_file_saved saved;
    struct graph_file_info info;
    struct graph_rank rank;
    if (!f)
        return;
    graph_file_info(f, &info);
    for (uint32_t r = 0; r < info.world && r < 4; r++)
        if (!graph_file_rank(f, r, &rank, NULL))
            graph_rank_clear(&rank);
    graph_destroy(graph_file_read(f, &saved, NULL));
    graph_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    bytes_get(&r, 12);
    if (bytes_get_u32(&r) > 64 && len > 12) /* refused or not, a large world only takes time */
        return 0;
    struct graph *g = graph_read(data, len, NULL);
    if (g)
        use(g);
    graph_destroy(g);
    salvage(data, len);
    return 0;
}
