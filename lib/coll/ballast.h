/* ballast.h - device memory that communicators cost a rank, from a table measured with one NCCL (tests/gpu/ballast.py).
 *
 * A shrunk communicator, or none at all, costs less than the full one; the difference is allocated, so that memory in
 * use and the point where it runs out are the full job's. File: docs/formats/ballast.md.
 */
#ifndef PRISM_COLL_BALLAST_H
#define PRISM_COLL_BALLAST_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct coll_ballast_size {
    int size; /* ranks of the communicator */
    uint64_t bytes;
    uint64_t collectives, messages; /* parts of them that come with the first collective, the first message; 0: not known apart */
};

/* What a communicator is used for. */
enum coll_ballast_use { COLL_BALLAST_COLLECTIVES = 1, COLL_BALLAST_MESSAGES = 2, COLL_BALLAST_BOTH = 3 };

struct coll_ballast {
    int nccl;                        /* as ncclGetVersion says */
    uint64_t process_bytes;          /* once, with a process's first communicator */
    uint64_t process_collectives, process_messages; /* parts of them that come with a process's first collective, first message */
    struct coll_ballast_size *sizes; /* owned; ascending */
    size_t nsizes;
};

/* PRISM_EXIT_USAGE with err: not readable, or no such table. */
int coll_ballast_load(struct coll_ballast *b, const char *path, struct prism_error *err);
void coll_ballast_clear(struct coll_ballast *b);

/* Bytes of a communicator of that size with these uses (enum coll_ballast_use): linear between measured sizes; beyond the largest and below the smallest as those two
 * (a rank's rings and trees have a fixed number of neighbours). One rank alone: as measured, 0 where it was not. */
uint64_t coll_ballast_bytes(const struct coll_ballast *b, int size, int uses);
/* What is missing where a communicator of `size` is a real one of real_size (0: none). process: the uses of all communicators of
 * the process if this is its first one, else negative; real NCCL, if it is used at all, brings the process's part itself. */
uint64_t coll_ballast_missing(const struct coll_ballast *b, int size, int real_size, int uses, int process);

#endif
