/* arming.h - in which order an assistant takes part in the groups of one shrunk communicator.
 *
 * The arm rule (DESIGN section 2): a group of sends and receives is armed when its sandbox rank has arrived;
 * one with collectives when every sandbox rank of the communicator has. A rank's groups are armed in the
 * order in which it issued them, whatever the order in which its streams got there: NCCL runs them in that
 * order too. Pure: no daemon, no clock.
 */
#ifndef PRISM_PRISMD_ARMING_H
#define PRISM_PRISMD_ARMING_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"

/* One member's group. */
struct arming_group {
    uint32_t ordinal;         /* counts the member's groups of this communicator */
    struct graph_part *parts; /* owned */
    uint32_t nparts;
    struct arming_group *next;
};

struct arming;

struct arming *arming_create(uint32_t members);
void arming_destroy(struct arming *a); /* NULL is fine */
/* parts are copied. */
void arming_push(struct arming *a, uint32_t member, uint32_t ordinal, const struct graph_part *parts,
                 uint32_t nparts);
/* The next group that is ready: groups[member] (as many as there are members) of those that take part, NULL
 * for others. False: none is ready. The caller frees each with arming_group_free. */
bool arming_pop(struct arming *a, struct arming_group **groups);
void arming_group_free(struct arming_group *g); /* NULL is fine */
bool arming_group_is_rooted(const struct arming_group *g); /* an operation of it is */
/* The member's next group in order has not come. */
bool arming_wants(const struct arming *a, uint32_t member);

#endif
