/* fake_prismd.h - as much of prismd as the preload library's tests need: ranks as child processes, capture of a few
 * operations, paced gates with a made-up result. One thread, the test's own: fake_run returns when all ranks have ended. */
#ifndef PRISM_PRELOAD_TEST_FAKE_PRISMD_H
#define PRISM_PRELOAD_TEST_FAKE_PRISMD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/message.h"

#define FAKE_RANKS 4
#define FAKE_NODES 4096
#define FAKE_VALUE 7.0f /* paced results are floats of this value */

struct fake_rank {
    pid_t pid;
    int status; /* of wait(2) */
    int socket;
    uint8_t *region;
    struct msg_node nodes[FAKE_NODES];
    struct msg_part first_parts[FAKE_NODES]; /* of COMM nodes */
    uint32_t nnodes;
    struct msg_mark marks[FAKE_NODES];
    uint32_t nmarks;
    struct msg_time times[FAKE_NODES];
    uint32_t ntimes;
    uint32_t moves; /* MSG_TIMES without times */
    uint64_t peak_bytes, live_bytes;
    uint32_t store_port, hellos, sync_enters, frees, set_ups;
    uint32_t fatal_code;
    char fatal[1024];
    bool bye;
    char output[16384]; /* standard output and error */
    size_t output_len;
    int pipe;
    int mover;   /* our end of the rank's mover socket, -1 = none */
    bool held;   /* no gate of it is opened; under fake_lock */
};

struct fake {
    /* set before fake_run */
    uint32_t phase;
    uint32_t transport;   /* 0: paced; nccl: the program itself is run as the assistant too */
    uint32_t world;       /* 0: the number of ranks run */
    uint64_t region_size; /* 0: 64 MiB */
    uint64_t staging;     /* 0: as much as the region */
    uint32_t max_waiting; /* 0: 31 */
    bool refuse;          /* answer every HELLO with REFUSED */
    bool hold;            /* never open a gate */
    bool control;         /* control mode: results that it does not keep are the rank's own to make */
    bool inert;           /* do not set PRISM_SOCKET */
    bool bare;            /* do not preload the library either */
    bool hang_up;         /* close the connection after the first node */
    const char *program;  /* in the build folder; NULL: test/preload_program */
    /* Memory is switched: runs in a thread of its own for each rank, until the rank's end of `mover` closes. */
    void (*switching)(struct fake *f, struct fake_rank *r);
    const char *more_env[8][2];
    /* results */
    uint32_t datagrams; /* received */
    struct fake_rank ranks[FAKE_RANKS];
    uint32_t nranks;
};

/* Held while gates are opened. */
void fake_lock(void);
void fake_unlock(void);
/* Run preload_program of the same build with args as n ranks, libprism.so preloaded; fails the test after 60 s. */
void fake_run(struct fake *f, uint32_t n, const char *const *args);
uint32_t fake_count(const struct fake_rank *r, int kind);

#endif
