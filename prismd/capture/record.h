/* record.h - nodes of the ranks' timelines, from messages to the graph; in calibration their times to works. */
#ifndef PRISM_PRISMD_RECORD_H
#define PRISM_PRISMD_RECORD_H

#include "prismd/daemon.h"

/* The group's parts as the graph has them: g->nparts, malloc'ed. */
struct graph_part *record_parts(const struct group *g);
/* Capture: append to d->graph, which is new. What ranks do alike is kept once (graph/recorder.h). */
void record_begin(struct daemon *d);
void record_end(void);
int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g);

/* Calibration. */
struct measured;
struct measured *measured_create(const struct graph_rank *r); /* borrows r */
void measured_destroy(struct measured *m);
/* The rank's next node: its host times go to the recorded node that it is (align.h). ordinal: of a COMM node. */
void measured_node(struct measured *x, const struct msg_node *m, uint32_t ordinal);
void measured_times(struct measured *x, const struct msg_time *times, uint32_t n);
/* Works of the rank's nodes into the graph (graph_alloc_works). Formulas in record.c. Returns the number of nodes measured. */
uint32_t measured_to_works(const struct measured *x, struct graph *g, uint32_t rank);

#endif
