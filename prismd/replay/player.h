/* player.h - who plays the graph: the caller, at once; or where an arrival can set off a long stretch (an unfolded world of
 * thousands: seconds), what has been condensed of it (graph/condense.h), at once; or, where that is refused or does not serve any more, a thread of its
 * own, so that the watch thread goes on to see gates arrive and to open them meanwhile.
 *
 * The graph's callbacks come from the one that plays. The thread holds no lock of the daemon: what it says about gates is kept in a
 * list, which the watch thread takes (player_take, with the daemon's lock).
 */
#ifndef PRISM_PRISMD_PLAYER_H
#define PRISM_PRISMD_PLAYER_H

#include "graph/condense.h"
#include "graph/run.h"
#include "prismd/gates/watch.h"

struct player;

struct player_arrival {
    uint32_t rank, comm, ordinal;
    int64_t start_ns;
    struct graph_part *parts; /* owned */
    uint32_t nparts;
};

struct player_release {
    uint32_t rank, comm, ordinal;
    int64_t started_ns, end_ns;
};

/* Nodes of an iteration that are played. as: graph_run_options. PRISM_REPLAY=condensed, for tests: more than all limits. */
uint64_t player_nodes(const struct graph *g, const uint32_t *as);
#define PLAYER_CONDENSED 50000  /* from here on an arrival may set off milliseconds, which condensing saves */
#define PLAYER_BESIDE    200000 /* tens of milliseconds, for which a thread is worth its wake-ups */
/* Takes the run. beside: the thread to wake, of a player with a thread of its own; NULL: the caller plays. NULL: no thread could be made
 * (the run is gone). */
struct player *player_create(struct graph_run *run, struct watch *beside);

struct player_replay {
    const struct graph *graph;
    struct graph_run_ops ops;
    struct graph_run_options options;
    struct watch *beside;
    size_t keep; /* arrivals kept to be played again; 0: a million */
};

/* Condenses the replay, which may take seconds. The caller plays, until what has been condensed leaves (GRAPH_CONDENSED_LEFT). From then on it
 * is a player with a thread, which plays `replay` from the beginning with all that has arrived; releases from before come a second
 * time. After so many arrivals as are kept it does not leave any more: a size that would have made it is played as recorded, and a warning says
 * so once. NULL: the graph is refused, or PRISM_REPLAY=plain (for tests). */
struct player *player_create_condensed(const struct player_replay *replay);
void player_destroy(struct player *p); /* waits for what is being played; NULL is fine */
bool player_is_beside(const struct player *p);
bool player_is_playing(struct player *p); /* the thread has something to play: ends may yet be told without another arrival */

/* Arrivals may come before the beginning. Takes the parts. -1 with err: graph_run_arrive refused one, now or (with a thread) earlier. */
int player_arrive(struct player *p, const struct player_arrival *a, struct prism_error *err);
int player_begin(struct player *p, int64_t t0_ns, struct prism_error *err);

/* From the callback, in the player's thread. */
void player_released(struct player *p, const struct player_release *r);
/* All since the last time; the list is the caller's. Returns how many, -1 with err as above. */
int64_t player_take(struct player *p, struct player_release **list, struct prism_error *err);

#endif
