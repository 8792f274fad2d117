/* share.h - arrays that several ranks have in common. Inside lib/graph only. */
#ifndef PRISM_GRAPH_SHARE_H
#define PRISM_GRAPH_SHARE_H

#include "graph/graph.h"

/* A shared array of n elements with one reference, its bytes zero; *data points at them. Room for the next power of two. */
struct graph_shared *shared_create(uint32_t n, size_t size, void **data);
/* One reference less; the last one frees the array. */
void shared_release(struct graph_shared *s);
/* The rank's own array becomes a shared one (no copy is made when it is one already). */
void shared_make_nodes(struct graph_rank *r);
void shared_make_parts(struct graph_rank *r);
/* `to` gives up what it had and uses the array that `from` has shared. */
void shared_use_nodes(struct graph_rank *to, const struct graph_rank *from);
void shared_use_parts(struct graph_rank *to, const struct graph_rank *from);

/* Whether graph_add_node takes it, and the rank's numbers of streams and host threads with it (graph.c, for recorder.c). */
bool graph_may_add_node(const struct graph *g, uint32_t rank, const struct graph_node *node, uint32_t nparts);
void graph_note_lines(struct graph_rank *r, const struct graph_node *n);

/* Which of the rank's communicators its nodes send or receive on: peers there depend on its number. Owned by the caller, ncomms
 * of them. */
bool *shared_by_place(const struct graph_rank *r);
/* Hash of the sizes of a rank's communicators (none: 0), and of its numbers where by_place says so (NULL: nowhere). */
uint64_t shared_hash_places(const struct graph *g, const struct graph_rank *r, const bool *by_place);

#endif
