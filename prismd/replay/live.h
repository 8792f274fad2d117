/* live.h - a rank that runs in calibration or emulation: its place in the recorded graph, iterations, pacing. */
#ifndef PRISM_PRISMD_LIVE_H
#define PRISM_PRISMD_LIVE_H

#include "prismd/daemon.h"
#include "prismd/gates/pace.h"
#include "prismd/replay/behind.h"
#include "prismd/replay/measured.h"
#include "prismd/replay/origins.h"

#define LIVE_GATES 8192 /* remembered until their device times come */

struct live_gate {
    uint32_t node, position, comm;
    uint32_t recorded; /* the node that it stands for */
    bool used;
    int64_t seen_ns, told_ns, go_ns, end_ns; /* arrival seen; told to the replay; go written; intended end. The machine's time */
};

/* How much later than it should have an operation ended, which is the position'th of the rank, and how far behind the rank's clock was:
 * what sets it back later makes up for that lateness, too. */
struct live_late {
    uint32_t position;
    int64_t ns, behind_ns;
};

/* Groups of one communicator of the rank, in order. */
struct live_comm {
    uint32_t *nodes; /* owned; node index of each recorded group */
    uint32_t ngroups;
    uint32_t loop_begin, loop_end; /* ordinals of the last recorded iteration */
};

struct live {
    struct measured *measured; /* calibration; else NULL */
    struct live_comm *comms;   /* owned */
    uint32_t ncomms;
    struct live_gate gates[LIVE_GATES];
    struct origins *origins; /* owned; by node (origins.h); NULL: lateness is not made up for */
    struct live_late late[LIVE_GATES];
    struct pace_lag lag_in, lag_out;
    struct pace_recent *lag_in_at; /* owned; by recorded node */
    struct behind behind;
    uint32_t first_position; /* COMM nodes of set-up, before the first iteration */
    uint32_t per_iteration;  /* COMM nodes of the last iteration, which goes round; 0 = no iterations found */
    uint32_t *ends;          /* owned; niterations + 1: COMM nodes in front of each iteration, and of what follows the last */
    uint32_t niterations;
    uint32_t recorded;       /* COMM nodes, all */
    char *over;              /* owned; calibration: what it did that was not recorded, behind the recorded iterations; NULL: nothing */
    uint32_t over_from;      /* index of the first node that is not played for that */
    int64_t iteration_start_ns;
    double *seconds; /* owned */
    uint32_t iterations, cap;
};

struct live *live_create(const struct graph *g, uint32_t rank, bool measure);
void live_destroy(struct live *l); /* NULL is fine */

/* The recorded node that a group stands for, looping the last iteration; -1 = the communicator has none at all. */
int64_t live_node_of(const struct live *l, uint32_t comm, uint32_t ordinal, uint32_t *recorded_ordinal);
/* The iteration (from 0) of a position from first_position on; what was recorded behind the last one is of the last. per_iteration > 0. */
uint32_t live_iteration_of(const struct live *l, uint32_t position);
/* A gate was reached: the first one begins the first iteration when there is no set-up. */
void live_position_arrived(struct live *l, uint32_t position, int64_t start_ns);
/* A gate of that position ended: closes an iteration if it was its last. */
void live_position_ended(struct live *l, uint32_t position, int64_t end_ns);
struct live_gate *live_gate(struct live *l, uint32_t node);
/* The position'th gate ended ns too late; less than nothing is nothing. */
void live_ended_late(struct live *l, uint32_t position, int64_t ns);
/* How late the arrival at a recorded node is seen. */
int64_t live_lag_in_ns(const struct live *l, uint32_t node);
/* By how much the arrival at a position, whose recorded node is `node`, would have been earlier if nothing had ended late. */
int64_t live_carried(const struct live *l, uint32_t position, uint32_t node);

#endif
