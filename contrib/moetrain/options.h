/* options.h - the command line of moetrain. README.md lists the options; options.c holds the table that
 * parser, bounds and --help share. */
#ifndef MOETRAIN_OPTIONS_H
#define MOETRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct options {
    /* parallelism: sizes of the groups; data parallelism is what is left of the world */
    long tp, pp, ep;
    /* model */
    long layers, hidden, heads, ffn, experts, topk, vocab, moe_every;
    /* data */
    long seq, micro_batch, micro_batches, iterations, seed;
    long pool_grain;
    bool variable_seq, equal_data;
    /* optimizer */
    double lr, clip;
    /* behaviour under test */
    double uneven_routing, slow_factor, cost_scale;
    long slow_rank;
    bool exact_sums;
    long wait_streams;
    long crash_rank, crash_at, exit_rank, exit_at, exit_code;
    /* start-up and output */
    long store_timeout; /* seconds */
    long watchdog;      /* seconds; 0: none */
    bool use_split;
    char *print_ranks; /* "all" or a list such as "0,4-7"; points into argv, or lives as long as the process */
};

/* Parse argv. On error writes one line (which names the option) into error and returns -1. Returns 1 if
 * --help was asked for (nothing else is valid then), 0 otherwise. */
int options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size);

/* Check what depends on the size of the world: divisors and rank numbers. Same error convention, -1 or 0. */
int options_check_world(const struct options *options, int world, char *error, size_t error_size);

/* Whether --print-ranks names rank. */
bool options_prints_rank(const struct options *options, int rank);

/* Print the table of options with their defaults to stdout. */
void options_help(void);

#endif
