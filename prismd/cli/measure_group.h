/* measure_group.h - all measurements of one group of ranks. */
#ifndef PRISM_CLI_MEASURE_GROUP_H
#define PRISM_CLI_MEASURE_GROUP_H

#include "measure.h"
#include "measure_time.h"
#include "measure_world.h"

struct measure_group {
    int *ranks; /* owned; ascending ranks of the world */
    int size;
    int nodes;  /* how many nodes they sit on */
};

/* The groups of this world, malloc'ed, *n of them: 1, 2, 4 … ranks on each of 1, 2, 4 … nodes. */
struct measure_group *measure_groups(const struct measure_world *w, int *n);
void measure_groups_free(struct measure_group *groups, int n);

struct measure_sample {
    enum measure_op op;
    int size, nodes; /* of the group */
    double bytes;    /* as measure_timer_run's */
    double seconds;  /* median; from the last start to the end */
    double spread;   /* largest minus smallest repetition, seconds */
};

struct measure_result {
    struct measure_sample *samples; /* owned */
    int n;
    double eager_bytes;       /* largest send that ended without its receiver, within a node; 0 = none, -1 = not measured */
    double eager_bytes_nodes; /* between nodes */
};

/* Called by every member of group (number `index` of the list). The group's first rank appends to result. */
int measure_group_run(struct measure_world *w, const struct gpu *gpu, const struct measure_group *group, int index,
                      const struct measure_options *options, struct measure_result *result, struct prism_error *err);

#endif
