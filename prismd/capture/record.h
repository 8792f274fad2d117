/* record.h - nodes of the ranks' timelines, from messages to the graph. */
#ifndef PRISM_PRISMD_RECORD_H
#define PRISM_PRISMD_RECORD_H

#include "graph/marks.h"
#include "prismd/daemon.h"

/* The group's parts as the graph has them: g->nparts, malloc'ed. */
struct graph_part *record_parts(const struct group *g);
/* Append to d->graph, which is new. What ranks do alike is kept once (graph/recorder.h). */
void record_begin(struct daemon *d);
void record_end(void);
/* What the ranks' programs name (graph/marks.h), from record_begin on, also behind record_end, until record_find_iterations. NULL: nothing is kept. */
struct graph_marks *record_marks(void);
/* Coordinator, when the graph is whole: the iterations of all ranks, as graph_find_iterations; 1 if marks tell them. ended_after: graph/marks.h. */
int record_find_iterations(struct daemon *d, uint32_t ended_after, struct prism_error *err);
int record_mark(struct daemon *d, struct rank *r, const struct msg_mark *m);
/* Iterations in the rank's first `nodes` nodes, as far as can be told: by its marks, else by its periods. */
uint32_t record_count_iterations(const struct daemon *d, uint32_t rank, uint32_t nodes);
int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g);

#endif
