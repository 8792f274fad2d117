/* assist.h - transport nccl: real communicators of sandbox ranks and assistants, and what assistants do in
 * them.
 *
 * Communicator g of the graph belongs to assistant g mod K, which lives on node a mod N. Making one: every
 * sandbox member's COMM_INIT goes to that node (LINK_ASSIST); when the last has called, the assistant makes
 * NCCL's id and joins; the id goes to all nodes (LINK_UNIQUE_ID), which answer their members. So nobody
 * stands in real NCCL's initialisation for a member that is not there yet.
 *
 * Every node sees every arrival; the assistant's node arms its assistant by it (arming.h), and foresees what
 * is next in the recorded graph, so that payloads are read ahead.
 *
 * Arming ahead. Where a communicator is one sandbox rank and an assistant on its node, its operations are armed when the
 * rank's host announces them (two ahead), behind a gate. The gate opens when the virtual peer gets there, if
 * the communicator is a pair with collectives only: then real NCCL does what it does in the full job. Else it opens
 * when the last of those gets there for whom the rank waits. Why nobody waits for ever: docs/design.md.
 */
#ifndef PRISM_PRISMD_ASSIST_H
#define PRISM_PRISMD_ASSIST_H

#include "prismd/assistant/order.h"
#include "prismd/assistants/coll_use.h"
#include "prismd/daemon.h"

struct trace_manifest;

/* Groups armed so far whose sizes were not the recorded ones. */
uint64_t assist_size_changes(void);

/* Can this run be emulated with assistants? Before anything starts: devices of this node; the sandbox set, if
 * the trace is there (m NULL: not yet). PRISM_EXIT_USAGE, PRISM_EXIT_TRACE. */
int assist_check(const struct conf *c, const struct trace_manifest *m, struct prism_error *err);

/* Nothing, unless d->transport is TRANSPORT_NCCL. live: world ranks that run, all nodes'. */
int assist_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err);
void assist_end(struct daemon *d);

/* A local rank makes a communicator. nccl: of its request. True: it is a real one and will be answered later. */
bool assist_join(struct daemon *d, struct rank *r, uint32_t comm, uint64_t nccl, const struct msg_comm_ready *ready);
void assist_freed(struct daemon *d, struct rank *r, uint32_t comm);
/* A sandbox rank's group (of any node) has arrived. */
void assist_arrived(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal,
                    const struct graph_part *parts, uint32_t nparts);

/* A local sandbox rank's host has issued a group. */
void assist_announced(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal, const struct graph_part *parts,
                      uint32_t nparts);
/* What a local sandbox rank's group waits for is known: the last of it comes at started_ns (this node's clock). */
void assist_released(struct daemon *d, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t started_ns);
/* A virtual rank gets to its COMM node n (graph/run.h: on_comm_start) at start_ns (this node's clock). */
void assist_virtual_started(struct daemon *d, uint32_t rank, uint32_t n, uint32_t loop, int64_t start_ns);

/* A child ended. False: it is no assistant. */
bool assist_reaped(struct daemon *d, pid_t pid, int status);

/* For the report; valid until assist_end. Of this node's assistants, and of this node's sandbox ranks. */
struct durations;
/* Calibration: durations measured on this node's assistants; NULL = none. Valid until assist_end. */
const struct durations *assist_durations(void);
/* Ranks that calibration can run at once beside all assistants, each on a device of its own; 0: paced calibration. */
uint32_t assist_slice(const struct conf *c);

struct assist_result {
    struct order_counts counts;
    struct coll_use use;
    uint64_t armed_ahead; /* runs that were armed before their rank had arrived */
};
struct assist_result assist_result(const struct daemon *d);

#endif
