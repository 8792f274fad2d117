/* main.c - moetrain: see README.md. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

static void choose_device(const struct bootstrap *bootstrap)
{
    int count = 0, local = bootstrap_local_rank(bootstrap);
    CUDA_CHECK(cudaGetDeviceCount(&count));
    if (count < 1)
        die("there is no CUDA device");
    if (local < 0)
        local = bootstrap_rank(bootstrap);
    CUDA_CHECK(cudaSetDevice(local % count));
    const char *missing = kernels_open();
    if (missing)
        die("%s", missing);
}

/* --crash-rank and --exit-rank */
static void fail_if_asked(const struct trainer *t)
{
    const struct options *o = t->options;
    if (t->layout.rank == o->crash_rank && t->iteration == o->crash_at) {
        fprintf(stderr, "moetrain: rank %d: --crash-at %ld: calling abort()\n", t->layout.rank, o->crash_at);
        abort();
    }
    if (t->layout.rank == o->exit_rank && t->iteration == o->exit_at) {
        fprintf(stderr, "moetrain: rank %d: --exit-at %ld: calling exit(%ld)\n", t->layout.rank, o->exit_at,
                o->exit_code);
        exit((int)o->exit_code);
    }
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void train(struct trainer *t)
{
    bool print = options_prints_rank(t->options, t->layout.rank);
    for (long i = 0; i < t->options->iterations; i++) {
        fail_if_asked(t);
        struct result r = trainer_iterate(t);
        if (print)
            printf("rank %d iteration %ld loss %.9g grad_norm %.9g seconds %.6f loss_bits 0x%016llx "
                   "grad_bits 0x%016llx\n",
                   t->layout.rank, i, r.loss, r.norm, r.seconds, (unsigned long long)bits_of(r.loss),
                   (unsigned long long)bits_of(r.norm));
    }
    if (print)
        printf("rank %d peak_memory_bytes %zu\n", t->layout.rank, memory_peak());
}

static void parse(struct options *options, int argc, char **argv)
{
    char error[256];
    int status = options_parse(options, argc, argv, error, sizeof error);
    if (status < 0) {
        fprintf(stderr, "moetrain: %s\n", error);
        exit(EXIT_USAGE);
    }
    if (status > 0) {
        options_help();
        exit(0);
    }
}

static void check_world(const struct options *options, int rank, int world)
{
    char error[256];
    if (options_check_world(options, world, error, sizeof error) == 0)
        return;
    fprintf(stderr, "moetrain: rank %d: %s\n", rank, error);
    exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
    static struct options options;
    static struct trainer trainer = {.options = &options};
    static struct bootstrap *bootstrap;
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(&options, argc, argv);
    bootstrap = bootstrap_open(options.store_timeout);
    int rank = bootstrap_rank(bootstrap), world = bootstrap_world(bootstrap);
    check_world(&options, rank, world);
    choose_device(bootstrap);
    trainer.layout = layout_make(rank, world, (int)options.tp, (int)options.pp, (int)options.ep);
    groups_create(&trainer.groups, &trainer.layout, bootstrap, options.use_split, (int)options.wait_streams);
    groups_watch(&trainer.groups, (int)options.watchdog);
    trainer_create(&trainer);
    train(&trainer);
    trainer_destroy(&trainer);
    groups_destroy(&trainer.groups);
    bootstrap_close(bootstrap);
    return 0;
}
