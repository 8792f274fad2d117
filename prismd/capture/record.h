/* record.h - nodes of the ranks' timelines, from messages to the graph. */
#ifndef PRISM_PRISMD_RECORD_H
#define PRISM_PRISMD_RECORD_H

#include "prismd/daemon.h"

/* The group's parts as the graph has them: g->nparts, malloc'ed. */
struct graph_part *record_parts(const struct group *g);
/* Append to d->graph, which is new. What ranks do alike is kept once (graph/recorder.h). */
void record_begin(struct daemon *d);
void record_end(void);
int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g);

#endif
