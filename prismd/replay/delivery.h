/* delivery.h - what live ranks receive from operations that are not played for real: recorded results.
 *
 * What is delivered follows two things: what the trace's payloads hold (daemon.trace_payload) and what is wanted of them
 * (conf.payload, never more). In control mode the preload library asks for the parts that control mode keeps (coll/synthetic.h) and
 * makes the others on the device; a group of which nothing is kept is not read, however large it is.
 */
#ifndef PRISM_PRISMD_DELIVERY_H
#define PRISM_PRISMD_DELIVERY_H

#include "prismd/daemon.h"
#include "prismd/replay/prefetch.h"

struct delivery;

/* live: world ranks that run in this phase, all nodes'. NULL with err: the payload files cannot be read. d and its graph must
 * outlive it. */
struct delivery *delivery_create(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err);
void delivery_destroy(struct delivery *v); /* NULL is fine */

/* The group stands for that recorded node of its rank, whose ordinal is given: its results lie in the region when this returns, and
 * their size may differ (cut, zeros behind). 0, or -1 with d->failure set. */
int delivery_group(struct delivery *v, struct group *g, uint32_t node, uint32_t ordinal);

struct delivery_counts {
    struct prefetch_counts ahead;
    uint64_t bytes;        /* of payloads that were read for ranks, without those that lay ready and nobody asked for */
    uint64_t size_changes; /* groups whose sizes differed from the recorded ones */
};
struct delivery_counts delivery_counts(const struct delivery *v);

#endif
