/* measure_time.h - how long one NCCL operation takes in one communicator. */
#ifndef PRISM_CLI_MEASURE_TIME_H
#define PRISM_CLI_MEASURE_TIME_H

#include <stddef.h>

#include "gpu.h"

enum measure_op {
    MEASURE_ALL_REDUCE,
    MEASURE_ALL_GATHER,
    MEASURE_REDUCE_SCATTER,
    MEASURE_BROADCAST,  /* root 0 */
    MEASURE_ALL_TO_ALL, /* one group of sends and receives with every rank, itself too */
    MEASURE_SEND_RECV,  /* rank 0 sends to rank 1, the others rest */
    MEASURE_OPS
};

#define MEASURE_REPEATS 7

struct measure_timer {
    const struct gpu *gpu;
    ncclComm_t comm;
    int rank, size; /* in comm */
    cudaStream_t stream;
    cudaEvent_t events[2 * MEASURE_REPEATS];
    void *send, *recv;
    size_t bytes; /* of each buffer */
};

/* comm is borrowed. Buffers, stream and events are made; all of it freed by close (fine after a failed open). */
int measure_timer_open(struct measure_timer *t, const struct gpu *gpu, ncclComm_t comm, int rank, int size,
                       size_t bytes, struct prism_error *err);
void measure_timer_close(struct measure_timer *t);

/* Repeat op. bytes: of the larger buffer of one rank (all-reduce, broadcast, send: the message; all-gather,
 * reduce-scatter, all-to-all: the whole of size equal parts). Each repetition starts right behind a tiny all-reduce, so
 * all ranks start together. seconds[i]: from this rank's start to its end. */
int measure_timer_run(struct measure_timer *t, enum measure_op op, size_t bytes, int repeats, float *seconds,
                      struct prism_error *err);

/* Rank 0 sends bytes to rank 1, which posts its receive only delay_us after its all-reduce; the others rest.
 * *seconds: how long rank 0's stream was held (0 on other ranks). */
int measure_timer_late_send(struct measure_timer *t, size_t bytes, unsigned delay_us, float *seconds,
                            struct prism_error *err);

#endif
