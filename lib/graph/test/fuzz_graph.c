/* fuzz_graph FILE... - read each as graph.bin and, when it is one, evaluate it. With the checksum made right,
 * so that a fuzzer gets behind it. Also libFuzzer's entry point. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/file.h"
#include "graph/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static double no_time(void *ctx, const struct graph *g, uint32_t comm, int32_t p,
                      const struct graph_part *parts, uint32_t nparts)
{
    return 0;
}

static bool always(void *ctx, uint64_t bytes)
{
    return true;
}

static void use(struct graph *g)
{
    struct graph_run_ops ops = {.duration_ns = no_time, .send_is_eager = always};
    graph_check(g, NULL);
    graph_find_iterations(g, NULL);
    graph_find_classes(g);
    struct graph_run *run = graph_run_create(g, &ops, NULL);
    char why[256];
    if (!run)
        return;
    graph_run_begin(run, 0);
    graph_run_blocked(run, why, sizeof why);
    graph_run_destroy(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes copy = {0};
    struct bytes sum = {0};
    bytes_put(&copy, data, len);
    if (len > 8) {
        bytes_put_u64(&sum, XXH64(data, len - 8, 0));
        memcpy(copy.data + len - 8, sum.data, 8);
    }
    struct graph *g = graph_read(copy.data, copy.len, NULL);
    if (g)
        use(g);
    graph_destroy(g);
    bytes_free(&sum);
    bytes_free(&copy);
    return 0;
}

#ifndef LIBFUZZER
int main(int argc, char **argv)
{
    struct bytes data = {0};
    struct prism_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (file_read(argv[i], 64u << 20, &data, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        LLVMFuzzerTestOneInput(data.data, data.len);
    }
    bytes_free(&data);
    return 0;
}
#endif
