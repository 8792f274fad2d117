/* data.h - synthetic text: a pure function of the seed, so that any rank can make any part of it.
 *
 * A token is followed by (5 * token + 3) mod vocab nine times out of ten and by a random token otherwise,
 * which a small model learns within a few dozen iterations. A micro-batch is known by its place in the global
 * batch, micro_batch * dp + dp_rank, so that two layouts with the same global batch see the same text.
 */
#ifndef MOETRAIN_DATA_H
#define MOETRAIN_DATA_H

#include <stdint.h>

#include "options.h"

/* A well-mixed hash of two words (splitmix64's finaliser applied twice). */
uint64_t data_hash(uint64_t a, uint64_t b);

/* Uniform in [-1, 1). */
double data_uniform(uint64_t hash);

/* The place of a replica's micro-batch; with --equal-data that of the first replica's. */
long data_place(const struct options *options, int micro_batch, int replica, int dp);

/* Length of the sequences of a micro-batch: --seq, or from seq/2 to seq with --variable-seq. */
int data_length(const struct options *options, long iteration, long place);

/* Tokens of a replica's whole iteration over all replicas: the divisor of the mean loss. */
double data_tokens_in_batch(const struct options *options, long iteration, int dp);

/* Fill tokens and targets, each [micro_batch][length]. */
void data_fill(const struct options *options, long iteration, long place, int *tokens, int *targets);

#endif
