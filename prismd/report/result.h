/* result.h - what a node tells the coordinator when its part of a phase is over, and how the coordinator keeps it. */
#ifndef PRISM_PRISMD_RESULT_H
#define PRISM_PRISMD_RESULT_H

#include "common/bytes.h"
#include "prismd/assistants/assist.h"
#include "prismd/daemon.h"

/* A rank in calibration or emulation, as reported. */
struct rank_result {
    uint32_t rank;
    uint64_t peak_bytes, ballast_bytes;
    double *seconds; /* owned; per iteration */
    double behind_seconds;
    uint32_t iterations;
    int exit_code;
};

struct results {
    struct rank_result *ranks; /* owned */
    uint32_t nranks;
    double *pacing_us; /* owned; all gates of all nodes, actual - intended end */
    uint32_t npacing;
    uint64_t size_changes;
    bool changed;          /* sizes differed from the recorded ones … */
    uint32_t first_change; /* … first in this iteration, from 0 */
    uint64_t prefetch_hits, prefetch_misses;
    uint64_t payload_bytes; /* read to be delivered */
    struct assist_result assist; /* all nodes' sums */
    struct durations *durations; /* owned; calibration: what all nodes measured */
};

/* Node side; winds up the emulation's state (works are taken into d->graph and the result). */
void result_put_capture(struct daemon *d, struct bytes *out);
void result_put_emulate(struct daemon *d, struct bytes *out);

/* Coordinator side; `from` is the node. Own results need no merging of the graph. */
int result_take_capture(struct daemon *d, uint32_t from, struct bytes_reader *b, struct prism_error *err);
int result_take_emulate(struct daemon *d, uint32_t from, struct bytes_reader *b, struct results *into,
                        struct prism_error *err);
void results_sort(struct results *r); /* by rank */
void results_clear(struct results *r);

#endif
