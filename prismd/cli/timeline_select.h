/* timeline_select.h - which ranks and iterations of a trace a command is to show. */
#ifndef PRISM_CLI_TIMELINE_SELECT_H
#define PRISM_CLI_TIMELINE_SELECT_H

#include <stdint.h>

#include "common/error.h"
#include "graph/graph.h"

/* A picture's ranks when none are named (stage, nstages: stages_find's): all of a world up to `most`; else the first of each stage, else of each class, as
 * many as `most`. *weight (malloc'ed as *ranks is) is how many ranks each one stands for; *how, for people, is static. */
uint32_t timeline_choose(const struct graph *g, const uint32_t *stage, uint32_t nstages, uint32_t most, uint32_t **ranks,
                         uint32_t **weight, const char **how);

/* --ranks: the list, each rank standing for itself, in its order; or without one (NULL) what timeline_choose says for
 * `fallback`. -1 with err (PRISM_EXIT_USAGE): not a list, a rank beyond the world, more than `most`. */
int timeline_ranks(const char *list, const struct graph *g, const uint32_t *stage, uint32_t nstages, uint32_t fallback,
                   uint32_t most, uint32_t **ranks, uint32_t **weight, uint32_t *n, const char **how,
                   struct prism_error *err);
/* --iterations: "N" or "N-M", counted from 0; NULL = the last recorded one. -1 with err (PRISM_EXIT_USAGE). */
int timeline_iterations(const char *list, const struct graph *g, uint32_t *first, uint32_t *last, struct prism_error *err);

#endif
