/* hang.h - capture of a program that hangs ends with the reason.
 *
 * A program hangs when every live rank is stuck, at least one of them in communication, and nothing has moved for
 * PRISM_STALL_SECONDS (20). A rank is stuck
 *   surely   while its host is inside a synchronisation and every stream that has operations stands at its gate with one that
 *            cannot be served yet or waits by an event for one that does (standing.h), or waits in ncclCommInitRank or ncclCommSplit for the other members;
 *   likely   while it has sent no word and its processes have used next to no processor time: it waits for a lock, a file,
 *            a socket, a child. Where a rank is only likely stuck, three times as long is waited.
 * Nobody is stuck while any rank has not been started, has a gate that may be opened, or works on its streams: so a rank that
 * waits for its turn or for its memory (sched.h, resident.h) keeps the run from being taken for a hang, and so does a rank
 * that computes or whose device the driver sets up, which it does for one process after another (32: more than a minute). Waiting in the c10d store is likely, not sure.
 *
 * Each node looks at its own ranks and tells the coordinator when they are all stuck, and when they are no longer. When all
 * nodes are, the run fails with PRISM_EXIT_HANG: what was recorded is kept as an incomplete trace (graph.bin, and hang.json
 * with what the hosts did: docs/formats/trace.md), and the diagnosis is printed (diagnose.h), which prism verify repeats.
 * Failures that the program's own operations show (PRISM_EXIT_RANK) are treated likewise.
 */
#ifndef PRISM_PRISMD_HANG_H
#define PRISM_PRISMD_HANG_H

#include "common/bytes.h"
#include "prismd/daemon.h"
#include "trace/trace.h"

void hang_begin(struct daemon *d);
/* PRISM_STALL_SECONDS in nanoseconds; 0: for ever. */
int64_t hang_limit_ns(void);
/* Called often, with the lock held. */
void hang_tick(struct daemon *d);
void hang_end(struct daemon *d);

/* What folding.c looks at, too. */
enum hang_look { HANG_MOVES, HANG_LIKELY, HANG_SURELY };
enum hang_look hang_look(const struct daemon *d, const struct rank *r); /* after hang_movement */
uint64_t hang_movement(const struct daemon *d);  /* another number when anything has happened to a rank of this node */

/* The failed capture's graph is worth keeping: nodes send theirs to the coordinator as after a good one. */
bool hang_keeps_graph(const struct daemon *d);
/* Coordinator, after such a failure: write graph.bin and hang.json, and print the diagnosis. */
void hang_salvage(struct daemon *d);

#endif
