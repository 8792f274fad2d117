/* stages.h - which place in the pipeline each rank has, as far as the graph tells. */
#ifndef PRISM_PRISMD_STAGES_H
#define PRISM_PRISMD_STAGES_H

#include "graph/graph.h"

/* A rank's first group that only receives comes from the stage before; one whose first one-way group only sends is the first
 * stage. (Groups that go both ways say nothing: an all-to-all of sends and receives, or the middle of a schedule.) stages: by
 * rank, filled; ranks without messages are stage 0. Returns the number of stages, at least 1. */
uint32_t stages_find(const struct graph *g, uint32_t *stages);

#endif
