/* limits.h - whether this node's limits hold the ranks that capture is about to start: said before, not after minutes. */
#ifndef PRISM_PRISMD_LIMITS_H
#define PRISM_PRISMD_LIMITS_H

#include "prismd/daemon.h"

/* What a world needs of one node: figures of the design, tested in tests/system/scale.bats. */
#define LIMITS_FILES_A_RANK     1u /* its socket; the coordinator has a connection of every rank of the world to the store besides */
#define LIMITS_FILES_BESIDE     128u
#define LIMITS_THREADS_A_RANK   2u /* the program's, and one that software GPUs have at times */
#define LIMITS_BYTES_A_RANK     (1u << 20)

struct limits {
    uint64_t files, threads, memory; /* that there may be; UINT64_MAX = no limit known */
};

/* The node's limits: open files of a process; processes and threads (of the machine, the user, the control group); available memory. */
struct limits limits_read(void);

/* ranks: on this node; sharers: nodes of the run on this machine (1: it has it for itself). -1 with err: they do not fit, with the way out. Memory
 * is only warned about: programs differ. */
int limits_check(const struct limits *l, uint32_t world, uint32_t ranks, uint32_t sharers, bool coordinator, struct prism_error *err);

#endif
