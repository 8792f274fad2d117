/* ranks.h - tests that need several ranks: each is a process. The parent uses neither CUDA nor NCCL. */
#ifndef SOFTGPU_NCCL_TEST_RANKS_H
#define SOFTGPU_NCCL_TEST_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>
#include <nccl.h>

/* What a rank's function gets. */
struct rank {
    int rank, ranks;
    ncclUniqueId id; /* made by rank 0; the same for all */
    const void *argument;
};

typedef void (*rank_fn)(struct rank *rank);

struct options {
    int ranks_per_node;      /* 0: all on node 0; rank r is on device r (of its node) */
    const char *time_scale;  /* NULL: "0.002" */
    bool tcp;                /* no shared memory between processes */
    int killed;              /* this many of the highest ranks may end by a signal */
    const char *environment; /* "NAME=value", or NULL */
};

/* Run fn in `ranks` processes; fails the test if one of them fails or takes more than a minute. */
void run_ranks(int ranks, rank_fn fn, const void *argument, struct options options);

/* In a rank: meet all others. */
void meet(void);
/* In a rank: a slot of memory that all ranks see. */
int64_t *shared_slot(int index);

/* In a rank: fail with the place and the last NCCL error. */
#define CHECK(condition) ((condition) ? (void)0 : rank_fail(__FILE__, __LINE__, #condition))
#define NCCL(call)                                                                                           \
    do {                                                                                                     \
        ncclResult_t result_ = (call);                                                                       \
        if (result_ != ncclSuccess)                                                                          \
            rank_fail(__FILE__, __LINE__, ncclGetErrorString(result_));                                      \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)
void rank_fail(const char *file, int line, const char *what) __attribute__((noreturn));

ncclComm_t make_comm(struct rank *rank);
/* Poll until the communicator has an asynchronous error; that. */
ncclResult_t wait_async_error(ncclComm_t comm);
/* Device memory with a copy of `bytes` bytes at data (or zeros if NULL). */
void *device_buffer(const void *data, size_t bytes);

#endif
