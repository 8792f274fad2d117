/* pmix_fence.h - PMIx fences over servers: who takes part, who is missing, when one is complete.
 *
 * A server has the ranks of one logical node that run on one machine in this phase. Every prismd is told of every server's
 * entry (pmix.c) and keeps the same table. A server takes part when it has a rank of the fence, and enters when all of
 * these have; one whose ranks of the fence have all ended is not waited for. Absent ranks are there already.
 */
#ifndef PRISM_PRISMD_PMIX_FENCE_H
#define PRISM_PRISMD_PMIX_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"

#define PMIX_EVERYONE UINT32_MAX /* as a fence's only rank */

#define PMIX_ABSENT   UINT32_MAX

/* The ranks of the phase. Arrays are owned by who makes it. */
struct pmix_world {
    uint32_t world, servers;
    uint32_t *server;      /* by rank; PMIX_ABSENT = does not run */
    uint32_t *first, *end; /* by server: its ranks lie in first ... end - 1 */
    uint8_t *ended;        /* by rank */
};

struct pmix_entry {
    bool entered;
    uint64_t token;    /* of who waits there */
    struct bytes data; /* owned */
};

struct pmix_fence {
    uint32_t *ranks; /* owned; ascending, or PMIX_EVERYONE */
    uint32_t nranks;
    struct pmix_entry *entries; /* owned; by server */
    struct pmix_fence *next;
};

struct pmix_fences {
    const struct pmix_world *world; /* borrowed */
    struct pmix_fence *open;        /* oldest first */
};

/* A server enters the oldest open fence of these ranks (in any order) that it has not entered, or a new one. Its k-th entry
 * thus meets every other one's k-th. */
struct pmix_fence *pmix_fence_enter(struct pmix_fences *f, uint32_t server, const uint32_t *ranks, uint32_t nranks);
/* Takes an open fence that is complete out of the table; NULL = none is. The caller destroys it. *lost: ranks of it have
 * ended without entering. */
struct pmix_fence *pmix_fence_complete(struct pmix_fences *f, bool *lost);
bool pmix_fence_has(const struct pmix_fence *f, uint32_t rank);
/* As struct pmix_fence has them; a program lists them as it likes. */
void pmix_fence_sort(uint32_t *ranks, uint32_t nranks);
void pmix_fence_destroy(struct pmix_fence *f, uint32_t servers);
void pmix_fences_clear(struct pmix_fences *f);

#endif
