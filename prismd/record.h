/* record.h - nodes of the ranks' timelines, from messages to the graph; in calibration their times to works. */
#ifndef PRISM_PRISMD_RECORD_H
#define PRISM_PRISMD_RECORD_H

#include "prismd/daemon.h"

/* Capture: append to the graph. */
int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g);

/* Calibration. */
struct measured;
struct measured *measured_create(uint32_t nnodes);
void measured_destroy(struct measured *m);
/* The node's host times; -1 (with a message naming the first difference) when it is not what the graph has at that index. */
int measured_node(struct daemon *d, struct measured *x, const struct rank *r, const struct msg_node *m);
void measured_times(struct measured *x, const struct msg_time *times, uint32_t n);
/* Works of the rank's nodes into the graph (graph_alloc_works). Formulas in record.c. Returns the number of nodes measured. */
uint32_t measured_to_works(const struct measured *x, struct graph *g, uint32_t rank);

#endif
