/* model.h - the formulas of duration.h as coefficients, shared by durations and fit (internal to lib/coll). */
#ifndef PRISM_COLL_MODEL_H
#define PRISM_COLL_MODEL_H

#include "coll/duration.h"

/* time = launch + steps * step(class) + intra_steps * step(within nodes) + wire / bandwidth(class) */
struct coll_cost {
    double steps, intra_steps, wire;
};

enum coll_algorithm { COLL_RING, COLL_TREE };

enum coll_link coll_link_of(int nodes);
/* May the operation run as a tree, as far as net knows? */
bool coll_has_tree(const struct coll_network *net, int op);
/* p: the participant, place behind the root for rooted operations; -1: the last to end. */
struct coll_cost coll_cost_of(const struct coll_network *net, int op, enum coll_algorithm algorithm,
                              double bytes, int size, int nodes, int place);
double coll_cost_seconds(const struct coll_network *net, int nodes, const struct coll_cost *cost);
/* The faster algorithm's time. */
double coll_model_seconds(const struct coll_network *net, int op, double bytes, int size, int nodes,
                          int place);

/* Ratios measured/model of groups that the model misses (curves.c). Frees the old ones. */
void coll_curves_build(struct coll_network *net);
void coll_curves_free(struct coll_network *net);
double coll_curves_ratio(const struct coll_network *net, int op, double bytes, int size, int nodes);

#endif
