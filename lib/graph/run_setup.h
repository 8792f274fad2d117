/* run_setup.h - the tables of a run (run_setup.c). Inside lib/graph only. */
#ifndef PRISM_GRAPH_RUN_SETUP_H
#define PRISM_GRAPH_RUN_SETUP_H

#include "graph/run_private.h"

/* Fill ranks, lines and their tables; run->graph is set and valid, everything else zero. */
void run_setup(struct graph_run *run, const struct graph_run_options *options);
void run_rank_free(struct run_rank *r);

#endif
