/* measure.h - `prism doctor --measure`: time NCCL over groups of devices and fit the network profile.
 *
 * Runs as one process of several (any launcher that sets RANK/WORLD_SIZE/LOCAL_RANK or Slurm's variables); without a
 * launcher it starts one process a device of this machine itself. All processes go through the same list of groups;
 * those outside a group wait, so that nothing else uses the links.
 */
#ifndef PRISM_CLI_MEASURE_H
#define PRISM_CLI_MEASURE_H

#include <stddef.h>

#include "common/error.h"

struct measure_options {
    const char *output; /* written by rank 0 */
    double max_seconds; /* message sizes stop growing once an operation takes longer */
    size_t max_bytes;   /* largest buffer of a rank */
};

int measure_run(const struct measure_options *options, struct prism_error *err);

#endif
