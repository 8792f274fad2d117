/* folding.h - folded capture (graph/fold.h): which ranks run, and what stands for those that do not.
 *
 * Communicators. Only live ranks call ncclCommInitRank. When those that have called give a communicator of the size that they
 * named, its members are known (fold_members). Where the callers so far could also be the first of a larger group within their
 * replica, the coordinator waits until no live rank can go on before something is made: each waits in making a communicator, in
 * communication, in the c10d store, or does nothing. Then those that have all their live members are made; if there are none, or
 * one could be over either of two dimensions, the run ends with a line. A member that comes after its communicator was
 * made ends it, too. ncclCommSplit does not say how large a group becomes: members of two replicas must run (name a
 * sandbox rank in another one).
 *
 * Collectives. An absent member's input is that of the live rank that stands for it, by reference: sums are those of a full
 * capture with equal data, in every bit. A root that is absent is refused. Sends and receives: fold_goes_to_all.
 *
 * Store. A live rank's add to the keys on which PyTorch counts the ranks of a world counts for its class; keys that only an
 * absent rank would set are refused when a live rank waits for one. Gloo groups and PMIx are refused: what their members say to
 * each other is not seen.
 */
#ifndef PRISM_PRISMD_FOLDING_H
#define PRISM_PRISMD_FOLDING_H

#include "c10d/mutation.h"
#include "common/error.h"
#include "graph/fold.h"
#include "prismd/conf.h"
#include "prismd/daemon.h"
#include "trace/trace.h"

/* From the option's texts. NULL with err: not of that world, a dimension that is not there. */
struct fold *folding_make(const char *layout, const char *names, uint32_t world, const uint32_t *sandbox, uint32_t nsandbox,
                          struct prism_error *err);
/* By rank: the node of capture that runs it or its representative; whole logical nodes where there are enough. malloc'ed. */
uint32_t *folding_place(const struct conf *c);
/* The trace is there already: how it was folded is what counts. The options must not say something else, and sandbox ranks must
 * have run. */
int folding_agree(struct conf *c, const struct trace_manifest *m, struct prism_error *err);

/* A later phase at a node that is not the first, which has read the graph: is the trace a folded one? */
int folding_follow(struct conf *c, struct prism_error *err);
/* What the ranks of all phases need: torch.distributed makes groups of more than 128 ranks with ids of several members, of which
 * some would be absent. */
void folding_environment(const struct conf *c);
/* The ranks that run in capture, ascending, malloc'ed: all without folding. */
uint32_t *folding_live(const struct conf *c, uint32_t *n);
void folding_tell_capture(const struct conf *c, uint32_t n); /* a line of the log */

/* --- capture --- */

void folding_begin(struct daemon *d); /* nothing to do without --prism-fold, as below */
void folding_end(struct daemon *d);
/* Often, with the lock held: is there a communicator that nobody else will come to? */
void folding_tick(struct daemon *d);
/* How many members of a communicator run; *stand_ins: who stands for each member, by place (NULL: all run). Borrowed. */
uint32_t folding_live_members(const struct daemon *d, int32_t global, const uint32_t **stand_ins);
/* False, the run ends: the operation's root sends and is absent, so nobody has what it would send. */
bool folding_has_root(struct daemon *d, const struct graph_comm *c, const struct msg_part *what);
/* The messages, from and to members by their places, that a send of a live rank makes: its own, if the receiver runs, and those that
 * it sends as the one who stands for absent members. */
typedef void (*folding_message)(void *arg, int32_t from, int32_t to);
void folding_send(struct daemon *d, const struct group *g, uint32_t part, folding_message message, void *arg);
/* Coordinator, when all nodes' ranks are in the graph: the graph of all ranks. */
int folding_expand(struct daemon *d, struct prism_error *err);
void folding_classes(struct daemon *d); /* after graph_find_classes */

/* --- later phases --- */

/* By rank: who is played for it in the replay (graph_run_options); malloc'ed, NULL: all are played. */
uint32_t *folding_twins(const struct daemon *d, const uint8_t *external);
/* How many ranks the last such replay has played; 0: all, or there was none. */
uint32_t folding_played(void);

/* --- the store (folding_store.c); without the lock --- */

/* Read what this node's ranks have said to prismd so far. */
void folding_hear(struct daemon *d);

/* This rank adds to a key: how many absent ranks do the same. 0 unless it is known that all ranks count themselves there. */
uint32_t folding_store_others(const struct daemon *d, uint32_t rank, const struct c10d_mutation *m);
/* A live rank set this key; a Gloo group's ends the run. */
void folding_store_set(struct daemon *d, uint32_t rank, const void *key, size_t len);
/* PMIx was called by that rank: ends the run. True without folding. */
bool folding_allows_pmix(struct daemon *d, uint32_t rank);

#endif
