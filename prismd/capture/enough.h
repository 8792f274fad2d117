/* enough.h - --prism-iterations=K: capture ends early, and so does calibration of such a trace; that is success.
 *
 * Every node looks now and then how many iterations its own ranks have behind them (record_count_iterations) and tells the coordinator when all have
 * enough; when every node has, the coordinator tells all to stop. Ranks then get SIGTERM; how they end is no failure. One
 * iteration more than K (three at least) is waited for: a period shows when it repeats, and what the last of the K delivers
 * must have arrived; what is recorded beyond K is cut off (graph_truncate).
 *
 * Calibration needs no option: where nothing was recorded behind the last iteration (graph_has_teardown), it goes round that one for some
 * more (replay/measured.h), and ends when every rank has done these. Meanwhile the program may do what is not in the trace: use a
 * communicator now and then, wait for a store's key of each iteration. A rank that has done the recorded iterations and does not move any
 * more has enough, too: what was measured until then counts.
 */
#ifndef PRISM_PRISMD_ENOUGH_H
#define PRISM_PRISMD_ENOUGH_H

#include "prismd/daemon.h"

/* A phase begins on this node. */
void enough_begin(struct daemon *d);
/* This phase is such a calibration. */
bool enough_goes_round(void);
/* … and every rank of this node has the recorded iterations behind it: what goes wrong ends the phase, not the run. */
bool enough_is_recorded(const struct daemon *d);
/* Called often, with the lock held; looks every half second. */
void enough_tick(struct daemon *d);
/* The phase was ended because of it. */
bool enough_reached(void);

#endif
